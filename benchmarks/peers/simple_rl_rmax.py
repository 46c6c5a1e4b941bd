"""Run the RMax of simple_rl on the 11x11 grid of the main experiment, with several seeds.

It runs too long for a minimum over many repeats. Therefore the processor time is measured, which
other programs on the machine affect little.

python simple_rl_rmax.py EPISODES STEPS N_KNOWN HORIZON SLIP SEEDS
"""

import json
import random
import sys
import time
from importlib.metadata import version

time.clock = time.perf_counter  # simple_rl calls it, but Python 3.8 removed it

from simple_rl.agents import RMaxAgent  # noqa: E402
from simple_rl.run_experiments import run_single_agent_on_mdp  # noqa: E402
from simple_rl.tasks import GridWorldMDP  # noqa: E402

GAMMA = 0.9


def seconds(episodes: int, steps: int, n_known: int, horizon: int, slip: float) -> float:
    """Return the processor time of a new agent on a new task."""
    task = GridWorldMDP(
        width=11,
        height=11,
        init_loc=(6, 6),
        goal_locs=[(11, 11), (11, 10), (10, 11)],
        is_goal_terminal=False,
        gamma=GAMMA,
        slip_prob=slip,
    )
    agent = RMaxAgent(task.get_actions(), gamma=GAMMA, horizon=horizon, s_a_threshold=n_known)
    start = time.process_time()
    run_single_agent_on_mdp(agent, task, episodes=episodes, steps=steps)
    return time.process_time() - start


def main() -> None:
    """Run once per seed, and print the sum of the times: runs with other seeds do other work."""
    episodes, steps, n_known, horizon = (int(word) for word in sys.argv[1:5])
    slip, seeds = float(sys.argv[5]), int(sys.argv[6])
    print("ready", time.process_time(), flush=True)
    times = []
    for seed in range(seeds):
        random.seed(seed)
        times.append(seconds(episodes, steps, n_known, horizon, slip))
    print(json.dumps({"seconds": sum(times), "each": times, "version": version("simple_rl")}))


if __name__ == "__main__":
    main()

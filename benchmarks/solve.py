"""Solving large tasks: Heirloom against QuantEcon's DiscreteDP, as ratios within one run.

Both solve the same tasks to the same error, 1e-3: QuantEcon by modified policy iteration with
epsilon=2e-3, since its error is half of that. The runs alternate, so that both meet the same noise.
True errors are taken against a solution that is certified to 1e-9. Building a task is not timed.
Then the cost of growing tasks, each in a process of its own, whose peak memory is printed.

    python benchmarks/solve.py             # both parts
    python benchmarks/solve.py --quick     # small tasks, to see that it works
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import heirloom as hl
from heirloom.envs.grid import grid_world

GAMMA, TOL, REPEATS = 0.99, 1e-3, 5


def grid(side: int) -> hl.TabularMDP:
    """Slip 0.05 to the sides, three goals in a corner."""
    cells = ["." * (side - 2) + "GG", "." * (side - 1) + "G", *["." * side] * (side - 2)]
    return grid_world(cells, gamma=GAMMA, slip=0.05, slip_to="sides", goal_rewards=[0.95, 1.0, 0.9])


def random_task(n_states: int) -> hl.TabularMDP:
    """Four actions, five successors each."""
    return hl.garnet(n_states, 4, branching=5, gamma=GAMMA, seed=0)


def quantecon_solver(m: hl.TabularMDP) -> Callable[[], np.ndarray]:
    """The same task in QuantEcon's form, ready to be solved."""
    from scipy import sparse

    try:
        from quantecon.markov import DiscreteDP
    except ModuleNotFoundError:
        sys.exit("QuantEcon is what Heirloom is compared with: `make bench` installs it")

    states, actions = np.divmod(np.arange(m.n_states * m.n_actions), m.n_actions)
    ddp = DiscreteDP(m.R.ravel(), sparse.csr_matrix(m.T), m.gamma, states, actions)

    def run() -> np.ndarray:
        result = ddp.solve(method="modified_policy_iteration", epsilon=2 * TOL)
        assert result.num_iter < result.max_iter, "QuantEcon stopped before it had converged"
        return result.v

    return run


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """How long a run takes, and what it returns."""
    start = time.perf_counter()
    values = run()
    return time.perf_counter() - start, values


def compare(name: str, m: hl.TabularMDP) -> None:
    """Solve `m` with both in turn, and print the ratio and the true errors."""
    theirs, ours = quantecon_solver(m), lambda: hl.solve(m, tol=TOL).V
    truth = hl.solve(m, tol=1e-9)
    theirs(), ours()  # compiled code is warm from here on
    times = [(seconds(theirs), seconds(ours)) for _ in range(REPEATS)]
    their_time, our_time = (np.median([pair[i][0] for pair in times]) for i in range(2))
    their_error, our_error = (np.abs(pair[1] - truth.V).max() for pair in times[-1])
    print(f"{name}: {m}")
    print(f"  QuantEcon {their_time:7.3f} s, true error {their_error:.1e}")
    print(f"  Heirloom  {our_time:7.3f} s, true error {our_error:.1e}, certified to {TOL:g}")
    print(f"  QuantEcon / Heirloom = {their_time / our_time:.2f}")


FAMILIES = {"grid": lambda n: grid(round(n**0.5)), "garnet": random_task}


def grow(family: str, n_states: int) -> None:
    """Build and solve one task, and print what it took."""
    hl.solve(FAMILIES[family](100), tol=TOL)
    build_time, m = seconds(lambda: FAMILIES[family](n_states))
    solve_time, _ = seconds(lambda: hl.solve(m, tol=TOL).V)
    n = m.transitions.p.size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"  {family:6} {m.n_states:>9,} states {n:>10,} transitions: build {build_time:6.2f} s, "
        f"solve {solve_time:6.2f} s, {1e9 * solve_time / n:5.0f} ns a transition, "
        f"peak {peak:.2f} GiB"
    )


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small tasks")
    parser.add_argument("--grow", nargs=2, metavar=("FAMILY", "STATES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.grow:
        return grow(arguments.grow[0], int(arguments.grow[1]))
    shrink = 100 if arguments.quick else 1
    compare("Grid", grid(round(316 / shrink**0.5)))
    compare("Garnet", random_task(100_000 // shrink))
    print(f"Growing tasks, certified to {TOL:g}:", flush=True)
    for family in FAMILIES:
        for n_states in (10_000, 100_000, 1_000_000):
            size = str(n_states // shrink)
            subprocess.run([sys.executable, __file__, "--grow", family, size], check=True)


if __name__ == "__main__":
    main()

"""One episode of a compiled run, step by step in Python so that it can be recorded.

It uses the same random numbers in the same order as compiled code, and calls the agent step by
step, which gives bitwise identical results. Compiled code stays as fast as without recording.
"""

import numpy as np

from heirloom.agents.optimistic import OptimisticAgent
from heirloom.kernels import rollout
from heirloom.kernels.rollout import CHOICE, EPISODE, STATE, STEP, STEPS, UNIFORM, UPDATES
from heirloom.learning.plan import Plan


def run_recorded_episode(
    agent: OptimisticAgent,
    task: rollout.Task,
    run: rollout.Run,
    rng: np.random.Generator,
    plan: Plan,
) -> rollout.Run:
    """Run the next episode and record it; return the state of the run after it."""
    at, recorder, n_actions = run.at, plan.recorder, agent.n_actions
    assert recorder is not None
    episode, steps = int(at[EPISODE]), int(at[STEPS])
    discount, step, ended = 1.0, 0, False
    recorder.begin_episode(episode, steps)
    s = int(task.start_states[rollout.first_above(task.start_sums, _uniform(run, rng))])
    while not ended and step != plan.max_steps:
        a = agent.act(s)
        j = _drawn(task, s * n_actions + a, _uniform(run, rng))
        reward, s_next, ended = float(task.rewards[j]), int(task.successors[j]), bool(task.ends[j])
        run.returns[episode] += reward
        run.discounted[episode] += discount * reward
        discount *= agent.gamma
        step, steps = step + 1, steps + 1
        updated = agent.observe(s, a, reward, s_next, terminated=ended)
        recorder.step(s, a, reward, updated=updated, n_steps=steps)
        if updated:
            run.update_steps[at[UPDATES]] = steps
            at[UPDATES] += 1
            if plan.on_update is not None:
                plan.on_update()
        s = s_next
    recorder.end_episode(s, steps, terminated=ended)
    run.discount[0] = discount
    at[EPISODE], at[STEP], at[STATE], at[STEPS] = episode + 1, step, -1, steps
    agent._uniforms.refill()
    at[CHOICE] = agent._uniforms.n_used
    return run._replace(choices=agent._uniforms.block)


def _uniform(run: rollout.Run, rng: np.random.Generator) -> float:
    """Return the next random number of the task."""
    if run.at[UNIFORM] == run.uniforms.size:
        run.uniforms[:] = rng.random(run.uniforms.size)
        run.at[UNIFORM] = 0
    run.at[UNIFORM] += 1
    return float(run.uniforms[run.at[UNIFORM] - 1])


def _drawn(task: rollout.Task, pair: int, u: float) -> int:
    """Return the index of the transition that the uniform number `u` selects."""
    j, last = int(task.indptr[pair]), int(task.indptr[pair + 1]) - 1
    while j < last and u >= task.sums[j]:
        j += 1
    return j

"""Solve a task with mdpax on the CPU: policy iteration, compiled by JAX.

mdpax stops when the policy no longer changes. It evaluates a policy until no value changes by more
than ε (1 - γ) / γ. So all values are within ε / γ of the optimal ones, and ε is γ times the
requested error. Compilation is not timed.

    python mdpax_solve.py TASK.npz TOL VALUES.npy
"""

import json
import os
import sys
import time
from importlib.metadata import version

os.environ["JAX_PLATFORMS"] = "cpu"

import jax

jax.config.update("jax_enable_x64", True)  # noqa: FBT003

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from mdpax.core.problem import Problem  # noqa: E402
from mdpax.solvers.policy_iteration import PolicyIteration  # noqa: E402


class Table(Problem):
    """A task given by arrays; the random event is the index of the successor."""

    name = "table"

    def __init__(self, R, successors, p) -> None:
        self.R, self.successors, self.p = jnp.asarray(R), jnp.asarray(successors), jnp.asarray(p)
        super().__init__()

    def _construct_state_space(self):
        return jnp.arange(self.p.shape[0])

    def _construct_action_space(self):
        return jnp.arange(self.p.shape[1])

    def _construct_random_event_space(self):
        return jnp.arange(self.p.shape[2])

    def state_to_index(self, state):
        """Return the index of a state, which is the state itself."""
        return state[0]

    def random_event_probability(self, state, action, random_event):
        """Return the probability of a successor."""
        return self.p[state[0], action[0], random_event[0]]

    def transition(self, state, action, random_event):
        """Return the successor, and the mean reward of the pair."""
        s, a = state[0], action[0]
        return self.successors[s, a, random_event[0]][None], self.R[s, a]


def padded(values, indptr, shape):
    """Return rows of different lengths as one array, padded with zeros."""
    lengths = np.diff(indptr)
    full = np.zeros((lengths.size, lengths.max()), dtype=values.dtype)
    rows = np.repeat(np.arange(lengths.size), lengths)
    full[rows, np.arange(indptr[-1]) - indptr[rows]] = values
    return full.reshape(*shape, -1)


def main() -> None:
    """Build, compile and solve the task, and write the values."""
    task, tol, values = sys.argv[1:4]
    arrays = np.load(task)
    R, indptr, gamma = arrays["R"], arrays["indptr"], float(arrays["gamma"])
    solver = PolicyIteration(
        Table(R, *(padded(arrays[name], indptr, R.shape) for name in ("successors", "p"))),
        gamma=gamma,
        epsilon=gamma * float(tol),
        convergence_test="max_diff",
        max_eval_iter=1,
        verbose=0,
    )
    initial = solver.values, solver.policy
    solver.solve(max_iterations=1)
    solver.values, solver.policy = initial
    solver.config.max_eval_iter = 10**6
    print("ready", time.process_time(), flush=True)
    start = time.perf_counter(), time.process_time()
    V = np.asarray(solver.solve(max_iterations=10**4).values)
    seconds = min(time.perf_counter() - start[0], time.process_time() - start[1])
    np.save(values, V)
    versions = {"version": version("mdpax"), "jax": version("jax")}
    print(json.dumps({"seconds": seconds, **versions}))


if __name__ == "__main__":
    main()

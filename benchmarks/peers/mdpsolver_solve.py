"""Solve a task with mdpsolver: modified policy iteration, in C++.

A solved model keeps its values and would start from them, so each model is solved once.

    python mdpsolver_solve.py TASK.npz TOL VALUES.npy UPDATE PARTIAL_SWEEPS
"""

import json
import sys
import time
from importlib.metadata import version
from itertools import pairwise

import mdpsolver
import numpy as np


def main() -> None:
    """Build and solve the task, and write the values."""
    task, tol, values, update, sweeps = sys.argv[1:6]
    arrays = np.load(task)
    n_states, n_actions = arrays["R"].shape
    indptr = arrays["indptr"].tolist()

    def by_pair(name: str) -> list[list[list[float]]]:
        flat = arrays[name].tolist()
        rows = [flat[start:end] for start, end in pairwise(indptr)]
        return [rows[k : k + n_actions] for k in range(0, n_states * n_actions, n_actions)]

    model = mdpsolver.model()
    model.mdp(
        discount=float(arrays["gamma"]),
        rewards=arrays["R"].tolist(),
        tranMatProbs=by_pair("p"),
        tranMatColumns=by_pair("successors"),
    )
    print("ready", time.process_time(), flush=True)
    start = time.perf_counter(), time.process_time()
    model.solve(algorithm="mpi", tolerance=float(tol), update=update, parIterLim=int(sweeps))
    seconds = min(time.perf_counter() - start[0], time.process_time() - start[1])
    np.save(values, np.array(model.getValueVector()))
    print(json.dumps({"seconds": seconds, "version": version("mdpsolver")}))


if __name__ == "__main__":
    main()

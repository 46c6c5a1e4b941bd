"""Time to solve large tasks: other libraries relative to Heirloom.

All libraries solve the same tasks to the same error, 1e-3. QuantEcon's modified policy iteration
gets epsilon=2e-3, because its error is half of epsilon. Its runs alternate with ours, so that both
are subject to the same noise. The other libraries run in a separate environment, with a run of ours
before and after, and are stopped if they take too long. Minima of processor times are compared. The
other libraries may use all processors, so for them the smaller of processor time and elapsed time
counts. True errors are differences from a solution certified to 1e-9. Neither building a task nor
compilation is timed.

    python benchmarks/solve.py             # the ratios
    python benchmarks/solve.py --quick     # the ratios for small tasks, to try the script
    python benchmarks/solve.py --growth    # time and peak memory for tasks of growing size
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from peer import ask
from rows import Measured, Row, as_text

import heirloom as hl
from heirloom.envs.grid import grid_world

GAMMA, TOL = 0.99, 1e-3
REPEATS = {10**5: 5, 10**6: 2}
LIMIT = 45.0  # seconds that a peer may take
# The update of values in mdpsolver, and the number of sweeps between changes of policy: the fastest
# for each family, of standard and Gauss-Seidel updates with 20 and 100 sweeps.
MDPSOLVER = {"grid": ("gs", "20"), "Garnet": ("standard", "100")}


def grid(side: int) -> hl.TabularMDP:
    """Return a square grid with slip 0.05 to the sides and three goals in a corner."""
    cells = ["." * (side - 2) + "GG", "." * (side - 1) + "G", *["." * side] * (side - 2)]
    return grid_world(cells, gamma=GAMMA, slip=0.05, slip_to="sides", goal_rewards=[0.95, 1.0, 0.9])


def random_task(n_states: int) -> hl.TabularMDP:
    """Return a Garnet task with four actions and five successors per pair."""
    return hl.garnet(n_states, 4, branching=5, gamma=GAMMA, seed=0)


def quantecon_solver(m: hl.TabularMDP) -> Callable[[], np.ndarray]:
    """Build the same task for QuantEcon, and return a function that solves it."""
    from quantecon.markov import DiscreteDP
    from scipy import sparse

    states, actions = np.divmod(np.arange(m.n_states * m.n_actions), m.n_actions)
    ddp = DiscreteDP(m.R.ravel(), sparse.csr_matrix(m.T), m.gamma, states, actions)

    def run() -> np.ndarray:
        result = ddp.solve(method="modified_policy_iteration", epsilon=2 * TOL)
        assert result.num_iter < result.max_iter, "QuantEcon stopped before it converged"
        return result.v

    return run


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time of a run and its result; Heirloom and QuantEcon use one thread."""
    start = time.process_time()
    values = run()
    return time.process_time() - start, values


def write_task(m: hl.TabularMDP, path: Path) -> None:
    """Write the arrays of a task, for programs without Heirloom."""
    t = m.transitions
    np.savez(path, indptr=t.indptr, successors=t.successors, p=t.p, R=m.R, gamma=m.gamma)


def compare(family: str, m: hl.TabularMDP, repeats: int) -> Measured:
    """Solve `m` with each library, and compare their times with ours."""
    truth = hl.solve(m, tol=1e-9).V
    task_name = f"{family}, {m.n_states:,} states"
    done = Measured([])
    ours: list[float] = []

    def solve_ours() -> None:
        taken, V = seconds(lambda: hl.solve(m, tol=TOL).V)
        ours.append(taken)
        done.errors[f"ours, {task_name}"] = float(np.abs(V - truth).max())

    def add(name: str, taken: float, *, error: float | None, **options: Any) -> None:
        done.seconds[f"{name}, {task_name}"] = taken
        done.seconds[f"ours up to {name}, {task_name}"] = min(ours)
        if error is not None:
            done.errors[f"{name}, {task_name}"] = error
        done.rows.append(Row(f"{name} / ours, {task_name}", taken / min(ours), **options))

    try:
        theirs = quantecon_solver(m)
    except ModuleNotFoundError as missing:
        solve_ours()
        done.rows.append(
            Row(f"quantecon / ours, {task_name}", None, at_least=1.5, note=str(missing))
        )
    else:
        theirs(), solve_ours()  # compiles, and is not timed
        ours.clear()
        taken = []
        for _ in range(repeats):
            taken.append(seconds(theirs))
            solve_ours()
        error = float(np.abs(taken[-1][1] - truth).max())
        add("quantecon", min(t for t, _ in taken), error=error, at_least=1.5)
        done.versions["quantecon"] = version("quantecon")
        del theirs, taken
    with tempfile.TemporaryDirectory() as folder:
        task, values = Path(folder, "task.npz"), Path(folder, "values.npy")
        write_task(m, task)
        for peer, options in (("mdpsolver", MDPSOLVER[family]), ("mdpax", ())):
            arguments = (str(task), str(TOL), str(values), *options)
            answer = ask(f"{peer}_solve.py", *arguments, limit=LIMIT)
            solve_ours()
            if answer.seconds is None:
                done.rows.append(Row(f"{peer} / ours, {task_name}", None, note=answer.problem))
            elif answer.stopped:
                note = f"stopped after {LIMIT:g} s"
                add(peer, answer.seconds, error=None, stopped=True, note=note)
            else:
                add(peer, answer.seconds, error=float(np.abs(np.load(values) - truth).max()))
                done.versions.update({peer: answer.version})
                if peer == "mdpax":
                    done.versions["jax"] = answer.details["jax"]
    done.seconds[f"ours, {task_name}"] = min(ours)
    return done


FAMILIES = {"grid": lambda n: grid(round(n**0.5)), "Garnet": random_task}


def measure(shrink: int = 1) -> Measured:
    """Measure the ratios of other libraries to ours, for both families and both sizes."""
    total = Measured([])
    for n_states, repeats in REPEATS.items():
        for family, make in FAMILIES.items():
            part = compare(family, make(n_states // shrink), repeats)
            total.rows.extend(part.rows)
            total.seconds.update(part.seconds)
            total.versions.update(part.versions)
            total.errors.update(part.errors)
    total.rows.sort(key=lambda row: row.what.split()[0] != "quantecon")
    return total


def grow(family: str, n_states: int) -> None:
    """Build and solve one task, and print its time and peak memory."""
    hl.solve(FAMILIES[family](100), tol=TOL)
    build_time, m = seconds(lambda: FAMILIES[family](n_states))
    solve_time, _ = seconds(lambda: hl.solve(m, tol=TOL).V)
    n = m.transitions.p.size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"  {family:6} {m.n_states:>9,} states {n:>10,} transitions: build {build_time:6.2f} s, "
        f"solve {solve_time:6.2f} s, {1e9 * solve_time / n:5.0f} ns per transition, "
        f"peak {peak:.2f} GiB"
    )


def main() -> None:
    """Print the ratios, or the growth of time and memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="solve small tasks, to try the script")
    parser.add_argument(
        "--growth",
        action="store_true",
        help="print time and memory for tasks of growing size instead of the ratios",
    )
    parser.add_argument("--grow", nargs=2, metavar=("FAMILY", "STATES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    shrink = 100 if arguments.quick else 1
    if arguments.grow:
        return grow(arguments.grow[0], int(arguments.grow[1]))
    if not arguments.growth:
        measured = measure(shrink)
        print(as_text(measured.rows))
        for name, error in measured.errors.items():
            print(f"  {name}: {measured.seconds[name]:.3f} s, true error {error:.1e}")
        return None
    print(f"Tasks of growing size, certified to {TOL:g}:", flush=True)
    for family in FAMILIES:
        for n_states in (10_000, 100_000, 1_000_000):
            size = str(n_states // shrink)
            subprocess.run([sys.executable, __file__, "--grow", family, size], check=True)
    return None


if __name__ == "__main__":
    main()

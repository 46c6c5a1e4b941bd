"""Solving large tasks: Heirloom against other libraries, as ratios within one run.

All solve the same tasks to the same error, 1e-3. QuantEcon's modified policy iteration is told
epsilon=2e-3, since its error is half of that. It takes turns with ours, so that both meet the same
noise; the others run in an environment of their own, ours before and after, and are stopped when
they take too long. Minima are compared, of seconds of the processor; the others may use all
processors, and get the lesser of those seconds and of those that passed. True errors are taken
against a solution that is certified to 1e-9. Building a task is not timed, nor is compilation.

    python benchmarks/solve.py             # the ratios
    python benchmarks/solve.py --quick     # of small tasks, to see that it works
    python benchmarks/solve.py --growth    # growing tasks: time and peak memory
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
from rows import Measured, Row, plain

import heirloom as hl
from heirloom.envs.grid import grid_world

GAMMA, TOL = 0.99, 1e-3
REPEATS = {10**5: 5, 10**6: 2}
LIMIT = 45.0  # seconds that a peer may take
# How mdpsolver updates values, and how often between changes of policy: of those tried (standard
# and Gauss-Seidel, 20 and 100 sweeps) the fastest for each family.
MDPSOLVER = {"grid": ("gs", "20"), "Garnet": ("standard", "100")}


def grid(side: int) -> hl.TabularMDP:
    """Slip 0.05 to the sides, three goals in a corner."""
    cells = ["." * (side - 2) + "GG", "." * (side - 1) + "G", *["." * side] * (side - 2)]
    return grid_world(cells, gamma=GAMMA, slip=0.05, slip_to="sides", goal_rewards=[0.95, 1.0, 0.9])


def random_task(n_states: int) -> hl.TabularMDP:
    """Four actions, five successors each."""
    return hl.garnet(n_states, 4, branching=5, gamma=GAMMA, seed=0)


def quantecon_solver(m: hl.TabularMDP) -> Callable[[], np.ndarray]:
    """The same task in QuantEcon's form, ready to be solved."""
    from quantecon.markov import DiscreteDP
    from scipy import sparse

    states, actions = np.divmod(np.arange(m.n_states * m.n_actions), m.n_actions)
    ddp = DiscreteDP(m.R.ravel(), sparse.csr_matrix(m.T), m.gamma, states, actions)

    def run() -> np.ndarray:
        result = ddp.solve(method="modified_policy_iteration", epsilon=2 * TOL)
        assert result.num_iter < result.max_iter, "QuantEcon stopped before it had converged"
        return result.v

    return run


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """What a run takes of the processor, and what it returns; ours and QuantEcon's use one."""
    start = time.process_time()
    values = run()
    return time.process_time() - start, values


def write_task(m: hl.TabularMDP, path: Path) -> None:
    """The arrays of a task, for programs that know nothing of Heirloom."""
    t = m.transitions
    np.savez(path, indptr=t.indptr, successors=t.successors, p=t.p, R=m.R, gamma=m.gamma)


def compare(family: str, m: hl.TabularMDP, repeats: int) -> Measured:
    """Solve `m` with each library."""
    truth = hl.solve(m, tol=1e-9).V
    of = f"{family}, {m.n_states:,} states"
    done = Measured([])
    ours: list[float] = []

    def solve_ours() -> None:
        taken, V = seconds(lambda: hl.solve(m, tol=TOL).V)
        ours.append(taken)
        done.errors[f"ours, {of}"] = float(np.abs(V - truth).max())

    def add(name: str, taken: float, *, error: float | None, **options: Any) -> None:
        done.seconds[f"{name}, {of}"] = taken
        done.seconds[f"ours up to {name}, {of}"] = min(ours)
        if error is not None:
            done.errors[f"{name}, {of}"] = error
        done.rows.append(Row(f"{name} / ours, {of}", taken / min(ours), **options))

    try:
        theirs = quantecon_solver(m)
    except ModuleNotFoundError as missing:
        solve_ours()
        done.rows.append(Row(f"quantecon / ours, {of}", None, at_least=1.5, note=str(missing)))
    else:
        theirs(), solve_ours()  # compiled code is warm from here on
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
                done.rows.append(Row(f"{peer} / ours, {of}", None, note=answer.problem))
            elif answer.stopped:
                note = f"stopped after {LIMIT:g} s"
                add(peer, answer.seconds, error=None, stopped=True, note=note)
            else:
                add(peer, answer.seconds, error=float(np.abs(np.load(values) - truth).max()))
                done.versions.update({peer: answer.version})
                if peer == "mdpax":
                    done.versions["jax"] = answer.details["jax"]
    done.seconds[f"ours, {of}"] = min(ours)
    return done


FAMILIES = {"grid": lambda n: grid(round(n**0.5)), "Garnet": random_task}


def measure(shrink: int = 1) -> Measured:
    """Ratios of others to ours, for both families and both sizes."""
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
    """The ratios, or the growth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small tasks")
    parser.add_argument("--growth", action="store_true", help="how cost grows, instead")
    parser.add_argument("--grow", nargs=2, metavar=("FAMILY", "STATES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    shrink = 100 if arguments.quick else 1
    if arguments.grow:
        return grow(arguments.grow[0], int(arguments.grow[1]))
    if not arguments.growth:
        measured = measure(shrink)
        print(plain(measured.rows))
        for name, error in measured.errors.items():
            print(f"  {name}: {measured.seconds[name]:.3f} s, true error {error:.1e}")
        return None
    print(f"Growing tasks, certified to {TOL:g}:", flush=True)
    for family in FAMILIES:
        for n_states in (10_000, 100_000, 1_000_000):
            size = str(n_states // shrink)
            subprocess.run([sys.executable, __file__, "--grow", family, size], check=True)
    return None


if __name__ == "__main__":
    main()

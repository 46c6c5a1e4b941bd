"""What workers import: nothing of the current folder, unless a spec names code of the user."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import heirloom as hl
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.run import run
from heirloom.runs.workers.processes import compute_locally
from tests.small_run import FAST

SPEC = FAST.with_changes(repetitions=2, episodes=2, tasks=1)
OWN = """
import sys
import heirloom as hl

def agent(*, n_states, n_actions, gamma, seed):
    return hl.RMax(n_states=n_states, n_actions=n_actions, gamma=gamma, n_known=1, seed=seed)

class Exiting:
    def __init__(self, *, n_states, n_actions, gamma, seed):
        self.n_states, self.n_actions, self.gamma = n_states, n_actions, gamma
    def begin_task(self): sys.exit(0)
    def act(self, s): return 0
    def observe(self, *step, **options): pass
    def end_task(self): pass

class Family:
    gamma = 0.9
    def draw(self, rng): sys.exit(0)
"""


def with_agent(algorithm):
    return ExperimentSpec.read({**SPEC.as_json(), "agents": [{"algorithm": algorithm}]})


def run_command(folder, spec, *options, module=False):
    """Run a spec in two processes, with the installed command or with `python -m heirloom`."""
    (folder / "spec.toml").write_text(spec.to_toml())
    installed = [sys.executable, "-P", "-c", "from heirloom.__main__ import main; main()"]
    command = [sys.executable, "-m", "heirloom"] if module else installed
    environment = {**os.environ, "PYTHONPATH": str(Path(hl.__file__).parents[1])}
    return subprocess.run(
        [*command, "run", "spec.toml", "--jobs", "2", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("module", "own_code"),
    [
        (True, True),
        pytest.param(False, False, marks=pytest.mark.slow),
        pytest.param(False, True, marks=pytest.mark.slow),
        pytest.param(True, False, marks=pytest.mark.slow),
    ],
)
def test_files_named_like_modules_of_the_standard_library_are_not_imported(
    tmp_path, module, own_code
):
    """A file of the user, next to the spec, has nothing to do with the library of this name."""
    names = {"random", "queue", "selectors", "types"}
    for name in names - {"types"} if module else names:  # `python -m` itself imports types
        (tmp_path / f"{name}.py").write_text("open('imported', 'w').close()\n")
    (tmp_path / "own.py").write_text(OWN)
    ended = run_command(tmp_path, with_agent("own:agent") if own_code else SPEC, module=module)
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "imported").exists()


@pytest.mark.cluster
def test_workers_of_a_local_dask_cluster_do_not_import_files_of_the_current_folder(tmp_path):
    for name in ("random", "queue", "selectors"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w').close()\n")
    ended = run_command(tmp_path, SPEC, "--backend", "dask", module=True)
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_exit_in_a_job_is_an_error(tmp_path, monkeypatch, jobs):
    (tmp_path / "exiting.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    message = r"agent 'Exiting', repetition \d: the code of the job called sys.exit\(0\)"
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        run(with_agent("exiting:Exiting"), tmp_path / "run", jobs=jobs)


def test_module_that_exits_when_it_is_imported_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "script.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(hl.errors.InvalidArgument, match=r"cannot be imported \(SystemExit: 0\)"):
        run(with_agent("script:agent"), tmp_path / "run", jobs=1)


@pytest.mark.parametrize("options", [{}, {"measure": "transfer"}])
def test_family_that_exits_is_an_error(tmp_path, monkeypatch, options):
    """Tasks are drawn in the process that starts the run too."""
    (tmp_path / "exiting_family.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    family = {"name": "exiting_family:Family"}
    spec = ExperimentSpec.read(
        {
            **with_agent("exiting_family:agent").as_json(),
            "family": family,
            "distinct_tasks": None,
            **options,
        }
    )
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"family, a measure or an agent called sys.exit\(0\)"
    ):
        run(spec, tmp_path / "run", jobs=1)


def test_module_that_exits_in_a_worker_only_is_an_error(tmp_path, monkeypatch):
    """A function of this module is unpickled in workers, which import the module."""
    script = "import os, sys\nif os.getpid() != {}: sys.exit(0)\ndef compute(job): pass\n"
    (tmp_path / "exiting_in_workers.py").write_text(script.format(os.getpid()))
    monkeypatch.syspath_prepend(tmp_path)
    compute = import_module("exiting_in_workers").compute
    with pytest.raises(hl.errors.InvalidArgument, match=r"the code of a job called sys.exit\(0\)"):
        list(compute_locally(compute, [(0, 0), (0, 1)], 2))

"""Test the built wheel and source archive outside the clone: `make dist`.

Each is installed in an empty environment in a temporary folder, with its dependencies only, and is
used there: the first example of the README, an agent that is saved and loaded, the paper's main
experiment in its reduced version, a run and its report. Then the wheel is installed again with all
extras for users, and each of them is used. `make dist PYTHONS="python3.11 python3.13"` does this
for several versions of Python. The source archive must also hold every file that the README refers
to.
"""

import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from published.code_blocks import blocks
from published.results import PROJECT

LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
SPEC = """
name = "a small run"
tasks = 2
episodes = 10
steps = 11
repetitions = 1
[family]
name = "corridor"
[[agents]]
algorithm = "RMax"
n_known = 1
"""


def missing_files(archive: Path) -> list[str]:
    """Return what the README refers to and the source archive does not hold."""
    with tarfile.open(archive) as opened:
        names = [name.partition("/")[2] for name in opened.getnames()]
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    linked = {*LINK.findall(readme), "Makefile", "constraints.txt", "pyproject.toml"}
    found = {*names, *(str(parent) for name in names for parent in Path(name).parents)}
    return sorted(name for name in linked if name.rstrip("/") not in found)


Step = tuple[list[str], str]
"""Arguments of the interpreter, and what it must print."""
AGENT = """
import heirloom as hl
task = hl.grid_world(["S..G"], gamma=0.9)
agent = hl.LRMax(n_states=4, n_actions=4, gamma=0.9, d_max=0.1, seed=0)
hl.learn(agent, task, episodes=5, max_steps=10, seed=1)
agent.save("agent.heirloom")
loaded = hl.LRMax.load("agent.heirloom")
print("the same values:", (loaded.Q == agent.Q).all())
"""
NO_REPORT = "pip install '.[report]'"
BASE: list[Step] = [
    (["-c", AGENT], "the same values: True"),
    (["-m", "heirloom", "reproduce", "tight", "--quick", "--jobs", "2"], NO_REPORT),
]
RUN: list[Step] = [
    (["-m", "heirloom", "run", "spec.toml", "--jobs", "1"], "results/spec"),
    (["-m", "heirloom", "status", "results/spec"], "its checksum matches"),
]
BISIMULATION = """
import heirloom as hl
agent = hl.BisimulationTransfer(n_states=4, n_actions=4, gamma=0.9, ground="recursive", seed=0)
for seed in range(2):
    hl.learn(agent, hl.grid_world(["S..G"], gamma=0.9), episodes=2, max_steps=5, seed=seed)
print("learned with a recursive metric")
"""
EXTRAS: dict[str, list[Step]] = {
    "dask": [
        (
            [
                *["-m", "heirloom", "run", "spec.toml", "--out", "results/dask"],
                *["--backend", "dask", "--jobs", "2"],
            ],
            "results/dask",
        )
    ],
    "export": [
        (["-m", "heirloom", "export", "results/spec", "--to", form], "results/spec")
        for form in ("parquet", "netcdf", "zarr")
    ],
    "icu": [(["-c", "import heirloom as hl; print(hl.envs.icu_sepsis().n_states)"], "716")],
    "report": [(["-m", "heirloom", "report", "results/spec"], "report.html")],
    "wasserstein": [(["-c", BISIMULATION], "learned with a recursive metric")],
}
"""How each extra for users is used. Those for developers are used by `make`."""


def use(python: Path, folder: Path, steps: list[Step], *, compiled: bool = True) -> None:
    """Take steps with an interpreter in a folder, without files or variables of the clone."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if not compiled:
        environment["NUMBA_DISABLE_JIT"] = "1"
    for arguments, expected in steps:
        done = subprocess.run(
            [str(python), "-I" if arguments[0] == "-c" else "-P", *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or expected not in done.stdout:
            raise SystemExit(f"{arguments} failed outside the clone:\n{done.stdout}{done.stderr}")


def check_installed(python: Path, folder: Path, *, compiled: bool) -> None:
    """Use an installation with the base dependencies only.

    Unless `compiled`, kernels are not compiled, which takes most of the time, and only a small run
    is made.
    """
    example = next(b for b in blocks(PROJECT / "README.md") if b.language == "python")
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    first = [(["-c", example.code], example.printed), *BASE]
    use(python, folder, [*(first if compiled else []), *RUN], compiled=compiled)


def check(package: Path, interpreter: str, *, extras: bool) -> None:
    """Install a wheel or a source archive in an empty environment, and use it."""
    started = time.monotonic()
    with TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([interpreter, "-m", "venv", str(folder / "venv")], check=True)
        python = folder / "venv" / "bin" / "python"
        constraints = str(PROJECT / "constraints.txt")
        pip = [str(python), "-m", "pip", "install", "--quiet", "-c", constraints]
        subprocess.run([*pip, str(package)], check=True, cwd=folder)
        check_installed(python, folder, compiled=True)
        if extras:
            subprocess.run([*pip, f"{package}[{','.join(EXTRAS)}]"], check=True, cwd=folder)
            for steps in EXTRAS.values():
                use(python, folder, steps)
    used = f"installed and used in an empty environment{', with all extras' * extras}"
    seconds = time.monotonic() - started
    sys.stdout.write(f"{package.name}: {used} ({interpreter}, {seconds:.0f} s)\n")
    sys.stdout.flush()


def main(folder: Path, interpreters: list[str]) -> None:
    """Test all packages of a folder."""
    (archive,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    if missing := missing_files(archive):
        raise SystemExit(f"{archive.name} lacks what the README refers to: {', '.join(missing)}")
    for interpreter in interpreters:
        check(wheel.resolve(), interpreter, extras=True)
    check(archive.resolve(), interpreters[0], extras=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or [sys.executable])

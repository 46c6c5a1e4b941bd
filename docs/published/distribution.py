"""Test the built wheel and source archive outside the clone: `make dist`.

Each is installed with its dependencies in an empty environment in a temporary folder, and runs a
small experiment and the first example of the README there. The source archive must also hold every
file that the README refers to.
"""

import os
import re
import subprocess
import sys
import tarfile
import venv
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


def check_installed(python: Path, folder: Path, *, compiled: bool) -> None:
    """Run a small experiment with an interpreter in a folder, and the README's example first.

    Unless `compiled`, kernels are not compiled, which takes most of the time, and the example is
    left out.
    """
    example = next(b for b in blocks(PROJECT / "README.md") if b.language == "python")
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if not compiled:
        environment["NUMBA_DISABLE_JIT"] = "1"
    for arguments, expected in [
        *([(["-c", example.code], example.printed)] if compiled else []),
        (["-m", "heirloom", "run", "spec.toml", "--jobs", "1"], "results/spec"),
        (["-m", "heirloom", "status", "results/spec"], "its checksum matches"),
    ]:
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


def check(package: Path) -> None:
    """Install a wheel or a source archive in an empty environment, and use it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        constraints = str(PROJECT / "constraints.txt")
        pip = [str(python), "-m", "pip", "install", "--quiet", "-c", constraints, str(package)]
        subprocess.run(pip, check=True, cwd=folder)
        check_installed(python, folder, compiled=True)
    sys.stdout.write(f"{package.name}: installed and used in an empty environment\n")


def main(folder: Path) -> None:
    """Test all packages of a folder."""
    (archive,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    if missing := missing_files(archive):
        raise SystemExit(f"{archive.name} lacks what the README refers to: {', '.join(missing)}")
    check(wheel.resolve())
    check(archive.resolve())


if __name__ == "__main__":
    main(Path(sys.argv[1]))

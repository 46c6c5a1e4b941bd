"""Every code block of README and docs is complete, runs, and prints what is shown."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from heirloom.cli import app as cli
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.run import run
from published import code_blocks
from published.documents import DOCUMENTS
from published.results import PROJECT
from tests.small_run import FAST

BLOCKS = [block for path in DOCUMENTS for block in code_blocks.blocks(path)]
STAND_INS = Path(__file__).parent / "stand_ins"
OTHERS = ("pip", "dask", "ray", "srun", ".")
"""Programs that are not ours."""


def blocks(*languages, cluster=False):
    """Those in a language, apart from those that need a cluster."""
    return [
        pytest.param(block, id=block.place)
        for block in BLOCKS
        if block.language in languages and cluster == block.place.startswith("clusters.md")
    ]


def test_there_are_blocks_of_known_languages_only():
    assert len(BLOCKS) >= 15
    assert {block.language for block in BLOCKS} == {"python", "sh", "toml", "text"}


@pytest.mark.parametrize("block", blocks("python"))
def test_a_block_of_python_prints_what_is_shown(block, tmp_path):
    done = code_blocks.run(block.code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == block.printed


@pytest.mark.cluster
@pytest.mark.parametrize("block", blocks("python", cluster=True))
def test_a_block_that_starts_a_cluster_runs(block, tmp_path):
    """On a small experiment in the place of the reader's own."""
    (tmp_path / "mine.toml").write_text(FAST.to_toml())
    done = code_blocks.run(block.code, tmp_path, **{**os.environ, "PYTHONPATH": str(STAND_INS)})
    assert done.returncode == 0, done.stderr
    assert done.stdout == block.printed
    assert (tmp_path / "results" / "mine" / "zarr.json").exists()


@pytest.mark.parametrize("block", blocks("toml"))
def test_a_spec_runs(block, tmp_path, monkeypatch):
    """With fewer repetitions, tasks and episodes than it says, and with `mine.py` as shown."""
    document = block.place.split(":")[0]
    shown = [b.code for b in BLOCKS if b.place.startswith(document) and b.language == "python"]
    (tmp_path / "mine.py").write_text("\n".join(shown[-1:]))
    monkeypatch.syspath_prepend(tmp_path)
    spec = ExperimentSpec.read(tomllib.loads(block.code))
    small = spec.with_changes(repetitions=1, tasks=2, episodes=10)
    results = run(small, tmp_path / "run", jobs=1)
    assert results.sizes["agent"] == len(spec.agents)


def commands():
    """Every line of a block for the shell, without its comment, in words."""
    return [
        pytest.param(words, id=f"{block.place} {' '.join(words)}")
        for block in BLOCKS
        if block.language == "sh"
        for line in block.code.splitlines()
        if (words := shlex.split(line.removesuffix("&"), comments=True))
    ]


@pytest.mark.parametrize("words", commands())
def test_a_command_of_the_shell_is_one(words):
    """Targets of make exist, and heirloom takes these arguments; nothing is run."""
    program, *arguments = words
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
        assert set(arguments) <= set(targets)
    elif program == "heirloom":
        parse(arguments[: arguments.index(">")] if ">" in arguments else arguments)
    elif program == ".venv/bin/python":
        script, option, parts = arguments
        command = [sys.executable, PROJECT / script, option, parts, "--list"]
        subprocess.run(command, check=True, capture_output=True)
    else:
        assert program in OTHERS


def parse(arguments):
    """As the command does before it does anything; raises a usage error of click."""
    group = typer.main.get_command(cli.app)
    context = group.make_context("heirloom", arguments[:1])
    name, command, _ = group.resolve_command(context, arguments)
    command.make_context(name, arguments[1:], parent=context)


def test_a_wrong_option_is_noticed():
    with pytest.raises(Exception, match="No such option"):
        parse(["reproduce", "tight", "--varient", "text"])


@pytest.mark.slow
def test_the_commands_of_the_readme_run_one_after_the_other(tmp_path):
    """Those on a run of one's own, in full; `reproduce` has tests of its own."""
    (block,) = [b for b in BLOCKS if b.place.startswith("README") and "heirloom list" in b.code]
    lines = [line for line in block.code.splitlines() if "reproduce" not in line]
    assert len(lines) >= 5
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    script = "set -e\n" + "\n".join(lines)
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "All 70 jobs are complete and their checksums match." in done.stdout
    assert list((tmp_path / "results" / "mine-parquet").glob("*.parquet"))

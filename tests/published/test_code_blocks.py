"""Every code block of README and docs is complete, runs, and prints the output shown below it.

In tutorials, blocks continue each other.
"""

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
TUTORIALS = [path for path in DOCUMENTS if code_blocks.is_tutorial(path)]
STAND_INS = Path(__file__).parent / "stand_ins"
OTHER_PROGRAMS = ("pip", "dask", "srun", ".")
"""Programs that are not part of Heirloom, whose arguments are not checked."""


def blocks(*languages, cluster=False):
    """The blocks in some languages: those of clusters.md, or all others outside tutorials."""
    return [
        pytest.param(block, id=block.location)
        for block in BLOCKS
        if block.language in languages
        and cluster == block.location.startswith("clusters.md")
        and not (block.language == "python" and block.location.startswith("tutorials/"))
    ]


def test_documents_have_blocks_in_known_languages_only():
    assert len(BLOCKS) >= 15
    languages = {block.language for block in BLOCKS}
    directives = {"{toctree}", "{include} ../CHANGELOG.md", "{include} ../CONTRIBUTING.md"}
    assert languages - directives == {"python", "sh", "toml", "text"}


PYTHON = [param.values[0] for param in blocks("python")]


@pytest.mark.parametrize("page", sorted({block.location.split(":")[0] for block in PYTHON}))
def test_python_blocks_of_a_page_print_the_outputs_shown_below_them(page):
    shown = [block for block in PYTHON if block.location.split(":")[0] == page]
    executed = code_blocks.execute([block.code for block in shown], continued=False)
    for block, printed in zip(shown, executed.printed, strict=True):
        assert printed == block.printed, block.location


def tutorials():
    """The tutorials, which are long; one starts a cluster. `make docs` executes them too."""
    for path in TUTORIALS:
        marks = [pytest.mark.cluster if path.stem == "cluster" else pytest.mark.slow]
        yield pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", list(tutorials()))
def test_blocks_of_a_tutorial_print_the_outputs_shown_and_draw_its_pictures(path):
    executed = code_blocks.execute_page(path)
    assert code_blocks.with_outputs(path, executed.printed) == path.read_text(encoding="utf-8")
    pictures = code_blocks.shown_pictures(path)
    assert set(executed.pictures) <= set(pictures)
    assert all(path.stat().st_size < 150_000 for path in pictures.values())


def test_outputs_of_a_page_are_replaced_only_below_blocks_that_are_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\nprints\n```text\n2\n```\n```python\nx = 3\n```\n")
    executed = code_blocks.execute_page(page)
    assert executed.printed == ["1\n"]
    text = code_blocks.with_outputs(page, executed.printed)
    assert text == page.read_text().replace("\n2\n", "\n1\n")


def test_blocks_that_continue_each_other_share_their_names_and_keep_their_pictures():
    codes = ["x = 1\n", "print(x)\nopen('a.png', 'w').close()\n"]
    assert code_blocks.execute(codes, continued=True) == (["", "1\n"], {"a.png": b""})
    with pytest.raises(RuntimeError, match="name 'x' is not defined"):
        code_blocks.execute(codes, continued=False)


@pytest.mark.cluster
@pytest.mark.parametrize("block", blocks("python", cluster=True))
def test_python_block_that_starts_a_cluster_runs(block, tmp_path):
    """`mine.toml`, the reader's experiment, is replaced by a small one."""
    (tmp_path / "mine.toml").write_text(FAST.to_toml())
    done = code_blocks.run(block.code, tmp_path, **{**os.environ, "PYTHONPATH": str(STAND_INS)})
    assert done.returncode == 0, done.stderr
    assert done.stdout == block.printed
    assert (tmp_path / "results" / "mine" / "run.sqlite").exists()


@pytest.mark.parametrize("block", blocks("toml"))
def test_spec_shown_in_a_document_runs(block, tmp_path, monkeypatch):
    """It runs with fewer repetitions, tasks and episodes.

    `mine.py` is the last Python block before it in the document, or the first one of a tutorial.
    """
    document = block.location.split(":")[0]
    before = [b for b in BLOCKS[: BLOCKS.index(block)] if b.location.startswith(document)]
    codes = [b.code for b in before if b.language == "python"]
    mine = codes[:1] if document.startswith("tutorials/") else codes[-1:]
    (tmp_path / "mine.py").write_text("\n".join(mine))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # of another document
    spec = ExperimentSpec.read(tomllib.loads(block.code))
    small = spec.with_changes(repetitions=1, tasks=2, episodes=10)
    results = run(small, tmp_path / "run", jobs=1)
    assert results.sizes["agent"] == len(spec.agents)


def commands():
    """Every line of a shell block, split into words, without its comment."""
    return [
        pytest.param(words, id=f"{block.location} {' '.join(words)}")
        for block in BLOCKS
        if block.language == "sh"
        for line in block.code.splitlines()
        if (words := shlex.split(line.removesuffix("&"), comments=True))
    ]


def make_targets():
    rules = re.findall(r"^([a-z -]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    return set(" ".join(rules).split())


def test_help_of_make_fits_a_screen_and_names_targets_that_exist():
    shown = ""
    for command in (["make", "help"], [PROJECT / "maintain.sh"]):
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
        assert len(done.stdout.splitlines()) <= 20
        assert max(map(len, done.stdout.splitlines())) <= 100
        shown += done.stdout
    named = set(re.findall(r"^make ([\w-]+)  ", shown, re.MULTILINE))
    assert named | {"help", "check", "kernels-plain", "kernels-lazy"} == make_targets()


def test_maintenance_script_refuses_an_unknown_command():
    done = subprocess.run([PROJECT / "maintain.sh", "glden"], capture_output=True, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize("words", commands())
def test_shell_command_is_valid(words):
    """Make has these targets, and heirloom accepts these arguments; neither is run."""
    program, *arguments = words
    if program == "make":
        assert set(arguments) <= make_targets()
    elif program == "heirloom":
        parse(arguments[: arguments.index(">")] if ">" in arguments else arguments)
    elif program == ".venv/bin/python":
        script, option, parts = arguments
        command = [sys.executable, PROJECT / script, option, parts, "--list"]
        subprocess.run(command, check=True, capture_output=True)
    else:
        assert program in OTHER_PROGRAMS


def parse(arguments):
    """Parse the arguments of heirloom without running it; raises a usage error of click."""
    group = typer.main.get_command(cli.app)
    context = group.make_context("heirloom", arguments[:1])
    name, command, _ = group.resolve_command(context, arguments)
    command.make_context(name, arguments[1:], parent=context)


def test_parse_rejects_an_unknown_option():
    with pytest.raises(Exception, match="No such option"):
        parse(["reproduce", "tight", "--varient", "text"])


@pytest.mark.slow
def test_commands_of_the_guide_to_experiments_run_in_sequence(tmp_path):
    """All commands except `reproduce`, which has its own tests, are run in full."""
    here = [b for b in BLOCKS if b.location.startswith("experiments.md")]
    (block,) = [b for b in here if "heirloom list" in b.code]
    lines = [line for line in block.code.splitlines() if "reproduce" not in line]
    assert len(lines) >= 5
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    script = "set -e\n" + "\n".join(lines)
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "All 90 jobs are complete and their checksums match." in done.stdout
    assert list((tmp_path / "results" / "mine-parquet").glob("*.parquet"))

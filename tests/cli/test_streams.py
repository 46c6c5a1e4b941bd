"""Commands whose standard output is closed or full end with one line, and results are kept."""

import os
import subprocess
import sys

import pytest

from tests.small_run import FAST

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


def command(arguments, redirected, folder, **environment):
    """Run a command with a redirected stream; return its exit status and its messages."""
    line = f'exec "$0" -m heirloom {arguments} {redirected}'
    done = subprocess.run(
        ["/bin/sh", "-c", line, sys.executable],
        cwd=folder,
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )
    return done.returncode, [each for each in done.stderr.splitlines() if "jobs done" not in each]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", ["list", "--help", "--version", "show tight"])
def test_output_that_cannot_be_written_is_one_line(arguments, unbuffered, tmp_path):
    status, messages = command(arguments, "> /dev/full", tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert status == 1
    (message,) = messages
    assert message.startswith("error: standard output cannot be written (No space left on device)")


def test_run_whose_output_is_full_keeps_its_results(tmp_path):
    (tmp_path / "small.toml").write_text(FAST.to_toml())
    status, messages = command("run small.toml --out run --jobs 1", "> /dev/full", tmp_path)
    assert status == 1
    assert len(messages) == 1
    assert messages[0].endswith("run the same command again")
    assert command("status run", "> /dev/null", tmp_path) == (0, [])  # every job is complete
    assert command("run small.toml --out run --jobs 1", "> /dev/null", tmp_path) == (0, [])
    assert (tmp_path / "run" / "figures").is_dir()


def test_closed_output_is_refused_before_anything_is_computed(tmp_path):
    """The next file that is opened would get the descriptor of standard output."""
    (tmp_path / "small.toml").write_text(FAST.to_toml())
    status, messages = command("run small.toml --out run --jobs 2", ">&-", tmp_path)
    assert status == 1
    assert messages == [
        "error: standard output is closed: redirect it to a file, or to /dev/null to discard it"
    ]
    assert not (tmp_path / "run").exists()


def test_closed_standard_error_discards_messages(tmp_path):
    (tmp_path / "small.toml").write_text(FAST.to_toml())
    assert command("run small.toml --out run --jobs 2", "> out 2>&-", tmp_path) == (0, [])
    assert "Results are in run" in (tmp_path / "out").read_text()

"""The rows and peers of the benchmarks; nothing is timed here."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.peer import ask
from benchmarks.rows import Row, as_text, significant


@pytest.mark.parametrize(
    ("row", "reached"),
    [
        (Row("a cost", 3.0, at_most=4), True),
        (Row("a cost", 5.0, at_most=4), False),
        (Row("an advantage", 5.0, at_least=4), True),
        (Row("an advantage", 3.0, at_least=4), False),
        (Row("no target", 3.0), None),
        (Row("not measured", None, at_most=4), None),
    ],
)
def test_ratio_reaches_its_target_or_not(row, reached):
    assert row.reached is reached


@pytest.mark.parametrize(
    ("row", "reached"),
    [
        (Row("an advantage", 5.0, at_least=4, stopped=True), True),
        (Row("an advantage", 3.0, at_least=4, stopped=True), None),
        (Row("a cost", 5.0, at_most=4, stopped=True), False),
        (Row("a cost", 3.0, at_most=4, stopped=True), None),
    ],
)
def test_ratio_of_a_stopped_run_is_a_lower_bound(row, reached):
    assert row.reached is reached
    assert row.cells()[1].startswith("more than")


def test_significant_rounds_to_three_digits():
    assert [significant(x) for x in (1.2345, 12.345, 123.45, 12345.6)] == [
        "1.23",
        "12.3",
        "123",
        "12,300",
    ]


def test_text_table_has_a_header_and_one_line_per_row():
    rows = [Row("slow / fast", 1234.5, at_least=1000), Row("peer / ours", None, note="not there")]
    assert [line.split()[0] for line in as_text(rows).splitlines()] == [
        "comparison",
        "slow",
        "peer",
    ]


def test_row_is_written_as_json():
    row = Row("peer / ours", 2.0, at_least=1.5, stopped=True)
    written = json.loads(json.dumps(row.as_json()))
    assert written["reached"] is True
    assert written["cells"] == ["peer / ours", "more than 2.00", "at least 1.5", "yes", ""]


def test_missing_environment_of_peers_is_reported(tmp_path):
    assert "make bench" in ask("simple_rl_rmax.py", python=tmp_path / "python").problem


@pytest.fixture
def program(tmp_path):
    """A function that writes a program and returns its path."""

    def write(text):
        path = tmp_path / "program.py"
        path.write_text("import time\nprint('ready', time.process_time(), flush=True)\n" + text)
        return str(path)

    return write


def test_answer_of_a_peer_is_its_last_line(program):
    text = 'print(\'chatter\')\nprint(\'{"seconds": 2.5, "version": "1.0"}\')\n'
    answer = ask(program(text), python=Path(sys.executable))
    assert (answer.seconds, answer.stopped, answer.version) == (2.5, False, "1.0")


def test_peer_is_stopped_at_its_time_limit(program):
    answer = ask(program("time.sleep(60)\n"), python=Path(sys.executable), limit=0.1)
    assert answer.stopped
    assert answer.seconds <= 0.1


def test_error_of_a_failed_peer_is_reported():
    answer = ask("no_such_program.py", python=Path(sys.executable))
    assert answer.seconds is None
    assert "no_such_program.py" in answer.problem

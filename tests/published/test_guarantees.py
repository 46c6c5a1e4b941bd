"""Every guarantee of docs/guarantees.md names tests, and these are in the files that it names."""

import re
from pathlib import Path

PAGE = Path("docs/guarantees.md")
NAMES = re.compile(r"`(test_\w+)`|(tests/[\w/]+\.py)|\((same file)\)")


def named_tests():
    """Yield each file that a row names, with the tests that precede it; None for no test."""
    file = None
    for row in re.findall(r"^\|.*", PAGE.read_text(), re.MULTILINE):
        tests = []
        for test, path, same in NAMES.findall(row):
            if test:
                tests.append(test)
            else:
                file = file if same else path
                yield from ((file, each) for each in tests or [None])
                tests = []
        assert not tests, f"the row names no file for {tests}: {row}"


def test_guarantees_name_tests_that_exist():
    found = list(named_tests())
    for file, test in found:
        text = Path(file).read_text()
        assert test is None or f"def {test}(" in text, f"{file} has no {test}"
    assert len({test for _, test in found}) > 140


def test_every_guarantee_names_a_test():
    """A row of a table of guarantees or properties ends with its tests, or with a command."""
    n_rows, in_table = 0, False
    for row in PAGE.read_text().splitlines():
        if row.startswith(("| guarantee", "| property")):
            in_table = True
        elif not row.startswith("|"):
            in_table = False
        elif in_table and not row.startswith("| ---"):
            n_rows += 1
            assert re.search(r"test_\w+|tests/", row.split("|")[-2]) or "same" in row, row
    assert n_rows > 90

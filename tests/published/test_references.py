"""The files and tests that README and docs refer to exist."""

import re

import pytest

from published.documents import DOCUMENTS
from published.results import PROJECT

TEST_FILES = list((PROJECT / "tests").rglob("*.py"))
TESTS = set(
    re.findall(r"def (test_\w+)", "\n".join(path.read_text("utf-8") for path in TEST_FILES))
)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_and_tests_named_in_a_document_exist(path):
    text = path.read_text(encoding="utf-8")
    files = re.findall(r"\btests/[\w/]+\.py", text)
    assert [name for name in files if not (PROJECT / name).exists()] == []
    tests = re.findall(r"`(test_\w+)`", text)
    assert [name for name in tests if name not in TESTS] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_to_files(path):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []

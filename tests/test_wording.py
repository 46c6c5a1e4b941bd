"""Texts that contain counts are grammatical, and one word stands for one thing."""

import re
from pathlib import Path

import pytest

import heirloom as hl
from heirloom.runs.size import RunSize
from heirloom.wording import are, counted, counted_of, size_of_task, were

NOUNS = "pair task state action episode step update transition snapshot job file".split()
WRONG = re.compile(rf"\b1 (?:{'|'.join(NOUNS)})s\b")

OTHER_WORDS = {
    r"(?<!lambda )\b(?:prior|learned|a|the|valid|true) `?[dD]_max`?(?![\w=`]| =)": "prior",
    r"prior knowledge": "claim",
    r"ind(?:ex|ices) of (?:a|one|each) (?:state|action)|(?:state|action) ind(?:ex|ices)": "number",
    r"explored (?:pair|action)s?\b|pairs? (?:is|are|was|were) explored": "known",
}
"""Words that stand for something that has another word in docs/glossary.md."""


def test_nouns_and_verbs_agree_with_their_counts():
    assert [counted(n, "pair") for n in (0, 1, 2, 1000)] == [
        *("0 pairs", "1 pair", "2 pairs", "1,000 pairs")
    ]
    assert [counted(n, "entry") for n in (1, 2)] == ["1 entry", "2 entries"]
    assert [counted_of(1, n, "job") for n in (1, 12)] == ["1 of 1 job", "1 of 12 jobs"]
    assert [f"{are(n)} {were(n)}" for n in (0, 1, 2)] == ["are were", "is was", "are were"]
    assert size_of_task(4, 1) == "4 states and 1 action"


def one_of_everything():
    """Return texts about one task with one state, one action, one episode, and one step."""
    m = hl.TabularMDP([[0.5]], [[[1.0]]], gamma=0.9)
    options = {"n_states": 1, "n_actions": 1, "gamma": 0.9, "n_known": 1, "seed": 0}
    agent = hl.NearRMax(p_min=0.9, **options)
    record = hl.learn(agent, m, episodes=1, max_steps=1, seed=0, record=True)
    texts = [repr(x) for x in (m, record, record.recording, agent.memory, hl.audit(agent.memory))]
    hl.learn(agent, m, episodes=1, max_steps=1, seed=0)
    with pytest.raises(hl.errors.IncompatibleTasks) as refused:
        hl.learn(agent, hl.garnet(2, 1, branching=1, gamma=0.9, seed=0), episodes=1, max_steps=1)
    return [*texts, repr(agent.explain()), str(refused.value), str(RunSize(1, 10))]


def test_texts_about_one_thing_have_no_plural():
    assert [text for text in one_of_everything() if WRONG.search(text)] == []


@pytest.mark.parametrize("pattern", OTHER_WORDS)
def test_documents_and_source_have_one_word_for_one_thing(pattern):
    project = Path(__file__).parents[1]
    paths = [project / "README.md", *(project / "docs").rglob("*.md")]
    paths += [path for path in (project / "src").rglob("*.py") if path.parent.name != "paper"]
    found = [
        f"{path.relative_to(project)}: {match[0]!r}; say {OTHER_WORDS[pattern]!r}"
        for path in paths
        if path.name != "glossary.md"
        for match in re.finditer(pattern, path.read_text("utf-8"))
    ]
    assert found == []

"""All mistakes of a spec are reported at once, with the value and the closest name."""

import pytest

import heirloom as hl
from heirloom.experiments.spec import ExperimentSpec
from heirloom.experiments.sweep import load_sweep
from tests.experiments.test_spec import SMALL


def messages(change):
    with pytest.raises(hl.errors.InvalidArgument) as raised:
        ExperimentSpec.read({key: value for key, value in {**SMALL, **change}.items() if value})
    return list(raised.value.args)


def test_all_mistakes_are_reported_at_once(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(
        'name = "x"\ntasks = 0\nepisodes = "many"\nstep = 3\n[defaults]\nepsilonn = 1\n'
        '[family]\nname = "tigth"\n[[agents]]\nalgorithm = "RMax"\nn_known = 0\nkeeep = 1\n'
        '[[agents]]\nalgorithm = "LRMx"\n'
    )
    with pytest.raises(hl.errors.InvalidArgument) as raised:
        ExperimentSpec.load(path)
    lines = str(raised.value).split("\n")
    assert all(line.startswith(f"{path}: ") for line in lines)
    found = [line.removeprefix(f"{path}: ") for line in lines]
    for start in (
        *("tasks is 0", "episodes is 'many'", "step is not a key", "defaults.epsilonn is not"),
        *("family.name is 'tigth'", "agents.1.n_known is 0", "agents.1.keeep is not an option"),
        "agents.2.algorithm is 'LRMx'",
    ):
        assert sum(line.startswith(start) for line in found) == 1, start


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"familly": SMALL["family"], "family": None}, "family"),
        ({"family": {"name": "coridor"}}, "corridor"),
        ({"family": {"name": "tight", "variannt": "text"}}, "variant"),
        ({"agents": [{"algorithm": "rmax", "n_known": 1}]}, "RMax"),
        ({"agents": [{"algorithm": "RMax", "n_knwn": 1}]}, "n_known"),
        ({"defaults": {"epsilom": 1}}, "epsilon"),
        ({"measure": "prior_us"}, "prior_use"),
    ],
)
def test_misspelled_name_is_answered_with_the_closest_one(change, name):
    assert any(message.endswith(f"did you mean {name}?") for message in messages(change))


def test_misspelled_key_is_not_reported_as_missing_too():
    (message,) = messages({"familly": SMALL["family"], "family": None})
    assert message.startswith("familly is not a key of a spec")


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        (
            {"algorithm": "LRMax", "n_known": 1, "d_max": "big"},
            "agents.1.d_max is 'big': input should be a valid number, or input should be 'family'",
        ),
        (
            {"algorithm": "RMax", "n_known": 1.5},
            "agents.1.n_known is 1.5: input should be a valid integer",
        ),
        (
            {"algorithm": "RMax", "n_known": 1, "keep": "best"},
            "agents.1.keep is 'best': input should be 'first', 'latest' or 'most_used'",
        ),
        (
            {"algorithm": "MaxQInit", "n_known": 1, "delta": 0},
            "agents.1.delta is 0: input should be greater than 0",
        ),
    ],
)
def test_message_names_what_an_option_allows(agent, expected):
    assert messages({"agents": [agent]}) == [expected]


@pytest.mark.parametrize(
    ("agent", "start"),
    [
        (
            {"algorithm": "NearRMax", "nearness": {"rewards": -1, "transitions": 0}},
            "agents.1.nearness.rewards is -1: input should be greater than or equal to 0",
        ),
        (
            {"algorithm": "NearRMax", "nearness": {"reward": 1, "transitions": 0}},
            "agents.1.nearness.reward is not a key of nearness",
        ),
        (
            {"algorithm": "NearRMax", "nearness": "familly"},
            "agents.1.nearness is 'familly': input should be an object, or input should be ",
        ),
        ({"algorithm": "RMax", "N-Known": 3}, "agents.1: N-Known is not an option of RMax"),
        (
            {"algorithm": "RMax", "n_know": 3},
            "agents.1.n_know is not an option of RMax: its options are pool, n_known, ",
        ),
    ],
)
def test_mistake_in_a_table_or_a_name_of_an_option_is_reported(agent, start):
    assert messages({"agents": [{"n_known": 1, **agent}], "defaults": None})[0].startswith(start)


def test_quoted_key_of_a_sweep_is_explained(tmp_path):
    (tmp_path / "x.toml").write_text('[sweep]\n"family.size" = [1, 2]\n')
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"write family\.size without quotation marks"
    ):
        load_sweep(tmp_path / "x.toml")


LONG = "b" * 1_000_000


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ({"name": LONG}, "name is 'bbb"),
        ({LONG: 1}, "bbb"),
        ({"family": {"name": LONG}}, "family.name is 'bbb"),
        ({"family": {"name": f"a:{LONG}"}}, "family.name is 'a:bbb"),
        ({"family": {**SMALL["family"], LONG: 1}}, "family.bbb"),
        ({"agents": [{"algorithm": "RMax", "n_known": 1, "name": LONG}]}, "agents.1.name is 'bbb"),
        ({"agents": [{"algorithm": f"a:{LONG}", "name": "x"}]}, "agents.1.algorithm is 'a:bbb"),
        ({"agents": [{"algorithm": "RMax", "n_known": 1, LONG: 1}]}, "agents.1: bbb"),
        ({"defaults": {LONG: 1}}, "defaults.bbb"),
        ({"measure": LONG}, "measure is 'bbb"),
    ],
)
def test_long_name_or_value_is_refused_and_not_shown_in_full(change, start):
    (message,) = messages(change)
    assert message.startswith(start)
    assert len(message) < 500


def test_name_of_an_experiment_has_at_most_200_characters():
    assert messages({"name": "x" * 201})[0].endswith("at most 200 characters")
    assert ExperimentSpec.read({**SMALL, "name": "x" * 200}).name == "x" * 200

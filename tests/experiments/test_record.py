"""The key `record` of a spec."""

import pytest

import heirloom as hl
from heirloom.errors import InvalidArgument
from heirloom.experiments.job import recorded_tasks
from heirloom.experiments.reading import RecordSpec
from heirloom.runs.size import check_size, size_of
from tests.small_run import SPEC


def test_record_survives_toml(tmp_path):
    spec = SPEC.with_changes(record={"agents": ["RMax"], "tasks": [1, 3], "every": 5, "updates": 2})
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    assert hl.ExperimentSpec.load(tmp_path / "spec.toml") == spec


def test_record_true_stands_for_an_empty_table():
    assert SPEC.with_changes(record=True) == SPEC.with_changes(record={})
    assert SPEC.with_changes(record=True).record == RecordSpec()


def test_spec_without_a_record_is_stored_as_before():
    assert "record" not in SPEC.as_json()


def test_only_the_chosen_jobs_and_tasks_are_recorded():
    record = {"agents": ["RMax", "QLearning"], "repetitions": [2], "tasks": [3, 1, 1], "first": 7}
    spec = SPEC.with_changes(record=record)
    assert list(recorded_tasks(spec, 0, 1)) == [0, 2]
    assert recorded_tasks(spec, 0, 1)[0].first == 7
    assert recorded_tasks(spec, 0, 0) == recorded_tasks(spec, 1, 1) == {}
    assert recorded_tasks(SPEC, 0, 0) is None


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"first": -1}, "record.first is -1: input should be greater"),
        ({"evry": 5}, "record.evry is not an option of record: .*did you mean every?"),
        ({"every": "x"}, "record.every is 'x': input should be a valid integer"),
        ({"agents": ["Rmax"]}, "record.agents contains 'Rmax': .*did you mean RMax?"),
        ({"agents": []}, "record.agents is"),
        ({"tasks": [4]}, "record.tasks contains 4: expected numbers from 1 to 3"),
        ({"repetitions": [0]}, "record.repetitions contains 0: expected numbers from 1 to 3"),
        (5, "record is 5: input should be a"),
    ],
)
def test_wrong_record_is_refused_with_a_remedy(record, message):
    with pytest.raises(InvalidArgument, match=message):
        SPEC.with_changes(record=record)


def test_recordings_that_may_be_too_large_are_refused_before_anything_is_computed(tmp_path):
    spec = SPEC.with_changes(episodes=10**6, record={"every": 1})
    with pytest.raises(InvalidArgument, match=r"record may keep up to .* MB"):
        check_size(spec, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_size_of_a_run_includes_its_recordings():
    assert size_of(SPEC.with_changes(record=True)).bytes > size_of(SPEC).bytes

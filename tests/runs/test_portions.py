"""Short jobs are sent to a cluster in portions, long ones one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heirloom.runs.layout import Origin
from heirloom.runs.workers.compute import Computed
from heirloom.runs.workers.dask import PORTION_JOBS, PORTION_SECONDS, Portions

JOBS = [(agent, repetition) for repetition in range(400) for agent in range(3)]


def computed(agent, seconds):
    return Computed((agent, 0), {}, Origin(seconds, "worker:1", {}))


@given(st.dictionaries(st.integers(0, 2), st.floats(0, 2 * PORTION_SECONDS)))
def test_portions_contain_every_job_once_and_stay_within_their_time(seconds):
    portions = Portions(JOBS)
    portions.measure([computed(agent, took) for agent, took in seconds.items()])
    sent = []
    while portion := portions.next():
        assert len(portion) <= PORTION_JOBS
        estimates = [seconds.get(agent, PORTION_SECONDS) for agent, _ in portion]
        assert len(portion) == 1 or sum(estimates) <= PORTION_SECONDS
        sent += portion
    assert sent == JOBS


def test_job_of_an_agent_without_a_measured_job_is_sent_alone():
    portions = Portions(JOBS)
    assert [portions.next() for _ in range(3)] == [[job] for job in JOBS[:3]]


def test_portions_shrink_at_once_after_a_slow_job_and_grow_after_fast_ones():
    portions = Portions([(0, repetition) for repetition in range(100)])
    portions.measure([computed(0, PORTION_SECONDS / 8)])
    assert len(portions.next()) == 8
    portions.measure([computed(0, PORTION_SECONDS)])
    assert len(portions.next()) == 1
    portions.measure([computed(0, PORTION_SECONDS / 8)] * 2)
    assert len(portions.next()) == 4


@pytest.mark.cluster
def test_short_jobs_are_computed_in_far_fewer_messages_than_jobs(tmp_path, monkeypatch):
    """The results are identical to the bit to those of local processes."""
    from heirloom.runs.run import run
    from tests.attack.many import SPEC

    sizes, next_portion = [], Portions.next

    def counted(portions):
        portion = next_portion(portions)
        sizes.append(len(portion))
        return portion

    monkeypatch.setattr(Portions, "next", counted)
    spec = SPEC.with_changes(repetitions=300)
    results = run(spec, tmp_path / "cluster", backend="dask", jobs=2)
    assert results.identical(run(spec, tmp_path / "local", jobs=1))
    assert sum(sizes) == 300
    assert len(sizes) < 150

"""A pair may be compared with claims after every visit, as counts go on growing."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import heirloom as hl
from heirloom.kernels.checking import pair_contradicts
from heirloom.transfer.bound import Claims
from heirloom.transfer.radii import Accuracy
from heirloom.transfer.refutation.watch import TaskWatch
from tests.stopped_tasks import looks_extreme, stopped_memory

LAST = 600  # visits
FOR_EVER = 2**53


class Model(NamedTuple):
    """The fields of a learned model that are compared."""

    R: Any
    first: Any
    last: Any
    ends: Any
    successors: Any
    p: Any


def watched(memory, near, *, delta, most=FOR_EVER):
    accuracy = Accuracy(exact=False, delta=delta)
    sources = list(memory.sources)
    claims, task = Claims(near, None), len(sources) + 1
    return TaskWatch.begin(claims, accuracy, memory.setting, sources, task=task, most=most)


def looks(check, p, rng):
    """Compare the two pairs of a task after each visit; return its means, and the alarms."""
    means = (rng.random((LAST, 2)) < p).cumsum(axis=0) / np.arange(1, LAST + 1)[:, None]
    bounds = np.array([0, 2]), np.array([2, 4])
    successors = np.array([0, 1, 0, 1], dtype=np.int32)
    alarms = np.zeros((LAST, 2), dtype=bool)
    for n in range(1, LAST + 1):
        R = means[n - 1]
        row = np.stack([1 - R, R], axis=1).ravel()
        model = Model(R, *bounds, np.zeros(2), successors, row)
        for k in range(2):
            alarms[n - 1, k] = pair_contradicts(model, check, k, n)
    return means, alarms


def test_true_knowledge_is_refuted_at_any_look_with_probability_delta_at_most():
    """All tasks are equal and end when they look extreme; the largest reward is claimed exactly."""
    refuted, n, p = 0, 40, 0.5
    near = hl.Nearness(rewards=0.0, transitions=0.0, highest_rewards=p)
    for seed in range(n):
        rng = np.random.default_rng(seed)
        memory = stopped_memory([p] * 3, rng, looks_extreme(2.0), last=2000)
        watch = watched(memory, near, delta=0.5)
        refuted += looks(watch.check, p, rng)[1].any()
    assert refuted <= 0.5 * n + 3 * np.sqrt(n / 4)


@pytest.mark.parametrize("seed", range(3))
def test_alarm_of_a_look_is_that_of_the_radii_after_its_visits(seed):
    """The current task differs from earlier ones by much more than claimed."""
    rng = np.random.default_rng(seed)
    memory = stopped_memory([0.2] * 2, rng, looks_extreme(9.0), last=400)
    r, t = 0.1, 0.15
    watch = watched(memory, hl.Nearness(rewards=r, transitions=t), delta=0.05)
    means, alarms = looks(watch.check, 0.9, rng)
    for n in range(1, LAST + 1):
        for k in range(2):
            eta, tau = watch.own.of_pair(k, n)
            expected = False
            for source, radii in zip(memory.sources, watch.source_radii, strict=True):
                gap = abs(means[n - 1, k] - source.rows.R[k])
                expected |= gap > r + eta + radii.rewards[k]
                expected |= gap > t + tau + radii.transitions[k]
            assert alarms[n - 1, k] == expected
    assert alarms[-1].all()
    assert not alarms[0].any()


def test_pair_that_is_compared_after_more_visits_can_contradict_what_few_visits_cannot():
    """With the 5 visits of a frozen model no difference can be proved."""
    rng = np.random.default_rng(0)
    memory = stopped_memory([0.2] * 2, rng, looks_extreme(9.0), last=400)
    near = hl.Nearness(rewards=0.1, transitions=0.15)
    assert watched(memory, near, delta=0.05, most=5).blind
    assert not watched(memory, near, delta=0.05).blind

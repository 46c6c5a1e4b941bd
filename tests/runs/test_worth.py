"""`worth`: paired differences per task, in the unit of rewards."""

import numpy as np
import pytest
import xarray as xr

import heirloom as hl
from heirloom.stats import student_interval


def results(returns, agents):
    dims = ("agent", "repetition", "task", "episode")
    counts = [np.arange(1, n + 1) for n in returns.shape[1:]]
    return xr.Dataset(
        {"returns": (dims, returns)},
        coords={"agent": agents, **dict(zip(dims[1:], counts, strict=True))},
    )


def test_differences_are_paired_sums_over_the_episodes_of_a_task():
    rng = np.random.default_rng(0)
    base = rng.normal(-50, 100, (6, 3, 4))  # a baseline that loses money: no percentages
    more = rng.normal(7, 0.1, (6, 3, 4))
    data = results(np.stack([base, base + more]), ["rule", "agent"])
    found = hl.worth(data, unit="EUR")
    mean, half = student_interval(more.sum(axis=2).mean(axis=1))
    row = found.table.loc["agent"]
    assert row.per_task == pytest.approx(mean)
    assert row.per_task_ci95 == pytest.approx(half, rel=1e-6)
    assert row.first_task == pytest.approx(more.sum(axis=2)[:, 0].mean())
    assert row.last_task == pytest.approx(more.sum(axis=2)[:, -1].mean())
    text = str(found)
    assert "%" not in text.replace("95 %", "")
    assert "EUR per task. Differences from it, with 95 % intervals over 6 repetitions" in text
    assert f"{mean:+,.1f} ± {half:,.1f}" in text  # as many decimals as what is earned


def test_baseline_is_the_first_agent_or_the_one_that_is_given():
    data = results(np.arange(8.0).reshape(2, 2, 2, 1), ["a", "b"])
    assert hl.worth(data).baseline == "a"
    found = hl.worth(data, baseline="b")
    assert list(found.table.index) == ["a"]
    assert np.isnan(found.table.per_task_ci95).all()  # two repetitions
    assert "±" not in str(found)
    with pytest.raises(hl.errors.InvalidArgument, match="baseline is 'c'"):
        hl.worth(data, baseline="c")

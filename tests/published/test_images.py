"""The images of the docs are drawn from values for which the statements of the text are true."""

import re

import numpy as np
import pytest

from published import images

ORDER = ("optimal value", "NearRMax, arrays", "NearRMax, a number", "RMax: v_max")


@pytest.mark.parametrize("number", [images.TRUTH, 0.5])
def test_true_claims_give_upper_bounds_and_arrays_the_smallest(number):
    bounds = images.bounds_in_corridor(number)
    values = [bounds[name] for name in ORDER]
    assert (np.diff(values) >= -1e-9).all()


def test_false_claim_gives_a_bound_below_the_optimum():
    bounds = images.bounds_in_corridor(images.TRUTH / 2)
    assert bounds["NearRMax, arrays"] < bounds["optimal value"]


def test_bounds_of_near_rmax_stay_below_v_max_where_those_of_lrmax_do_not():
    bounds = images.bounds_with_slip(0.1)
    assert bounds["LRMax, the exact distance"] == bounds["RMax: v_max"]
    assert bounds["optimal value"] <= bounds["NearRMax, arrays"] + 1e-6
    assert bounds["NearRMax, arrays"] < bounds["NearRMax, two numbers"] < bounds["RMax: v_max"]


def test_most_favourable_transitions_move_the_stated_mass():
    row = images.moved_mass(0.1)
    assert row.favourable.sum() == pytest.approx(1.0)
    assert 0.5 * np.abs(row.favourable - row.source).sum() == pytest.approx(0.1)
    text = (images.PROJECT / "docs" / "nearness.md").read_text(encoding="utf-8")
    before, after = (f"{p @ row.values:.2f}" for p in (row.source, row.favourable))
    assert f"from {before} to {after}" in text


def test_images_in_the_docs_exist_and_are_small():
    text = (images.PROJECT / "docs" / "nearness.md").read_text(encoding="utf-8")
    names = re.findall(r"\]\(images/(.+?)\)", text)
    assert len(names) == 3
    for name in names:
        assert (images.IMAGES / name).stat().st_size < 100_000

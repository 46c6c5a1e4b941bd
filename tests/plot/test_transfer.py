"""The figure of transfer shows the recorded numbers of pairs."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.experiments.measures import KINDS
from heirloom.plot.transfer import KIND_COLOURS
from heirloom.report.page import _asset
from tests.plot.drawn import legend
from tests.report.examples import results

RESULTS = results()


def test_bars_are_the_mean_numbers_of_pairs_of_each_kind():
    figure = hl.plot.draw_transfer(RESULTS, "Mine", title="a title")
    (ax,) = figure.axes
    expected = RESULTS.bound_pairs.sel(agent="Mine").mean("repetition").values
    drawn = np.array([[bar.get_height() for bar in bars] for bars in ax.containers]).T
    assert drawn == pytest.approx(expected)
    assert legend(figure) == list(KINDS)
    tops = [max(b.get_y() + b.get_height() for b in group) for group in ax.containers]
    assert max(tops) == pytest.approx(expected.sum(axis=1).max())


def test_colours_are_those_of_the_report():
    css = _asset("page.css")
    for k, colour in enumerate(KIND_COLOURS):
        assert f".k{k} {{ background: {colour.lower()}; }}" in css


def test_results_without_transfer_are_refused():
    with pytest.raises(hl.errors.InvalidArgument, match='measure = "transfer"'):
        hl.plot.draw_transfer(RESULTS.drop_vars("bound_pairs"), "Mine")
    nothing = RESULTS.copy()
    nothing["bound_pairs"] = RESULTS.bound_pairs * 0 - 1
    with pytest.raises(hl.errors.InvalidArgument, match="an agent that has bounds"):
        hl.plot.draw_transfer(nothing, "Mine")

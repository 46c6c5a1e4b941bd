"""Rows of points show the means and intervals that they are given."""

import numpy as np
import pytest
from matplotlib.colors import same_color

from heirloom.plot.transfer import draw_rows
from heirloom.stats import Interval
from tests.plot.drawn import assert_same_bytes, legend

ROWS = {
    "upper": {
        "A": Interval(np.array(0.1), np.array(0.05)),
        "B": Interval(np.array(0.9), np.array(0.2)),
    },
    "lower": {"B": Interval(np.array(-0.5), np.array(0.3))},
}


def draw(rows=ROWS, **options):
    return draw_rows(
        rows, levels={"RMax": 0.0, "optimum": 1.0}, xlabel="share", title="a title", **options
    )


def points(figure):
    """The markers of each agent, by its label."""
    (ax,) = figure.axes
    return {container.get_label(): container for container in ax.containers}


def test_points_are_at_the_means_in_the_row_of_their_group():
    markers = {name: container[0] for name, container in points(draw()).items()}
    assert markers["A"].get_xdata().tolist() == [0.1]
    assert markers["B"].get_xdata().tolist() == [0.9, -0.5]
    assert np.round(markers["A"].get_ydata()).tolist() == [0]
    assert np.round(markers["B"].get_ydata()).tolist() == [0, 1]


def test_bars_extend_over_the_intervals():
    for name, (_, _, (bars,)) in points(draw()).items():
        of_agent = [row[name] for row in ROWS.values() if name in row]
        for segment, (mean, half_width) in zip(bars.get_segments(), of_agent, strict=True):
            assert segment[:, 0] == pytest.approx([mean - half_width, mean + half_width])


def test_agents_of_a_row_differ_in_marker_colour_and_height():
    a, b = (container[0] for container in points(draw()).values())
    assert a.get_marker() != b.get_marker()
    assert not same_color(a.get_color(), b.get_color())
    assert a.get_ydata()[0] != b.get_ydata()[0]


def test_first_row_is_at_the_top():
    (ax,) = draw().axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["upper", "lower"]
    low, high = ax.get_ylim()
    assert low > high


def test_logarithmic_axis_shows_0_and_separates_powers_of_ten():
    ((ax,), (linear,)) = draw(xscale="symlog").axes, draw().axes
    assert (ax.get_xscale(), linear.get_xscale()) == ("symlog", "linear")
    zero, ten, hundred, thousand = ax.transData.transform([(x, 0) for x in (0, 10, 100, 1000)])
    assert zero[0] < ten[0]
    assert hundred[0] - ten[0] == pytest.approx(thousand[0] - hundred[0])


def test_levels_are_labelled_vertical_lines():
    (ax,) = draw().axes
    assert {text.get_text(): text.xy[0] for text in ax.texts} == {"RMax": 0.0, "optimum": 1.0}
    vertical = {x[0] for line in ax.get_lines() if len(set(x := line.get_xdata())) == 1}
    assert {0.0, 1.0} <= vertical


def test_only_hollow_markers_are_not_filled():
    markers = {name: container[0] for name, container in points(draw(hollow=["B"])).items()}
    assert same_color(markers["B"].get_markerfacecolor(), "white")
    assert same_color(markers["A"].get_markerfacecolor(), markers["A"].get_color())


def test_interval_that_is_not_finite_is_not_drawn():
    missing, known = (Interval(np.array(0.1), np.array(half)) for half in (np.nan, 0.2))
    (container,) = points(draw({"upper": {"A": missing}, "lower": {"A": known}})).values()
    (drawn,) = (bar for bar in container[2][0].get_segments() if bar.size)
    assert drawn[:, 0] == pytest.approx([-0.1, 0.3])


def test_title_labels_and_legend_are_those_given():
    figure = draw()
    (ax,) = figure.axes
    assert (ax.get_title(), ax.get_xlabel()) == ("a title", "share")
    assert legend(figure) == ["A", "B"]


def test_same_rows_give_the_same_image():
    assert_same_bytes(draw)

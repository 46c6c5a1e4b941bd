"""The figure of the power of checks shows the shares it is given."""

import numpy as np

from heirloom.plot.power import COLOURS, draw_power
from tests.plot.drawn import assert_same_bytes, legend, lines

RATIOS = [1, 2, 3]
PARTS = {
    "rewards": {"single": {5: [0, 0, 0], 50: [0, 0.5, 1]}, "pooled": {5: [0, 1, 1], 50: [1, 1, 1]}},
    "transitions": {"single": {5: [0, 0, 0.25]}},
}


def draw():
    return draw_power(RATIOS, PARTS, title="Power")


def test_power_shows_the_share_of_alarms_of_each_test_and_number_of_visits():
    figure = draw()
    assert figure.get_suptitle() == "Power"
    assert [ax.get_title() for ax in figure.axes] == list(PARTS)
    for ax, curves in zip(figure.axes, PARTS.values(), strict=True):
        drawn = lines(ax)
        expected = {
            f"{test}, n = {n}" + ("" if any(shares) else " (never)"): (n, test, shares)
            for test, by_visits in curves.items()
            for n, shares in by_visits.items()
        }
        assert drawn.keys() == expected.keys()
        for label, (n, test, shares) in expected.items():
            np.testing.assert_array_equal(drawn[label].get_xdata(), RATIOS)
            np.testing.assert_array_equal(drawn[label].get_ydata(), shares)
            assert drawn[label].get_color() == COLOURS[[5, 50].index(n)]
            assert drawn[label].get_linestyle() == {"single": "--", "pooled": "-"}[test]
    assert legend(figure) == list(lines(figure.axes[0]))


def test_same_shares_give_the_same_image():
    assert_same_bytes(draw)

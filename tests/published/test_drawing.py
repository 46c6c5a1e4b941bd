"""The figures of docs about knowledge show the values that they are given."""

import numpy as np
import pytest

from published.drawing import POWER_COLOURS, draw_claims, draw_moved_mass, draw_power
from tests.plot.drawn import assert_same_bytes, legend, lines


class TestDrawMovedMass:
    NAMES = ("left", "right", "best")
    VALUES = np.array([1.0, 5.0, 6.0])
    SOURCE = np.array([0.2, 0.8, 0.0])
    FAVOURABLE = np.array([0.1, 0.8, 0.1])

    def draw(self):
        return draw_moved_mass(
            self.NAMES, self.VALUES, self.SOURCE, self.FAVOURABLE, title="a title"
        )

    @pytest.mark.parametrize(("panel", "row"), [(0, SOURCE), (1, FAVOURABLE)])
    def test_bars_of_a_panel_add_up_to_the_row(self, panel, row):
        heights = np.zeros(3)
        for bar in self.draw().axes[panel].patches:
            heights[round(bar.get_x() + bar.get_width() / 2)] += bar.get_height()
        np.testing.assert_allclose(heights, row)

    def test_moved_mass_is_drawn_above_the_mass_that_stays(self):
        left, right = self.draw().axes
        for ax, at, height in ((left, 0, 0.1), (right, 2, 0.1)):
            bar = ax.patches[-1]
            assert round(bar.get_x() + bar.get_width() / 2) == at
            assert bar.get_height() == pytest.approx(height)
            assert bar.get_y() == pytest.approx(min(self.SOURCE[at], self.FAVOURABLE[at]))

    def test_outcomes_expected_values_and_moved_mass_are_labelled(self):
        left, right = self.draw().axes
        assert [label.get_text() for label in left.get_xticklabels()] == [
            "left\nV = 1.00",
            "right\nV = 5.00",
            "best\nV = 6.00",
        ]
        assert left.get_title() == "source\nexpected value 4.20"
        assert right.get_title() == "best case for the task\nexpected value 4.70"
        for ax, label in ((left, "taken away: 0.1"), (right, "added: 0.1")):
            assert [text.get_text() for text in ax.get_legend().get_texts()] == ["unchanged", label]

    def test_same_rows_render_the_same_bytes(self):
        assert_same_bytes(self.draw)


class TestDrawClaims:
    X = np.array([0.0, 0.5, 1.0])
    CURVES = {  # noqa: RUF012 -- never written to
        "RMax: v_max": np.array([10.0, 10.0, 10.0]),
        "NearRMax, a number": np.array([2.0, 3.0, 4.0]),
        "optimal value": np.array([2.5, 2.5, 2.5]),
    }

    def draw(self, **options):
        return draw_claims(self.X, self.CURVES, xlabel="number", title="a title", **options)

    def test_each_curve_shows_its_values_over_the_claims(self):
        (ax,) = self.draw().axes
        for name, bound in self.CURVES.items():
            np.testing.assert_array_equal(lines(ax)[name].get_xdata(), self.X)
            np.testing.assert_array_equal(lines(ax)[name].get_ydata(), bound)
        assert ax.get_yscale() == "log"
        assert ax.get_xlabel() == "number"

    def test_false_claims_are_shaded_up_to_the_truth(self):
        figure = self.draw(truth=0.5)
        (band,) = figure.axes[0].patches
        assert (band.get_x(), band.get_x() + band.get_width()) == (0.0, 0.5)
        assert legend(figure) == ["the claim is false", *self.CURVES]

    def test_nothing_is_shaded_if_all_claims_are_true(self):
        figure = self.draw()
        assert len(figure.axes[0].patches) == 0
        assert legend(figure) == list(self.CURVES)

    def test_same_curves_render_the_same_bytes(self):
        assert_same_bytes(lambda: self.draw(truth=0.5))


RATIOS = [1, 2, 3]
PARTS = {
    "rewards": {"single": {5: [0, 0, 0], 50: [0, 0.5, 1]}, "pooled": {5: [0, 1, 1], 50: [1, 1, 1]}},
    "transitions": {"single": {5: [0, 0, 0.25]}},
}


SAYS = {part: {test: {5: None, 50: 3.5} for test in curves} for part, curves in PARTS.items()}


def drawn_power():
    return draw_power(RATIOS, PARTS, SAYS, title="Power")


def test_power_shows_the_share_of_alarms_of_each_test_and_number_of_visits():
    figure = drawn_power()
    assert figure.get_suptitle() == "Power"
    assert [ax.get_title() for ax in figure.axes] == list(PARTS)
    for ax, curves in zip(figure.axes, PARTS.values(), strict=True):
        drawn = {label: line for label, line in lines(ax).items() if not label.startswith("_")}
        n_crosses = sum(50 in by_visits for by_visits in curves.values())
        crosses = [line for line in ax.lines if line.get_label().startswith("_")]
        assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in crosses] == [
            (3.5, 0.8)
        ] * n_crosses
        expected = {
            f"{test}, n = {n}" + ("" if any(shares) else " (never)"): (n, test, shares)
            for test, by_visits in curves.items()
            for n, shares in by_visits.items()
        }
        assert drawn.keys() == expected.keys()
        for label, (n, test, shares) in expected.items():
            np.testing.assert_array_equal(drawn[label].get_xdata(), RATIOS)
            np.testing.assert_array_equal(drawn[label].get_ydata(), shares)
            assert drawn[label].get_color() == POWER_COLOURS[[5, 50].index(n)]
            assert drawn[label].get_linestyle() == {"single": "--", "pooled": "-"}[test]
    drawn = [label for label in lines(figure.axes[0]) if not label.startswith("_")]
    assert legend(figure) == drawn


def test_same_shares_of_alarms_give_the_same_image():
    assert_same_bytes(drawn_power)

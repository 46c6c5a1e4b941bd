"""The figures about nearness show the values that they are given."""

import numpy as np
import pytest

from heirloom.plot.nearness import draw_claims, draw_moved_mass
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

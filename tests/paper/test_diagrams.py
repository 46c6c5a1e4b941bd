"""Figures 1 and 2 of the paper show the values that they are given."""

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.patches import Circle

from heirloom.paper.illustrations import draw_bounds, draw_embedding
from tests.plot.drawn import assert_same_bytes, legend, lines, unlabelled_lines


class TestDrawBounds:
    X = np.array([0.0, 1.0, 2.0, 3.0])
    Q = np.array([1.0, 2.0, 3.0, 3.5])
    SAMPLED = np.array([1.0, 2.0])
    SOURCES = np.array([2.0, 3.0])
    LIPSCHITZ = np.array([[4.0, 2.0, 4.5, 6.0], [8.0, 5.2, 3.0, 9.0]])
    V_MAX = 5.0

    def draw(self):
        return draw_bounds(
            self.X,
            self.Q,
            self.SAMPLED,
            self.SOURCES,
            self.LIPSCHITZ,
            self.V_MAX,
            xlabel="width (cells)",
            title="a title",
        )

    @pytest.fixture
    def ax(self):
        (ax,) = self.draw().axes
        return ax

    def test_q_star_is_drawn_over_the_parameter(self, ax):
        line = lines(ax)["Q*"]
        np.testing.assert_array_equal(line.get_xdata(), self.X)
        np.testing.assert_array_equal(line.get_ydata(), self.Q)

    def test_sampled_tasks_are_dots_at_their_q_star(self, ax):
        (dots,) = unlabelled_lines(ax)
        assert (dots.get_marker(), dots.get_linestyle()) == ("o", "None")
        np.testing.assert_array_equal(dots.get_xdata(), self.SAMPLED)
        np.testing.assert_array_equal(dots.get_ydata(), self.SOURCES)

    def test_bounds_of_rmax_and_max_q_init_are_horizontal(self, ax):
        assert set(lines(ax)["RMax: v_max"].get_ydata()) == {5.0}
        assert set(lines(ax)["MaxQInit: maximum of Q*"].get_ydata()) == {3.0}

    def test_lipschitz_bounds_are_drawn_up_to_5_percent_above_v_max(self, ax):
        first, second = (lines(ax)[f"Lipschitz bound, task {i}"] for i in (1, 2))
        np.testing.assert_array_equal(first.get_ydata(), [4.0, 2.0, 4.5, np.nan])
        np.testing.assert_array_equal(second.get_ydata(), [np.nan, 5.2, 3.0, np.nan])
        assert not same_color(first.get_color(), second.get_color())

    def test_bound_of_lrmax_is_the_smallest_and_the_band_reaches_from_q_star_to_it(self, ax):
        U = [4.0, 2.0, 3.0, 5.0]
        np.testing.assert_array_equal(lines(ax)["LRMax: smallest bound"].get_ydata(), U)
        (band,) = ax.collections
        x, y = band.get_paths()[0].vertices.T
        for i, at in enumerate(self.X):
            assert set(y[x == at]) == {self.Q[i], U[i]}

    def test_axes_and_curves_are_labelled(self):
        figure = self.draw()
        (ax,) = figure.axes
        assert ax.get_xlabel() == "width (cells)"
        assert ax.get_ylabel() == "value at one state-action pair"
        assert ax.get_title() == "a title"
        assert ax.get_ylim() == (0.0, pytest.approx(5.5))
        assert legend(figure) == [
            "RMax: v_max",
            "MaxQInit: maximum of Q*",
            "Lipschitz bound, task 1",
            "Lipschitz bound, task 2",
            "LRMax: smallest bound",
            "Q*",
        ]

    def test_same_bounds_render_the_same_bytes(self):
        assert_same_bytes(self.draw)


class TestDrawEmbedding:
    POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.4, 0.3]])
    SLIPS = np.array([0.01, 0.02, 0.05, 0.1])

    def draw(self):
        return draw_embedding(
            self.POINTS, self.SLIPS, 1.5, 19.0, label="slip probability", title="a title"
        )

    def test_dots_are_the_points_coloured_by_the_parameter(self):
        left, right, _ = self.draw().axes
        for ax in (left, right):
            (dots,) = ax.collections
            np.testing.assert_array_equal(dots.get_offsets(), self.POINTS)
            np.testing.assert_array_equal(dots.get_array(), self.SLIPS)
            assert dots.get_clim() == (0.01, 0.1)

    def test_circles_around_the_middle_task_have_the_distances_as_radii(self):
        left, right, _ = self.draw().axes
        for ax in (left, right):
            circles = [patch for patch in ax.patches if isinstance(patch, Circle)]
            assert [circle.get_radius() for circle in circles] == [19.0, 1.5]
            assert [tuple(circle.get_center()) for circle in circles] == [(0.4, 0.3)] * 2
            assert not any(circle.get_fill() for circle in circles)

    def test_left_axes_show_the_larger_circle_and_right_axes_the_smaller(self):
        left, right, _ = self.draw().axes
        for ax, reach in ((left, 1.1 * 19.0), (right, 1.3 * 1.5)):
            assert ax.get_xlim() == pytest.approx((0.4 - reach, 0.4 + reach))
            assert ax.get_ylim() == pytest.approx((0.3 - reach, 0.3 + reach))
            assert ax.get_aspect() == 1.0

    def test_axes_colour_bar_and_circles_are_labelled(self):
        figure = self.draw()
        left, right, bar = figure.axes
        for ax in (left, right):
            assert ax.get_xlabel() == "first coordinate (units of D)"
            assert ax.get_ylabel() == "second coordinate (units of D)"
        assert bar.get_ylabel() == "slip probability"
        assert bar.get_ylim() == (0.01, 0.1)
        assert figure.get_suptitle() == "a title"
        assert legend(figure) == [
            "largest possible distance, 19",
            "valid prior for these tasks, 1.50",
        ]

    def test_same_points_render_the_same_bytes(self):
        assert_same_bytes(self.draw)

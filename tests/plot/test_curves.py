"""Curves show the means and intervals that they are given, with labels, legend and markers."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import same_color, to_rgb
from scipy import stats

from heirloom.errors import InvalidArgument
from heirloom.plot.curves import (
    draw_episodes,
    draw_episodes_to_optimality,
    draw_lifelong,
    draw_prior_use,
    draw_ratios,
    draw_relative_returns,
)
from heirloom.plot.style import COLOURS, render
from heirloom.stats import Interval, student_interval
from tests.plot.drawn import (
    assert_curve,
    assert_same_bytes,
    band_of,
    legend,
    lines,
    unlabelled_lines,
)

TASKS = [1, 2, 3, 4]


@pytest.fixture
def results():
    rng = np.random.default_rng(0)
    return xr.Dataset(
        {
            "returns": (("agent", "repetition", "task", "episode"), rng.random((2, 3, 4, 5))),
            "optimal": (("repetition", "task"), rng.random((3, 4))),
        },
        coords={"agent": ["RMax", "Mine"], "task": TASKS},
    )


def intervals(*names, n=6):
    rng = np.random.default_rng(1)
    return {name: Interval(1 + rng.random(n), rng.random(n)) for name in names}


def level(ax):
    """The height of the only line without a label, which must be horizontal."""
    (line,) = unlabelled_lines(ax)
    (height,) = set(line.get_ydata())
    return height


class TestDrawLifelong:
    def test_curves_are_means_and_student_intervals_over_repetitions(self, results):
        (ax,) = draw_lifelong(results, title="a title").axes
        for name in ("RMax", "Mine"):
            per_repetition = results.returns.sel(agent=name).values.mean(axis=2)
            mean = per_repetition.mean(axis=0)
            _, high = stats.t.interval(
                0.95, df=2, loc=mean, scale=stats.sem(per_repetition, axis=0)
            )
            line = lines(ax)[name]
            assert line.get_xdata().tolist() == TASKS
            np.testing.assert_allclose(line.get_ydata(), mean)
            _, band_low, band_high = band_of(ax, line)
            np.testing.assert_allclose(band_high, high)
            np.testing.assert_allclose(band_low, 2 * mean - high)

    def test_dotted_line_is_the_mean_optimal_return(self, results):
        (ax,) = draw_lifelong(results, title="").axes
        line = lines(ax)["optimal"]
        assert line.get_linestyle() == ":"
        assert line.get_xdata().tolist() == TASKS
        np.testing.assert_allclose(line.get_ydata(), results.optimal.values.mean(axis=0))

    def test_optimal_return_is_not_drawn_if_unknown_for_a_task(self, results):
        results.optimal[1, 2] = np.nan
        figure = draw_lifelong(results, title="")
        assert legend(figure) == ["RMax", "Mine"]

    def test_axes_and_agents_are_labelled_and_marked(self, results):
        figure = draw_lifelong(results, title="a title")
        (ax,) = figure.axes
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("task", "mean return")
        assert ax.get_title() == "a title"
        assert legend(figure) == ["RMax", "Mine", "optimal"]
        assert same_color(lines(ax)["RMax"].get_color(), COLOURS["RMax"])
        assert [lines(ax)[name].get_marker() for name in ("RMax", "Mine")] == ["o", "s"]
        assert np.array_equal(ax.get_xticks(), np.round(ax.get_xticks()))

    def test_loss_is_the_paired_difference_to_the_optimal_return(self, results):
        options = {"loss": True, "xlabel": "week", "ylabel": "euros lost"}
        (ax,) = draw_lifelong(results, title="", **options).axes
        loss = results.optimal.values - results.returns.sel(agent="Mine").values.mean(axis=2)
        mean, half = student_interval(loss)
        np.testing.assert_allclose(lines(ax)["Mine"].get_ydata(), mean)
        _, low, _ = band_of(ax, lines(ax)["Mine"])
        np.testing.assert_allclose(low, mean - half)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("week", "euros lost")
        assert set(lines(ax)["optimal"].get_ydata()) == {0.0}

    def test_loss_needs_the_optimal_returns_of_all_tasks_and_no_baseline(self, results):
        with pytest.raises(InvalidArgument, match="baseline is 'RMax': expected one of them"):
            draw_lifelong(results, title="", loss=True, baseline="RMax")
        results.optimal[1, 2] = np.nan
        with pytest.raises(InvalidArgument, match="optimal return of a task is not known"):
            draw_lifelong(results, title="", loss=True)

    def test_one_repetition_has_no_bands(self, results):
        (ax,) = draw_lifelong(results.isel(repetition=[0]), title="").axes
        assert not ax.collections
        first = results.returns.values[0, 0].mean(axis=1)
        np.testing.assert_allclose(lines(ax)["RMax"].get_ydata(), first)

    def test_order_of_dimensions_does_not_matter(self, results):
        reordered = results.transpose("episode", "task", "repetition", "agent")
        (ax,), (other,) = (draw_lifelong(r, title="").axes for r in (results, reordered))
        for name, line in lines(ax).items():
            np.testing.assert_allclose(lines(other)[name].get_ydata(), line.get_ydata())

    def test_same_results_render_the_same_bytes(self, results):
        assert_same_bytes(lambda: draw_lifelong(results, title="a title"))

    def test_differences_to_a_baseline_have_paired_intervals(self, results):
        """Returns that vary between repetitions in the same way for all agents do not widen it."""
        results["returns"] = results.returns + xr.DataArray([0.0, 100.0, -50.0], dims="repetition")
        figure = draw_lifelong(results, title="", baseline="RMax")
        (ax,) = figure.axes
        assert legend(figure) == ["Mine", "optimal"]
        assert ax.get_ylabel() == "mean return, difference to RMax"
        assert level(ax) == 0.0
        rmax, mine = results.returns.values.mean(axis=3)
        interval = stats.ttest_rel(mine, rmax, axis=0).confidence_interval()
        line = lines(ax)["Mine"]
        np.testing.assert_allclose(line.get_ydata(), (mine - rmax).mean(axis=0))
        _, low, high = band_of(ax, line)
        np.testing.assert_allclose([low, high], interval)
        optimal = (results.optimal.values - rmax).mean(axis=0)
        np.testing.assert_allclose(lines(ax)["optimal"].get_ydata(), optimal)

    def test_unknown_baseline_is_refused_with_the_names_of_agents(self, results):
        with pytest.raises(InvalidArgument, match="baseline is 'RMin': expected one of RMax, Mine"):
            draw_lifelong(results, title="", baseline="RMin")


def test_curves_over_episodes_have_the_given_labels_and_positions(results):
    given = results.assign_coords(episode=[10, 20, 30, 40, 50])
    (ax,) = draw_episodes(given, title="", xlabel="patients", ylabel="deaths").axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("patients", "deaths")
    assert lines(ax)["Mine"].get_xdata().tolist() == [10, 20, 30, 40, 50]
    mean = results.returns.sel(agent="Mine").values.mean(axis=(0, 1))
    np.testing.assert_allclose(lines(ax)["Mine"].get_ydata(), mean)


@pytest.mark.parametrize("per", ["task", "episode"])
class TestDrawRelativeReturns:
    def draw(self, per, curves, **options):
        return draw_relative_returns(curves, per=per, ylabel="relative", title="a title", **options)

    def test_curves_are_the_given_intervals_numbered_from_one(self, per):
        curves = intervals("RMax", "LRMax(0.1)", "Mine")
        (ax,) = self.draw(per, curves).axes
        for name, interval in curves.items():
            assert_curve(ax, name, np.arange(1, 7), interval)

    def test_axes_and_curves_are_labelled_and_a_line_marks_the_baseline(self, per):
        figure = self.draw(per, intervals("RMax", "Mine"))
        (ax,) = figure.axes
        assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == (per, "relative", "a title")
        assert legend(figure) == ["RMax", "Mine"]
        assert level(ax) == 1.0

    def test_only_tasks_have_markers(self, per):
        (ax,) = self.draw(per, intervals("RMax", "Mine")).axes
        markers = [line.get_marker() for line in lines(ax).values()]
        assert markers == (["o", "s"] if per == "task" else ["None", "None"])

    def test_agents_have_their_colours_unless_a_style_says_otherwise(self, per):
        curves = intervals("LRMax(0.1)", "LRMax(0.1), every source")
        styles = {"LRMax(0.1), every source": {"color": "#123456", "linestyle": "--"}}
        (ax,) = self.draw(per, curves, styles=styles).axes
        plain, styled = lines(ax).values()
        assert same_color(plain.get_color(), COLOURS["LRMax(0.1)"])
        assert plain.get_linestyle() == "-"
        assert same_color(styled.get_color(), "#123456")
        assert styled.get_linestyle() == "--"
        assert_curve(ax, styled.get_label(), np.arange(1, 7), curves[styled.get_label()])

    def test_curve_without_widths_has_no_band(self, per):
        curves = intervals("RMax", "Mine")
        curves["Mine"] = curves["Mine"]._replace(half_width=np.full(6, np.nan))
        (ax,) = self.draw(per, curves).axes
        assert band_of(ax, lines(ax)["Mine"]) is None
        assert_curve(ax, "RMax", np.arange(1, 7), curves["RMax"])

    def test_same_curves_render_the_same_bytes(self, per):
        assert_same_bytes(lambda: self.draw(per, intervals("RMax", "Mine")))


class TestDrawRatios:
    X = np.array([0.0, 0.2, 0.5, 0.8, 1.0, 2.0])

    def draw(self):
        curves = intervals("ρ_Lip", "ρ_Speed-up", "ρ_Return")
        return draw_ratios(self.X, curves, xlabel="D_max", title="a title")

    def test_curves_are_the_given_ratios_in_percent(self):
        (ax,) = self.draw().axes
        for name, (mean, half) in intervals("ρ_Lip", "ρ_Speed-up", "ρ_Return").items():
            assert_curve(ax, name, self.X, Interval(100 * mean, 100 * half))

    def test_axes_and_curves_are_labelled_and_a_line_marks_no_change(self):
        figure = self.draw()
        (ax,) = figure.axes
        assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == (
            "D_max",
            "ratio (%)",
            "a title",
        )
        assert legend(figure) == ["ρ_Lip", "ρ_Speed-up", "ρ_Return"]
        assert level(ax) == 0.0
        assert len({line.get_color() for line in lines(ax).values()}) == 3
        assert len({line.get_marker() for line in lines(ax).values()}) == 3

    def test_same_ratios_render_the_same_bytes(self):
        assert_same_bytes(self.draw)


class TestDrawPriorUse:
    NAMES = ("D_max = 19", "D_max = 10", "D_max = 0")

    def draw(self):
        return draw_prior_use(intervals(*self.NAMES), title="a title")

    def test_curves_are_the_given_intervals_numbered_from_zero(self):
        """Computation 0 of the bound precedes all updates."""
        (ax,) = self.draw().axes
        for name, interval in intervals(*self.NAMES).items():
            assert_curve(ax, name, np.arange(6), interval)

    def test_axes_and_curves_are_labelled_and_shades_go_from_dark_to_light(self):
        figure = self.draw()
        (ax,) = figure.axes
        assert ax.get_xlabel() == "computation of the bound (index)"
        assert ax.get_ylabel() == "pairs where the prior is used (%)"
        assert ax.get_title() == "a title"
        assert legend(figure) == list(self.NAMES)
        brightness = [sum(to_rgb(line.get_color())) for line in lines(ax).values()]
        assert brightness == sorted(brightness)
        assert len(set(brightness)) == 3

    def test_same_curves_render_the_same_bytes(self):
        assert_same_bytes(self.draw)


class TestDrawEpisodesToOptimality:
    K = np.array([1, 2, 4])
    LRMAX = Interval(np.array([2.0, 2.0, 2.0]), np.zeros(3))
    QLEARNING = Interval(np.array([3.0, 9.0, 27.0]), np.array([0.5, 12.0, 30.0]))

    def draw(self):
        curves = {"LRMax": self.LRMAX, "QLearning": self.QLEARNING}
        return draw_episodes_to_optimality(self.K, curves, title="a title")

    def test_curves_are_the_given_means_over_k(self):
        (ax,) = self.draw().axes
        assert_curve(ax, "LRMax", self.K, self.LRMAX)
        assert lines(ax)["QLearning"].get_xdata().tolist() == [1, 2, 4]
        assert lines(ax)["QLearning"].get_ydata().tolist() == [3.0, 9.0, 27.0]

    def test_band_keeps_its_upper_limit_where_its_lower_limit_is_not_positive(self):
        """A logarithmic scale cannot show a limit of 0 or below."""
        (ax,) = self.draw().axes
        _, low, high = band_of(ax, lines(ax)["QLearning"])
        np.testing.assert_allclose(high, [3.5, 21.0, 57.0])
        assert low[0] == 2.5
        assert (low[1:] > 0).all()
        assert (low[1:] < [0.1, 0.3]).all()

    def test_axes_and_curves_are_labelled(self):
        figure = self.draw()
        (ax,) = figure.axes
        assert ax.get_xlabel() == "number of inner states k"
        assert (ax.get_ylabel(), ax.get_yscale()) == ("episodes until optimal", "log")
        assert ax.get_title() == "a title"
        assert legend(figure) == ["LRMax", "QLearning"]

    def test_same_curves_render_the_same_bytes(self):
        assert_same_bytes(self.draw)


def test_figures_of_different_data_render_different_bytes(results):
    """Otherwise comparing bytes would show nothing."""
    changed = results.copy(deep=True)
    changed.returns[0, 0, 0, 0] += 1.0
    first, second = (render(draw_lifelong(r, title=""), "png") for r in (results, changed))
    assert first != second

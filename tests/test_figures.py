"""Figures draw what they are given."""

import numpy as np
import pytest
import xarray as xr

import heirloom as hl
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import CORRIDOR, MAZE, TIGHT
from heirloom.figures import style
from heirloom.figures.curves import draw_lifelong
from heirloom.figures.maps import draw_map, draw_on_grid


@pytest.fixture
def results():
    rng = np.random.default_rng(0)
    return xr.Dataset(
        {
            "returns": (("agent", "repetition", "task", "episode"), rng.random((2, 3, 4, 5))),
            "optimal": (("repetition", "task"), np.ones((3, 4))),
        },
        coords={"agent": ["RMax", "Mine"], "task": [1, 2, 3, 4]},
    )


def test_lines_are_the_means(results):
    figure = draw_lifelong(results, title="a title")
    (ax,) = figure.axes
    lines = {line.get_label(): line for line in ax.get_lines()}
    for name in ("RMax", "Mine"):
        mean = results.returns.sel(agent=name).mean(("repetition", "episode"))
        assert lines[name].get_ydata() == pytest.approx(mean.values)
    assert lines["best possible"].get_ydata().tolist() == [1.0] * 4
    assert ax.get_title() == "a title"


def test_an_agent_has_the_same_colour_everywhere():
    assert style.colour_of("RMax", ["RMax"]) == style.colour_of("RMax", ["Mine", "RMax"])
    assert len(set(style.COLOURS.values())) == len(style.COLOURS)


def test_a_figure_is_saved_or_says_why_not(results, tmp_path):
    figure = draw_lifelong(results, title="x")
    style.save_figure(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert style.save_figure(figure, tmp_path / "y") == tmp_path / "y.png"
    assert (tmp_path / "y.png").exists()
    with pytest.raises(hl.CannotWrite, match="choose another place"):
        style.save_figure(figure, tmp_path / "x.png" / "x.png")


@pytest.mark.parametrize("layout", ["", "o", "g"])
def test_maps_are_drawn(layout):
    grid = GridMap.read(MAZE, closed=layout)
    (ax,) = draw_map(grid).axes
    assert len(ax.patches) == grid.symbols.size
    assert sorted(text.get_text() for text in ax.texts) == ["G", "S"]


def test_values_are_drawn_on_cells_and_on_pairs():
    grid = GridMap.read(TIGHT)
    for values, patches in (
        (np.arange(121.0), 121 + 121),
        (np.zeros((121, 4)), 121 + 4 * 121),
        (np.ones((121, 4), dtype=bool), 121 + 4 * 121),
    ):
        figure = draw_on_grid(grid, values, label="Q")
        assert len(figure.axes[0].patches) == patches
        assert len(figure.axes) == 2  # and a bar of colours
    darker, lighter = (
        draw_on_grid(grid, np.full(121, value), label="V", limits=(0, 1)).axes[0].patches[-1]
        for value in (0.1, 0.9)
    )
    assert sum(darker.get_facecolor()[:3]) < sum(lighter.get_facecolor()[:3])


def test_a_map_may_be_given_as_rows():
    assert draw_on_grid(["S.", ".G"], np.zeros(4), label="V").axes
    assert draw_map("S.\n.G").axes


def test_values_of_another_shape():
    with pytest.raises(hl.InvalidArgument, match=r"values have shape \(5,\): the map has 121"):
        draw_on_grid(GridMap.read(TIGHT), np.zeros(5), label="Q")


def test_options_of_a_drawing():
    grid = GridMap.read(CORRIDOR)
    with pytest.raises(hl.InvalidArgument, match="actions is"):
        draw_on_grid(grid, np.zeros((20, 2)), label="Q", actions=("left", "foo"))
    with pytest.raises(hl.InvalidArgument, match="limits is"):
        draw_on_grid(grid, np.zeros(20), label="Q", limits=(3, 1))


def test_two_actions_have_two_triangles():
    grid = GridMap.read(CORRIDOR)
    figure = draw_on_grid(grid, np.zeros((20, 2)), label="Q", actions=("left", "right"))
    assert len(figure.axes[0].patches) == 20 + 40

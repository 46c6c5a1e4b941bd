"""Maps show their cells, and values as colours on cells or on triangles."""

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import Normalize, same_color
from matplotlib.patches import Polygon, Rectangle

import heirloom as hl
from heirloom.envs.grid import GridMap
from heirloom.envs.paper_tasks import CORRIDOR, MAZE, TIGHT
from heirloom.plot.maps import CLOSABLE_COLOURS, GOAL_COLOUR, draw_map, draw_on_grid
from tests.plot.drawn import assert_same_bytes

WALL, FREE = "#404040", "white"
MAP = ("S.#", "..G")
# The states of MAP by row and column: a wall has none.
POSITIONS = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]


def cells(ax):
    """The colour of each cell of the map, by row and column; values drawn later are left out."""
    found = {}
    for patch in ax.patches:
        if isinstance(patch, Rectangle):
            assert (patch.get_width(), patch.get_height()) == (1, 1)
            found.setdefault(cell_of(patch), patch.get_facecolor())
    return found


def filled(ax, n_cells):
    """The colour of each cell that shows a value, by row and column."""
    return {cell_of(patch): patch.get_facecolor() for patch in ax.patches[n_cells:]}


def cell_of(patch):
    return round(patch.get_y() + 0.5), round(patch.get_x() + 0.5)


def triangles(ax):
    return [patch for patch in ax.patches if isinstance(patch, Polygon)]


def letters(ax):
    """The letters on the map, by row and column."""
    return {(text.get_position()[1], text.get_position()[0]): text for text in ax.texts}


class TestDrawMap:
    def test_each_cell_has_the_colour_of_its_symbol(self):
        (ax,) = draw_map(MAP).axes
        expected = {(0, 0): FREE, (0, 1): FREE, (0, 2): WALL}
        expected |= {(1, 0): FREE, (1, 1): FREE, (1, 2): GOAL_COLOUR}
        drawn = cells(ax)
        assert drawn.keys() == expected.keys()
        for cell, colour in expected.items():
            assert same_color(drawn[cell], colour), cell

    @pytest.mark.parametrize("closed", ["", "o", "g"])
    def test_closed_cells_are_walls_and_closable_cells_are_coloured_if_none_is_closed(self, closed):
        grid = GridMap.read(MAZE, closed=closed)
        (ax,) = draw_map(grid).axes
        drawn = cells(ax)
        assert len(drawn) == grid.symbols.size
        for cell, symbol in np.ndenumerate(grid.symbols):
            if symbol in "og":
                expected = CLOSABLE_COLOURS[symbol] if not closed else FREE
                expected = WALL if symbol == closed else expected
            else:
                expected = {"#": WALL, "G": GOAL_COLOUR}.get(symbol, FREE)
            assert same_color(drawn[cell], expected), cell

    def test_start_and_goals_are_lettered_in_their_cells(self):
        (ax,) = draw_map(TIGHT).axes
        drawn = {cell: text.get_text() for cell, text in letters(ax).items()}
        assert drawn == {(5, 5): "S", (0, 9): "G", (0, 10): "G", (1, 10): "G"}

    def test_first_row_is_on_top_and_all_cells_are_square(self):
        (ax,) = draw_map(MAP, title="a title").axes
        assert ax.get_xlim() == (-0.5, 2.5)
        assert ax.get_ylim() == (1.5, -0.5)
        assert ax.get_aspect() == 1.0
        assert not ax.axison
        assert ax.get_title() == "a title"

    def test_map_of_one_string_is_the_map_of_its_rows(self):
        (ax,), (other,) = draw_map("S.#\n..G").axes, draw_map(GridMap.read(MAP)).axes
        assert cells(ax) == cells(other)

    def test_same_map_renders_the_same_bytes(self):
        assert_same_bytes(lambda: draw_map(MAP, title="a title"))


class TestDrawOnGrid:
    VALUES = np.array([0.0, 1.0, 2.0, 3.0, 4.0])

    def test_cell_has_the_colour_of_the_value_of_its_state(self):
        ax, _ = draw_on_grid(MAP, self.VALUES, label="V").axes
        drawn = filled(ax, n_cells=6)
        assert list(drawn) == POSITIONS
        for cell, value in zip(POSITIONS, self.VALUES, strict=True):
            assert same_color(drawn[cell], colormaps["cividis"](value / 4)), cell
        assert same_color(cells(ax)[0, 2], WALL)

    def test_triangle_lies_on_the_side_of_its_action_and_has_the_colour_of_its_pair(self):
        values = np.arange(20.0).reshape(5, 4)
        ax, _ = draw_on_grid(MAP, values, label="Q").axes
        drawn = triangles(ax)
        assert len(drawn) == values.size
        sides = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
        for k, triangle in enumerate(drawn):
            s, a = divmod(k, 4)
            row, column = POSITIONS[s]
            corners = {tuple(corner) for corner in triangle.get_xy()}
            assert len(corners) == 3
            assert (column, row) in corners
            x, y = np.array(sorted(corners - {(column, row)})).mean(axis=0)
            side = list(sides.values())[a]
            assert (y - row, x - column) == tuple(0.5 * step for step in side)
            expected = colormaps["cividis"](values[s, a] / 19)
            assert same_color(triangle.get_facecolor(), expected)

    def test_two_actions_have_two_triangles_per_cell(self):
        values = np.tile([0.0, 1.0], (20, 1))
        figure = draw_on_grid(CORRIDOR, values, label="Q", actions=("left", "right"))
        drawn = triangles(figure.axes[0])
        assert len(drawn) == 40
        for k, triangle in enumerate(drawn):
            column, is_right = divmod(k, 2)
            others = [x for x, _ in triangle.get_xy() if x != column]
            assert set(others) == {column + 0.5 if is_right else column - 0.5}
            assert same_color(triangle.get_facecolor(), colormaps["cividis"](float(is_right)))

    def test_known_set_is_drawn_in_the_two_extreme_colours(self):
        known = np.array([[True, False, True, True]] * 5)
        ax, bar = draw_on_grid(MAP, known, label="known").axes
        for triangle, value in zip(triangles(ax), known.reshape(-1), strict=True):
            assert same_color(triangle.get_facecolor(), colormaps["cividis"](float(value)))
        assert bar.get_ylim() == (0.0, 1.0)

    @pytest.mark.parametrize(
        ("limits", "expected"),
        [
            ((None, None), (0.0, 4.0)),
            ((-4.0, None), (-4.0, 4.0)),
            ((None, 8.0), (0.0, 8.0)),
            ((1.0, 3.0), (1.0, 3.0)),
        ],
    )
    def test_limits_are_those_of_the_colours_and_of_the_colour_bar(self, limits, expected):
        ax, bar = draw_on_grid(MAP, self.VALUES, label="V", limits=limits).axes
        assert bar.get_ylim() == expected
        norm = Normalize(*expected)
        for cell, value in zip(POSITIONS, self.VALUES, strict=True):
            assert same_color(filled(ax, n_cells=6)[cell], colormaps["cividis"](norm(value)))

    def test_map_has_a_title_and_the_colour_bar_a_label(self):
        ax, bar = draw_on_grid(MAP, self.VALUES, label="V", title="a title").axes
        assert ax.get_title() == "a title"
        assert bar.get_ylabel() == "V"

    def test_state_without_a_finite_value_keeps_the_colour_of_the_map(self):
        values = self.VALUES.copy()
        values[[1, 3]] = np.nan, np.inf
        ax, bar = draw_on_grid(MAP, values, label="V").axes
        assert list(filled(ax, n_cells=6)) == [POSITIONS[s] for s in (0, 2, 4)]
        assert bar.get_ylim() == (0.0, 4.0)
        pairs = np.ones((5, 4))
        pairs[0, 0] = np.nan
        assert len(triangles(draw_on_grid(MAP, pairs, label="Q").axes[0])) == 16

    def test_letters_contrast_with_the_colour_of_their_cell(self):
        ax, _ = draw_on_grid(MAP, self.VALUES, label="V").axes
        assert letters(ax)[0, 0].get_color() == "white"  # on the darkest colour
        assert letters(ax)[1, 2].get_color() == "black"  # on the lightest colour

    def test_same_values_render_the_same_bytes(self):
        assert_same_bytes(lambda: draw_on_grid(MAP, self.VALUES, label="V"))

    def test_values_of_another_shape_are_refused(self):
        with pytest.raises(
            hl.errors.InvalidArgument,
            match=r"values has shape \(5,\): expected \(121,\) or \(121, 4\)",
        ):
            draw_on_grid(TIGHT, np.zeros(5), label="V")

    def test_unknown_actions_are_refused(self):
        with pytest.raises(
            hl.errors.InvalidArgument, match=r"actions is .*: expected names among up"
        ):
            draw_on_grid(CORRIDOR, np.zeros((20, 2)), label="Q", actions=("left", "foo"))

"""The style that all figures share: colours, bands, legends and files."""

import itertools
import os

import numpy as np
import pytest
from matplotlib.colors import same_color, to_rgb
from matplotlib.layout_engine import ConstrainedLayoutEngine

import heirloom as hl
from heirloom.plot.style import (
    COLOURS,
    OTHER_COLOURS,
    agent_style,
    colour_of,
    draw_interval,
    image_files,
    legend_below,
    new_figure,
    render,
    save_figure,
)
from heirloom.stats import Interval
from tests.plot.drawn import assert_curve, legend, lines

X = np.array([1.0, 2.0, 4.0])
INTERVAL = Interval(np.array([0.5, 0.25, -1.0]), np.array([0.125, 0.0, 2.0]))


def one_line(label="a line"):
    figure, ax = new_figure()
    draw_interval(ax, X, INTERVAL, color="#0072B2", label=label, marker="o", linestyle="--")
    return figure


def test_agent_of_the_paper_has_the_same_colour_in_every_figure():
    for name in COLOURS:
        assert colour_of(name, [name]) == colour_of(name, ["Mine", name, "Other"])
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_other_agents_have_distinct_colours_until_all_are_used():
    n = len(OTHER_COLOURS)
    names = ["RMax", *(f"agent {i}" for i in range(n + 1)), "LRMax"]
    colours = [colour_of(name, names) for name in names]
    assert len(set(colours[: n + 1])) == n + 1
    assert colours[n + 1] == colours[1]
    assert not set(OTHER_COLOURS) & set(COLOURS.values())


def test_new_figure_has_one_pair_of_axes_of_this_size_and_no_window():
    figure, ax = new_figure(5.0, 3.0)
    assert figure.axes == [ax]
    assert figure.get_size_inches().tolist() == [5.0, 3.0]
    assert figure.canvas.manager is None
    visible = {side for side, spine in ax.spines.items() if spine.get_visible()}
    assert visible == {"left", "bottom"}


def test_interval_is_drawn_as_a_line_and_a_band_of_its_colour():
    (ax,) = one_line().axes
    assert_curve(ax, "a line", X, INTERVAL)
    line = lines(ax)["a line"]
    assert same_color(line.get_color(), "#0072B2")
    assert (line.get_marker(), line.get_linestyle()) == ("o", "--")
    (band,) = ax.collections
    assert 0 < band.get_alpha() < 0.5


def test_no_band_is_drawn_where_a_width_is_missing():
    mean = np.arange(6.0)
    for half, n_parts in (([0.1, 0.1, np.nan, np.nan, 0.1, 0.1], 2), ([np.nan] * 6, 0)):
        _, ax = new_figure()
        draw_interval(ax, mean, Interval(mean, np.array(half)), color="black", label="a line")
        assert lines(ax)["a line"].get_ydata().tolist() == mean.tolist()
        assert sum(len(band.get_paths()) for band in ax.collections) == n_parts


@pytest.mark.parametrize(("length", "columns"), [(15, 4), (16, 3), (21, 3), (22, 2), (60, 2)])
def test_legend_has_fewer_columns_for_longer_labels(length, columns):
    figure, ax = new_figure()
    labels = [f"{i}" * (length if i == 2 else 3) for i in range(7)]
    for i, label in enumerate(labels):
        ax.plot([0, 1], [0, i], label=label)
    legend_below(figure)
    assert legend(figure) == labels
    figure.draw_without_rendering()
    (drawn,) = figure.legends
    n_rows = len({round(text.get_window_extent().y0) for text in drawn.get_texts()})
    assert n_rows == -(-len(labels) // columns)
    assert drawn.get_window_extent().y1 <= ax.get_tightbbox().y0


@pytest.mark.parametrize("file_format", ["png", "pdf", "svg"])
def test_same_figure_renders_the_same_bytes_at_another_time(file_format, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # Matplotlib's clock
    before = render(one_line(), file_format)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    assert render(one_line(), file_format) == before


@pytest.mark.parametrize(
    ("name", "written", "magic"),
    [
        ("x.png", "x.png", b"\x89PNG"),
        ("x", "x.png", b"\x89PNG"),
        ("new/folder/x.pdf", "new/folder/x.pdf", b"%PDF"),
        ("x.svg", "x.svg", b"<?xml"),
    ],
)
def test_saved_figure_has_the_format_of_its_extension(tmp_path, name, written, magic):
    figure = one_line()
    path = save_figure(figure, tmp_path / name)
    assert path == tmp_path / written
    assert path.read_bytes().startswith(magic)
    assert path.read_bytes() == render(figure, path.suffix[1:])


def test_saving_to_a_folder_that_cannot_be_made_raises_cannot_write(tmp_path):
    file = save_figure(one_line(), tmp_path / "x.png")
    with pytest.raises(
        hl.errors.CannotWrite, match="choose another file, in a folder that you may write to"
    ):
        save_figure(one_line(), file / "x.png")


def test_figure_that_cannot_be_written_leaves_the_old_file_as_it_was(tmp_path, monkeypatch):
    file = save_figure(one_line(), tmp_path / "x.png")
    before = file.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(hl.errors.CannotWrite, match="No space"):
        save_figure(new_figure()[0], file)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


@pytest.mark.parametrize("name", ["map.foo", "", None, 3, b"map.png"])
def test_name_that_is_no_image_file_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    figure, _ = new_figure()
    with pytest.raises(hl.errors.InvalidArgument, match=r"path is .*: expected"):
        save_figure(figure, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("figure", [None, 3, "figure"])
def test_object_that_is_no_figure_is_refused(tmp_path, figure):
    with pytest.raises(hl.errors.InvalidArgument, match=r"figure is .*: expected a Figure"):
        save_figure(figure, tmp_path / "map.png")


# Severe colour blindness as linear maps of RGB light (Machado, Oliveira and Fernandes, 2009).
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
LEAST_DIFFERENCE = 15  # in CIE L*a*b*; a difference of 2 is just noticeable


def lab(colour, vision):
    """L*a*b* of a colour as a person with this vision sees it."""
    c = np.array(to_rgb(colour))
    light = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    to_xyz = [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]
    xyz = to_xyz @ np.clip(vision @ light, 0, 1) / [0.9505, 1.0, 1.0888]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("paper", [[], ["RMax"], list(COLOURS)])
def test_20_agents_can_be_told_apart_with_any_colour_vision(vision, paper):
    names = [*paper, *(f"agent {i}" for i in range(20 - len(paper)))]
    styles = [agent_style(name, names) for name in names]
    assert len({(style.marker, style.hollow) for style in styles}) == 20
    for one, other in itertools.combinations(styles, 2):
        seen = [lab(style.colour, np.array(VISION[vision])) for style in (one, other)]
        differ = np.linalg.norm(seen[0] - seen[1]) >= LEAST_DIFFERENCE
        assert differ or one.dash != other.dash


def test_style_gives_the_options_of_a_plotted_line():
    names = [f"agent {i}" for i in range(20)]
    first, last = (agent_style(name, names) for name in (names[0], names[-1]))
    assert first.options(markers=False) == {"color": first.colour, "linestyle": "-"}
    assert "markerfacecolor" not in first.options(markers=True)
    assert last.options(markers=True)["markerfacecolor"] == "white"


def test_figure_is_laid_out_once_for_all_its_files(monkeypatch):
    laid_out = []
    execute = ConstrainedLayoutEngine.execute
    monkeypatch.setattr(
        ConstrainedLayoutEngine,
        "execute",
        lambda self, figure: (laid_out.append(figure), execute(self, figure))[1],
    )
    figure = one_line()
    files = dict(image_files(figure, "a"))
    assert list(files) == ["figures/a.png", "figures/a.pdf"]
    assert files["figures/a.png"] == render(one_line(), "png")
    assert laid_out.count(figure) == 1

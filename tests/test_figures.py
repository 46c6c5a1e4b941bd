"""Figures draw what they are given."""

import numpy as np
import pytest
import xarray as xr

import heirloom as hl
from heirloom.figures import style
from heirloom.figures.lifelong import lifelong


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
    figure = lifelong(results, title="a title")
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
    figure = lifelong(results, title="x")
    style.save(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(hl.CannotWrite, match="choose another place"):
        style.save(figure, tmp_path / "x.png" / "x.png")

"""The page of algorithms describes every registered one, and its figure shows all of them."""

import re

import numpy as np
import pytest

from heirloom.agents.algorithms import ALGORITHMS
from published import algorithm_curves
from published.drawing import draw_algorithms
from published.results import PROJECT

PAGE = (PROJECT / "docs" / "algorithms.md").read_text(encoding="utf-8")
SECTIONS = {
    text.split("\n", 1)[0]: text.split("\n", 1)[1]
    for text in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithm_has_a_paragraph_with_source_and_guarantee(name):
    assert name in SECTIONS, f"docs/algorithms.md has no section '### {name}'"
    text, *items = SECTIONS[name].split("\n- **")
    assert len(text.strip()) > 20
    assert [item.split("**")[0] for item in items[:2]] == ["Source", "Guarantee"]


@pytest.mark.parametrize(
    "name",
    ["UCOI", "LogQInit", "PTUM", "MIN-UCB-VI", "ORLC", "MoR-Max", "Median-PAC"],
)
def test_algorithm_that_is_left_out_is_named(name):
    assert name in PAGE.split("## Left out")[1]


def test_figure_has_a_panel_with_the_curve_of_each_algorithm():
    x = np.arange(1, 4)
    curves = {name: np.full(3, i / 10) for i, name in enumerate(["RMax", *"ABCDEF"])}
    figure = draw_algorithms(x, curves, baseline="RMax", title="a title")
    panels = {ax.get_title(): ax for ax in figure.axes if ax.get_visible()}
    assert list(panels) == list(curves)
    for name, ax in panels.items():
        *_, baseline, own = ax.get_lines()
        np.testing.assert_allclose(baseline.get_ydata(), curves["RMax"])
        np.testing.assert_allclose(own.get_ydata(), curves[name])


def test_transfer_shows_in_the_first_episodes_of_the_figure():
    """NearRMax with true knowledge begins near the optimum, RMax far below, and both reach it."""
    near, rmax = (
        np.mean([algorithm_curves.curve(name, i) for i in range(3)], axis=0)
        for name in ("NearRMax", "RMax")
    )
    assert near[0] > 0.9 > 0.2 > rmax[0]
    assert min(near[-5:].mean(), rmax[-5:].mean()) > 0.95

"""Quick runs of figures 1 and 2 and of the experiments of the appendix."""

import json
from pathlib import Path

import numpy as np
import pytest

import heirloom as hl
from heirloom.cli.arguments import Reproduction
from heirloom.envs.paper_tasks import heat_map
from heirloom.paper import corridor, maze, negative_transfer, prior_use, tight
from heirloom.paper.catalogue import MODULES, experiment, reproduce
from heirloom.paper.experiment import Options, reproducibility_table
from heirloom.paper.illustrations import PAIR, embed
from heirloom.paper.returns import near_names
from heirloom.runs.workers import workers


def assert_fits(figure):
    """Assert that no title or label is cut off."""
    figure.draw_without_rendering()
    width, height = figure.get_size_inches()
    drawn = figure.get_tightbbox()
    assert drawn.x0 >= 0
    assert drawn.y0 >= 0
    assert drawn.x1 <= width
    assert drawn.y1 <= height


def quick(name, folder, variant="released"):
    """Run an experiment with `quick`, check the files it writes, and return its report."""
    with workers("local", jobs=1) as compute:
        options = Options(variant, folder, quick=True, compute=compute)
        report = reproduce(name, options)
    summary = json.loads((Path(folder) / "summary.json").read_text())
    assert summary["quick"].startswith("quick run: ")
    assert summary["experiment"] == name
    for file_name, figure in report.figures.items():
        assert_fits(figure)
        for file_format, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
            written = Path(folder) / "figures" / f"{file_name}.{file_format}"
            assert written.read_bytes().startswith(magic)
    return report


def assert_second_figure_adds_near_rmax(figures, name):
    """Assert that a figure shows the agents of the paper, and a second one NearRMax too."""
    papers, everyone = (
        [text.get_text() for text in figures[key].legends[0].get_texts()]
        for key in (name, f"{name}-with-near")
    )
    assert not near_names(papers)
    assert everyone == [*papers, *near_names(everyone)]
    assert len(everyone) > len(papers)


def test_figure_1_shows_bounds_above_the_solved_q_star(tmp_path):
    report = quick("bounds-illustration", tmp_path)
    numbers = report.summary
    Q, lipschitz = np.array(numbers["Q"]), np.array(numbers["lipschitz"])
    assert (lipschitz >= Q - 1e-6).all()
    for i, width in enumerate(numbers["width"][:3]):
        assert Q[i] == pytest.approx(hl.solve(heat_map(width=width)).Q[PAIR])
    assert (lipschitz.min(axis=0) < numbers["v_max"]).any()
    (ax,) = report.figures["1"].axes
    curves = {line.get_label(): line for line in ax.get_lines()}
    np.testing.assert_array_equal(curves["Q*"].get_xdata(), numbers["width"])
    np.testing.assert_array_equal(curves["Q*"].get_ydata(), Q)
    assert set(curves["MaxQInit: maximum of Q*"].get_ydata()) == {numbers["max_q"]}
    assert ax.get_xlabel() == "width of the heat map (cells)"
    assert ax.get_title().endswith("(quick)")


def test_figure_2_shows_distances_below_the_largest_possible_one(tmp_path):
    report = quick("prior-illustration", tmp_path)
    numbers = report.summary
    distances = np.array(numbers["distances"])
    assert np.array_equal(distances, distances.T)
    assert numbers["d_max"] == distances.max() < numbers["largest_possible"] == pytest.approx(19)
    dots = report.figures["2"].axes[0].collections[0]
    np.testing.assert_array_equal(dots.get_array(), numbers["slip"])
    np.testing.assert_array_equal(dots.get_offsets(), embed(distances)[0])
    assert report.figures["2"].get_suptitle().endswith("(quick)")


def test_embedding_of_points_in_the_plane_preserves_their_distances():
    points = np.random.default_rng(0).normal(size=(7, 2))
    distances = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    embedded, stress = embed(distances)
    assert np.linalg.norm(embedded[:, None] - embedded[None, :], axis=2) == pytest.approx(distances)
    assert stress < 1e-9


@pytest.mark.parametrize("variant", ["text", "released"])
def test_max_q_init_transfers_in_the_corridor_once_it_uses_its_bound(tmp_path, variant):
    report = quick("corridor", tmp_path, variant)
    agents = report.summary["agents"]
    assert list(agents) == [a.name for a in corridor.settings(variant).agents]
    assert len(agents["RMax"]["return_vs_optimal"]) == 20
    start = {"text": 15, "released": 12}[variant]
    assert min(agents["MaxQInit"]["return_vs_rmax"][start - 1 :]) > 1.2
    numbers, family = (np.mean(agents[name]["return_vs_rmax"][1:]) for name in near_names(agents))
    assert numbers > {"text": 1.0, "released": 1.4}[variant]
    assert family > 1.7
    assert_second_figure_adds_near_rmax(report.figures, "corridor-tasks")
    assert_second_figure_adds_near_rmax(report.figures, "corridor-episodes")


@pytest.mark.slow
def test_near_rmax_approaches_the_optimum_in_the_maze(tmp_path):
    """The agents of the paper reach at most 40 % of the optimal return in these tasks."""
    report = quick("maze", tmp_path, "text")
    relative = {
        name: np.mean(numbers["return_vs_optimal"][2:])
        for name, numbers in report.summary["agents"].items()
    }
    assert relative.pop("NearRMax(family)") > 0.8
    assert max(relative.values()) < 0.4
    assert_second_figure_adds_near_rmax(report.figures, "maze")


def test_prior_is_used_less_and_less_as_the_task_is_learned(tmp_path):
    report = quick("prior-use", tmp_path)
    assert {claim.verdict for claim in report.claims} == {"undecided"}  # too few repetitions
    assert len(report.summary["percentage_of_use"]) == 5
    assert len(report.summary["percentage_of_use"][0]) == 49


def test_bisimulation_transfer_is_slower_than_lrmax(tmp_path, monkeypatch):
    monkeypatch.setattr(negative_transfer, "K", (1, 4))
    report = quick("negative-transfer", tmp_path)
    numbers = report.summary["agents"]
    assert report.summary["k"] == [1, 4]
    episodes = {name: agent["episodes_to_optimality"][1] for name, agent in numbers.items()}
    assert episodes["LRMax"] <= 5
    assert episodes["BisimulationTransfer"] > episodes["LRMax"]
    assert episodes["NearRMax(family)"] <= 5
    assert_second_figure_adds_near_rmax(report.figures, "negative-transfer")


def test_claims_about_use_and_negative_transfer_follow_from_the_numbers():
    decreasing = np.linspace(1, 0, 49)[None].repeat(80, axis=0)
    use = {19.0: 0 * decreasing, 15.0: decreasing, 10.0: decreasing**4, 0.0: 0 * decreasing + 1}
    verdicts = [claim.verdict for claim in prior_use.claims(use)]
    assert verdicts == [*["supported"] * 4, "contradicted"]
    k = (1, 2)
    growing = np.array([[3.0, 9], [3, 8], [4, 9]])
    constant = np.array([[3.0, 3.1], [3.1, 3], [3, 2.9]])
    names = ("BisimulationTransfer", "BisimulationTransfer, recursive", "LRMax", "QLearning")
    verdicts = [
        [
            claim.verdict
            for claim in negative_transfer.claims(k, dict(zip(names, numbers, strict=True)))
        ]
        for numbers in (
            (growing, constant, growing, constant),
            (growing, growing, constant, growing - 2 - constant / 10),
        )
    ]
    assert verdicts[0] == ["supported", "undecided", "contradicted", "undecided", "undecided"]
    assert verdicts[1] == ["supported"] * 5


def test_reproducibility_table_shows_sizes_samples_and_seconds():
    completed = {
        ("tight", "text"): ((tight.settings("text"),), 12.3),
        ("maze", "text"): ((maze.settings("text").with_changes(tasks=9, repetitions=2),), 3.0),
        ("prior-illustration", "both"): ((), 0.5),
    }
    table = reproducibility_table(completed, quick=False)
    assert "| tight | text | 9 | 10 | 15 | 2,000 | 10 | 3,000,000 | 12.3 |" in table
    assert "| maze | text | 7 | 2 | 9 | 100 | 15 | 27,000 | 3.0 |" in table
    assert "numpy" in table
    assert "samples per agent" in table
    assert "Quick run" not in table
    assert reproducibility_table({}, quick=True).startswith("Quick run: fewer repetitions")


def test_reproducibility_table_shows_ranges_of_sizes_and_all_samples_of_different_runs():
    runs = tight.settings("text"), maze.settings("text").with_changes(repetitions=10)
    table = reproducibility_table({("knowledge", "both"): (runs, 1.0)}, quick=False)
    sizes = "7 to 9 | 10 | 15 to 30 | 100 to 2,000 | 10 to 15"
    assert f"| knowledge | both | {sizes} | 3,450,000 | 1.0 |" in table


def test_numbers_of_samples_are_those_of_the_papers_table():
    """For the experiments that have as many repetitions as in the paper."""
    for name, samples in (("tight", 3_000_000), ("bounds", 4_000_000), ("prior-use", 600_000)):
        spec = experiment(name).settings("text")
        assert spec.repetitions * spec.tasks * spec.episodes * spec.steps == samples


@pytest.mark.parametrize("name", MODULES)
def test_registered_experiment_has_a_summary_and_a_name_on_the_command_line(name):
    assert experiment(name).summary
    assert name in {choice.value for choice in Reproduction}

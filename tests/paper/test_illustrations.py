"""Figures 1 and 2, and the experiments of the appendix, in their quick form."""

import json
from pathlib import Path

import numpy as np
import pytest

import heirloom as hl
from heirloom.cli.arguments import Reproduction
from heirloom.paper import corridor, maze, negative_transfer, prior_use, tight
from heirloom.paper.bounds_illustration import PAIR, task
from heirloom.paper.experiment import Options
from heirloom.paper.prior_illustration import embed
from heirloom.paper.registry import MODULES, experiment, reproduce
from heirloom.paper.reproducibility import reproducibility_table
from heirloom.runs.workers import workers
from heirloom.storage.location import Location


def quick(name, folder, variant="released"):
    with workers("local", jobs=1) as compute:
        options = Options(variant, Location(folder), quick=True, compute=compute)
        report = reproduce(name, options)
    summary = json.loads((Path(folder) / "summary.json").read_text())
    assert "quick look" in summary["quick"]
    assert summary["experiment"] == name
    for figure in report.figures:
        assert (Path(folder) / "figures" / f"{figure}.png").exists()
    return report


def test_figure_1_is_computed(tmp_path):
    report = quick("bounds-illustration", tmp_path)
    numbers = report.summary
    Q, lipschitz = np.array(numbers["Q"]), np.array(numbers["lipschitz"])
    assert (lipschitz >= Q - 1e-6).all()
    for i, width in enumerate(numbers["width"][:3]):
        assert Q[i] == pytest.approx(hl.solve(task(width)).Q[PAIR])
    assert (lipschitz.min(axis=0) < numbers["v_max"]).any()


def test_figure_2_is_computed(tmp_path):
    numbers = quick("prior-illustration", tmp_path).summary
    distances = np.array(numbers["distances"])
    assert np.array_equal(distances, distances.T)
    assert numbers["d_max"] == distances.max() < numbers["largest_possible"] == pytest.approx(19)


def test_an_embedding_of_points_in_the_plane_is_exact():
    points = np.random.default_rng(0).normal(size=(7, 2))
    distances = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    places, stress = embed(distances)
    assert np.linalg.norm(places[:, None] - places[None, :], axis=2) == pytest.approx(distances)
    assert stress < 1e-9


@pytest.mark.parametrize("variant", ["text", "released"])
def test_the_corridor(tmp_path, variant):
    report = quick("corridor", tmp_path, variant)
    agents = report.summary["agents"]
    assert list(agents) == [a.name for a in corridor.settings(variant).agents]
    assert len(agents["RMax"]["return_vs_optimal"]) == 20
    start = {"text": 15, "released": 12}[variant]
    assert min(agents["MaxQInit"]["return_vs_rmax"][start - 1 :]) > 1.2


def test_the_prior_is_used_less_and_less(tmp_path):
    report = quick("prior-use", tmp_path)
    assert all(claim.holds for claim in report.claims)
    assert len(report.summary["percentage_of_use"]) == 5
    assert len(report.summary["percentage_of_use"][0]) == 49


def test_negative_transfer(tmp_path, monkeypatch):
    monkeypatch.setattr(negative_transfer, "K", (1, 4))
    report = quick("negative-transfer", tmp_path)
    numbers = report.summary["agents"]
    assert report.summary["k"] == [1, 4]
    taken = {name: one["episodes_to_optimality"][1] for name, one in numbers.items()}
    assert taken["LRMax"] <= 5
    assert taken["BisimulationTransfer"] > taken["LRMax"]


def test_claims_of_use_and_of_negative_transfer_can_fail():
    falling = np.linspace(1, 0, 49)[None].repeat(3, axis=0)
    use = {19.0: 0 * falling, 15.0: falling, 10.0: falling**4, 0.0: 0 * falling + 1}
    held = {claim.statement: claim.holds for claim in prior_use.claims(use)}
    assert not held["at 10 it falls linearly"]
    assert held["a prior of 15 is used less and less"]
    k = (1, 2)
    grows, stays = np.array([[3.0, 9], [3, 8], [3, 9]]), np.array([[3.0, 3], [3, 4], [4, 3]])
    names = ("BisimulationTransfer", "BisimulationTransfer, recursive", "LRMax", "QLearning")
    claims = negative_transfer.claims(
        k, dict(zip(names, (grows, stays, grows, stays), strict=True))
    )
    assert [claim.holds for claim in claims] == [True, False, False, False, False]


def test_the_reproducibility_table():
    ran = {
        ("tight", "text"): (tight.settings("text"), 12.3),
        ("maze", "text"): (maze.settings("text").with_changes(tasks=9, repetitions=2), 3.0),
        ("prior-illustration", "both"): (None, 0.5),
    }
    table = reproducibility_table(ran, quick=False)
    assert "| tight | text | 7 | 10 | 15 | 2,000 | 10 | 3,000,000 | 12.3 |" in table
    assert "| maze | text | 6 | 2 | 9 | 100 | 15 | 27,000 | 3.0 |" in table
    assert "numpy" in table
    assert "quick look" in reproducibility_table({}, quick=True)


def test_the_papers_numbers_of_samples():
    """Those of the paper's own table, for experiments whose repetitions are the paper's."""
    for name, samples in (("tight", 3_000_000), ("bounds", 4_000_000), ("prior-use", 600_000)):
        spec = experiment(name).settings("text")
        assert spec.repetitions * spec.tasks * spec.episodes * spec.steps == samples


@pytest.mark.parametrize("name", MODULES)
def test_every_name_of_the_registry_is_an_experiment_and_a_name_of_the_command(name):
    assert experiment(name).summary
    assert name in {one.value for one in Reproduction}

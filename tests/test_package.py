"""The package as a whole: public names, lazy imports, the command, and doctests."""

import doctest
import importlib
import json
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import heirloom
from heirloom.agents.algorithms import ALGORITHMS

HEAVY = ("numba", "scipy", "gymnasium", "numpy", "rich", "typer")


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, **options
    ).stdout


def test_every_public_name_exists_and_is_documented():
    for name in heirloom.__all__:
        assert getattr(heirloom, name).__doc__, name
        assert name in dir(heirloom)
    algorithms = set(ALGORITHMS)
    assert algorithms <= set(heirloom.__all__)
    assert len(set(heirloom.__all__) - algorithms) <= 56


def test_names_of_the_design_are_public():
    names = """TabularMDP solve evaluate expected_return optimal_return model_pseudometric
    dissimilarity local_pseudometric global_pseudometric policy_v_pseudometric
    policy_q_pseudometric lipschitz_bound OptimisticAgent learn TaskMemory Nearness family_nearness
    near_bound NearModels MaxQ audit results""".split()
    assert set(names) <= set(heirloom.__all__)


def test_dev_includes_every_extra_but_icu():
    file = Path(__file__).parents[1] / "pyproject.toml"
    extras = tomllib.loads(file.read_text())["project"]["optional-dependencies"]
    (included,) = (each for each in extras["dev"] if each.startswith("heirloom-rl["))
    assert {*included[len("heirloom-rl[") : -1].split(",")} == extras.keys() - {"dev", "icu"}


def test_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="module 'heirloom' has no attribute 'rmax'"):
        _ = heirloom.rmax


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import heirloom", set()),
        ("import heirloom; heirloom.errors.InvalidTask", set()),
        ("import heirloom.cli.app", {"typer"}),
        ("import heirloom; heirloom.TabularMDP", {"numpy", "scipy"}),
    ],
)
def test_heavy_packages_are_imported_when_they_are_used(statement, allowed):
    """This keeps `import heirloom` and `heirloom --help` fast."""
    code = f"{statement}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(run("-c", code)))
    assert loaded.isdisjoint(set(HEAVY) - allowed)


def test_command_prints_help_and_version():
    assert "reproduce" in run("-m", "heirloom", "--help")
    assert run("-m", "heirloom", "--version") == f"heirloom {heirloom.__version__}\n"


MODULES = [name for _, name, _ in pkgutil.walk_packages(heirloom.__path__, "heirloom.")]


@pytest.mark.parametrize("name", [name for name in MODULES if name != "heirloom.__main__"])
def test_docstring_examples_give_the_shown_output(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0

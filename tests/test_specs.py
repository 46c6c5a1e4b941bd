"""The specs in `examples/specs` can be read, and run at a small size."""

from pathlib import Path

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.icu_sepsis import tables_path
from heirloom.experiments.spec import ExperimentSpec

SPECS = sorted((Path(__file__).parent.parent / "examples" / "specs").glob("*.toml"))
SMALL = {"tasks": 2, "episodes": 4, "repetitions": 1}


def test_every_family_from_practice_has_a_spec_named_after_it():
    families = {path.stem: ExperimentSpec.load(path).family.name for path in SPECS}
    assert families == {name: name for name in ("hospitals", "machines", "perishables", "queues")}


SLOW = {"hospitals": [pytest.mark.slow]}


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=SLOW.get(p.stem, [])) for p in SPECS]
)
def test_spec_of_an_example_runs_at_a_small_size(path, tmp_path):
    if path.stem == "hospitals" and tables_path() is None:
        pytest.skip("icu-sepsis is not installed")
    spec = ExperimentSpec.load(path).with_changes(**SMALL)
    results = hl.run(spec, tmp_path / "run", jobs=1)
    assert {"RMax", "MaxQInit", "all equal"} <= set(results.agent.values.tolist())
    assert np.isfinite(results.returns).all()

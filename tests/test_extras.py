"""Without an extra, a command says which one to install, before it computes anything."""

import sys
from types import SimpleNamespace

import pytest

import heirloom as hl
from heirloom.cli.output import print_report
from heirloom.experiments.job import check_extras
from heirloom.paper import negative_transfer
from heirloom.paper.experiment import Report
from heirloom.runs.run import run
from tests.small_run import SPEC

RECURSIVE = negative_transfer.settings().with_changes(repetitions=1, episodes=2)


@pytest.mark.parametrize("start", [check_extras, lambda spec: run(spec, "run", jobs=1)])
def test_recursive_metric_without_pot_is_refused_before_the_first_job(tmp_path, monkeypatch, start):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ot", None)
    message = r"^agent 'BisimulationTransfer, recursive': .* pip install '\.\[wasserstein\]'"
    with pytest.raises(hl.errors.InvalidArgument, match=message) as raised:
        start(RECURSIVE)
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_own_algorithm_may_have_a_recursive_ground_without_pot(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    own = SimpleNamespace(
        name="Own", algorithm="package.module:Own", options={"ground": "recursive"}
    )
    check_extras(SimpleNamespace(agents=[own]))


def test_report_without_bokeh_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh", None)
    with pytest.raises(hl.errors.InvalidArgument, match=r"pip install '\.\[report\]' in the clone"):
        hl.write_report(tmp_path, tmp_path / "report.html")


def test_reproduction_without_bokeh_ends_with_figures_and_a_line_about_the_report(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "bokeh", None)
    print_report(Report({}, [], {}, specs=[SPEC]), "small", tmp_path)
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "Bokeh" in each]
    assert "pip install '.[report]'" in line
    assert f"heirloom report {tmp_path}" in line
    assert not (tmp_path / "report.html").exists()

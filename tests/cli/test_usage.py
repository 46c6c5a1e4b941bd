"""Wrong values of options end with the usage message of the command."""

import pytest
from typer.testing import CliRunner

from heirloom.cli.app import app


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "x.toml", "--jobs", "0"], "'--jobs'"),
        (["run", "x.toml", "--jobs", "two"], "'--jobs'"),
        (["run", "x.toml", "--backend", "spark"], "'local', 'dask'"),
        (["audit", "x", "--delta", "small"], "'--delta'"),
        (["theory", "tasks", "--p-min", "x"], "'--p-min'"),
    ],
)
def test_wrong_value_is_reported_with_its_option(arguments, message):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_variant_of_an_experiment_without_variants_is_refused():
    result = CliRunner().invoke(app, ["reproduce", "prior-use", "--variant", "text"])
    assert result.exit_code == 1
    assert "error: prior-use has no variants: leave out --variant" in result.output

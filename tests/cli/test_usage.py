"""Wrong values of options are refused with the name of the option."""

import pytest
from typer.testing import CliRunner

from heirloom.cli.app import app


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "x.toml", "--jobs", "0"], "'--jobs'"),
        (["run", "x.toml", "--jobs", "two"], "'--jobs'"),
        (["run", "x.toml", "--backend", "spark"], "'spark' is not one of 'local', 'dask'"),
        (["audit", "x", "--delta", "small"], "'--delta'"),
        (["reproduce", "tigth"], "'tigth' is not one of 'tight'"),
        (["theory", "tasks", "--p-min", "x"], "'--p-min'"),
    ],
)
def test_wrong_value_is_refused_with_the_name_of_its_option(arguments, message):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_variant_of_an_experiment_without_variants_is_refused():
    result = CliRunner().invoke(app, ["reproduce", "prior-use", "--variant", "text"])
    assert result.exit_code == 1
    assert "error: prior-use has no variants: leave out --variant" in result.output

"""Messages about wrong values of options are Heirloom's own, whatever library converts values."""

import pytest
from typer.testing import CliRunner

from heirloom.cli.app import app


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "x.toml", "--jobs", "0"], "'--jobs': found '0', expected 1 or more."),
        (["run", "x.toml", "--jobs", "two"], "'--jobs': found 'two', expected a whole number."),
        (["run", "x.toml", "--jobs", "1.5"], "'--jobs': found '1.5', expected a whole number."),
        (["run", "x.toml", "--backend", "spark"], "'spark' is not one of 'local', 'dask'."),
        (["audit", "x", "--delta", "small"], "'--delta': found 'small', expected a number."),
        (["reproduce", "tigth"], "did you mean tight?"),
        (["theory", "tasks", "--p-min", "x"], "'--p-min': found 'x', expected a number."),
    ],
)
def test_wrong_value_is_named_with_what_is_expected(arguments, message):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Input should" not in result.output
    assert "Value error" not in result.output


def test_variant_of_an_experiment_without_variants_is_refused():
    result = CliRunner().invoke(app, ["reproduce", "prior-use", "--variant", "text"])
    assert result.exit_code == 1
    assert "error: prior-use has no variants: leave out --variant" in result.output

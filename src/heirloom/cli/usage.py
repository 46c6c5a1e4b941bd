"""Messages about wrong values of options and arguments, in Heirloom's own words."""

from typing import Any

import typer
from typer.core import TyperGroup

from heirloom.wording import did_you_mean


class Commands(TyperGroup):
    """A group of commands that says of a wrong value what was found and what was expected."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and reword the message of a value that typer could not convert.

        Some versions of typer convert values with pydantic, and print its messages.
        """
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            errors = getattr(error.__cause__, "errors", None)
            if errors is not None:
                error.message = _message(errors()[0])
            raise


def _message(error: dict[str, Any]) -> str:
    """Return the value that was found and what was expected."""
    found, kind, limits = f"found {error['input']!r}", error["type"], error.get("ctx", {})
    if kind.startswith("int"):
        return f"{found}, expected a whole number."
    if kind.startswith("float"):
        return f"{found}, expected a number."
    if kind == "greater_than_equal":
        return f"{found}, expected {limits['ge']} or more."
    if kind == "value_error":
        reason = str(limits["error"]).rstrip(".")
        names = reason.partition(" is not one of ")[2].replace("'", "").split(", ")
        return f"{reason}{did_you_mean(error['input'], names) or '.'}"
    return f"{found}, which is not valid."

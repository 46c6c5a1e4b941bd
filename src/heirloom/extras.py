"""Libraries that only some commands need: the extras of the installation."""

from importlib.util import find_spec

from heirloom.errors import InvalidArgument


def missing(what: str, extra: str) -> InvalidArgument:
    """Return the error of something that needs an extra, with the command that installs it."""
    return InvalidArgument(
        f"{what}, for which libraries are not installed: pip install '.[{extra}]' in the clone"
    )


def is_installed(*modules: str) -> bool:
    """Whether all these modules can be imported; nothing is imported."""
    return all(find_spec(module) is not None for module in modules)

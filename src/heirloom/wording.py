"""Words in sentences: counts ("1 pair is", "2 pairs are"), reasons, escaped and similar names."""

import difflib
from collections.abc import Iterable


def counted(n: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {_plural(noun)}"


def counted_of(n: int, total: int, noun: str) -> str:
    """Return a part of a total, such as "1 of 12 jobs"; the noun agrees with the total."""
    return f"{n:,} of {counted(total, noun)}"


def are(n: int) -> str:
    """Return the verb that agrees with a number of things."""
    return "is" if n == 1 else "are"


def were(n: int) -> str:
    """Return the verb in the past that agrees with a number of things."""
    return "was" if n == 1 else "were"


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def size_of_task(n_states: int, n_actions: int) -> str:
    """Return the size of a task, such as "4 states and 1 action"."""
    return f"{counted(n_states, 'state')} and {counted(n_actions, 'action')}"


def reason(error: BaseException) -> str:
    """Return what an error of another library says, on one line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def printable(text: object) -> str:
    r"""Return a text on one line, with control characters as escapes such as `\x1b` and `\n`.

    Terminals then show the text and do not act on it. Characters that are not printable (control
    and formatting characters, separators other than the space, lone surrogates) are escaped.
    """
    given = str(text)
    if given.isprintable():
        return given
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in given)


def for_spreadsheet(text: object) -> str:
    """Return a text for a cell of a CSV file, so that no spreadsheet program evaluates it.

    Spreadsheet programs take a text that begins with = + - @ for a formula. An apostrophe is put
    before such a text, and before one that begins with an apostrophe, so that different texts stay
    different.
    """
    shown = printable(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@", "'")) else shown


def did_you_mean(name: object, names: Iterable[str], *, similarity: float = 0.6) -> str:
    """Return a question that names the most similar of `names`; empty if none is similar."""
    by_lower = {each.lower(): each for each in names}
    close = difflib.get_close_matches(str(name)[:100].lower(), by_lower, 1, similarity)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""

"""Escaping of names that come from specs, files and users, for every place where they are shown."""


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

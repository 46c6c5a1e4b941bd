"""Let code, output and tables fit the width of the page; docs/static/heirloom.css does the rest."""

import re

from docutils import nodes
from sphinx.application import Sphinx

LONG_CODE = 15  # characters of code within a line that can be broken
LONG_LINE = 100  # characters of the longest line that a block shows without wrapping it
MANY_COLUMNS = 9
SEVERAL_COLUMNS = 7
PLUS_MINUS = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"
BREAK = re.compile(r"(?<=[_/.,(=|])(?=\w)")


def fit(app: Sphinx, doctree: nodes.document) -> None:
    """Mark what does not fit."""
    for block in doctree.findall(nodes.literal_block):
        if block.get("language") == "text" and _width(block) > LONG_LINE:
            block["classes"].append("wrapped")
    for code in doctree.findall(nodes.literal):
        if len(code.astext()) > LONG_CODE:
            _allow_breaks(code)
    for table in doctree.findall(nodes.table):
        _fit_table(table)


def _width(block: nodes.literal_block) -> int:
    return max(map(len, block.astext().splitlines()), default=0)


def _allow_breaks(code: nodes.literal) -> None:
    """Let a long name be broken after its underscores, slashes, dots and bars."""
    parts = BREAK.split(code.astext())
    code.clear()
    for i, part in enumerate(parts):
        if i:
            code += nodes.raw("", "<wbr>", format="html")
        code += nodes.Text(part)


def _fit_table(table: nodes.table) -> None:
    """Name the columns in each row of a table of text, which a narrow screen shows as a list."""
    rows = [list(row) for row in table.findall(nodes.row)]
    is_of_numbers = any("text-right" in each["classes"] for each in rows[0])
    if is_of_numbers:
        n_columns = len(rows[0])
        many = "many-columns" if n_columns >= MANY_COLUMNS else "several-columns"
        table["classes"] += [many] if n_columns >= SEVERAL_COLUMNS else []
        for text in list(table.findall(nodes.Text)):
            text.parent.replace(text, nodes.Text(text.replace(" ± ", PLUS_MINUS)))
        return
    table["classes"].append("as-list")
    names = [each.astext() for each in rows[0]]
    for row in rows[1:]:
        for name, entry in zip(names[1:], row[1:], strict=True):
            if name and entry.astext():
                label = nodes.inline("", f"{name}: ", classes=["column-name"])
                entry[0].insert(0, label)

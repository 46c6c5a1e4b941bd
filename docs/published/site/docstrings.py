"""Docstrings as Sphinx reads them.

They are written as plain text with code between backticks, so characters that have another meaning
in reStructuredText are escaped. A public name between backticks becomes a link.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from published.site.api import public_paths

CODE = re.compile(r"(``[^`]+``|`[^`]+`)")
ATTRIBUTES = ("attribute", "property", "data")
EXAMPLES = re.compile(r"(?=^\s*Examples?:$)", re.MULTILINE)  # code, left as it is
SPECIAL = re.compile(r"([*|_\\])")
ESCAPED = re.compile(r"\\([*|_\\])")


def escape(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape a docstring, in place."""
    text, *examples = EXAMPLES.split("\n".join(lines), maxsplit=1)
    parts = CODE.split(text)
    parts[::2] = [SPECIAL.sub(r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [_code(part.strip("`")) for part in parts[1::2]]
    lines[:] = _separate_indented("".join([*parts, *examples]).split("\n"))
    if what in ATTRIBUTES:
        app.heirloom_attribute = list(lines)  # type: ignore[attr-defined]


def restore(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Undo the changes of napoleon, which takes text before a colon as the type of an attribute."""
    if what in ATTRIBUTES and lines:
        lines[:] = app.heirloom_attribute  # type: ignore[attr-defined]


def _code(text: str) -> str:
    """Return code as a link if it is a public name, and literally otherwise."""
    path = public_paths().get(text.removesuffix("()").rpartition(".")[2])
    is_public = path is not None and text.removesuffix("()") in (
        *(path.rpartition(".")[2], path, path.replace("heirloom.", "hl.", 1)),
    )
    return f":obj:`~{path}`" if is_public else f"``{text}``"


def _separate_indented(lines: list[str]) -> list[str]:
    """Make indented formulas after a paragraph literal blocks, in which nothing is escaped."""
    result: list[str] = []
    is_literal = False
    for i, line in enumerate(lines):
        blank_before = i > 1 and not lines[i - 1] and bool(lines[i - 2])
        if (
            blank_before
            and line.startswith("    ")
            and not lines[i - 2].startswith(" ")
            and not result[-1]
        ):
            result += ["::", ""]
            is_literal = True
        is_literal = is_literal and (not line or line.startswith("    "))
        result.append(ESCAPED.sub(r"\1", line) if is_literal else line)
    return result


def resolve_public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """Link a class to its public name, wherever its module is."""
    target = node.get("reftarget", "")
    name = target.rsplit(".", 1)[-1]
    public = public_paths().get(name)
    if node.get("refdomain") != "py" or public is None:
        return None
    if target == public:
        return None
    return env.domains["py"].resolve_xref(
        env, node["refdoc"], app.builder, "obj", public, node, content
    )

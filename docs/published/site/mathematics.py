"""Typeset the formulas of pages and docstrings as MathML, which browsers show without a program.

A formula is code with mathematical characters: within a line between backticks, or in an indented
block. On `PAGES`, code of single letters is a formula too, such as `K` or `V >= Q`.
"""

import re
from collections.abc import Callable

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from published.site import formulas

PAGES = frozenset(
    "algorithms certificates errata glossary guarantees knowledge learn/exercises learn/prior "
    "learn/rmax nearness notation theory".split()
)
MATHEMATICAL = re.compile(
    r"[\u0300-\u036fΑ-ωāĀûÛ←↦∈√∝∞≠≤≥‖⊥⌈⁰-₟²³½¼∎]|\b[A-Za-z]\*|(?<!\w)[A-Z]_[a-z]{1,2}(?!\w)"
)
SIMPLE = re.compile(
    r"(?:(?<![A-Za-z_])(?!e-\d)(?:[A-Za-z]|SA|[A-Zvp]_(?:min|max|top)|hi|lo|max|min|TV|KL|ln|exp|span)(?!\w)'?"
    r"|\d+(?:\.\d+)?|(?<=\s)[-+<>=/]=?(?=\s)|[-(){}|·^,/]|\s"
    r"|(?:\[(?=lo|\d)|(?<=E)\[)|(?:(?<=hi)|(?<=\d)|(?<=\| \w))\])+"
)
log = logging.getLogger(__name__)


def is_formula(text: str, page: str) -> bool:
    """Whether code on a page is a formula."""
    if MATHEMATICAL.search(text):
        return True
    is_simple = page in PAGES and bool(SIMPLE.fullmatch(text))
    return is_simple and (text[0] == "[" or any(c.isalpha() for c in text))


def mark_formulas(app: Sphinx, doctree: nodes.document) -> None:
    """Replace code that is a formula by nodes of mathematics."""
    page = app.env.docname
    for node in list(doctree.findall(nodes.literal)):
        text = node.astext()
        if "xref" not in node["classes"] and is_formula(text, page):
            node.replace_self(nodes.math(text, text, after=_punctuation_after(node)))
    for block in list(doctree.findall(nodes.literal_block)):
        text = block.astext()
        is_plain = block.get("language", "none") == "none"
        if is_plain and (page in PAGES or MATHEMATICAL.search(text)):
            block.replace_self(nodes.math_block(text, text))


def _punctuation_after(node: nodes.Element) -> str:
    """Take away the punctuation that follows a node, and return it."""
    parent = node.parent
    at = parent.index(node) + 1
    if at == len(parent) or not isinstance(parent[at], nodes.Text):
        return ""
    text = parent[at].astext()
    after = re.match(r"[.,;:)]*", text)[0]  # type: ignore[index]
    parent[at] = nodes.Text(text[len(after) :])
    return after


def show_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    _show(translator, node, lambda text: formulas.inline(text, node.get("after", "")))


def show_display(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula that stands alone."""
    _show(translator, node, formulas.display)


def _show(translator: HTML5Translator, node: nodes.Element, typeset: Callable[[str], str]) -> None:
    try:
        translator.body.append(typeset(node.astext()))
    except ValueError as error:
        log.warning("%s", error, location=node)
    raise nodes.SkipNode

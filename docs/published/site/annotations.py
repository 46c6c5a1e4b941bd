"""Types in signatures as the source writes them: `ArrayLike` and `FloatArray`, not what they mean.

Sphinx shows what an alias stands for, which for arrays is a long union or a generic type.
"""

import re

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

from heirloom import arrays

ALIASES = {
    re.sub(r"~?\b(?:\w+\.)+", "", stringify_annotation(alias, "smart")): name
    for name, alias in {
        "ArrayLike": ArrayLike,
        "FloatArray": arrays.FloatArray,
        "BoolArray": arrays.BoolArray,
        "IntArray": arrays.IntArray,
    }.items()
}
TYPED = (addnodes.desc_sig_name, addnodes.desc_annotation, addnodes.desc_returns)


def shorten(app: Sphinx, doctree: nodes.document) -> None:
    """Replace what aliases stand for by their names, in all signatures of a page."""
    for signature in doctree.findall(addnodes.desc_signature):
        for node in list(signature.findall(lambda node: isinstance(node, TYPED))):
            before = node.astext()
            after = shortened(before)
            if after != before:
                node.children = []
                node += nodes.Text(after)


def shortened(text: str) -> str:
    """Return a type with the names of aliases."""
    for meaning, name in ALIASES.items():
        text = text.replace(meaning, name)
    return text

"""Types in signatures as the source writes them: `ArrayLike` and `FloatArray`, not what they mean.

Sphinx shows what an alias stands for, which for arrays is a long union or a generic type. It also
shows the whole declaration of an option, of which only the type belongs in a signature.
"""

import inspect
import re
from typing import Annotated, Any, get_args, get_origin

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature
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


def leave_out_options(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: Any
) -> tuple[str, Any] | None:
    """Return a signature with the types of its options; None if it declares none."""
    if signature is None or "Annotated[" not in signature:
        return None
    found = inspect.signature(obj)
    parameters = [p.replace(annotation=_type(p.annotation)) for p in found.parameters.values()]
    return stringify_signature(
        found.replace(parameters=parameters), unqualified_typehints=True
    ), returns


def _type(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def shorten(app: Sphinx, doctree: nodes.document) -> None:
    """Replace what aliases stand for by their names, in all signatures of a page."""
    for signature in doctree.findall(addnodes.desc_signature):
        for node in list(signature.findall(lambda node: isinstance(node, TYPED))):
            before = "".join(child.astext() for child in node)  # without the arrow of returns
            after = shortened(before)
            if after != before:
                node.children = []
                node += nodes.Text(after)


def shortened(text: str) -> str:
    """Return a type with the names of aliases."""
    for meaning, name in ALIASES.items():
        text = text.replace(meaning, name)
    return text

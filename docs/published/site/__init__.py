"""The Sphinx extension of the site: generated parts, executed tutorials, and docstrings.

A comment `<!-- generated: NAME -->` in a page is replaced by text that is generated from the code,
so that references cannot differ from what they describe. The text from the mark to
`<!-- /generated -->` is replaced too: it tells readers of the file where the generated text is.
Tutorials are executed in every build: an output that differs from the page is a warning, which
`make docs` treats as an error, and the pictures of the site are those that the build has drawn.
"""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from published import code_blocks
from published.site import (
    annotations,
    api,
    commands,
    docstrings,
    execution,
    gallery,
    layout,
    mathematics,
    pages,
    replays,
    specs,
)

GENERATED = {
    "other guides": pages.other_guides,
    "names by subject": api.names_by_subject,
    "commands": commands.reference,
    "keys of a spec": specs.keys,
    "keys of the family": specs.families,
    "keys of an agent": specs.algorithms,
    "measures": specs.measures,
    "examples": gallery.examples,
    "two agents": replays.frame,
}
MARK = re.compile(r"<!-- generated: (.+?) -->(?:\n[^<]+<!-- /generated -->)?")


def replace_marks(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace the marks of a page by generated text."""
    source[0] = MARK.sub(lambda match: GENERATED[match[1]](), source[0])


def execute_tutorials(app: Sphinx, env: BuildEnvironment, names: list[str]) -> None:
    """Execute the tutorials, compare their outputs, and keep their pictures."""
    found = {code_blocks.name_of(path): path for path in execution.executed_pages()}
    env.heirloom_pictures = (  # type: ignore[attr-defined]
        execution.execute(list(found.values())) if app.config.execute_tutorials else {}
    )


def copy_pictures(app: Sphinx, failure: Exception | None) -> None:
    """Replace the stored pictures of the built site by those that this build has drawn."""
    drawn = getattr(app.env, "heirloom_pictures", {})
    for name, data in drawn.items():
        shown = Path(app.outdir) / "_images" / name
        if failure is None and shown.exists():
            shown.write_bytes(data)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_config_value("execute_tutorials", default=True, rebuild="", types=[bool])
    app.connect("source-read", replace_marks)
    app.connect("env-before-read-docs", execute_tutorials)
    app.connect("build-finished", copy_pictures)
    app.connect("build-finished", replays.write)
    app.connect("autodoc-process-docstring", docstrings.escape, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", docstrings.restore, priority=600)  # after napoleon
    app.connect("autodoc-process-signature", annotations.leave_out_options)
    app.connect("doctree-read", annotations.shorten)
    app.connect("doctree-read", mathematics.mark_formulas, priority=400)  # before layout
    app.connect("doctree-read", layout.fit)
    app.add_html_math_renderer(
        "heirloom", (mathematics.show_inline, None), (mathematics.show_display, None)
    )
    app.connect("missing-reference", docstrings.resolve_public_name)
    return {"parallel_read_safe": False, "parallel_write_safe": True}

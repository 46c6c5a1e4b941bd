"""The gallery: each example with its description, picture and output."""

import ast
from pathlib import Path

from published import results
from published.examples import PICTURES

EXAMPLES = results.PROJECT / "examples"


def examples() -> str:
    """Return one section per example."""
    printed = results.load("examples")
    sections = [
        _section(path, printed.get(path.stem, {}).get("printed", ""))
        for path in sorted(EXAMPLES.glob("*.py"))
    ]
    return "\n\n".join(sections)


def description(path: Path) -> tuple[str, str]:
    """Return the first line of the docstring of an example, and the rest."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem
    title, _, rest = text.partition("\n\n")
    return " ".join(title.split()), rest


def _section(path: Path, printed: str) -> str:
    title, text = description(path)
    name, _, about = title.partition(":")
    about = about.strip()
    parts = [f"## {name}", f"*{about[0].upper()}{about[1:]}*" if about else "", text]
    pictures = sorted(PICTURES.glob(f"{path.stem}*.png"))
    parts += [f"![Result of {path.name}](images/examples/{each.name})" for each in pictures]
    parts.append(f"It is [examples/{path.name}](../examples/{path.name}), and prints:")
    parts.append(f"```text\n{printed.rstrip()}\n```" if printed else "")
    return "\n\n".join(part for part in parts if part)

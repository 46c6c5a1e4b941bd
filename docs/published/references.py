"""Write the reference results that Heirloom ships: `python -m published.references`.

Experiments whose runs are complete in the given folder (default: `results`) are not run again.
"""

import json
import sys
from pathlib import Path

from heirloom.choices import Variant
from heirloom.paper.catalogue import reproduce
from heirloom.paper.experiment import Options
from heirloom.paper.reference import reference_name, summarise
from published.results import PROJECT

FOLDER = PROJECT / "src" / "heirloom" / "paper" / "references"
REFERENCES: tuple[tuple[str, Variant], ...] = (
    ("tight", "released"),
    ("tight", "text"),
    ("corridor", "released"),
    ("corridor", "text"),
    ("maze", "released"),
    ("maze", "text"),
)


def write_references(root: Path) -> None:
    """Run or resume the experiments in subfolders of `root`, and write a file for each."""
    FOLDER.mkdir(exist_ok=True)
    for name, variant in REFERENCES:
        key = reference_name(name, variant)
        reproduce(name, Options(variant, root / key))
        text = json.dumps(summarise(root / key), indent=1) + "\n"
        (FOLDER / f"{key}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_references(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))

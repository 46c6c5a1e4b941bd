"""Attack Heirloom with hostile input: `python -m tests.attack NAME --count N`.

NAME is a module of this package: `files`, `specs`, `kills`, `workers`, `damage`, `links` or `many`.
Each counts its attacks and what went wrong, and exits with 1 if anything did.
"""

import importlib
import sys

if __name__ == "__main__":
    if len(sys.argv) < 2 or not sys.argv[1].isidentifier():
        sys.exit("usage: python -m tests.attack NAME --count N")
    sys.exit(importlib.import_module(f"tests.attack.{sys.argv[1]}").main(sys.argv[2:]))

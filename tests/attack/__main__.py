"""Run an attack, and print how many attempts were made and how many results were lost or wrong."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.attack import damage, kills, many

ATTACKS = {
    "kills": (kills.attack, 100),
    "damage": (damage.attack, 300),
    "many": (many.attack, 10_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("--count", type=int, help="number of attempts")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    attack, count = ATTACKS[arguments.attack]
    with tempfile.TemporaryDirectory() as folder:
        outcome = attack(Path(folder), arguments.count or count, arguments.seed)
    print(outcome)
    sys.exit(not outcome.is_good)


main()

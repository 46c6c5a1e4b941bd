"""Compute the golden run anew, print what moved, and keep it: `make golden`."""

from tests.golden import kept
from tests.golden.computed import NAMES, compute


def main() -> None:
    """Print what moved, experiment by experiment, and write the new arrays."""
    if kept.MADE_BY.exists():
        for difference in kept.differing_surroundings():
            print(f"bits may differ: {difference}")
    total = 0
    for name in NAMES:
        arrays = compute(name)
        known = (kept.ARRAYS / f"{name}.json").exists()
        moved = kept.moved(kept.read(name) if known else {}, arrays)
        total += len(moved)
        print(f"{name}: {len(moved)} of {len(arrays)} arrays moved")
        for one in moved:
            print(f"  {one}")
        kept.write(name, arrays)
    for path in kept.ARRAYS.glob("*.json"):
        if path != kept.MADE_BY and path.stem not in NAMES:
            print(f"{path.stem}: is gone")
            path.unlink()
    kept.write_surroundings()
    print("nothing moved" if total == 0 else "written; say in CHANGELOG.md what moved and why")


if __name__ == "__main__":
    main()

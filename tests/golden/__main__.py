"""Compute the golden run again, print the changes, and store it: `make golden`."""

from tests.golden import stored
from tests.golden.computed import NAMES, compute


def main() -> None:
    """Print the changed arrays of each experiment, and store the new arrays."""
    if stored.MADE_BY.exists():
        for difference in stored.differing_environment():
            print(f"bits may differ: {difference}")
    total = 0
    for name in NAMES:
        arrays = compute(name)
        exists = (stored.ARRAYS / f"{name}.json").exists()
        changes = stored.changes(stored.read(name) if exists else {}, arrays)
        total += len(changes)
        print(f"{name}: {len(changes)} of {len(arrays)} arrays changed")
        for change in changes:
            print(f"  {change}")
        stored.write(name, arrays)
    for path in stored.ARRAYS.glob("*.json"):
        if path != stored.MADE_BY and path.stem not in NAMES:
            print(f"{path.stem}: removed")
            path.unlink()
    stored.write_environment()
    print("nothing changed" if total == 0 else "written; describe the changes in CHANGELOG.md")


if __name__ == "__main__":
    main()

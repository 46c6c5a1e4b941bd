"""The command `heirloom`, which is `python -m heirloom` as well."""

import sys

from heirloom import signals


def main() -> None:
    """Run the command; Ctrl-C ends it quietly, also while it is being loaded."""
    try:
        signals.listen()
        with signals.recognised():
            from heirloom.cli.app import app

            app()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)  # noqa: T201 -- nothing was begun yet
        sys.exit(130)


if __name__ == "__main__":
    main()

"""Entry point of the command `heirloom` and of `python -m heirloom`."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m` imports from the current folder first, which may contain a random.py of the user.
    del sys.path[0]

from heirloom import signals


def main() -> None:
    """Run the command; Ctrl-C ends it without a traceback, even while modules are imported."""
    try:
        signals.install_handlers()
        with signals.restoring_interrupts():
            from heirloom.cli.app import app

            app()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)  # noqa: T201 -- the command line is not imported yet
        sys.exit(130)


if __name__ == "__main__":
    main()

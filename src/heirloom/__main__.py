"""Entry point of the command `heirloom` and of `python -m heirloom`."""

import os
import sys
from typing import NoReturn

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m` imports from the current folder first, which may contain a random.py of the user.
    del sys.path[0]

from heirloom import signals


def main() -> None:
    """Run the command; Ctrl-C ends it without a traceback, even while modules are imported."""
    try:
        signals.install_handlers()
        _check_streams()
        with signals.restoring_interrupts():
            from heirloom.cli.app import app

            app()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)  # noqa: T201 -- the command line is not imported yet
        sys.exit(130)
    except OSError:
        reason = _why_not_writable()
        if reason is None:  # the error has another cause
            raise
        _fail(
            f"standard output cannot be written ({reason}): stored results are kept; make room or "
            "redirect the output, and run the same command again"
        )


def _why_not_writable() -> str | None:
    """Write a line to standard output; return why that is not possible, or None if it is."""
    try:
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"\n")
    except OSError as error:
        # Python flushes the stream when it exits, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error.strerror
    return None


def _check_streams() -> None:
    """Exit if standard output is closed; discard messages if standard error is.

    The next file that is opened would get the descriptor of a closed stream, and other libraries
    expect that both streams exist.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
    if sys.stdout is None:
        _fail("standard output is closed: redirect it to a file, or to /dev/null to discard it")


def _fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)  # noqa: T201 -- there may be no command line yet
    sys.exit(1)


if __name__ == "__main__":
    main()

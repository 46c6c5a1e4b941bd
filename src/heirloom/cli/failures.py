"""Messages and exit statuses of commands that fail or are interrupted."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import typer

import heirloom
from heirloom import signals


@contextmanager
def clean_errors() -> Iterator[None]:
    """Print errors as one line and exit with 1; on Ctrl-C or SIGTERM, exit with 130.

    After an interruption the message says how to resume.
    """
    try:
        with signals.restoring_interrupts():
            yield
    except heirloom.errors.HeirloomError as error:
        for line in str(error).split("\n"):  # one for each mistake
            typer.echo(f"error: {line}", err=True)
        raise typer.Exit(1) from None
    except MemoryError as error:
        typer.echo(
            f"error: not enough memory ({error}): use a smaller experiment or fewer jobs", err=True
        )
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        logging.disable()  # libraries would log the work that they could not finish
        typer.echo("stopped; run the same command again to resume", err=True)
        raise typer.Exit(130) from None

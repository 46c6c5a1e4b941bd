"""What the command says when something goes wrong, or when it is stopped."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import typer

import heirloom
from heirloom import signals


@contextmanager
def clean_errors() -> Iterator[None]:
    """A mistake gets one line; Ctrl-C, or being told to end, says how to go on."""
    try:
        with signals.restoring_interrupts():
            yield
    except heirloom.HeirloomError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except MemoryError as error:
        typer.echo(f"error: there is not enough memory ({error}): make it smaller", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        logging.disable()  # what libraries were about to do, they did not
        typer.echo("stopped; the same command goes on where this one was", err=True)
        raise typer.Exit(130) from None

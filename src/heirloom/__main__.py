"""`python -m heirloom` is the command `heirloom`."""

from heirloom.cli import app

app()

"""The reference of the command line, from the commands themselves."""

from typing import Any

import typer

from heirloom.cli import app as cli
from published.tables import table


def reference() -> str:
    """Return one section per command, with its arguments and options."""
    group: Any = typer.main.get_command(cli.app)
    return "\n\n".join(_commands(group, "heirloom"))


def _commands(group: Any, name: str) -> list[str]:
    sections = []
    for short, command in group.commands.items():
        full = f"{name} {short}"
        if hasattr(command, "commands"):
            sections += _commands(command, full)
        else:
            sections.append(_section(full, command))
    return sections


def _section(name: str, command: Any) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    records = [parameter.get_help_record(context) for parameter in command.params]
    rows = [[f"`{names}`".replace("|", r"\|"), text] for names, text in filter(None, records)]
    parameters = table(["argument or option", "meaning"], rows)
    text = "\n".join(line.strip() for line in (command.help or "").splitlines())
    usage_block = f"```text\n{name} {usage}\n```"
    return "\n\n".join([f"## {name}", usage_block, text, *([parameters] if rows else [])])

"""The command `heirloom`: parse, call, print."""

from typing import Annotated

import typer

import heirloom

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def main(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Lifelong reinforcement learning, with transfer that does not hurt."""
    if version:
        typer.echo(f"heirloom {heirloom.__version__}")
        raise typer.Exit


@app.command()
def demo(
    seed: Annotated[int, typer.Option(min=0, help="Which tasks are drawn.")] = 0,
) -> None:
    """Measure how far tasks of the paper are apart, check what it says of them, and learn them."""
    from rich.console import Console
    from rich.table import Table

    from heirloom.demo import errata, lifelong, propositions, related_tasks

    tasks = related_tasks(5, seed)
    m, m_bar = tasks[:2]
    console = Console()
    console.print("Two tasks of the paper's main experiment:", m, m_bar, sep="\n  ")
    table = Table("statement", "measured", "holds")
    for finding in (*propositions(m, m_bar), *errata()):
        table.add_row(finding.statement, finding.measured, "yes" if finding.holds else "no")
    console.print(table)
    console.print("Learning five such tasks in a row (mean return, as a part of the best):")
    table = Table("agent", *(f"task {i}" for i in range(1, len(tasks) + 1)))
    for agent, parts in lifelong(tasks, seed):
        table.add_row(agent, *(f"{part:.2f}" for part in parts))
    console.print(table)

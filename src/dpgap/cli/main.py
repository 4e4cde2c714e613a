"""The command line: `dpgap top-k`, `above`, `count`, `total`, `show`, `plan`, `ledger` and more.

Engines, NumPy and Rich tables are loaded by the command that needs them, so help is fast.
"""

from typing import Annotated

import typer

from dpgap._package import __version__
from dpgap.cli.commands import CommandLine
from dpgap.cli.desk import desk
from dpgap.cli.ledger import ledger_app
from dpgap.cli.plan import plan
from dpgap.cli.proofs import audit, prove
from dpgap.cli.release import above, count, show, top_k, total
from dpgap.cli.reproduce import reproduce

app = CommandLine(name="dpgap")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"dpgap {__version__}")
        raise typer.Exit


@app.callback()
def dpgap(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version)
    ] = False,
) -> None:
    """Find the largest items of private data, and items above a threshold, with gaps."""


app.add(top_k)
app.add(above)
app.add(count)
app.add(total)
app.add(show)
app.add(plan)
app.add(desk)
app.add(prove)
app.add(audit)
app.add(reproduce)
app.add_typer(ledger_app, name="ledger")

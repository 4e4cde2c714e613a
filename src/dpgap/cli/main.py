"""The command line: `dpgap top-k`, `above`, `count`, `total`, `show`, `plan`, `ledger` and more.

Engines, NumPy and Rich tables are loaded by the command that needs them, so help is fast.
"""

from functools import partial
from typing import Annotated

import typer

from dpgap._package import __version__
from dpgap.cli.commands import CommandLine
from dpgap.cli.desk import desk
from dpgap.cli.ledger import ledger_app
from dpgap.cli.plan import PLANNED, plan
from dpgap.cli.proofs import audit, prove
from dpgap.cli.release import OPTIONS, SUMMARIES, release, show
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


for _name, _summary in SUMMARIES.items():
    app.add(partial(release, _name), *OPTIONS[_name], name=_name, help=_summary)
app.add(show)
app.add(plan, *PLANNED)
app.add(desk)
app.add(prove)
app.add(audit)
app.add(reproduce)
app.add_typer(ledger_app, name="ledger")

"""The command line: `dpgap top-k`, `above`, `count`, `total`, `show`, `plan`, `ledger` and more.

Engines, NumPy and Rich tables are loaded by the command that needs them, so that help is at hand
at once.
"""

from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from dpgap._package import __version__
from dpgap.cli.commands import CommandLine
from dpgap.cli.desk import desk
from dpgap.cli.ledger import ledger_app
from dpgap.cli.plan import PLANNED, plan
from dpgap.cli.release import OPTIONS, SUMMARIES, release, show

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
    """The largest and the above-threshold items of private data, with the gaps that come free."""


def add_later(app: typer.Typer, name: str, module: str, summary: str) -> None:
    """Add the function `name` of `module` as a command, which is loaded when it is called."""

    class Later(TyperCommand):
        """Becomes the real command as soon as it is run, asked for help or completed."""

        def make_context(self, *args: Any, **options: Any) -> Any:
            own = CommandLine(add_completion=False)
            own.add(getattr(import_module(module), name))
            return typer.main.get_command(own).make_context(*args, **options)

    app.command(name, cls=Later, help=summary)(lambda: None)


for _name, _summary in SUMMARIES.items():
    app.add(partial(release, _name), *OPTIONS[_name], name=_name, help=_summary)
app.add(show)
app.add(plan, *PLANNED)
app.add(desk)
for _name, (_module, _summary) in {
    "prove": ("proofs", "Prove every mechanism, refute the mutants; or prove your own."),
    "audit": ("proofs", "Bound ε from below by sampling: of every mechanism, or of yours."),
    "reproduce": ("reproduce", "Redraw the paper's figures and check its claims."),
}.items():
    add_later(app, _name, f"dpgap.cli.{_module}", _summary)
app.add_typer(ledger_app, name="ledger")

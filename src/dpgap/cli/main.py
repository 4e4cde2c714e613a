"""The command line: `dpgap top-k`, `above`, `count`, `total`, `show`, `plan`, `ledger` and more.

Engines, NumPy and Rich tables are loaded by the command that needs them, so that help is at hand
at once.
"""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from dpgap._package import __version__
from dpgap.cli.commands import Commands
from dpgap.cli.ledger import ledger_app
from dpgap.cli.plan import plan
from dpgap.cli.release import above, count, show, top_k, total

app = typer.Typer(name="dpgap", cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


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
            own = typer.Typer(add_completion=False)
            own.command(name)(getattr(import_module(module), name))
            return typer.main.get_command(own).make_context(*args, **options)

    app.command(name, cls=Later, help=summary)(lambda: None)


app.command("top-k")(top_k)
app.command("above")(above)
app.command("count")(count)
app.command("total")(total)
app.command("show")(show)
app.command("plan")(plan)
app.add_typer(ledger_app, name="ledger")
for _name, _module, _summary in (
    ("desk", "dpgap.cli.desk", "Serve pages where people ask about data that they cannot read."),
    ("prove", "dpgap.cli.proofs", "Prove every mechanism, refute the mutants; or prove your own."),
    (
        "audit",
        "dpgap.cli.proofs",
        "Bound ε from below by sampling: of every mechanism, or of yours.",
    ),
    ("reproduce", "dpgap.cli.reproduce", "Redraw the paper's figures and check its claims."),
):
    add_later(app, _name, _module, _summary)

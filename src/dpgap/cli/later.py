"""Commands that other parts of dpgap bring: listed in the help, loaded when they are called."""

from importlib import import_module
from importlib.util import find_spec

import typer

from dpgap.cli.errors import plainly


def add_later(app: typer.Typer, name: str, module: str, summary: str) -> None:
    """Add the function `name` of `module` as a command, if that part is installed."""
    package = module.rpartition(".")[0]
    if package and find_spec(package) is None:
        return
    rest = {"allow_extra_args": True, "ignore_unknown_options": True}

    @app.command(name, help=summary, add_help_option=False, context_settings=rest)
    def call(context: typer.Context) -> None:
        own = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        own.command()(plainly(getattr(import_module(module), name)))
        own(args=context.args, prog_name=f"dpgap {name}")

"""Commands that other parts of dpgap bring: listed in the help, loaded when they are called."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperCommand


def add_later(app: typer.Typer, name: str, module: str, summary: str) -> None:
    """Add the function `name` of `module` as a command, if that part is installed."""
    package = module.rpartition(".")[0]
    if package and find_spec(package) is None:
        return

    class Later(TyperCommand):
        """Becomes the real command as soon as it is run, asked for help or completed."""

        def make_context(self, *args: Any, **options: Any) -> Any:
            own = typer.Typer(add_completion=False)
            own.command(name)(getattr(import_module(module), name))
            return typer.main.get_command(own).make_context(*args, **options)

    app.command(name, cls=Later, help=summary)(lambda: None)

"""Errors and notes on the command line: one clear message, exit code 1, never a traceback."""

import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import typer

from dpgap.cli.streams import let_go_if_broken
from dpgap.releases.printable import printable

P = ParamSpec("P")
R = TypeVar("R")

_OURS = {"LedgerError", "BudgetExhausted", "EngineError"}  # by name: their modules load slowly


def plainly(command: Callable[P, R]) -> Callable[P, R]:
    """Turn every error of a command into one message and exit code 1."""

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> R:
        try:
            return command(*args, **options)
        except typer.Exit:
            raise
        except BrokenPipeError:
            message = ""  # whoever read us has gone; there is nobody to tell
        except Exception as error:
            message = printable(message_of(error))
        let_go_if_broken(sys.stdout)
        if message:
            typer.echo(f"dpgap: {message}", err=True)
        raise typer.Exit(1)

    return run


@contextmanager
def notes() -> Iterator[None]:
    """Say what a domain looks odd for, in one line; others' warnings might quote data."""

    def note(message: Warning | str, category: type[Warning], *_: object) -> None:
        if category.__name__ == "DomainWarning":
            typer.echo(f"dpgap: note: {printable(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = note  # type: ignore[assignment]
        yield


def message_of(error: Exception) -> str:
    """Our own words; of unforeseen errors only the kind, since theirs may quote data."""
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    if isinstance(error, ValueError | TypeError | ImportError | OSError):
        return str(error)
    if {kind.__name__ for kind in type(error).__mro__} & _OURS:
        return str(error)
    return f"something went wrong inside dpgap ({type(error).__name__})"

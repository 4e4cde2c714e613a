"""One way to fail: one line that begins with `dpgap:`, and an exit code.

The code is 1 for what was refused or went wrong, 2 for a command that was called wrongly, and 130
for one that was interrupted. There is never a traceback.
"""

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from dpgap.cli.streams import accept_any_letter, let_go_if_broken
from dpgap.releases.printable import printable

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""A command that was called wrongly. Where the class is found depends on Typer's version."""

_WORD = re.compile(r"\w+")
_SUBJECTS = re.compile(r"(\w+(, | and ))*\w+ (must|needs?)\b( \w+)?")
"""What a message is about, and what that needs."""
_ARGUMENT = re.compile(r"(?<![\w'\"./-])[a-z]+_[a-z]+(?![\w'\"./-])")
_INDENTED = "\n  "
_OURS = {
    "LedgerError",
    "BudgetExhausted",
    "AlreadyCharged",
    "EngineError",
}  # by name: their modules load slowly


class Commands(TyperGroup):
    """Commands that fail in one way, and whose output, help included, can hold any letter."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command that was asked for, and end the program."""
        accept_any_letter()
        try:
            status = super().main(*args, **options | {"standalone_mode": False})
        except UsageError as error:
            _say_usage(error)
            status = 2
        except typer.Abort:
            status = 130
        sys.exit(status or 0)

    def invoke(self, ctx: Any) -> Any:
        """Run it; turn every error but wrong usage into one line."""
        status = 1
        try:
            return super().invoke(ctx)
        except (UsageError, typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            message = ""  # whoever read us has gone; there is nobody to tell
        except KeyboardInterrupt as error:
            message, status = ": ".join(["interrupted", *map(str, error.args)]), 130
        except Exception as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            message = _with_options(message_of(error), command)
        let_go_if_broken(sys.stdout)
        if message:
            say_error(message)
        raise typer.Exit(status)


def _with_options(message: str, command: Any) -> str:
    """Arguments by the options that a command has for them: at_most is --at-most.

    Names that are words, too, are arguments where a message says of them what they must be or need.
    """
    options = {each.name: each.opts[0] for each in getattr(command, "params", ())}

    def option(found: re.Match[str]) -> str:
        name = options.get(found[0], found[0])
        return name if name.startswith("-") else found[0]

    head = _SUBJECTS.match(message)
    end = head.end() if head else 0
    return _WORD.sub(option, message[:end]) + _ARGUMENT.sub(option, message[end:])


def say_error(message: str) -> None:
    """Say what went wrong, in one line. Lines that show where are indented, so none is forged."""
    shown = _INDENTED.join(map(printable, message.split(_INDENTED)))
    typer.echo(f"dpgap: {shown}", err=True)


def _say_usage(error: Any) -> None:
    """Say what was wrong with a call, and where help is. If nothing was asked, show the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    said = " ".join(error.format_message().split()).removesuffix(".")
    command = "dpgap" if error.ctx is None else error.ctx.command_path
    say_error(f"{said[:1].lower()}{said[1:]} (see {command} --help)")


@contextmanager
def notes() -> Iterator[None]:
    """Say our own warnings in one line each. Those of other libraries might quote data."""

    def note(message: Warning | str, category: type[Warning], *_: object) -> None:
        if category.__name__ in ("DomainWarning", "UnsettledWarning"):
            say_error(f"note: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = note  # type: ignore[assignment]
        yield


def message_of(error: Exception) -> str:
    """Our own words. Of an unforeseen error only its kind: its words may quote data."""
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    if isinstance(error, ValueError | TypeError | ImportError | OSError):
        return str(error)
    if {kind.__name__ for kind in type(error).__mro__} & _OURS:
        return str(error)
    return f"something went wrong inside dpgap ({type(error).__name__})"

"""Shared code of all commands: printing, errors, and options."""

import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from dpgap.printable import printable

# --------------------------------------------------------------------------------------------------
# Printing: characters that a console cannot encode are escaped, and closed pipes are tolerated.
#
# A console may not be able to encode ε or ∞ (cp1252, for example); then they are escaped. If a pipe
# was closed or a disk was full, Python fails once more when it ends. So such a stream is redirected
# to the null device.


def say(text: str) -> None:
    """Print a whole text, or raise the error now, not when Python ends."""
    if sys.stdout is None:
        raise OSError("it is closed")
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def let_go_if_broken(stream: TextIO | None) -> None:
    """Redirect a stream to the null device if its buffer cannot be written."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


@contextmanager
def progress(
    doing: str, total: int | None = None, *, is_quiet: bool = False
) -> Iterator[Callable[..., None]]:
    """Show a progress bar on stderr, if it is a terminal; yield a function that moves the bar."""
    from rich.console import Console  # they load slowly
    from rich.progress import Progress

    console = Console(stderr=True)
    console.quiet = is_quiet or not console.is_interactive
    # On a terminal, lines are printed above the bar. A file gets them as they are.
    stdout: Any = {"redirect_stdout": os.isatty(1)}
    with Progress(console=console, transient=True, disable=console.quiet, **stdout) as bar:
        yield partial(bar.update, bar.add_task(doing, total=total))


# --------------------------------------------------------------------------------------------------
# One way to fail: one line that begins with `dpgap:`, and an exit code.
#
# The code is 1 if something was refused or failed, 2 if a command was called wrongly, and 130 if a
# command was interrupted. There is never a traceback.


UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The error for a command that was called wrongly. Its module depends on Typer's version."""

_SUBJECTS = re.compile(r"where(?=: )|(\w+(, | and | or ))*\w+ (must|needs?|has)\b( \w+)?")
"""The beginning of a message: its subject, and what the subject must be, needs or has."""
_ARGUMENT = re.compile(r"(?<![\w'\"./-])[a-z_]+(?![\w'\"./-])")
_SET = re.compile(r"(?<![\w'\"./-])([a-z_]+)=(['\"])(.*?)\2")
_INDENTED = "\n  "


class Commands(TyperGroup):
    """Commands with one function for errors; their output, including help, can hold any letter."""

    def main(self, *args: Any, **options: Any) -> Any:
        r"""Run the command that was asked for, and end the program.

        What a console has no letter for is spelt out, as in \u03b5, instead of failing.
        """
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            status = super().main(*args, **options | {"standalone_mode": False})
        except UsageError as error:
            _say_usage(error)
            status = 2
        except typer.Abort:
            status = 130
        sys.exit(status or 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; turn every error, except wrong usage, into one line."""
        try:
            return super().invoke(ctx)
        except (UsageError, typer.Exit, typer.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:
            let_go_if_broken(sys.stdout)
            if not isinstance(error, BrokenPipeError):  # the reader of the pipe is gone
                command = self.get_command(ctx, ctx.invoked_subcommand or "")
                say_error(_with_options(message_of(error), command))
            raise typer.Exit(130 if isinstance(error, KeyboardInterrupt) else 1) from None


def _with_options(message: str, command: Any) -> str:
    """The message with a command's options in place of arguments: at_most becomes --at-most.

    A name that is also a plain word is replaced only at the beginning of a message, before "must",
    "needs" or "has". Settings in Python become options: unit='row' becomes --unit row.
    """
    parameters: list[Any] = getattr(command, "params", [])
    options: dict[str, str] = {}
    for parameter in parameters:
        flag = parameter.opts[0]
        if flag.startswith("-"):
            options[parameter.name] = flag

    def with_value(match: re.Match[str]) -> str:
        if match[1] not in options:
            return match[0]
        return f"{options[match[1]]} {match[3]}"

    def named(match: re.Match[str]) -> str:
        if match.start() < end or "_" in match[0]:
            return options.get(match[0], match[0])
        return match[0]

    message = _SET.sub(with_value, message)
    subjects = _SUBJECTS.match(message)
    end = 0
    if subjects is not None:
        end = subjects.end()
    return _ARGUMENT.sub(named, message)


def say_error(message: str) -> None:
    """Print an error in one line. Further lines are indented, so no data can forge an error."""
    lines = _INDENTED.join(map(printable, message.split(_INDENTED)))
    typer.echo(f"dpgap: {lines}", err=True)


def _say_usage(error: Any) -> None:
    """Print what was wrong with a call, and how to get help. Without arguments, print the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    message = " ".join(error.format_message().split()).removesuffix(".")
    message = re.sub("^[A-Z](?=[a-z]* )", lambda first: first[0].lower(), message)
    command = "dpgap"
    if error.ctx is not None:
        command = error.ctx.command_path
    message = _with_options(message, error.ctx and error.ctx.command)
    say_error(f"{message} (see {command} --help)")


@contextmanager
def notes() -> Iterator[None]:
    """Print dpgap's warnings in one line each. Those of other libraries might quote data."""

    def note(message: Warning | str, category: type[Warning], *_: object) -> None:
        if _is_ours(category):
            say_error(f"note: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = note  # type: ignore[assignment]
        yield


def message_of(error: BaseException) -> str:
    """The message of a dpgap error; of others only the class, because messages may quote data."""
    if isinstance(error, KeyboardInterrupt):
        return ": ".join(["interrupted", *map(str, error.args)])
    if isinstance(error, OSError) and error.strerror is not None:
        if error.filename is None:
            return error.strerror
        return f"{error.strerror}: {error.filename}"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    is_plain = isinstance(error, ValueError | TypeError | ImportError | OSError)
    if is_plain or _is_ours(type(error)):
        return str(error)
    return f"something went wrong inside dpgap ({type(error).__name__})"


def _is_ours(kind: type[BaseException]) -> bool:
    """Whether it is an error or a warning of dpgap; these quote no data."""
    return kind.__module__.partition(".")[0] == "dpgap"


# --------------------------------------------------------------------------------------------------
# Commands and their options.
#
# The text in `Annotated[type, text]` is the help of an option; the option has the name of its
# parameter. A group of options is a named tuple. A command with such a group as a parameter has all
# its options, and gets them as one value.


def option(help: str, *flags: str, panel: str | None = None) -> Any:
    """An option with other names than its parameter, or with its own panel in the help."""
    return typer.Option(*flags, help=help, rich_help_panel=panel)


JSON = Annotated[bool, "Print JSON."]
PageTitle = Annotated[str | None, "The heading of the page."]
Force = Annotated[bool, "Replace files that are there already."]


class CommandLine(typer.Typer):
    """Commands by name, with one function for all errors."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, **settings
        )

    def add(
        self, command: Callable[..., None], needed: Any = "", **settings: Any
    ) -> Callable[..., None]:
        """Add a function as a command, under its own name unless `settings` state another one.

        Options in `needed` must be stated, although they have a default in a group of options.
        """
        options: list[Parameter] = []
        groups: dict[str, type[Any]] = {}
        for name, parameter in signature(command).parameters.items():
            if hasattr(parameter.annotation, "_fields"):
                groups[name] = parameter.annotation
                options += signature(parameter.annotation).parameters.values()
            else:
                options.append(parameter)

        @wraps(command)
        def flat(**values: Any) -> None:
            for name, group in groups.items():
                of_group = {field: values.pop(field) for field in group._fields}
                values[name] = group(**of_group)
            command(**values)

        options = [_as_option(option, is_needed=option.name == needed) for option in options]
        flat.__signature__ = signature(command).replace(parameters=options)  # type: ignore[attr-defined]
        flat.__annotations__ = {option.name: option.annotation for option in options}
        flat.__annotations__["return"] = None
        del flat.__wrapped__
        self.command(**settings)(flat)
        return command


def _as_option(parameter: Parameter, *, is_needed: bool) -> Parameter:
    """A parameter for Typer. A flag that is off by default has no opposite such as --no-json."""
    hint = parameter.annotation
    text = getattr(hint, "__metadata__", (None,))[0]
    if isinstance(text, str):
        flags = [f"--{parameter.name}"] if parameter.default is False else []
        hint = Annotated[hint.__origin__, option(text, *flags)]
    default = Parameter.empty if is_needed else parameter.default
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hint, default=default)

"""`dpgap prove package.module:Mechanism` and `dpgap audit package.module:function`: other people's.

What is named is imported as `python -m` would: the current directory comes first. The last line
sums up. The exit code is 1 if it is refuted or rejected.
"""

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from dpgap.cli.errors import UsageError

Epsilon = Annotated[str | None, typer.Option(help="What is claimed, unless it says so itself.")]
Sensitivity = Annotated[str | None, typer.Option(help="How far one answer can move.  [default: 1]")]


class Claimed(NamedTuple):
    """What to prove of a mechanism that is named by its module."""

    n: Annotated[int, typer.Option("-n", help="For how many answers.")] = 3
    epsilon: Epsilon = None
    sensitivity: Sensitivity = None
    ties: Annotated[bool, typer.Option("--ties", help="Noise is on a grid: ties count.")] = False


class Audited(NamedTuple):
    """How to audit a function that is named by its module."""

    epsilon: Epsilon = None
    delta: Annotated[str, typer.Option(help="The δ that is claimed beside ε.")] = "0"
    samples: Annotated[int, typer.Option(help="How many calls in all.")] = 100_000
    level: Annotated[float, typer.Option(help="How often to reject what is private.")] = 1e-3
    sensitivity: Sensitivity = None
    monotonic: Annotated[
        bool, typer.Option("--monotonic", help="All answers move one way together.")
    ] = False
    reach: Annotated[
        int | None, typer.Option(help="How many sensitivities all answers together can move.")
    ] = None
    batch: Annotated[
        bool, typer.Option("--batch", help="It is called with answers and a number of runs.")
    ] = False
    bits: Annotated[bool, typer.Option(help="Look at the lowest bits of floats, too.")] = True


def is_address(name: str | None, options: NamedTuple) -> bool:
    """Whether a name is that of other people's; the options are for those alone."""
    if name is not None and ":" in name:
        return True
    for option, value in options._asdict().items():
        if value != options._field_defaults[option]:
            shown = f"-{option}" if len(option) == 1 else f"--{option}"
            raise UsageError(f"{shown} is for what is named as package.module:name")
    return False


def prove_addressed(address: str, claimed: Claimed, as_json: bool) -> None:
    """Prove or refute the mechanism at an address."""
    from dpgap.proof import Stepwise, prove, prove_every

    mechanism = _made(address)
    with _progress("Proving", None, as_json):
        if isinstance(mechanism, Stepwise):
            proof, many = prove_every(mechanism, ties=claimed.ties), "every n"
        else:
            proof = prove(mechanism, **claimed._asdict())
            many = f"n = {claimed.n}"
    summary = {"address": address, "n": many, "verdict": proof.verdict, "reason": proof.reason}
    typer.echo(json.dumps(summary) if as_json else f"{proof}\n{address}: {proof.verdict}, {many}")
    raise typer.Exit(int(proof.verdict == "REFUTED"))


def audit_addressed(address: str, audited: Audited, as_json: bool) -> None:
    """Audit the function at an address."""
    from dpgap.proof import audit

    function = _at(address)
    if isinstance(function, type) or hasattr(function, "run"):
        function = _made(address)
    elif not callable(function):
        raise UsageError(f"{address} is not callable: it is of type {type(function).__name__}")
    if audited.epsilon is None and not hasattr(function, "epsilon"):
        raise UsageError("--epsilon must be given: what does the function claim?")
    with _progress("Auditing", audited.samples, as_json) as advance:
        try:
            result = audit(function, **audited._asdict(), progress=advance)
        except (TypeError, ValueError) as error:  # nothing was audited
            raise UsageError(str(error)) from None
    if as_json:
        found = asdict(result) | {"address": address, "rejected": result.rejected}
        typer.echo(json.dumps(found, default=str))
    else:
        typer.echo(f"{result}\n{address}: {'REJECTED' if result.rejected else 'not rejected'}")
    raise typer.Exit(int(result.rejected))


def _at(address: str) -> Any:
    """What has this address."""
    module_name, _, path = address.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        thing: Any = import_module(module_name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            raise UsageError(f"there is no module {missing!r}") from None
        why = type(error).__name__ if missing is None else f"there is no module {missing!r}"
        raise ImportError(f"{module_name} cannot be imported: {why}") from None
    for name in path.split("."):
        if not hasattr(thing, name):
            raise UsageError(f"{module_name} has no {path!r}")
        thing = getattr(thing, name)
    return thing


def _made(address: str) -> Any:
    """The mechanism at an address. A class, or a function without parameters, is called."""
    thing = _at(address)
    is_maker = isinstance(thing, type) or (inspect.isfunction(thing) and not _parameters(thing))
    if not is_maker:
        return thing
    if _parameters(thing):
        raise UsageError(f"{address} needs arguments: name a value, or a function without any")
    return thing()


def _parameters(function: Any) -> list[str]:
    """The parameters that a call must give."""
    all_of_them = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in all_of_them if p.default is p.empty and p.kind not in kinds]


@contextmanager
def _progress(doing: str, total: int | None, is_quiet: bool) -> Iterator[Callable[[int], object]]:
    """A bar and a clock on the error stream, from the first moment on."""
    columns = (TextColumn(doing), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=is_quiet) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, completed=done)

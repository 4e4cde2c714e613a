"""A user's own mechanism or function, found by its address, such as `package.module:name`.

The user's code is public, so its errors are shown in full, with their place in the user's files.
"""

import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any


class AddressError(ValueError):
    """There is nothing at an address that could be proved or audited."""


def _found_at(address: str) -> Any:
    """The object at an address such as package.module:name."""
    module_name, _, path = address.partition(":")
    if not module_name or module_name.endswith(".py"):
        named = module_name.removesuffix(".py") or "mine"
        raise AddressError(f"write {named}:{path or 'Name'}, for a name in the file {named}.py")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    with _users_errors(f"{module_name} cannot be imported"):
        module = import_module(module_name)
    try:
        return attrgetter(path)(module)
    except AttributeError:
        raise AddressError(f"{module_name} has no {path!r}") from None


def made_at(address: str) -> Any:
    """The mechanism at an address. A class, or a function without parameters, is called."""
    target = _found_at(address)
    if not (isinstance(target, type) or inspect.isfunction(target)):
        return target
    try:
        inspect.signature(target).bind()
    except TypeError:
        if not isinstance(target, type):  # it makes a mechanism from unknown parameters
            return target
        module, _, name = address.partition(":")
        advice = f"add 'own = {name}(2)' to {module}.py, and name {module}:own"
        raise AddressError(f"{address} needs arguments: {advice}") from None
    with _users_errors(f"{address} could not be made"):
        return target()


def function_at(address: str) -> Any:
    """What an audit calls: the function at an address, or a mechanism."""
    target = _found_at(address)
    if isinstance(target, type) or hasattr(target, "run"):
        return made_at(address)
    if not callable(target):
        raise AddressError(f"{address} is not callable: it is of type {type(target).__name__}")
    return target


_LIBRARIES = "<", sys.prefix, sys.base_prefix, str(Path(__file__).parents[1])


@contextmanager
def _users_errors(failure: str) -> Iterator[None]:
    """Report an error in the user's code, which is public, and its place in the user's files."""
    try:
        yield
    except Exception as error:
        location = _location_in_users_files(error)
        raise AddressError(f"{failure}: {type(error).__name__}: {error}{location}") from None


def _location_in_users_files(error: Exception) -> str:
    """The last of the user's lines that the error went through, in parentheses, if there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    users_frames = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    if not users_frames:
        return ""
    last = users_frames[-1]
    return f" ({Path(last.filename).name}, line {last.lineno})"


def sample_of(address: str, target: Any) -> Any:
    """The mechanism, or one of its family: a function may make it from unknown parameters."""
    if callable(target) and not hasattr(target, "run"):
        maker = f"{address} must make a mechanism from unknown parameters, or use 'dpgap audit'"
        with _users_errors(maker):
            target = target(lambda name: Fraction(1))
    missing = [name for name in ("run", "align") if not callable(getattr(target, name, None))]
    if missing:
        problem = "is not a mechanism" if "run" in missing else "has no method align"
        raise AddressError(
            f"{address} {problem}: name a class or a value with run(answers, noise), "
            "align(answers, neighbour, noise, output) and epsilon; for a plain function there is "
            "'dpgap audit'"
        )
    return target

"""Errors that carry nothing private away.

Engines quote rows in their error messages. None of those passes through: `quietly` answers in words
of our own.

An exception also holds the frames that it went through, and a frame holds its variables. Error
trackers log errors with their variables, and would log private answers. So everything that takes
answers empties the frames of its errors before they reach the caller. Which lines failed can still
be read. Frames of the caller, and errors that the caller was handling, are left as they are.
"""

import functools
import sys
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

UNREADABLE = (
    "table could not be read: the engine that holds it refused or was stopped; nothing was charged"
)

_LET_THROUGH = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""Errors that no engine makes."""


def quietly(
    action: Callable[[], _Result], otherwise: str, error: type[Exception] = ValueError
) -> _Result:
    """What `action` gives, or an error that says `otherwise` and nothing of the engine's."""
    try:
        return action()
    except _LET_THROUGH:
        raise
    except BaseException:  # what it says may quote a row; Polars panics outside Exception
        pass
    raise error(otherwise) from None


def errors_without_answers(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """The same function, whose errors hold nothing that it was given or worked with."""

    @functools.wraps(function)
    def call(*given: _Given.args, **named: _Given.kwargs) -> _Result:
        handled = sys.exception()
        try:
            return function(*given, **named)
        except BaseException as error:
            del given, named
            _empty_frames(error, handled)
            raise

    return call


def _empty_frames(error: BaseException, handled: BaseException | None) -> None:
    """Empty all frames below the caller's, of the error and of those that led to it."""
    waiting, done = [error], {id(handled)}
    while waiting:
        each = waiting.pop()
        if id(each) in done:
            continue
        done.add(id(each))
        traceback.clear_frames(each.__traceback__)  # leaves alone those that still run
        waiting += [led for led in (each.__cause__, each.__context__) if led is not None]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions

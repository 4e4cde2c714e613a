"""Run somebody's program without hanging on it or being confused by its errors."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from dpgap.proof.checker.numbers import BadNoise, BadProgram, Violation


class Stop(Exception):  # noqa: N818 - not a fault: passes through the program under proof
    """Raised through the program to leave it; never shown."""


@contextmanager
def guarded(what: str, seconds: float) -> Iterator[None]:
    """Run a part of the program. If it fails or never stops, a `BadProgram` says so."""
    try:
        with _deadline(f"{what} never stops: it was still running after {seconds:g} s", seconds):
            yield
    except (BadNoise, BadProgram, Violation, Stop):
        raise
    except RecursionError:
        raise BadProgram(f"{what} never stops: it calls itself without end") from None
    except Exception as error:
        raise BadProgram(f"{what} failed: {type(error).__name__}: {error}") from error


@contextmanager
def _deadline(message: str, seconds: float) -> Iterator[None]:
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
        return (yield from _by_signal(message, seconds))
    return (yield from _by_trace(message, seconds))


def _by_signal(message: str, seconds: float) -> Iterator[None]:
    armed = True

    def ring(_signal: int, _frame: FrameType | None) -> None:
        if armed:
            raise BadProgram(message)

    before = signal.signal(signal.SIGALRM, ring)
    rest, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, rest)
        signal.signal(signal.SIGALRM, before)


def _by_trace(message: str, seconds: float) -> Iterator[None]:
    """Other threads get no signals; there, look at the clock on every line."""
    end = time.monotonic() + seconds

    def look(_frame: FrameType, _event: str, _argument: Any) -> Any:
        if time.monotonic() > end:
            raise BadProgram(message)
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)

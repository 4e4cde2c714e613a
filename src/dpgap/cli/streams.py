"""What the command line prints: no letter stops it, and a stream that is gone is let go.

A console may know neither ε nor ∞, as cp1252 does; what it lacks is spelled out. Python fails once
more at its end if a pipe was closed or a disk was full, so such a stream leads nowhere afterwards.
"""

import io
import os
import sys
from contextlib import suppress
from typing import TextIO


def accept_any_letter() -> None:
    r"""Spell out what a console has no letter for, as in \u03b5, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Print a whole text, or fail now rather than when Python ends."""
    if sys.stdout is None:
        raise OSError("it is closed")
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def let_go_if_broken(stream: TextIO | None) -> None:
    """Lead a stream nowhere if it cannot take what is still waiting for it."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)

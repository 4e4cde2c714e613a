"""Words never cost a release: what cannot be said, tabulated or drawn is left out.

A release is paid for before anything is made of it. An archive keeps what was drawn, and nothing
that follows from it (`Release.to_archive`). Every sentence, row and picture is made afterwards, and
through `attempted`: if one cannot be made, the others are shown all the same. The log gets the kind
of the part and the kind of the error, never a value.
"""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

_log = logging.getLogger("dpgap.words")


def attempted(part: str, make: Callable[[], T], otherwise: T) -> T:
    """A part of what is shown; `otherwise` where it cannot be made.

    >>> attempted("half", lambda: 1 / 2, 0.0)
    0.5
    """
    try:
        return make()
    except Exception as error:
        _log.error("%s is left out: %s", part, type(error).__name__)
        return otherwise


def sentences(part: str, make: Callable[[], Iterable[str]]) -> tuple[str, ...]:
    """Some sentences, or some pieces of a page; none where one of them cannot be made."""
    return attempted(part, lambda: tuple(make()), ())

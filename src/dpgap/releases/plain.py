"""How values and numbers of any kind are written as plain text and JSON.

Nothing here knows what a release is. Exact numbers are written exactly. A part that cannot be
written is left out: it must not stop a release that is paid.
"""

import errno
import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dpgap.exact.parameters import exact_text, readable
from dpgap.printable import DocumentError

# --------------------------------------------------------------------------------------------------
# Answers, plans and cells as plain values: dictionaries, lists, numbers and text, as in JSON.
#
# Exact fractions become text such as "7/10". Numbers that JSON lacks (infinity, NaN) and labels of
# other kinds (dates, bytes) become text too.


def plain(value: Any) -> Any:
    """The value as JSON can hold it.

    >>> plain((Fraction(7, 10), np.int64(3), None))
    ['7/10', 3, None]
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)  # as a number it would be nanoseconds
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return spelt(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(each) for name, each in zip(value._fields, value, strict=True)}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        own = {each.name: plain(getattr(value, each.name)) for each in fields(value)}
        return {"kind": type(value).__name__, **own}
    return exact_text(value) if isinstance(value, Fraction) else str(value)


# --------------------------------------------------------------------------------------------------
# Numbers of a release as text and as JSON: exact ones, and the nearest that JSON has.


_MOST_LETTERS = 20_000
_EXACT = re.compile(r"-?[0-9]+(/[0-9]+)?|-?0x[0-9a-f]+/0x[0-9a-f]+")
_WORDS = "none one two three four five six seven eight nine ten".split()


def exact_value(text: str) -> Fraction:
    """The number that `exact_text` wrote.

    >>> exact_value("7/10")
    Fraction(7, 10)
    """
    if len(text) > _MOST_LETTERS:
        raise DocumentError(f"a number has more than {_MOST_LETTERS:,} letters")
    if not _EXACT.fullmatch(text):
        raise DocumentError(f"{text[:40]!r} is not an exact number such as '7/10'")
    base = 16 if "x" in text else 10
    over, _, under = text.partition("/")
    try:
        return Fraction(int(over, base), int(under or "1", base))
    except (ValueError, ZeroDivisionError):
        raise DocumentError(f"{text[:40]!r} is not a number, or has too many digits") from None


def separated(value: Fraction) -> str:
    """A number for people; a whole one has separators between thousands.

    >>> separated(Fraction(2001, 2)), separated(Fraction(10**7)), separated(Fraction(2, 3))
    ('1000.5', '10,000,000', '2/3')
    """
    return f"{int(value):,}" if value.denominator == 1 else readable(value)


def in_words(number: int) -> str:
    """A number as a word, up to ten.

    >>> in_words(3), in_words(1200)
    ('three', '1,200')
    """
    return _WORDS[number] if number < len(_WORDS) else f"{number:,}"


def ranks_in_words(ranks: Sequence[int]) -> str:
    """Ranks in words, with runs such as 5 to 7.

    >>> ranks_in_words([3]), ranks_in_words([1, 2, 5, 6, 7, 9])
    ('rank 3', 'ranks 1, 2, 5 to 7 and 9')
    """
    runs = np.split(np.array(ranks), np.flatnonzero(np.diff(ranks) > 1) + 1)
    words: list[str] = []
    for run in runs:
        words += map(str, run) if run.size < 3 else [f"{run[0]} to {run[-1]}"]
    several = f"{', '.join(words[:-1])} and " if words[1:] else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {several}{words[-1]}"


def number(value: Fraction) -> int | float:
    """The nearest number that JSON has; a whole one where floats end."""
    try:
        return int(value) if value.denominator == 1 else float(value)
    except OverflowError:
        return round(value)


# --------------------------------------------------------------------------------------------------
# Words never cost a release: a sentence, row or picture that cannot be made is left out.
#
# A release is paid for before anything is made of it. An archive keeps only what was drawn
# (`Release.to_archive`). Every sentence, row and picture is made afterwards, by `attempted`: if one
# cannot be made, the others are shown all the same. The log gets the kind of the part and the kind
# of the error, never a value.


T = TypeVar("T")
U = TypeVar("U")

_log = logging.getLogger("dpgap.words")


def attempted(part: str, otherwise: U, make: Callable[..., T], *given: Any) -> T | U:
    """Make a part of the output; if this fails, log its name and return `otherwise`.

    >>> attempted("length", 0, len, "fig")
    3
    """
    try:
        return make(*given)
    except Exception as error:
        _log.error("%s is left out: %s", part, type(error).__name__)
        return otherwise


# --------------------------------------------------------------------------------------------------


def returned_or_written(text: str, path: str | PathLike[str] | None) -> str:
    """Return the text, or write it to a file and return the path. Every error names the file."""
    if path is None:
        return text
    try:
        Path(path).write_bytes(text.encode())
    except (OSError, ValueError) as error:
        number, why = getattr(error, "errno", errno.EINVAL), getattr(error, "strerror", str(error))
        raise OSError(number, why, str(path)) from None
    return str(path)


# --------------------------------------------------------------------------------------------------
# JSON that may come from anybody: read within bounds, and written as plain ASCII.
#
# Text that is read has at most `MOST` letters, and a bounded number of lists and objects, which
# take most memory. It may not have a key twice, NaN, infinity, or a number that floats cannot hold.
# Python itself limits the depth of lists within lists.


MOST = 1 << 26
_MOST_BRACKETS = 1 << 22


def parsed(text: str | bytes, is_ours: bool = False) -> dict[str, Any]:
    """The object in a text of JSON; a text that dpgap wrote itself may have any length."""
    if not isinstance(text, str | bytes | bytearray):
        raise TypeError(f"text must be str or bytes, not {type(text).__name__}")
    if len(text) > MOST and not is_ours:
        raise DocumentError(f"this is too long for a release: more than {MOST >> 20} MiB")
    try:
        letters = (text if isinstance(text, str) else str(text, "utf-8")).removeprefix("\ufeff")
        if letters.count("[") + letters.count("{") > _MOST_BRACKETS and not is_ours:
            raise DocumentError("this has too many lists or objects for a release")
        found = json.loads(
            letters, object_pairs_hook=_object, parse_float=_float, parse_constant=_float
        )
        if not is_ours:
            json.dumps(found, ensure_ascii=False).encode()
    except DocumentError:
        raise
    except UnicodeEncodeError:
        raise DocumentError("a text has half a character (a lone surrogate)") from None
    except json.JSONDecodeError as error:
        why = f"{error.msg} in line {error.lineno}, column {error.colno}"
        if isinstance(text, str) and "{" not in text:
            why += ": pass the text of the file, as in read_release(Path('top.json').read_text())"
        raise DocumentError(f"this is not JSON: {why}") from None
    except UnicodeDecodeError:
        raise DocumentError("this is not text in UTF-8") from None
    except RecursionError:
        raise DocumentError("this has too many lists or objects within each other") from None
    except ValueError:  # Python reads whole numbers of up to 4,300 digits
        raise DocumentError("a number has too many digits") from None
    if not isinstance(found, dict):
        raise DocumentError("this is not a release: a release is an object of JSON")
    return found


def spelt(text: object) -> str:
    r"""The text; half a surrogate, which is no character, is spelt out.

    >>> print(spelt("fig\ud800"))
    fig\ud800
    """
    return str(text).encode(errors="backslashreplace").decode()


def written(content: Mapping[str, Any]) -> str:
    """The object as JSON: one line for each field, and for each object in a list."""
    lines = []
    for name, value in content.items():
        if isinstance(value, list) and {*map(type, value)} == {dict}:
            text = "[\n    " + ",\n    ".join(map(_dumped, value)) + "\n  ]"
        else:
            text = _dumped(value)
        lines.append(f"  {_dumped(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}"


_dumped = partial(json.dumps, allow_nan=False)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DocumentError("a field stands there twice")
    return found


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise DocumentError(f"{digits[:40]} is not a number in JSON, or too large")
    return value

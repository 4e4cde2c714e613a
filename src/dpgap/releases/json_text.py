"""JSON that may come from anybody: read within bounds, and written as plain ASCII.

What is read is at most `MOST` letters long, and has a bounded number of lists and objects, which
take most memory. It has no key twice, no NaN and no infinity, and no number that floats cannot
hold. Lists within lists end where Python's own limit is.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from dpgap.releases.faults import DocumentError

MOST = 1 << 26
"""The most letters, or bytes, of a document that is read."""
_MOST_DIGITS = 4300
_MOST_BRACKETS = 1 << 22


def parsed(text: str | bytes, is_ours: bool = False) -> dict[str, Any]:
    """The object that a text of JSON holds; one that we wrote ourselves may have any length."""
    if not isinstance(text, str | bytes | bytearray):
        raise TypeError(f"text must be str or bytes, not {type(text).__name__}")
    if len(text) > MOST and not is_ours:
        raise DocumentError(f"this is too long for a release: more than {MOST >> 20} MiB")
    try:
        letters = (text if isinstance(text, str) else str(text, "utf-8")).removeprefix("\ufeff")
        if letters.count("[") + letters.count("{") > _MOST_BRACKETS and not is_ours:
            raise DocumentError("this has too many lists or objects for a release")
        found = json.loads(
            letters,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except DocumentError:
        raise
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"this is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except UnicodeDecodeError:
        raise DocumentError("this is not text in UTF-8") from None
    except RecursionError:
        raise DocumentError("this has too many lists or objects within each other") from None
    except ValueError:  # an interpreter may be told to read fewer digits than we do
        raise DocumentError("a number has too many digits") from None
    if not isinstance(found, dict):
        raise DocumentError("this is not a release: a release is an object of JSON")
    return found


def written(content: Mapping[str, Any]) -> str:
    """The object as JSON: a line for each field, and for each object in a list."""
    lines = (f"  {_dumped(name)}: {_value(value)}" for name, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def _value(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return "[\n    " + ",\n    ".join(map(_dumped, value)) + "\n  ]"
    return _dumped(value)


def _dumped(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DocumentError("a field stands there twice")
    return found


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise DocumentError("a number has too many digits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise DocumentError("a number is too large")
    return value


def _constant(name: str) -> float:
    raise DocumentError(f"{name} is not a number in JSON")

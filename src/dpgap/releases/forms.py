"""How the values of a release are written in JSON, and read again: one form for each type.

A form is a pair of functions. `write` is given a value of a release. `read` is given whatever JSON
had in its place, and where that was; it trusts nothing, and refuses what `write` would not have
written. No class and no function is ever looked up by a name from a document.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from dpgap.releases.faults import DocumentError
from dpgap.releases.labels import read_label, write_label
from dpgap.releases.numbers import exact_text, exact_value
from dpgap.releases.provenance import TIME

_LARGEST = 1e100
"""No released number comes near: answers lie within ±2^60 steps, and a step is at most 2^100."""
_MOST = (1 << 63) - 1
_NEEDED = object()


class Form(NamedTuple):
    """How a value is written, and read."""

    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]
    """Called with what was found, and where."""
    default: Any = _NEEDED
    """What a field is that is not there, if it may be left out."""


def _as_it_is(is_right: Callable[[Any], bool], what: str) -> Form:
    """A value that JSON has as well."""

    def read(found: Any, where: str) -> Any:
        if not is_right(found):
            raise DocumentError(f"{where} must be {what}")
        return found

    return Form(lambda value: value, read)


def text() -> Form:
    """Any text."""
    return _as_it_is(lambda found: isinstance(found, str), "text")


def word(*words: str) -> Form:
    """One of a few words."""
    what = f"one of {', '.join(map(repr, words))}, as far as is known here"
    return _as_it_is(lambda found: isinstance(found, str) and found in words, what)


def flag() -> Form:
    """True or false."""
    return _as_it_is(lambda found: isinstance(found, bool), "true or false")


def whole(least: int) -> Form:
    """A whole number that is not too small."""
    what = f"a whole number from {least} to 2^63 - 1"
    return _as_it_is(lambda found: type(found) is int and least <= found <= _MOST, what)


def moment() -> Form:
    """A time in UTC, to the second."""
    return _as_it_is(_is_moment, "a time such as 2026-11-15T20:01:02Z")


def _is_moment(found: Any) -> bool:
    try:
        return bool(f"{datetime.strptime(found, TIME):{TIME}}" == found)
    except (ValueError, TypeError):
        return False


def real(least: float = -_LARGEST) -> Form:
    """A float."""
    checked = _as_it_is(
        lambda found: type(found) in (int, float) and least <= found <= _LARGEST,
        "a number that a release can hold",
    )
    return Form(float, lambda found, where: float(checked.read(found, where)))


def exact(is_right: Callable[[Any], bool], what: str) -> Form:
    """An exact number, as text."""

    def read(found: Any, where: str) -> Any:
        value = exact_value(found) if isinstance(found, str) else None
        if value is None or not is_right(value):
            raise DocumentError(f"{where} must be {what}, as text such as '7/10'")
        return value

    return Form(exact_text, read)


def positive() -> Form:
    """An exact number above 0. No ε, scale or bound that dpgap draws with comes near the end."""
    return exact(lambda value: 0 < value < 1 << 400, "a number above 0 and below 2^400")


def label() -> Form:
    """What an item is called."""
    return Form(write_label, lambda found, where: read_label(found))


def maybe(form: Form, default: Any = None) -> Form:
    """A field that is left out where it has its default."""
    return form._replace(default=default)


def each(form: Form) -> Form:
    """A tuple of such values."""

    def read(found: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(found, list):
            raise DocumentError(f"{where} must be a list")
        return tuple(form.read(one, where) for one in found)

    return Form(lambda values: [form.write(one) for one in values], read)


def floats(least: float = -_LARGEST) -> Form:
    """An array of floats."""
    return _array(each(real(least)), np.float64)


def integers(least: int) -> Form:
    """An array of whole numbers."""
    return _array(each(whole(least)), np.int64)


def _array(values: Form, kind: type) -> Form:
    def read(found: Any, where: str) -> Any:
        return np.array(values.read(found, where), dtype=kind)

    return Form(lambda array: array.tolist(), read)


def pairs(forms: Sequence[Form]) -> Form:
    """A tuple of as many values as there are forms."""

    def read(found: Any, where: str) -> tuple[Any, ...]:
        if not (isinstance(found, list) and len(found) == len(forms)):
            raise DocumentError(f"{where} must be a list of {len(forms)}")
        return tuple(form.read(one, where) for form, one in zip(forms, found, strict=True))

    return Form(lambda values: [f.write(v) for f, v in zip(forms, values, strict=True)], read)


def parts(forms: Mapping[str, Form]) -> Form:
    """An object with just these fields, from and to a dictionary."""

    def write(values: Mapping[str, Any]) -> dict[str, Any]:
        there = (name for name in forms if not _is_default(forms[name], values[name]))
        return {name: forms[name].write(values[name]) for name in there}

    def read(found: Any, where: str) -> dict[str, Any]:
        if not isinstance(found, dict):
            raise DocumentError(f"{where} must be an object")
        for name in found:
            if name not in forms:
                raise DocumentError(
                    f"{where} has a field that is not known here, {name[:40]!r}: "
                    "a later version of dpgap may know it"
                )
        values = {name: form.default for name, form in forms.items()}
        values |= {name: forms[name].read(value, name) for name, value in found.items()}
        for name, value in values.items():
            if value is _NEEDED:
                raise DocumentError(f"{where} lacks the field {name!r}")
        return values

    return Form(write, read)


def _is_default(form: Form, value: Any) -> bool:
    return type(value) is type(form.default) and bool(value == form.default)


def record(make: Callable[..., Any], forms: Mapping[str, Form]) -> Form:
    """An object with just these fields, from and to a value that has them."""
    inside = parts(forms)
    return Form(
        lambda value: inside.write({name: getattr(value, name) for name in forms}),
        lambda found, where: make(**inside.read(found, where)),
    )


def kinds(forms: Mapping[str, tuple[type, Mapping[str, Form]]]) -> Form:
    """One of several records; the field `kind` says which."""
    names = {made: name for name, (made, _) in forms.items()}
    records = {name: record(made, fields) for name, (made, fields) in forms.items()}

    def write(value: Any) -> dict[str, Any]:
        name = names[type(value)]
        return {"kind": name, **records[name].write(value)}

    def read(found: Any, where: str) -> Any:
        kind = found.get("kind") if isinstance(found, dict) else None
        name = word(*records).read(kind, f"the kind of {where}")
        return records[name].read({key: found[key] for key in found if key != "kind"}, where)

    return Form(write, read)

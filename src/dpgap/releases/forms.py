"""How values are written in a document and read again: one form for each type.

A form is a pair of functions. `write` gets a value of a release. `read` gets the JSON value and its
path in the document; it trusts nothing, and refuses what `write` would not have written. No class
and no function is ever looked up by a name from a document.

A type states the form of each field where the field is declared, as in
`epsilon: Annotated[Fraction, POSITIVE]`; `forms_of` collects them.
"""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from operator import getitem
from typing import Any, NamedTuple, get_type_hints
from uuid import UUID

import numpy as np

from dpgap.budget.cost import Cost
from dpgap.estimates.certificates import Evidence
from dpgap.estimates.errors import GapErrors, HistogramError, LaplaceSum, MeasurementError
from dpgap.exact.laws import LAWS, Decay, GeometricNoise, LaplaceNoise
from dpgap.exact.parameters import exact_text
from dpgap.exact.shells import CubeNoise, HullNoise
from dpgap.filter_language import Filter
from dpgap.printable import DocumentError
from dpgap.question import Question, held_fields
from dpgap.releases.plain import exact_value, spelt

# --------------------------------------------------------------------------------------------------
# Labels in a document: the names of items, with their types.
#
# Text, whole numbers, finite floats, true, false and null are written as they are. Values of the
# types in `_TAGS` are written with their type, as in `{"date": "2024-02-29"}`; so are infinite
# floats, NaN, and tuples of all these. All of them are read back as they were.
#
# A value of NumPy or pandas is read back as the value of Python that equals it and prints the same:
# a `numpy.int64` as an `int`, a `pandas.Timestamp` as a `datetime`. Of a time zone only the offset
# from UTC is kept. Every other label, and every label that would not be read back as an equal one,
# is written as its text, and read back as text.


_DEEPEST = 8
_MOST_BITS = 14_000  # Python writes no whole number of more than 4,300 digits
_LONGEST = 10_000

_TAGS: dict[type, tuple[str, Callable[[Any], Any], Callable[[str], Any]]] = {
    float: ("float", repr, {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.__getitem__),
    date: ("date", date.isoformat, date.fromisoformat),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
    timedelta: (
        "microseconds",
        lambda span: str(span // timedelta(microseconds=1)),
        lambda text: timedelta(microseconds=int(text)),
    ),
    Decimal: ("decimal", str, Decimal),
    Fraction: ("fraction", exact_text, exact_value),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
    UUID: ("uuid", str, UUID),
    np.datetime64: ("datetime64", str, lambda text: _moment(text)),
}
"""For each type: its name in a document, and functions from its values to text and back."""
_READ = {name: (to, back) for name, to, back in _TAGS.values()}
_MOMENT = re.compile(
    r"NaT|-?[0-9]{4,}(-[0-9]{2}(-[0-9]{2}(T[0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?)?)?)?"
)


def write_label(label: Any, depth: int = 0) -> Any:
    """The label as JSON has it.

    >>> write_label(("fig", date(2024, 2, 29)))
    {'tuple': ['fig', {'date': '2024-02-29'}]}
    """
    value = _native(label)
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        return spelt(value)
    if type(value) is int and value.bit_length() < _MOST_BITS:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is tuple and depth < _DEEPEST:
        return {"tuple": [write_label(each, depth + 1) for each in value]}
    if type(value) in _TAGS:
        name, to, _ = _TAGS[type(value)]
        written = {name: to(value)}
        with suppress(ValueError, ArithmeticError):
            again = read_label(written)
            is_equal = repr(again) == repr(value) or (again == value and str(again) == str(value))
            if type(again) is type(value) and is_equal:
                return written
    with suppress(
        Exception
    ):  # a label that cannot be shown must not cost a release that is paid for
        return spelt(label)
    return f"<{type(label).__name__}>"


def read_label(found: Any, depth: int = 0) -> Any:
    """The label that `write_label` wrote.

    >>> read_label({"tuple": ["fig", {"date": "2024-02-29"}]})
    ('fig', datetime.date(2024, 2, 29))
    """
    if found is None or isinstance(found, str | bool | int | float):
        return found
    if not (isinstance(found, dict) and len(found) == 1):
        raise DocumentError("a label must be text, a number, or a type with a text")
    ((name, inside),) = found.items()
    if name == "tuple" and isinstance(inside, list) and depth < _DEEPEST:
        return tuple(read_label(each, depth + 1) for each in inside)
    longest = math.inf if name == "bytes" else _LONGEST
    if name not in _READ or not isinstance(inside, str) or len(inside) > longest:
        raise DocumentError(f"a label is of a type that is not known here: {name[:40]!r}")
    to, back = _READ[name]
    with suppress(ValueError, ArithmeticError, KeyError):
        value = back(inside)
        if to(value) == inside:
            return value
    raise DocumentError(f"a label is not a {name}: {inside[:40]!r}")


def _native(label: Any) -> Any:
    """A value of NumPy or pandas as an equal value of Python, if there is one."""
    if isinstance(label, np.generic) and not isinstance(label, np.datetime64 | np.timedelta64):
        return label.item()
    if isinstance(label, datetime) and type(label) is not datetime:
        with suppress(ValueError, TypeError):
            value = datetime.fromisoformat(label.isoformat())
            return value if value == label and str(value) == str(label) else label
    return label


def _moment(text: str) -> np.datetime64:
    """Read a time that NumPy wrote. NumPy alone would also read "now", and times of a zone."""
    if not _MOMENT.fullmatch(text):
        raise ValueError
    return np.datetime64(text, "s") if text == "NaT" else np.datetime64(text)


# --------------------------------------------------------------------------------------------------
# Forms of numbers, words, lists and objects.


_LARGEST = 1e100
"""A bound for released numbers: answers lie within ±2^60 steps, and a step is at most 2^100."""
_NEEDED = object()


class Form(NamedTuple):
    """How a value is written to JSON, and read from it."""

    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]
    """Called with a JSON value, and the path to it."""
    default: Any = _NEEDED
    """The default of a field that may be left out."""

    def needed(self) -> "Form":
        """The same form, of a field that cannot be left out."""
        return self._replace(default=_NEEDED)


def _form(
    kinds: type | tuple[type, ...],
    what: str,
    is_right: Callable[[Any], bool] = lambda value: True,
    write: Callable[[Any], Any] = lambda value: value,
    convert: Callable[[Any], Any] = lambda found: found,
) -> Form:
    """The form of values with these types in JSON; `is_right` checks the converted value."""

    def read(found: Any, where: str) -> Any:
        is_kind = isinstance(found, kinds) and (kinds is bool or not isinstance(found, bool))
        value = convert(found) if is_kind else None
        if value is None or not is_right(value):
            raise DocumentError(f"{where} must be {what}")
        return value

    return Form(write, read)


def word(*words: str, kind: type[str] = str) -> Form:
    """One of a few words; a word may be a member of an enumeration."""
    what = f"one of {', '.join(map(repr, words))}, as far as is known here"
    return _form(
        str, what, write=str, convert=lambda found: kind(found) if found in words else None
    )


def whole(least: int, bits: int = 63) -> Form:
    """A whole number that is neither too small nor too large."""
    what = f"a whole number from {least} to 2^{bits} - 1"
    return _form(int, what, lambda value: least <= value < 1 << bits, write=int)


def real(least: float = -_LARGEST) -> Form:
    """A float."""

    def convert(found: float) -> float | None:
        return float(found) if least <= found <= _LARGEST else None

    return _form((int, float), "a number that a release can hold", write=float, convert=convert)


def exact(is_right: Callable[[Any], bool], what: str) -> Form:
    """An exact number, as text."""
    return _form(str, f"{what}, as text such as '7/10'", is_right, exact_text, exact_value)


TIME = "%Y-%m-%dT%H:%M:%SZ"


def _is_moment(found: str) -> bool:
    with suppress(ValueError):
        return bool(f"{datetime.strptime(found, TIME):{TIME}}" == found)
    return False


TEXT = _form(str, "text")
FLAG = _form(bool, "true or false")
MOMENT = _form(str, "a time such as 2026-11-15T20:01:02Z", _is_moment)
POSITIVE = exact(lambda value: 0 < value < 1 << 400, "a number above 0 and below 2^400")
LABEL = Form(write_label, lambda found, where: read_label(found))
PARAMETERS = _form(
    dict,
    "an object of text, whole numbers, true, false or null",
    lambda pairs: all(value is None or isinstance(value, str | int) for _, value in pairs),
    dict,
    lambda found: tuple(found.items()),
)


def maybe(form: Form, default: Any = None) -> Form:
    """A field that is left out if it has its default."""
    return form._replace(default=default)


def each(form: Form, make: Callable[[list[Any]], Any] = tuple) -> Form:
    """A list of such values; `make` makes a tuple or another value of it."""

    def read(found: Any, where: str) -> Any:
        if not isinstance(found, list):
            raise DocumentError(f"{where} must be a list")
        return make([form.read(one, where) for one in found])

    return Form(lambda values: list(map(form.write, values)), read)


def array(form: Form, kind: type) -> Form:
    """An array of such values."""
    return each(form, partial(np.array, dtype=kind))


FLOATS = array(real(), np.float64)
VARIANCES = array(real(least=0), np.float64)
INDICES = array(whole(-1), np.int64)
BRANCHES = array(whole(1), np.int64)
LENGTH = real(least=0)
STEP_OF_ROUTE = word("look", "select", "measure")
_EPSILON = exact(lambda value: 0 <= value < 1 << 400, "a number from 0 on and below 2^400")
_RHO = exact(lambda value: 0 <= value < 1 << 800, "a number from 0 on and below 2^800")
_CHANCE = exact(lambda value: 0 < value <= 1, "a chance above 0")


def pairs(*forms: Form) -> Form:
    """A tuple of as many values as there are forms."""

    def read(found: Any, where: str) -> tuple[Any, ...]:
        if not (isinstance(found, list) and len(found) == len(forms)):
            raise DocumentError(f"{where} must be a list of {len(forms)}")
        return tuple(form.read(one, where) for form, one in zip(forms, found, strict=True))

    return Form(lambda values: [f.write(v) for f, v in zip(forms, values, strict=True)], read)


def parts(forms: Mapping[str, Form], get: Callable[[Any, str], Any] = getitem) -> Form:
    """An object with exactly these fields, read as a dictionary; `get` gets a field of a value."""

    def write(value: Any) -> dict[str, Any]:
        found = {}
        for name, form in forms.items():
            field = get(value, name)
            if type(field) is not type(form.default) or field != form.default:
                found[name] = form.write(field)
        return found

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


def having(what: str, is_right: Callable[[Any], bool], form: Form) -> Form:
    """The same form with one more condition."""

    def read(found: Any, where: str) -> Any:
        value = form.read(found, where)
        if not is_right(value):
            raise DocumentError(f"{where} must have {what}")
        return value

    return Form(form.write, read)


def record(make: Callable[..., Any], /, **forms: Form) -> Form:
    """An object with exactly these fields; `make` makes a value of them."""
    inside = parts(forms, getattr)
    return Form(inside.write, lambda found, where: make(**inside.read(found, where)))


def kinds(forms: Mapping[str, tuple[type, Form]]) -> Form:
    """One of several types of values; the field `kind` says which."""
    names = {kind: name for name, (kind, _) in forms.items()}

    def write(value: Any) -> dict[str, Any]:
        if type(value) not in names:
            raise TypeError(f"a {type(value).__name__} is of no kind that a document can hold")
        name = names[type(value)]
        _, form = forms[name]
        return {"kind": name, **form.write(value)}

    def read(found: Any, where: str) -> Any:
        kind = found.get("kind") if isinstance(found, dict) else None
        _, form = forms[word(*forms).read(kind, f"the kind of {where}")]
        return form.read({name: found[name] for name in found if name != "kind"}, where)

    return Form(write, read)


def forms_of(kind: type) -> dict[str, Form]:
    """The forms that a type states for its fields; a field that has a default may be left out."""
    forms = {}
    defaults = _defaults(kind)
    for name, hint in get_type_hints(kind, include_extras=True).items():
        for stated in getattr(hint, "__metadata__", ()):
            if isinstance(stated, Form):
                forms[name] = maybe(stated, defaults[name]) if name in defaults else stated
    return forms


def _defaults(kind: Any) -> dict[str, Any]:
    if not is_dataclass(kind):
        return dict(kind._field_defaults)
    return {field.name: field.default for field in fields(kind) if field.default is not MISSING}


def stated(kind: type) -> Form:
    """The form of a type that states those of its fields."""
    return record(kind, **forms_of(kind))


_NUMBERS = {"epsilon": maybe(_EPSILON), "rho": _RHO, "delta": maybe(_CHANCE, Fraction(0))}
WHOLE_COST = record(Cost, **_NUMBERS)
"""The form of a cost without its parts."""
COST = record(Cost, **_NUMBERS, parts=maybe(each(pairs(STEP_OF_ROUTE, WHOLE_COST)), ()))


# --------------------------------------------------------------------------------------------------
# How laws of noise, and the errors of numbers, are written and read.
#
# A law from a document must be one that dpgap would draw from. Otherwise computing an interval
# could take for ever, or fail.


_SHORTEST = Fraction(1, 1 << 64)
_LEAST = Fraction(1, 1 << 200)
_FINEST = Fraction(1, 1 << 100)


def _is_drawable(law: Decay) -> bool:
    """Whether dpgap could draw from this law; the limits are wider than in `require_scale`."""
    lengths = (law.scale, getattr(law, "step", law.scale))
    has_lengths = all(_SHORTEST <= length <= 1 / _SHORTEST for length in lengths)
    return has_lengths and _SHORTEST <= getattr(law, "share", 1) <= 1


def _are_drawable(errors: GapErrors) -> bool:
    """Whether dpgap could draw from the laws of gaps, whose unit is that of the answers."""
    laws = (errors.threshold_law, *errors.branch_laws)
    return all(_is_drawable(law.scaled(1 / (errors.grid or Fraction(1)))) for law in laws)


def _is_power(value: Fraction) -> bool:
    in_range = _FINEST <= value <= 1 / _FINEST
    return in_range and (value.numerator * value.denominator).bit_count() == 1


_DRAWABLE = "a scale that dpgap draws from, and a share of at most 1"
_STEP = exact(lambda value: _FINEST <= value <= 1 / _FINEST, "a step from 2^-100 to 2^100")


def _law(**laws: type[Decay]) -> Form:
    """The form of one of these laws, by its name, with a dimension, lengths and shares."""
    by_name = {}
    for name, law in laws.items():
        forms = {it.name: whole(1) if it.type is int else POSITIVE for it in fields(law)}
        by_name[name] = law, record(law, **forms)
    return kinds(by_name)


_LAW = _law(**LAWS)
_VALUE_LAW = _law(laplace=LaplaceNoise, geometric=GeometricNoise, hull=HullNoise, cube=CubeNoise)
_MEASUREMENT = {"law": having(_DRAWABLE, _is_drawable, _VALUE_LAW), "grid": _STEP}
MEASUREMENT_ERROR = record(MeasurementError, **_MEASUREMENT)
_LAPLACE_SUM = record(
    LaplaceSum,
    terms=having(
        "at most 8 terms", lambda terms: len(terms) <= 8, each(pairs(real(least=0), whole(0)))
    ),
    floored=real(least=0),
    grid=_STEP,
)
_HISTOGRAM_ERROR = record(
    HistogramError,
    law=having(_DRAWABLE, _is_drawable, record(GeometricNoise, scale=POSITIVE)),
    grid=_STEP,
    line=whole(-(1 << 62)),
    whole_coin=whole(0, bits=24),
)
ERROR = kinds(
    {
        "measurement": (MeasurementError, MEASUREMENT_ERROR),
        "laplace sum": (LaplaceSum, _LAPLACE_SUM),
        "histogram": (HistogramError, _HISTOGRAM_ERROR),
    }
)
EVIDENCE = record(
    Evidence,
    leads=each(real()),
    scales=each(exact(lambda value: _LEAST < value < 1 / _LEAST, "a scale of noise")),
)
THRESHOLD = exact(lambda value: abs(value) < 1 << 200, "a number below 2^200")
GAP_ERRORS = having(
    _DRAWABLE,
    _are_drawable,
    record(
        GapErrors,
        threshold=THRESHOLD,
        threshold_law=_LAW,
        branch_laws=each(_LAW),
        grid=maybe(exact(_is_power, "a power of two from 2^-100 to 2^100")),
    ),
)


# --------------------------------------------------------------------------------------------------
# Questions state the forms of their fields by name: they know nothing of documents.


_FORMS_BY_NAME: dict[str, Form | Callable[..., Form]] = {
    "enum": lambda kind: word(*kind, kind=kind),
    "exact": exact,
    "filter": _form(str, "text", write=str, convert=Filter),
    "flag": FLAG,
    "label": LABEL,
    "positive": POSITIVE,
    "text": TEXT,
    "whole": whole,
    "word": word,
}


def _question() -> Form:
    """The form of a question: the forms of its fields, without its address and columns."""
    forms, names = {}, {}
    for field, held in held_fields():
        form = _FORMS_BY_NAME[held.form[0]]
        form = form if isinstance(form, Form) else form(*held.form[1:])
        name = held.called or field.name
        forms[name] = form if held.is_always_there else maybe(form, field.default)
        names[name] = field.name
    # A question computes its identity; a question that was read has it as `recorded`.
    written = names | {"identity": "identity"}
    inside = parts(forms, lambda asked, name: getattr(asked, written[name]))

    def read(found: Any, where: str) -> Question:
        values = inside.read(found, where)
        return Question(**{names[name]: value for name, value in values.items()})

    return Form(inside.write, read)


QUESTION = _question()

"""The release document: one JSON schema for every release, which can be read again for ever.

It holds all that was released, and all that is needed to show it again: the question, the
guarantee, the mechanisms with their parameters, the errors of the numbers, the time and version,
and the ledger's entry that paid. It does not hold the address of the table, nor anything private.

    {"format": "dpgap release", "version": 1, "kind": "table", …}

What is in a document
---------------------
- `format`, `version` and `kind` come first. `_KINDS` lists the kinds and the fields of each.
- Absent values (labels, a threshold, an entry of a ledger) are left out.
- Exact numbers (ε, δ, scales) are text such as "7/10". Floats have all their digits. Labels have
  rules of their own, right below.
- `epsilon` and `delta` are those of the guarantee. δ is "0", unless items were unknown. `promise`
  has them again, and ρ, as the most that such a release costs; `cost` is what this one did cost.
- Fields in `SHOWN` (findings and other sentences, 95 % intervals, rows) are computed from the
  others, for people, and for programs that do not want to compute them. They are never read. An
  archive keeps documents without them; they are added when a document is shown. `BESIDE` lists
  fields that the command line adds about an account; these are not read either.

How it may change
-----------------
- **A new kind** gets a new name. A reader that does not know it refuses the document.
- **A new field** must have a default that is true for every earlier document. It is left out if it
  has this default (`maybe`). So an older reader reads every document without the new field. It
  refuses a document with this field, because it cannot know what the numbers mean. δ above 0, a
  route and a group are such fields.
- **A new word** in a field that lists its words, such as a method or a law, is like a new field.
- **A field that changes its meaning** makes a new `version`. A reader refuses a later version, and
  says so. It reads all earlier ones.
- No field, kind or word is ever removed or used for something else. The tests have documents of
  every version, and all must be readable.
"""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from operator import getitem
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from dpgap._package import __version__, public
from dpgap.budget.cost import Cost, equal_part
from dpgap.estimates.certificates import Evidence
from dpgap.estimates.errors import GapErrors, HistogramError, LaplaceSum, MeasurementError
from dpgap.exact.laws import LAWS, Decay, GeometricNoise, LaplaceNoise
from dpgap.exact.parameters import exact_text
from dpgap.exact.shells import CubeNoise, HullNoise
from dpgap.filter_language import Filter
from dpgap.printable import DocumentError
from dpgap.question import HISTOGRAM, METHODS, Question, held_fields
from dpgap.releases.plain import attempted, exact_value, parsed, plain, spelt
from dpgap.releases.release import (
    TIME,
    AboveRelease,
    HybridRelease,
    IndexRelease,
    JointRelease,
    LedgerReference,
    MaxRelease,
    Measured,
    MeasuredValues,
    MechanismUsed,
    Promise,
    Provenance,
    Release,
    ReleasesByGroup,
    Selected,
    TableRelease,
    TopKRelease,
    Total,
    UnitCount,
    finite,
)

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
# How the values of a release are written in JSON, and read again: one form for each type.
#
# A form is a pair of functions. `write` gets a value of a release. `read` gets the JSON value and
# its path in the document; it trusts nothing, and refuses what `write` would not have written. No
# class and no function is ever looked up by a name from a document.


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


def kinds(forms: Mapping[str, tuple[type, Mapping[str, Form]]]) -> Form:
    """One of several records; the field `kind` says which."""
    names = {made: name for name, (made, _) in forms.items()}
    records = {name: record(made, **fields) for name, (made, fields) in forms.items()}

    def write(value: Any) -> dict[str, Any]:
        if type(value) not in names:
            raise TypeError(f"a {type(value).__name__} is of no kind that a document can hold")
        name = names[type(value)]
        return {"kind": name, **records[name].write(value)}

    def read(found: Any, where: str) -> Any:
        kind = found.get("kind") if isinstance(found, dict) else None
        name = word(*records).read(kind, f"the kind of {where}")
        return records[name].read({key: found[key] for key in found if key != "kind"}, where)

    return Form(write, read)


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


def _without_float_coin(found: Any, where: str) -> Any:
    """Drop the float coin that versions before 0.2.1 wrote: its low bits reveal too much.

    A coin of 0 is kept: it belongs to a stated threshold, which is public.
    """
    if not isinstance(found, dict) or "coin" not in found or "whole_coin" in found:
        return found
    coin = real(least=0).read(found["coin"], "coin")
    if coin > 1:
        raise DocumentError(f"{where} must have a coin from 0 to 1")
    rest = {name: value for name, value in found.items() if name != "coin"}
    return rest if coin else rest | {"whole_coin": 0}


_DRAWABLE = "a scale that dpgap draws from, and a share of at most 1"
_STEP = exact(lambda value: _FINEST <= value <= 1 / _FINEST, "a step from 2^-100 to 2^100")


def _law(**laws: type[Decay]) -> Form:
    """The form of one of these laws, by its name, with a dimension, lengths and shares."""
    by_name = {}
    for name, law in laws.items():
        forms = {it.name: whole(1) if it.type is int else POSITIVE for it in fields(law)}
        by_name[name] = law, forms
    return kinds(by_name)


_LAW = _law(**LAWS)
_VALUE_LAW = _law(laplace=LaplaceNoise, geometric=GeometricNoise, hull=HullNoise, cube=CubeNoise)
_MEASUREMENT = {"law": having(_DRAWABLE, _is_drawable, _VALUE_LAW), "grid": _STEP}
_SUM = {
    "terms": having(
        "at most 8 terms", lambda terms: len(terms) <= 8, each(pairs(real(least=0), whole(0)))
    ),
    "floored": real(least=0),
    "grid": _STEP,
}
_HISTOGRAM = {
    "law": having(_DRAWABLE, _is_drawable, record(GeometricNoise, scale=POSITIVE)),
    "grid": _STEP,
    "line": whole(-(1 << 62)),
    "whole_coin": maybe(whole(0, bits=24)),
}
_ERROR = kinds(
    {
        "measurement": (MeasurementError, _MEASUREMENT),
        "laplace sum": (LaplaceSum, _SUM),
        "histogram": (HistogramError, _HISTOGRAM),
    }
)

EVIDENCE = record(
    Evidence,
    leads=each(real()),
    scales=each(exact(lambda value: _LEAST < value < 1 / _LEAST, "a scale of noise")),
)
MEASUREMENT_ERROR = record(MeasurementError, **_MEASUREMENT)
ERROR = Form(
    _ERROR.write, lambda found, where: _ERROR.read(_without_float_coin(found, where), where)
)
_THRESHOLD = exact(lambda value: abs(value) < 1 << 200, "a number below 2^200")
_GAP_ERRORS = record(
    GapErrors,
    threshold=_THRESHOLD,
    threshold_law=_LAW,
    branch_laws=each(_LAW),
    grid=maybe(exact(_is_power, "a power of two from 2^-100 to 2^100")),
)
GAP_ERRORS = having(_DRAWABLE, _are_drawable, _GAP_ERRORS)


# --------------------------------------------------------------------------------------------------
# Consistency of a release that was read: lengths, budgets and the question must agree.
#
# dpgap never makes a release in which they disagree. But a document may be edited or invented.


_ROUTES_OF: dict[str, tuple[str | None, ...]] = {
    "best": ("joint", "ranked", "histogram", "hybrid", None),
    "joint": ("joint",),
    "ranked": ("ranked",),
    "paper": ("paper", None),
    "histogram": ("histogram",),
}
"""None is for what is above a threshold, and for documents of the first version."""
_MOST_ERRORS = 16
"""The most different errors that a release has: one for each branch."""


def require_agreement(release: Any) -> None:
    """Refuse a release whose parts contradict each other."""
    asked: Any = getattr(release, "question", None)
    is_hybrid = isinstance(release, HybridRelease)
    most = release.promise.cost
    promised = most.delta == (0 if asked is None else asked.delta)
    _require(is_hybrid or promised, "a δ and what was asked")
    _require(release.cost.delta == most.delta, "the δ of the cost and of the promise")
    _require(release.cost.fits(most), "cost and promise")
    of_a_group = isinstance(release, TableRelease) and asked.group is not None
    if asked is not None and not of_a_group:
        _require(asked.epsilon == most.epsilon, "epsilon and the question")
    if isinstance(release, ReleasesByGroup):
        _require_groups(release)
        return
    used = Cost.sum(map(_cost_of, release.mechanisms))
    _require(used.epsilon == most.epsilon, "epsilon and the mechanisms")
    _require(used.fits(most), "the cost of the mechanisms and the promise")
    if isinstance(release, MeasuredValues):
        _require_laws([release.error], release.values.size)
        if isinstance(release, Total):
            kind = "count" if isinstance(release, UnitCount) else "total"
            _require(release.values.size == 1, f"a {kind} and the values")
            _require(asked.kind == kind, f"a {kind} and the question")
            _require((asked.sum is None) == (kind == "count"), f"a {kind} and what is added up")
        return
    count = release.indices.size
    _require(release.labels is None or len(release.labels) == count, "indices and labels")
    if isinstance(release, Selected):
        line, evidence = release.line, release.evidence or Evidence((), ())
        _require(line is None or abs(line) < 1 << 200, "a threshold and what answers can reach")
        _require(not is_hybrid or line is not None, "what was found and the line")
        _require(len(evidence.leads) == len(evidence.scales), "leads and their scales")
        # One for each, one for all, or none if nobody lost.
        leads = (0, min(count, 1), count) if line is None or release.evidence is None else (count,)
        _require(len(evidence.leads) in leads, "indices and leads")
    if isinstance(release, TopKRelease | Measured):
        has_none = isinstance(release, Measured) and release.route in ("joint", "histogram")
        lengths = (0,) if has_none else (count,) if is_hybrid else (count, max(count - 1, 0))
        _require(release.gaps.size in lengths, "indices and gaps")
        may_be_empty = isinstance(release, Measured) or is_hybrid
        _require(may_be_empty or count >= 1, "a top-k and its indices")
    if isinstance(release, MaxRelease):
        _require(count == 1, "one winner and the indices")
    if isinstance(release, AboveRelease):
        _require(release.gaps.size == release.branch_of.size == count, "indices and gaps")
        thresholds = release.thresholds
        _require(thresholds is None or len(thresholds) == count, "indices and thresholds")
        branches = len(release.errors.branch_laws)
        _require(1 <= branches <= _MOST_ERRORS, "branches and their laws")
        highest = int(release.branch_of.max()) if count else 1
        _require(highest <= branches, "branches and their laws")
        _require(release.processed >= count, "indices and how many were processed")
    if isinstance(release, Measured):
        _require_measured(release, count)
    if isinstance(release, TableRelease):
        is_above = asked.kind == "above"
        _require(not asked.is_of_all, "a table and the question")
        _require(is_above or asked.k is not None, "a top-k and its k")
        _require(asked.method == release.method, "the method and the question")
        _require(is_above == (asked.threshold is not None), "kind and threshold")
        _require(release.labels is not None or not count, "a table and its labels")


def _require_measured(release: Measured, count: int) -> None:
    for column in (release.measurements, release.estimates, release.variances):
        _require(column.size == count, "indices and numbers")
    is_possible = release.processed is None or release.processed >= count
    _require(is_possible, "indices and how many were processed")
    lengths = (1, count) if count else (0,)
    _require(len(release.errors) in lengths, "numbers and their errors")
    _require(len(set(release.errors)) <= _MOST_ERRORS, "numbers and their errors")
    kept = () if release.measured_by is None else (release.measured_by,)
    _require_laws((*release.errors, *kept), count)
    _require(release.route in _ROUTES_OF.get(release.method, ()), "the method and the route")
    _require((release.lead is not None) == (release.route == "joint"), "the route and the lead")
    _require(release.route is not None or release.line is not None, "a top-k and its route")
    steps = tuple(step for step, _ in release.cost.parts)
    _require(steps == _steps_of(release, count), "the route and its steps")
    together = Cost.sum(part for _, part in release.cost.parts)
    is_sum = together.with_delta(release.cost.delta) == release.cost
    _require(is_sum, "the cost and that of each step")
    ranks = [rank for rank, _ in release.looked]
    _require(ranks == sorted(set(ranks)), "the ranks that were looked at")


def _steps_of(release: Measured, count: int) -> tuple[str, ...]:
    """The steps in which a release was made; nothing is measured if nothing was found."""
    if release.route == HISTOGRAM:
        return ("measure",)
    first = ("look", "select") if release.looked else ("select",)
    return (*first, "measure") if count else first


def _cost_of(mechanism: MechanismUsed) -> Cost:
    """The most that a mechanism costs, by its parameters."""
    epsilon = dict(mechanism.parameters).get("epsilon")
    _require(isinstance(epsilon, str), "epsilon and the mechanisms")
    return Cost.pure(POSITIVE.read(epsilon, "the epsilon of a mechanism"))


def _require_laws(errors: Any, count: int) -> None:
    """Joint noise must have a coordinate for each value, and perhaps one that all share."""
    for error in set(errors):
        drawn = getattr(getattr(error, "law", None), "dimension", count)
        _require(drawn in (count, count + 1), "numbers and the dimension of their noise")


def _require_groups(release: ReleasesByGroup) -> None:
    """Every group has one answer."""
    question = release.question
    is_right = len(release) == len(set(release)) == question.groups > 0
    _require(is_right, "the groups and their answers")
    used = {each for answer in release.values() for each in answer.mechanisms}
    _require(set(release.mechanisms) == used, "the groups and their mechanisms")
    costs_once = (question.epsilon, equal_part(question.epsilon, question.max_groups))
    for answer in release.values():
        _require(answer.epsilon in costs_once, "epsilon and that of the groups")
        require_agreement(answer)


def _require(is_so: bool, what: str) -> None:
    if not is_so:
        raise DocumentError(f"{what} contradict each other")


# --------------------------------------------------------------------------------------------------


FORMAT, VERSION = "dpgap release", 1
SHOWN = ("findings", "guarantee", "interval", "items", "private")
BESIDE = ("epsilon_spent", "epsilon_remaining", "exact")


_HELD: dict[str, Form | Callable[..., Form]] = {
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
        form = _HELD[held.form[0]]
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


_AN_EPSILON = exact(lambda value: 0 <= value < 1 << 400, "a number from 0 on and below 2^400")
_A_RHO = exact(lambda value: 0 <= value < 1 << 800, "a number from 0 on and below 2^800")
_CHANCE = exact(lambda value: 0 < value <= 1, "a chance above 0")
_NUMBERS = {"epsilon": maybe(_AN_EPSILON), "rho": _A_RHO, "delta": maybe(_CHANCE, Fraction(0))}
_STEP_COST = pairs(word("look", "select", "measure"), record(Cost, **_NUMBERS))
_COST = record(Cost, **_NUMBERS, parts=maybe(each(_STEP_COST), ()))
_LEDGER = record(LedgerReference, dataset=TEXT, entry=whole(0), hash=TEXT)
_EVERY: dict[str, Form] = {
    "made": record(Provenance, time=MOMENT, dpgap=TEXT, ledger=maybe(_LEDGER)),
    "cost": _COST,
    "promise": record(
        Promise,
        cost=record(Cost, **_NUMBERS),
        sensitivity=POSITIVE,
        monotonic=FLAG,
        reach=maybe(whole(1)),
    ),
    "mechanisms": each(record(MechanismUsed, name=TEXT, parameters=PARAMETERS)),
}
FLOATS = array(real(), np.float64)
_INDICES = {"indices": array(whole(-1), np.int64), "labels": maybe(each(LABEL))}
_TOP = _INDICES | {"gaps": FLOATS, "evidence": maybe(EVIDENCE)}
_MEASURED = {
    **_TOP,
    "measurements": FLOATS,
    "estimates": FLOATS,
    "variances": array(real(least=0), np.float64),
    "centres": word("measurements", "estimates"),
    "errors": each(ERROR),
    "rounding": real(least=0),
    "method": word(*METHODS, HISTOGRAM),
    "route": maybe(word("joint", "ranked", "paper", HISTOGRAM, "hybrid")),
    "looked": maybe(each(pairs(whole(1), real())), ()),
    "lead": maybe(real(least=0)),
    "measured_by": maybe(MEASUREMENT_ERROR),
    "processed": maybe(whole(0)),
}
_ABOVE = {
    "branch_of": array(whole(1), np.int64),
    "processed": whole(0),
    "errors": GAP_ERRORS,
    "thresholds": maybe(each(_THRESHOLD)),
}
_VALUES = {"values": FLOATS, "error": MEASUREMENT_ERROR, "rounding": real(least=0)}

_ASKED = {"question": _question()}


def _answers() -> Form:
    """The form of the answers for all groups; fields that they share are written once."""
    own = {name: form for name, form in (_EVERY | _MEASURED).items() if name != "made"}

    def get(answer: TableRelease, name: str) -> Any:
        return answer.question.group if name == "group" else getattr(answer, name)

    return each(parts({"group": LABEL} | own, get))


def _by_group(read: ReleasesByGroup) -> ReleasesByGroup:
    """Make a release of each answer that was read, with the question and time of all groups."""
    answers: Any = read.answers  # dictionaries, so far
    made = []
    for values in answers:
        question = replace(read.question, group=values.pop("group"))
        made.append(TableRelease(**values, question=question, made=read.made))
    return replace(read, answers=tuple(made))


_JOINT = {"lead": real(least=0), "p_value": real(least=0)}
_KINDS: dict[str, tuple[type[Release], Mapping[str, Form]]] = {
    "indices": (IndexRelease, _EVERY | _INDICES),
    "top-k": (TopKRelease, _EVERY | _TOP),
    "max": (MaxRelease, _EVERY | _TOP),
    "hybrid": (HybridRelease, _EVERY | _TOP),
    "above": (AboveRelease, _EVERY | _TOP | _ABOVE),
    "joint": (JointRelease, _EVERY | _INDICES | _JOINT),
    "values": (MeasuredValues, _EVERY | _VALUES),
    "measured": (Measured, _EVERY | _MEASURED),
    "table": (TableRelease, _EVERY | _ASKED | _MEASURED),
    "count": (UnitCount, _EVERY | _ASKED | _VALUES),
    "total": (Total, _EVERY | _ASKED | _VALUES),
    "groups": (ReleasesByGroup, _EVERY | _ASKED | {"answers": _answers()}),
}
_RELEASE = kinds(_KINDS)


def document(release: Release) -> dict[str, Any]:
    """The release as a dictionary that JSON can hold."""
    return {**drawn(release), **_shown(release)}


def drawn(release: Release) -> dict[str, Any]:
    """The dictionary without the fields in `SHOWN`: only what was drawn, no sentences."""
    written = _RELEASE.write(release)
    header = {"format": FORMAT, "version": VERSION, "kind": written["kind"]}
    return {**header, **_guarantee(release), **written}


def _guarantee(release: Release) -> dict[str, str | None]:
    """The ε and the δ of the guarantee, which the promise states too."""
    most = release.promise.cost
    epsilon = None if most.epsilon is None else exact_text(most.epsilon)
    return {"epsilon": epsilon, "delta": exact_text(most.delta)}


def _shown(release: Release) -> dict[str, Any]:
    """The fields in `SHOWN`; one that cannot be made is left out."""
    fields: dict[str, Callable[[], Any]] = {"guarantee": lambda: release.guarantee}
    if isinstance(release, Selected | Total | ReleasesByGroup):
        fields["findings"] = lambda: list(release.findings)
    if isinstance(release, TableRelease):
        fields["private"] = lambda: release.question.is_private
        fields["items"] = lambda: [plain(row) for row in release]
    elif isinstance(release, Measured | MeasuredValues):
        fields["interval"] = lambda: [
            [*map(finite, ends)] for ends in release.interval().reshape(-1, 2).tolist()
        ]
    made = {name: attempted(name, None, make) for name, make in fields.items()}
    return {name: each for name, each in made.items() if each is not None}


@public
def read_release(text: str | bytes) -> Release:
    """The release that a document holds, free of charge: the same table, page and intervals.

    Any other text, and a document that this version of dpgap does not understand, raise a
    `ValueError` that says why. A document can be up to 64 MiB long.

    Parameters
    ----------
    text
        The text that `to_json()` of a release returned, or that `dpgap top-k … --json` printed.

    >>> import dpgap
    >>> release = dpgap.NoisyTopK(k=1, epsilon=1000).release([10, 50], labels=["fig", "pea"])
    >>> again = dpgap.read_release(release.to_json())
    >>> again.labels, again.to_json() == release.to_json()
    (('pea',), True)
    """
    return _read(parsed(text))


def read_archived(text: str) -> Release:
    """The release in a document from an archive, which may have any length."""
    return _read(parsed(text, is_ours=True))


def handed_out(text: str) -> str:
    """A document from an archive, with its sentences, rows and intervals added."""
    return attempted("document", text, lambda: read_archived(text).to_json())


def _read(content: Mapping[str, Any]) -> Release:
    if content.get("format") != FORMAT:
        raise DocumentError(f"this is not a release document: its format is not {FORMAT!r}")
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise DocumentError("the version must be a whole number from 1 on")
    if version > VERSION:
        raise DocumentError(
            f"this document has a later version than {VERSION}, and dpgap {__version__} reads no "
            "later one: a newer dpgap is needed"
        )
    passed_over = ("format", "version", "epsilon", "delta", *SHOWN, *BESIDE)
    values = {field: value for field, value in content.items() if field not in passed_over}
    found: Release = _RELEASE.read(values, "the document")
    release = _by_group(found) if isinstance(found, ReleasesByGroup) else found
    require_agreement(release)
    for name, number in _guarantee(release).items():
        _require(content.get(name) == number, f"{name} and the promise")
    return release

"""The numbers with which a program runs during a proof: affine forms of unknowns.

An unknown is an answer, a public parameter or a draw of noise. Sums of them and multiples by
known numbers are all that selection mechanisms compute. So every number in a run is an exact
affine form, and every question that a program asks is whether such a form is negative. A *path*
answers it: at one point, or on all branches in turn.

Noise is named by the number of its draw, everything else by a word.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

Exact = int | Fraction
Unknown = int | str


LAST = threading.local()
"""The last `BadProgram` of this thread."""


class BadProgram(Exception):  # noqa: N818 - it says what is wrong with the program
    """The program cannot be judged; the message says why."""

    __module__ = "dpgap.proof"

    def __init__(self, *message: object) -> None:
        super().__init__(*message)
        LAST.refusal = self


class BadNoise(ValueError):  # noqa: N818 - as the two beside it
    """The noise given for a check is not what the program draws."""


class Violation(Exception):  # noqa: N818 - a finding, not a fault
    """A condition of the proof that does not hold."""

    __module__ = "dpgap.proof"

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(message)
        self.condition = condition
        self.message = message


def exact(value: Any) -> Exact:
    """A known number as an exact one; a float means the binary number that it is."""
    kind = type(value)  # a subclass from the program could compute anything
    if kind is int or kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is Fraction:
        if value.denominator == 1:
            return value.numerator  # type: ignore[no-any-return]
        return value  # type: ignore[no-any-return]
    if kind is float or kind is Decimal:
        if not math.isfinite(value):
            raise BadProgram(f"the program computes with {value}, which is not a number to compare")
        return Fraction(value)
    if vars(np).get(kind.__name__) is kind:
        return exact(value.item())
    raise BadProgram(f"the program computes with a {type(value).__name__}, which is not a number")


class HiddenSlot:
    """Reads and writes a slot of objects that programs see; programs cannot.

    The objects' class loses the name of the slot, so no attribute leads to its content.
    """

    __slots__ = ("read", "write")

    def __init__(self, kind: type, slot: str) -> None:
        descriptor = vars(kind)[slot]
        self.read = descriptor.__get__
        self.write = descriptor.__set__
        delattr(kind, slot)


def _refuse_text(*_: object) -> NoReturn:
    raise BadProgram("the program makes text of an unknown: a proof knows no digits of it")


_ONLY = "only sums, multiples by known numbers and comparisons can be proved"


class Affine:
    """A constant and a multiple of each unknown; programs may only compute with it."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("constant", "path", "terms")

    def __init__(self, *_: object) -> None:
        raise BadProgram("the program makes a number of its own: it may use those that it is given")

    def __init_subclass__(cls) -> None:
        raise BadProgram("the program makes a kind of number of its own")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise BadProgram("the program changes a number in place: noise and answers are given")

    def __deepcopy__(self, _: object) -> "Affine":
        return self

    def __add__(self, other: object) -> "Affine":
        path = _PATH.read(self)
        if not isinstance(other, Affine):
            return affine(path, terms_of(self), constant_of(self) + exact(other))
        if path is not _PATH.read(other):
            raise BadProgram("the program computes with numbers that it kept from another proof")
        terms = dict(terms_of(self))
        for unknown, factor in terms_of(other).items():
            total = terms.get(unknown, 0) + factor
            if total:
                terms[unknown] = total
            else:
                del terms[unknown]
        return affine(path, terms, constant_of(self) + constant_of(other))

    __radd__ = __add__

    def __neg__(self) -> "Affine":
        return self * -1

    def __pos__(self) -> "Affine":
        return self

    def __sub__(self, other: object) -> "Affine":
        if isinstance(other, Affine):
            return self + -other
        return self + -exact(other)

    def __rsub__(self, other: object) -> "Affine":
        return Affine.__add__(-self, other)

    def __mul__(self, other: object) -> "Affine":
        if isinstance(other, Affine):
            if not terms_of(self):
                return other * constant_of(self)
            if not terms_of(other):
                return self * constant_of(other)
            unknowns = f"({in_symbols(self)}) and ({in_symbols(other)})"
            raise BadProgram(f"the program multiplies two unknowns, {unknowns}: {_ONLY}")
        factor = exact(other)
        terms: dict[Unknown, Exact] = {}
        if factor:
            terms = {unknown: by * factor for unknown, by in terms_of(self).items()}
        return affine(_PATH.read(self), terms, constant_of(self) * factor)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> "Affine":
        if isinstance(other, Affine):
            if terms_of(other):
                raise BadProgram(f"the program divides by an unknown, ({in_symbols(other)})")
            other = constant_of(other)
        return self * (1 / Fraction(exact(other)))

    def __rtruediv__(self, other: object) -> "Affine":
        return affine(_PATH.read(self), {}, exact(other)) / self

    def __abs__(self) -> "Affine":
        return -self if self < 0 else self

    def __lt__(self, other: object) -> "Condition":
        return Condition(self - other, expected=True)

    def __ge__(self, other: object) -> "Condition":
        return Condition(self - other, expected=False)

    def __gt__(self, other: object) -> "Condition":
        return Condition(other - self, expected=True)

    def __le__(self, other: object) -> "Condition":
        return Condition(other - self, expected=False)

    def __eq__(self, other: object) -> bool:
        if other is None or isinstance(other, str | tuple | list):
            return False
        difference = self - other
        return not (difference < 0) and not (difference > 0)

    def __bool__(self) -> bool:
        return self != 0

    def _refuse(self, *_: object) -> NoReturn:
        raise BadProgram(f"the program rounds an unknown or turns it into a float: {_ONLY}")

    __float__ = __int__ = __round__ = __floor__ = __ceil__ = __trunc__ = _refuse
    __pow__ = __rpow__ = __mod__ = __floordiv__ = __index__ = _refuse

    __repr__ = __str__ = __format__ = _refuse_text


_TERMS = HiddenSlot(Affine, "terms")
_CONSTANT = HiddenSlot(Affine, "constant")
_PATH = HiddenSlot(Affine, "path")
terms_of: Callable[[Affine], Mapping[Unknown, Exact]] = _TERMS.read
constant_of: Callable[[Affine], Exact] = _CONSTANT.read


def affine(path: Any, terms: Mapping[Unknown, Exact], constant: Exact = 0) -> Affine:
    """A new number, whose questions this path answers."""
    number = object.__new__(Affine)
    _TERMS.write(number, terms)
    _CONSTANT.write(number, constant)
    _PATH.write(number, path)
    return number


def in_symbols(value: object) -> str:
    """A number, or a tuple or a list of numbers, as text for messages of the checker."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(in_symbols, value))})"
    if not isinstance(value, Affine):
        return repr(value)
    text = ""
    for unknown, factor in terms_of(value).items():
        text += _summand(factor, noise_name(unknown) if isinstance(unknown, int) else unknown)
    constant = constant_of(value)
    if constant:
        text += _summand(constant)
    if text.startswith(" - "):
        return "-" + text.removeprefix(" - ")
    return text.removeprefix(" + ") or "0"


def _summand(factor: Exact, name: str = "") -> str:
    """A multiple of an unknown, or a constant, with its sign before it."""
    sign = "-" if factor < 0 else "+"
    size = abs(factor)
    if not name:
        return f" {sign} {size}"
    return f" {sign} {name}" if size == 1 else f" {sign} {size}·{name}"


def draws_of(number: Any) -> set[int]:
    """The draws of noise that a number depends on."""
    if not isinstance(number, Affine):
        return set()
    return {unknown for unknown in terms_of(number) if isinstance(unknown, int)}


def form_of(number: Any) -> tuple[Mapping[Unknown, Exact], Exact]:
    """The terms and the constant of a number: equal for equal numbers."""
    if not isinstance(number, Affine):
        return {}, exact(number)
    return terms_of(number), constant_of(number)


def questions_of(transcript: Sequence[tuple[Any, bool]]) -> list[tuple[set[int], bool]]:
    """For each question the draws that it is about, and the answer."""
    questions = []
    for (terms, _), answer in transcript:
        draws = {unknown for unknown in terms if isinstance(unknown, int)}
        questions.append((draws, answer))
    return questions


def renamed(form: Any, names: Mapping[Unknown, Unknown]) -> Any:
    """A form with other names for some unknowns."""
    terms, constant = form
    return {names.get(unknown, unknown): by for unknown, by in terms.items()}, constant


def in_terms(number: object, values: Mapping[Unknown, Affine]) -> Any:
    """A number with other numbers in place of some unknowns."""
    if not isinstance(number, Affine):
        return number
    terms = terms_of(number)
    other_terms = {unknown: factor for unknown, factor in terms.items() if unknown not in values}
    total = affine(_PATH.read(number), other_terms, constant_of(number))
    for unknown, factor in terms.items():
        if unknown in values:
            total = total + values[unknown] * factor
    return total


def noise_name(draw: int) -> str:
    """The name of a draw in messages."""
    return f"η{draw}"


class Condition:
    """A question about a form: is it negative? Asking for its truth asks the path."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("expected", "form")

    def __init__(self, form: Affine, expected: bool) -> None:
        _FORM.write(self, form)
        _EXPECTED.write(self, expected)

    def __bool__(self) -> bool:
        form = asked_form(self)
        if terms_of(form):
            negative = _PATH.read(form).is_negative(form)
        else:
            negative = constant_of(form) < 0
        return negative is expected_answer(self)

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    __repr__ = __str__ = __format__ = _refuse_text


_FORM = HiddenSlot(Condition, "form")
_EXPECTED = HiddenSlot(Condition, "expected")
asked_form: Callable[[Condition], Affine] = _FORM.read
expected_answer: Callable[[Condition], bool] = _EXPECTED.read

"""The numbers a program runs on while it is being proved: affine forms of unknowns.

An unknown is an answer, a public parameter or a draw of noise. Sums of them and multiples by
known numbers are all that selection mechanisms compute. So every number in a run is an exact
affine form, and every question that a program asks is whether such a form is negative. A *path*
answers it: at one point, or on all branches in turn.

Noise is named by the number of its draw, everything else by a word.
"""

import math
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from types import FrameType
from typing import Any, NoReturn, Protocol

from dpgap.exact.laws import Scalar

Exact = int | Fraction
Unknown = int | str


class BadProgram(Exception):  # noqa: N818 - it says what is wrong with the program
    """The program cannot be judged at all, and why."""

    __module__ = "dpgap.proof"


class BadNoise(ValueError):  # noqa: N818 - as the two beside it
    """The noise given for a check is not what the program draws."""


class Violation(Exception):  # noqa: N818 - a finding, not a fault
    """A condition of the proof that does not hold."""

    __module__ = "dpgap.proof"

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(message)
        self.condition = condition
        self.message = message


class Path(Protocol):
    """Answers the questions that a program asks."""

    def is_negative(self, form: "Affine") -> bool:
        """Whether the form is below zero here."""


def exact(value: Any) -> Exact:
    """A known number as an exact one; a float means the binary number that it is."""
    if isinstance(value, int):
        return value
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else value  # integers are faster
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            raise BadProgram(f"the program computes with {value}, which is not a number to compare")
        return Fraction(value)
    if hasattr(value, "item"):
        return exact(value.item())
    raise BadProgram(f"the program computes with a {type(value).__name__}, which is not a number")


class Affine:
    """A constant and a multiple of each unknown."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("constant", "path", "terms")

    terms: Mapping[Unknown, Exact]
    constant: Exact
    path: Path

    def __init__(self, path: Path, terms: Mapping[Unknown, Exact], constant: Exact = 0) -> None:
        keep = object.__setattr__
        keep(self, "path", path)
        keep(self, "terms", terms)
        keep(self, "constant", constant)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise BadProgram("the program changes a number in place: noise and answers are given")

    @property
    def draws(self) -> set[int]:
        """The draws of noise that this number depends on."""
        return {unknown for unknown in self.terms if isinstance(unknown, int)}

    def at(self, noise: Sequence[Exact]) -> Exact:
        """The value at this noise, where nothing else is unknown."""
        return sum((self.terms[draw] * noise[draw] for draw in self.draws), self.constant)

    def __add__(self, other: Any) -> "Affine":
        if not isinstance(other, Affine):
            return Affine(self.path, self.terms, self.constant + exact(other))
        terms = dict(self.terms)
        for unknown, by in other.terms.items():
            total = terms.get(unknown, 0) + by
            if total:
                terms[unknown] = total
            else:
                del terms[unknown]
        return Affine(self.path, terms, self.constant + other.constant)

    __radd__ = __add__

    def __neg__(self) -> "Affine":
        return Affine(self.path, {u: -by for u, by in self.terms.items()}, -self.constant)

    def __pos__(self) -> "Affine":
        return self

    def __sub__(self, other: Any) -> "Affine":
        return self + (-other if isinstance(other, Affine) else -exact(other))

    def __rsub__(self, other: Any) -> "Affine":
        return Affine.__add__(-self, other)

    def __mul__(self, other: Any) -> "Affine":
        if isinstance(other, Affine):
            if other.terms and self.terms:
                raise BadProgram(
                    f"the program multiplies two unknowns, ({self}) and ({other}): "
                    "only sums and multiples by known numbers can be proved"
                )
            return other * self.constant if not self.terms else self * other.constant
        factor = exact(other)
        terms = {u: by * factor for u, by in self.terms.items()} if factor else {}
        return Affine(self.path, terms, self.constant * factor)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Affine":
        if isinstance(other, Affine):
            if other.terms:
                raise BadProgram(f"the program divides by an unknown, ({other})")
            other = other.constant
        return self * (1 / Fraction(exact(other)))

    def __rtruediv__(self, other: Any) -> "Affine":
        return Affine(self.path, {}, exact(other)) / self

    def __abs__(self) -> "Affine":
        return -self if self < 0 else self

    def __lt__(self, other: Any) -> "Condition":
        return Condition(self - other, expected=True)

    def __ge__(self, other: Any) -> "Condition":
        return Condition(self - other, expected=False)

    def __gt__(self, other: Any) -> "Condition":
        return Condition(other - self, expected=True)

    def __le__(self, other: Any) -> "Condition":
        return Condition(other - self, expected=False)

    def __eq__(self, other: object) -> bool:
        if other is None or isinstance(other, str | tuple | list):
            return False
        difference = self - other
        return not (difference < 0) and not (difference > 0)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    def _refuse(self, *_: object) -> NoReturn:
        raise BadProgram(
            "the program rounds an unknown or turns it into a float: "
            "only sums, multiples by known numbers and comparisons can be proved"
        )

    __float__ = __int__ = __round__ = __floor__ = __ceil__ = __trunc__ = _refuse
    __pow__ = __rpow__ = __mod__ = __floordiv__ = __index__ = _refuse

    def __repr__(self) -> str:
        return " ".join(self._words()) or "0"

    def _words(self) -> Iterator[str]:
        first = True
        pairs = [(noise_name(u) if isinstance(u, int) else u, by) for u, by in self.terms.items()]
        if self.constant:
            pairs.append(("", self.constant))
        for name, by in pairs:
            sign = "-" if by < 0 else "" if first else "+"
            size = "" if abs(by) == 1 and name else f"{abs(by)}{'·' if name else ''}"
            yield f"{sign}{size}{name}" if first else f"{sign} {size}{name}"
            first = False


def noise_name(draw: int) -> str:
    """How a draw is called in messages."""
    return f"η{draw}"


class Condition:
    """A question about a form: is it negative? Asking for its truth asks the path."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("expected", "form")

    def __init__(self, form: Affine, expected: bool) -> None:
        self.form = form
        self.expected = expected

    def __bool__(self) -> bool:
        form = self.form
        negative = form.path.is_negative(form) if form.terms else form.constant < 0
        return negative is self.expected

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    def __ne__(self, other: object) -> bool:
        return bool(self) != other


# --------------------------------------------------------------------------------------------------
# Run somebody's program without hanging on it or being confused by its errors.


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


# --------------------------------------------------------------------------------------------------
# How much an affine alignment stretches or squeezes the space of noise, in exact fractions.


def squeeze(shifts: Sequence[Scalar]) -> Exact:
    """ln(1/|det J|), rounded up: what an affine alignment that shrinks volumes costs on top."""
    stretch = jacobian(shifts)
    if stretch == 0:
        raise Violation("one-to-one", "the alignment maps different noise to the same: |det J| = 0")
    return log_above(1 / stretch)


def log_above(number: Fraction) -> Fraction:
    """A rational just above ln of the number; 0 for 1.

    >>> float(log_above(Fraction(2)))
    0.6931471805599453
    """
    if number == 1:
        return Fraction(0)
    up = Context(prec=40, rounding=ROUND_CEILING)
    quotient = up.divide(Decimal(number.numerator), Decimal(number.denominator))
    return Fraction(up.next_plus(up.ln(quotient)))


def determinant(rows: Sequence[Sequence[Exact]]) -> Fraction:
    """The determinant, exactly.

    >>> determinant([[0, 1], [1, 0]])
    Fraction(-1, 1)
    """
    matrix = [[Fraction(entry) for entry in row] for row in rows]
    result = Fraction(1)
    for column in range(len(matrix)):
        pivot = next((r for r in range(column, len(matrix)) if matrix[r][column]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != column:
            matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
            result = -result
        result *= matrix[column][column]
        for row in matrix[column + 1 :]:
            factor = row[column] / matrix[column][column]
            for at in range(column, len(matrix)):
                row[at] -= factor * matrix[column][at]
    return result


def jacobian(shifts: Sequence[Scalar]) -> Fraction:
    """|det J| of an affine alignment: how much it stretches volumes."""
    terms = [shift.terms if isinstance(shift, Affine) else {} for shift in shifts]
    size = range(len(shifts))
    return abs(determinant([[int(i == j) + terms[i].get(j, 0) for j in size] for i in size]))

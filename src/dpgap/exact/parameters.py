"""Reading parameters: exact rationals, or an error that says what is accepted.

A float means its shortest decimal, as a person reads it: 0.1 is 1/10, not the binary number
nearby. Text must be a decimal such as "0.7" or "1e-3", or a fraction such as "7/10". Similar text
is refused: an ε that is read as ten times what was meant is a leak.

A mechanism is a `declared` class: each `parameter` names the function that reads it, and a
`derived` field is computed from the parameters.

>>> @declared()
... class Budget:
...     epsilon: Exact = parameter(positive_rational)
...     half: Fraction = derived(lambda budget: budget.epsilon / 2)
>>> Budget(0.7)
Budget(epsilon=Fraction(7, 10))
"""

import math
import operator
import re
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
)

_DIGITS = "-0123456789"
_SUPERSCRIPTS = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
_RAISED = str.maketrans(_DIGITS, _SUPERSCRIPTS)
_LOWERED = str.maketrans(_SUPERSCRIPTS, _DIGITS)
_POWER = re.compile(f"(?:([0-9.]+)·)?10([{_SUPERSCRIPTS}]+)")
_MAX_EXPONENT = 400
_CACHE_SIZE = 256
_FINEST = Fraction(1, 1 << 100)  # so that the fourth power of any answer is a float
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FRACTION = re.compile(r"[+-]?[0-9]+/[0-9]+")

Rational = int | float | str | Decimal | Fraction
"""What `epsilon`, `sensitivity`, `threshold`, … accept."""

_Accepted = TypeVar("_Accepted", contravariant=True)
_Stored = TypeVar("_Stored", covariant=True)
_Kind = TypeVar("_Kind", bound=type)
_Value = TypeVar("_Value")


class Parameter(Generic[_Accepted, _Stored]):
    """The type of a field that accepts one type and holds another."""

    if TYPE_CHECKING:

        def __get__(self, value: object, kind: type | None = None) -> _Stored: ...
        def __set__(self, value: object, accepted: _Accepted) -> None: ...


Exact = Parameter[Rational, Fraction]
ExactOrNone = Parameter[Rational | None, Fraction | None]


def parameter(
    read: Callable[[str, Any], object],
    *,
    default: Any = MISSING,
    then: Callable[[Any], object] | None = None,
    shown: bool = True,
) -> Any:
    """A field whose value `read(name, value)` reads or refuses; `then(self)` may replace it.

    A field that is not `shown` is left out of the `repr` and of comparisons.
    """
    reading = {"read": read, "then": then}
    return field(default=default, repr=shown, compare=shown, metadata=reading)


def derived(
    then: Callable[[Any], object], *, init: Literal[False] = False, shown: bool = False
) -> Any:
    """A field that is computed from all parameters, and from fields derived before it."""
    return field(init=init, repr=shown, compare=shown, metadata={"then": then})


@dataclass_transform(field_specifiers=(parameter, derived, field))
def declared(**options: bool) -> Callable[[_Kind], _Kind]:
    """Make a class a frozen dataclass with slots, whose parameters are read when it is made."""

    def declare(kind: _Kind) -> _Kind:
        kind.__post_init__ = _read_all  # type: ignore[attr-defined]
        value_class: Any = dataclass(frozen=True, slots=True, **options)(kind)
        annotations = value_class.__init__.__annotations__
        for name, hint in annotations.items():
            if get_origin(hint) is Parameter:
                annotations[name] = get_args(hint)[0]  # what is accepted, not what is stored
        return value_class  # type: ignore[no-any-return]

    return declare


def _read_all(value: Any) -> None:
    """Read all parameters in their order; then compute the derived fields."""
    parameters = fields(value)
    for part in parameters:
        read = part.metadata.get("read")
        if read is not None:
            object.__setattr__(value, part.name, read(part.name, getattr(value, part.name)))
    for part in parameters:
        compute = part.metadata.get("then")
        if compute is not None:
            object.__setattr__(value, part.name, compute(value))


def altered(value: _Value, **changes: Any) -> _Value:
    """A copy of a declared value with some fields changed; no parameter is read again."""
    copy = object.__new__(type(value))
    for part in fields(value):  # type: ignore[arg-type]
        stored = changes.get(part.name, getattr(value, part.name))
        object.__setattr__(copy, part.name, stored)
    return copy


def remembered(make: Callable[..., _Value]) -> Callable[..., _Value]:
    """Cache a function of a frozen value and of whole numbers, for the values used last.

    The key of the cache is the value's `id`, not its fields: to hash exact numbers would take as
    long as the function. The cache keeps the value too, so no other value gets the same `id`.
    """
    results: dict[tuple[int, ...], tuple[Any, _Value]] = {}

    @wraps(make)
    def look_up(value: Any, *numbers: int) -> _Value:
        key = (id(value), *numbers)
        cached = results.get(key)
        if cached is not None and cached[0] is value:
            return cached[1]
        if len(results) >= _CACHE_SIZE:
            results.clear()
        result = make(value, *numbers)
        results[key] = (value, result)
        return result

    return look_up


def or_none(read: Callable[[str, Any], object]) -> Callable[[str, Any], object]:
    """A function that returns None for None, and `read(name, value)` for every other value."""
    return lambda name, value: None if value is None else read(name, value)


def rational(name: str, value: object) -> Fraction:
    """`value` as an exact rational.

    >>> rational("epsilon", 0.1)
    Fraction(1, 10)
    """
    if type(value) is Fraction:
        return value
    if _is_of_numpy("generic", value) and not _is_of_numpy("bool_", value):
        value = value.item()  # type: ignore[attr-defined]
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal | Fraction):
        raise TypeError(
            f"{name} must be a number (int, float, str, Decimal or Fraction), "
            f"not {type(value).__name__}"
        )
    try:
        return _fraction(value)
    except (ValueError, ArithmeticError):
        text = str(value) if isinstance(value, Decimal) else repr(value)
        corrected = with_point(str(value))
        advice = f": write {corrected}" if corrected else ""
        raise ValueError(
            f"{name} must be a finite number such as 0.7, 1e-3 or 7/10, with an exponent within "
            f"±{_MAX_EXPONENT}, not {text}{advice}"
        ) from None


def _fraction(number: Rational) -> Fraction:
    """The number exactly, or an error: not finite, no such text, or far too large to write out."""
    if isinstance(number, float):
        number = repr(number)
    if isinstance(number, str) and not _FRACTION.fullmatch(number):
        if not _DECIMAL.fullmatch(number):
            raise ValueError
        number = Decimal(number)
    if isinstance(number, Decimal) and number and abs(number.adjusted()) > _MAX_EXPONENT:
        raise ValueError  # 1e999999999 would take very long to write out
    return Fraction(number)


def with_point(text: str) -> str:
    """A number with a decimal comma, written with a point; "" if it is no such number.

    >>> with_point("-1,5"), with_point("1,000"), with_point("fig")
    ('-1.5', '1000 or 1.000', '')
    """
    if not re.fullmatch("[+-]?[0-9]+,[0-9]+", text):
        return ""
    as_decimal = text.replace(",", ".")
    if re.fullmatch("[+-]?[1-9][0-9]{0,2},[0-9]{3}", text):  # 1,000 may mean a thousand
        return f"{text.replace(',', '')} or {as_decimal}"
    return as_decimal


def _is_of_numpy(kind: str, value: object) -> bool:
    """Whether a value is a NumPy scalar of this type; NumPy is not loaded to find out."""
    return isinstance(value, getattr(sys.modules.get("numpy"), kind, ()))


def approximately(number: Fraction, digits: int) -> str:
    """A number of any size, to a few digits.

    >>> approximately(Fraction(10**400, 3), 3)
    '3.33e+399'
    """
    if not number or 1e-300 < abs(number) < 1e300:
        return f"{float(number):.{digits}g}"
    context = Context(prec=digits)
    quotient = context.divide(Decimal(number.numerator), Decimal(number.denominator))
    return f"{context.normalize(quotient):.{digits}g}"


def readable_up(number: Fraction) -> str:
    """A number for people, rounded up: for what is promised, and for what is spent.

    >>> readable_up(Fraction("0.12345612")), readable_up(Fraction(7, 10))
    ('≈0.123457', '0.7')
    """
    return readable(number, ROUND_CEILING)


def readable_down(number: Fraction) -> str:
    """A number for people, rounded down: for what is left.

    >>> readable_down(Fraction("0.12345678")), readable_down(Fraction(7, 10))
    ('≈0.123456', '0.7')
    """
    return readable(number, ROUND_FLOOR)


def readable(number: Fraction, rounding: str | None = None) -> str:
    """A number for people: exact if it is short, else to about six digits.

    >>> readable(Fraction(7, 10)), readable(Fraction(2, 3)), readable(Fraction(12345, 98765))
    ('0.7', '2/3', '≈0.124994')
    >>> readable(Fraction(1, 10**6))
    '10⁻⁶'
    """
    decimal = approximately(number, 6)
    if Fraction(decimal) == number:
        return with_power(decimal)
    if max(abs(number.numerator), number.denominator) < 1000:
        return str(number)
    if rounding is not None:
        decimal = few_digits(number, 6, rounding)
    return f"≈{with_power(decimal)}"


def with_power(decimal: str) -> str:
    """A decimal with an "e", such as 1e-06, written with a power of ten.

    >>> with_power("1e-06"), with_power("-2.5e+20"), with_power("0.7")
    ('10⁻⁶', '-2.5·10²⁰', '0.7')
    """
    digits, e, exponent = decimal.partition("e")
    if not e:
        return decimal
    power = "10" + str(int(exponent)).translate(_RAISED)
    if digits in ("1", "-1"):
        return digits[:-1] + power
    return f"{digits}·{power}"


def without_power(text: str) -> str:
    """The text of `with_power`, written with an "e" again.

    >>> without_power("10⁻⁶"), without_power("2.5·10⁻¹¹"), without_power("0.7")
    ('1e-6', '2.5e-11', '0.7')
    """
    match = _POWER.fullmatch(text)
    if match is None:
        return text
    return f"{match[1] or 1}e{match[2].translate(_LOWERED)}"


def few_digits(number: Fraction, digits: int = 3, rounding: str = ROUND_CEILING) -> str:
    """A number in a few digits, rounded up unless `rounding` says otherwise."""
    context = Context(prec=digits, rounding=rounding, traps=[])
    rounded = context.divide(Decimal(number.numerator), Decimal(number.denominator))
    return approximately(Fraction(rounded), digits)


def factor(epsilon: Fraction) -> str:
    """The factor by which ε allows an outcome to become likelier: e^ε, rounded up.

    >>> [factor(Fraction(epsilon)) for epsilon in ("5", "1", "1/10", "1/1000", "1/10000000")]
    ['149', '2.72', '1.11', '1.0011', '1 + 1.1·10⁻⁷']
    """
    if epsilon >= 700:
        return f"e^{readable_up(epsilon)}"
    if epsilon < Fraction(1, 10**6):  # then e^ε − 1 is less than ε + ε²
        return f"1 + {with_power(few_digits(epsilon + epsilon**2, 2))}"
    up = Context(prec=40, rounding=ROUND_CEILING, Emin=-999, Emax=999, clamp=0, traps=[])
    exponent = up.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    times = Fraction(up.next_plus(up.exp(exponent)))  # `exp` rounds to the nearest
    if times >= 2:
        return with_power(few_digits(times))
    excess = Decimal(few_digits(times - 1, 2))
    return f"{up.normalize(up.add(Decimal(1), excess)):f}"


def exact_text(value: Fraction) -> str:
    """An exact number as text.

    Python writes no decimal of more than 4,300 digits. Such a number is written in base 16.

    >>> exact_text(Fraction(7, 10)), exact_text(Fraction(2))
    ('7/10', '2')
    """
    try:
        return str(value)
    except ValueError:
        sign = "-" if value < 0 else ""
        return f"{sign}{abs(value.numerator):#x}/{value.denominator:#x}"


def positive_rational(name: str, value: object) -> Fraction:
    """`value` as an exact rational above zero."""
    number = rational(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be greater than 0, not {value!r}")
    return number


def share(name: str, value: object) -> Fraction:
    """`value` as an exact rational strictly between zero and one."""
    number = rational(name, value)
    if not 0 < number < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, not {value!r}")
    return number


def positive_integer(name: str, value: object) -> int:
    """`value` as a whole number of at least one."""
    if isinstance(value, bool) or _is_of_numpy("bool_", value):
        raise TypeError(f"{name} must be a whole number, not a bool")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__}") from None
    if number < 1:
        raise ValueError(f"{name} must be at least 1, not {number}")
    return number


def many(count: int, noun: str) -> str:
    """A number with its noun.

    >>> many(1, "path"), many(1_000, "path")
    ('1 path', '1,000 paths')
    """
    plural = "" if count == 1 else "s"
    return f"{count:,} {noun}{plural}"


def require_made(mechanism: object) -> None:
    """Refuse the class of a mechanism in place of a mechanism."""
    if isinstance(mechanism, type) and hasattr(mechanism, "run"):
        raise TypeError(f"you passed the class: write {mechanism.__name__}()")


def boolean(name: str, value: object) -> bool:
    """`value`, if it is True or False; 0 and 1 are refused."""
    if not isinstance(value, bool) and not _is_of_numpy("bool_", value):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def power_of_two(name: str, value: object) -> Fraction:
    """`value` as an exact power of two, such as 1, 1/8 or 0.125.

    Here a float means itself: the shortest decimal of 2**-40 is not a power of two.
    """
    if isinstance(value, float) and math.isfinite(value):
        value = Fraction(value)
    number = positive_rational(name, value)
    if number.numerator & (number.numerator - 1) or number.denominator & (number.denominator - 1):
        raise ValueError(f"{name} must be a power of two such as 1, 0.5 or 2**-10, not {value!r}")
    if not _FINEST <= number <= 1 / _FINEST:
        raise ValueError(f"{name} must lie between 2^-100 and 2^100")
    return number


def confidence_level(value: object) -> float:
    """`level` as a float strictly between zero and one."""
    level = value if isinstance(value, float) else float(share("level", value))
    if not math.ulp(0.0) < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, such as 0.95, not {value!r}")
    return level

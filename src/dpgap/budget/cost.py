"""Privacy as an amount: what a release costs, and the limit that costs must stay within.

Only this file adds, subtracts, splits or compares privacy, and only `Limit` says whether more may
be spent. Everything is exact. A cost has three numbers:

- `epsilon`: the ε of pure differential privacy; None if a part of it has none, as Gaussian noise.
- `rho`: the ρ of zero-concentrated differential privacy (zCDP). Pure ε is at most ε²/2 in ρ.
- `delta`: the chance that the promise fails.

**Use.** A mechanism states the most that one release costs, as `mechanism.cost`. A pipeline adds
named parts: `Cost.composed([("select", selection.cost), ("measure", measurement.cost)])`. So a
pipeline's ρ is the sum of the parts' ε²/2, which is less than (Σε)²/2. An account reserves this
cost before the draw. What a release did cost is the same cost, or less:

- A part that *never began* (the measurement, if nothing was found) costs nothing: leave it out.
- A run that stopped early has a smaller loss: `cost.realised(loss)`. This lowers ε alone. A loss
  that depends on the data is never credited in ρ, and a δ was spent when the draw began.
- What drew nothing at all costs `NOTHING`, also in δ.

Groups: a unit counts in a few groups, so all answers together cost what the worst few of them
cost: `Cost.worst(costs, count)`.

**Rounding** is always against the user. Books hold whole multiples of one small unit,
1/(10³⁰ · lcm(1, …, 24)), so that sums keep short denominators however many releases there are.
Costs are rounded *up* (`Cost.up`) and limits *down* (`Limit.down`). A release itself states its
exact cost.

>>> select, measure = split(Fraction(1), Fraction(1, 4))
>>> whole = Cost.composed([("select", Cost.pure(select)), ("measure", Cost.pure(measure))])
>>> whole.epsilon, whole.rho
(Fraction(1, 1), Fraction(5, 16))
>>> limit = Limit("epsilon", Fraction(3, 2))
>>> limit.covers(whole), limit.covers(whole.times(2))
(True, False)
>>> print(f"{limit.left(whole)} left")
ε = 0.5 left
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Literal, Self

from dpgap.exact.parameters import Rational, positive_rational, rational, readable_down, readable_up
from dpgap.question import chance

UNIT = Fraction(1, 10**30 * math.lcm(*range(1, 25)))
"""Books hold whole multiples of this."""
_LARGEST = 10**100

Currency = Literal["epsilon", "rho"]
CURRENCIES: dict[Currency, str] = {"epsilon": "ε", "rho": "ρ"}
"""The currencies of a limit, with their symbols."""
_ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class Cost:
    """What releases cost, or can cost at most. Costs of several releases add up."""

    epsilon: Fraction | None
    """None if a part has no pure ε."""
    rho: Fraction
    delta: Fraction = _ZERO
    parts: tuple[tuple[str, "Cost"], ...] = field(default=(), compare=False)
    """The named parts of one release, in their order."""

    def __post_init__(self) -> None:
        is_negative = self.rho.numerator < 0 or self.delta.numerator < 0
        if self.epsilon is not None:
            is_negative |= self.epsilon.numerator < 0
        if is_negative:
            raise ValueError("epsilon, rho and delta of a cost must not be less than 0")

    @classmethod
    def pure(cls, epsilon: Rational, delta: Rational = _ZERO) -> Self:
        """The cost of ε-differential privacy: (ε, ε²/2)."""
        exact = rational("epsilon", epsilon)
        half_square = Fraction(exact.numerator**2, 2 * exact.denominator**2)
        return cls(exact, half_square, rational("delta", delta))

    @classmethod
    def stated(cls, epsilon: Rational, delta: Rational) -> "Cost":
        """The pure cost that a person states; one that is too large is refused."""
        cost = cls.pure(epsilon, delta)
        if cost.pure_epsilon >= _LARGEST:
            raise ValueError("epsilon must be less than 10^100")
        if cost.delta > 1:
            raise ValueError("delta must be at most 1")
        return cost

    @classmethod
    def sum(cls, costs: Iterable["Cost"]) -> "Cost":
        """What several releases cost together."""
        listed = list(costs)
        return reduce(add, listed) if listed else NOTHING

    @classmethod
    def composed(cls, parts: Iterable[tuple[str, "Cost"]]) -> "Cost":
        """What the named parts of one release cost together."""
        named = tuple(parts)
        together = cls.sum(cost for _, cost in named)
        return Cost(together.epsilon, together.rho, together.delta, named)

    @classmethod
    def worst(cls, costs: Iterable["Cost"], count: int) -> "Cost":
        """What so many of these cost together, whichever these are."""
        listed = list(costs)
        epsilons = [cost.epsilon for cost in listed if cost.epsilon is not None]
        return cls(
            _largest(epsilons, count) if len(epsilons) == len(listed) else None,
            _largest([cost.rho for cost in listed], count),
            _largest([cost.delta for cost in listed], count),
        )

    @classmethod
    def least(cls, costs: Iterable["Cost"]) -> "Cost":
        """The smallest of each of their numbers; nothing if there are no costs."""
        listed = list(costs)
        if not listed:
            return NOTHING
        epsilons = [cost.epsilon for cost in listed if cost.epsilon is not None]
        return cls(
            min(epsilons) if len(epsilons) == len(listed) else None,
            min(cost.rho for cost in listed),
            min(cost.delta for cost in listed),
        )

    def __add__(self, other: "Cost") -> "Cost":
        epsilon = None
        if self.epsilon is not None and other.epsilon is not None:
            epsilon = self.epsilon + other.epsilon
        delta = self.delta + other.delta if other.delta else self.delta
        return Cost(epsilon, self.rho + other.rho, delta)

    def __sub__(self, other: "Cost") -> "Cost":
        """The cost without a part of it."""
        epsilon = None
        if self.epsilon is not None and other.epsilon is not None:
            epsilon = self.epsilon - other.epsilon
        return Cost(epsilon, self.rho - other.rho, self.delta - other.delta)

    def beyond(self, other: "Cost") -> "Cost":
        """How much larger this cost is than another; nothing where it is smaller."""
        epsilon = None
        if self.epsilon is not None and other.epsilon is not None:
            epsilon = max(_ZERO, self.epsilon - other.epsilon)
        rho = max(_ZERO, self.rho - other.rho)
        return Cost(epsilon, rho, max(_ZERO, self.delta - other.delta))

    @property
    def pure_epsilon(self) -> Fraction:
        """The ε, or an error if a part has no pure ε."""
        if self.epsilon is None:
            raise ValueError("this noise has no ε")
        return self.epsilon

    def times(self, number: int) -> "Cost":
        """What so many of these cost together."""
        epsilon = None if self.epsilon is None else self.epsilon * number
        return Cost(epsilon, self.rho * number, self.delta * number)

    def epsilon_times(self, factor: Fraction) -> Fraction:
        """The ε that is so many times as large."""
        return factor * self.pure_epsilon

    def with_delta(self, delta: Fraction) -> "Cost":
        """The same cost with this δ."""
        return Cost(self.epsilon, self.rho, delta, self.parts)

    def realised(self, loss: "Cost") -> "Cost":
        """What a run did cost whose realised loss has a smaller ε; ρ and δ stay spent."""
        if self.epsilon is None or loss.epsilon is None or loss.epsilon > self.epsilon:
            raise ValueError("a run cannot lose more than its cost")
        return replace(self, epsilon=loss.epsilon)

    def share_of(self, other: "Cost") -> Fraction:
        """How large a part of another cost this is: of its ε, or of its ρ if it has no ε."""
        if self.epsilon is not None and other.epsilon:
            return self.epsilon / other.epsilon
        return self.rho / other.rho

    def fits(self, other: "Cost") -> bool:
        """Whether no number of this cost is larger than that of the other."""
        if other.epsilon is not None and (self.epsilon is None or self.epsilon > other.epsilon):
            return False
        return self.rho <= other.rho and self.delta <= other.delta

    def up(self) -> "Cost":
        """The cost as a book records it: rounded up."""
        epsilon = None if self.epsilon is None else _up(self.epsilon)
        return Cost(epsilon, _up(self.rho), _up(self.delta))

    def exact(self) -> list[str | None]:
        """The three numbers as text, as they are stored and hashed."""
        epsilon = None if self.epsilon is None else str(self.epsilon)
        return [epsilon, str(self.rho), str(self.delta)]

    def __str__(self) -> str:
        return self.in_words()

    def in_words(self, *beside: "Cost | Limit", joint: str = ", ") -> str:
        """The cost for people, rounded up. Its δ is shown, even 0, if an amount beside has one."""
        symbol, number = ("ρ", self.rho) if self.epsilon is None else ("ε", self.epsilon)
        has_delta = any(amount.delta for amount in (self, *beside))
        return _in_words(symbol, number, self.delta if has_delta else None, readable_up, joint)


NOTHING = Cost(_ZERO, _ZERO)
"""What costs nothing: also what never began."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that releases may cost together: an amount of ε or of ρ, and a δ."""

    currency: Currency
    amount: Fraction
    delta: Fraction = _ZERO

    def __post_init__(self) -> None:
        if self.amount < 0 or self.delta < 0:
            raise ValueError(f"{self.currency} and delta of a limit must not be less than 0")

    @classmethod
    def granted(cls, epsilon: Rational, delta: Rational) -> "Limit":
        """The total of a budget as it is recorded: rounded down, with an ε above 0."""
        total = cls("epsilon", positive_rational("epsilon", epsilon), chance("delta", delta)).down()
        if total.amount == 0:
            raise ValueError("epsilon must be larger: a total this small rounds down to 0")
        return total

    def of(self, cost: Cost) -> Fraction:
        """A cost in the currency of this limit."""
        amount = cost.rho if self.currency == "rho" else cost.epsilon
        if amount is None:
            raise ValueError("this noise has no ε: only a budget in ρ can pay for it")
        return amount

    def covers(self, cost: Cost) -> bool:
        """Whether releases of this cost stay within the limit."""
        return self.of(cost) <= self.amount and self.covers_delta(cost)

    def covers_delta(self, cost: Cost) -> bool:
        """Whether the δ of this cost stays within the limit."""
        return cost.delta <= self.delta

    def none(self) -> "Limit":
        """A limit in the same currency that covers nothing."""
        return replace(self, amount=_ZERO, delta=_ZERO)

    def used_up_by(self, cost: Cost) -> "Limit":
        """The least limit in the same currency that covers a cost."""
        return replace(self, amount=self.of(cost), delta=cost.delta)

    @property
    def epsilon(self) -> Fraction | None:
        """The amount, if it is one of ε."""
        return self.amount if self.currency == "epsilon" else None

    @property
    def is_empty(self) -> bool:
        """Whether the limit covers nothing."""
        return not self.amount and not self.delta

    def portion(self, cost: Cost) -> Fraction:
        """How large a part of this limit a cost is."""
        return self.of(cost) / self.amount if self.amount else _ZERO

    def has_more_than(self, other: "Limit") -> bool:
        """Whether the amount is larger than that of another limit, whatever their δ are."""
        self.require_same_currency(other)
        return self.amount > other.amount

    def left(self, spent: Cost) -> "Limit":
        """What may still be spent after this cost."""
        amount = max(_ZERO, self.amount - self.of(spent))
        return replace(self, amount=amount, delta=max(_ZERO, self.delta - spent.delta))

    def fits(self, other: "Limit") -> bool:
        """Whether this limit is nowhere larger than another one."""
        self.require_same_currency(other)
        return self.amount <= other.amount and self.delta <= other.delta

    def within(self, other: "Limit") -> "Limit":
        """The smaller of both limits, in its amount and in its δ."""
        self.require_same_currency(other)
        amount = min(self.amount, other.amount)
        return replace(self, amount=amount, delta=min(self.delta, other.delta))

    def raised(self, grant: "Limit") -> "Limit":
        """The limit with the amount of another one added; its δ stays."""
        self.require_same_currency(grant)
        return replace(self, amount=self.amount + grant.amount)

    def changed(self, before: "Limit", after: "Limit") -> "Limit":
        """The limit with its amount changed by as much as that of another limit; its δ stays."""
        return replace(self, amount=self.amount + after.amount - before.amount)

    def lowered(self, cost: Cost) -> "Limit":
        """The limit without the amount of a cost; its δ stays."""
        return replace(self, amount=self.amount - self.of(cost))

    def raised_to(self, cost: Cost) -> "Limit":
        """The limit, or a larger one that covers this cost."""
        amount = max(self.amount, self.of(cost))
        return replace(self, amount=amount, delta=max(self.delta, cost.delta))

    def renewed(self, spent: Cost, grant: "Limit") -> "Limit":
        """The limit that leaves exactly the amount of another one after a cost; its δ stays."""
        self.require_same_currency(grant)
        return replace(self, amount=self.of(spent) + grant.amount)

    def share_of_delta(self, amount: Fraction) -> Fraction:
        """The part of δ that belongs to a part of the amount, and at most all of it."""
        return self.delta * min(Fraction(1), amount / self.amount) if self.amount else self.delta

    def require_same_currency(self, other: "Limit") -> None:
        """Refuse to compare or add an amount of ε and one of ρ."""
        if self.currency != other.currency:
            raise ValueError(f"the budget is in {self.currency}, not in {other.currency}")

    def down(self) -> "Limit":
        """The limit as a book records it: rounded down. One that is too large is refused."""
        if self.amount >= _LARGEST:
            raise ValueError(f"{self.currency} must be less than 10^100")
        return replace(self, amount=_down(self.amount), delta=_down(self.delta))

    def exact(self) -> list[str]:
        """The currency and the two numbers as text, as they are stored and hashed."""
        return [self.currency, str(self.amount), str(self.delta)]

    def __str__(self) -> str:
        return self.in_words()

    def in_words(self, *beside: "Cost | Limit", joint: str = ", ") -> str:
        """The limit for people, rounded down: what is left must never look like more.

        Its δ is shown, even 0, if an amount beside has one.
        """
        has_delta = any(amount.delta for amount in (self, *beside))
        delta = self.delta if has_delta else None
        return _in_words(CURRENCIES[self.currency], self.amount, delta, readable_down, joint)


def split(amount: Fraction, *shares: Fraction) -> tuple[Fraction, ...]:
    """An amount of ε or ρ in parts of these shares, and the rest; they add up to the amount.

    >>> split(Fraction(1), Fraction(1, 20), Fraction(3, 20))
    (Fraction(1, 20), Fraction(3, 20), Fraction(4, 5))
    """
    parts = [share * amount for share in shares]
    remainder = amount - sum(parts)
    if remainder < 0 or any(part < 0 for part in parts):
        raise ValueError("shares must be at least 0, and together at most 1")
    return *parts, remainder


def equal_part(amount: Fraction, parts: int) -> Fraction:
    """One of so many equal parts of an amount of ε or ρ.

    >>> equal_part(Fraction(3, 4), 3)
    Fraction(1, 4)
    """
    return amount / parts


def _up(number: Fraction) -> Fraction:
    return math.ceil(number / UNIT) * UNIT


def _down(number: Fraction) -> Fraction:
    return math.floor(number / UNIT) * UNIT


def _largest(numbers: list[Fraction], count: int) -> Fraction:
    """The sum of so many of the largest numbers."""
    return sum(sorted(numbers, reverse=True)[:count], _ZERO)


def _in_words(
    symbol: str,
    number: Fraction,
    delta: Fraction | None,
    readable: Callable[[Fraction], str],
    joint: str,
) -> str:
    text = f"{symbol} = {readable(number)}"
    if delta is not None:
        text += f"{joint}δ = {readable(delta)}"
    return text.replace("= ≈", "≈ ")

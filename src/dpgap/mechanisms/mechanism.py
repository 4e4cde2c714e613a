"""The base classes of mechanisms: a frozen value with public parameters, and one way to release.

A mechanism declares its parameters (`dpgap.exact.parameters`), and has these methods:

- `run` is the algorithm and `align` its proof. Both are for few answers, and for any noise.
- `prepare` accepts or refuses the private answers; nothing is charged yet.
- `draw_paid` runs the algorithm once on exact secure noise, with a kernel: whole numbers.
- `build` makes the release from these and from the parameters.

The rest is the same for all: the most that a release can cost is charged after `prepare` and before
`draw_paid`, and the release is archived before it is returned (`Mechanism._release_prepared`).
"""

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpgap.budget.account import Account, Request, pay
from dpgap.budget.cost import Cost
from dpgap.data.private_counts import PrivateCounts, errors_without_answers, redacted_repr
from dpgap.estimates.certificates import Evidence
from dpgap.exact.grid import MAX_STEPS, Grid, Labels
from dpgap.exact.parameters import remembered
from dpgap.exact.reals import Floats, Integers, without_float_errors
from dpgap.releases.detail import Detail, MechanismUsed, Promise
from dpgap.releases.drawn import Drawn
from dpgap.releases.release import Release, SelectedItems

Answers = ArrayLike | PrivateCounts
"""What a top k may be asked of."""

P = TypeVar("P")
D = TypeVar("D", bound=Drawn)
R = TypeVar("R", bound=Release)


class Draw(NamedTuple, Generic[D]):
    """The draw; and the private answers of the chosen, in steps, which are measured next."""

    drawn: D
    private_answers: Integers

    def __repr__(self) -> str:
        return redacted_repr(self)


class Winners(NamedTuple):
    """The winners of a selection, in its order: indices, leads and their evidence."""

    indices: Integers
    labels: tuple[Any, ...] | None
    gaps: Floats
    evidence: Evidence | None
    promise: Promise
    lead: float | None = None
    """The lead of the winners as one set."""

    def released(self, mechanism: MechanismUsed, cost: Cost) -> SelectedItems:
        """The release of the winners alone."""
        return SelectedItems(
            cost=cost,
            indices=self.indices,
            labels=self.labels,
            gaps=self.gaps,
            lead=self.lead,
            detail=Detail(promise=self.promise, mechanisms=(mechanism,), evidence=self.evidence),
        )


def gaps_of(leads: NDArray[Any], width: float) -> Floats:
    """The gap from each winner to the next, from leads in steps; one row for each run."""
    gaps = leads.copy()
    gaps[..., :-1] -= leads[..., 1:]
    in_units: Floats = np.multiply(gaps, width, dtype=np.float64)
    return in_units


class Claims(Protocol):
    """The parameters of a mechanism that selects: its cost, and its claims about the answers."""

    @property
    def k(self) -> int: ...
    @property
    def epsilon(self) -> Fraction: ...
    @property
    def monotonic(self) -> bool: ...
    @property
    def sensitivity(self) -> Fraction: ...
    @property
    def grid(self) -> Fraction | None: ...


def require_threshold(mechanism: Any) -> Fraction:
    """The threshold of a mechanism; refused if it is too large for whole steps."""
    threshold: Fraction = mechanism.threshold
    if abs(threshold) > MAX_STEPS * Grid(mechanism.grid).step:
        raise ValueError("threshold must lie within ±2^60 grid steps")
    return threshold


class Mechanism(ABC, Generic[P, R]):
    """A frozen value that releases answers: `P` is what it prepares, `R` its release."""

    __slots__ = ()
    epsilon: Fraction

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "draw_paid" in vars(cls):  # the caller's settings of NumPy must not raise here
            cls.draw_paid = without_float_errors(cls.draw_paid)  # type: ignore[method-assign]

    @abstractmethod
    def draw_paid(self, prepared: Any) -> Any:
        """Draw whole numbers; the caller has paid. Selections add the answers of the chosen."""

    @abstractmethod
    def build(self, draw: Any) -> R:
        """The release of what was drawn."""

    def _draw_and_build(self, prepared: P) -> R:
        """Draw and build; the caller has paid."""
        draw = self.draw_paid(prepared)
        if isinstance(draw, Draw):
            return self.build(draw.drawn)
        return self.build(draw)

    @property
    @remembered
    def cost(self) -> Cost:
        """The most that a release costs."""
        return Cost.pure(self.epsilon)

    def cost_for(self, prepared: P) -> Cost:
        """The most that a release of these answers costs: with a δ if their items are unknown."""
        return self.cost

    def _release_prepared(self, prepared: P, account: Account | None) -> R:
        """Pay, draw, build and keep."""
        request = Request(self.cost_for(prepared), self)
        return pay(account, request, partial(self._draw_and_build, prepared))


class Selecting(Mechanism[P, R]):
    """A mechanism that finds answers."""

    __slots__ = ()

    @abstractmethod
    def prepare(self, answers: Any, labels: Labels = None) -> P:
        """The answers in steps, and their labels; refused before anything is charged."""

    @errors_without_answers
    def release(
        self, answers: Answers, *, labels: Labels = None, account: Account | None = None
    ) -> R:
        """Release on secure exact noise. This is the only method that spends ε.

        All of ε is charged before anything is drawn. Then the ε that was not spent is credited.

        Parameters
        ----------
        answers
            The private answers: an array or a Series, or counts that `dpgap.counts` made.
        labels
            Public names of the answers, in the same order. A Series brings its own.
        account
            The account that is charged, such as `dpgap.Ledger(url).account("sales")`.
        """
        return self._release_prepared(self.prepare(answers, labels), account)

"""What would happen to counts of a stated size: which route is taken, and who would be right.

The sizes are public: what people expect, or an older release. The rule and its forecast are those
of a release, asked about a look that shows exactly what was stated.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dpgap.exact.grid import MAX_STEPS
from dpgap.exact.parameters import positive_integer, readable
from dpgap.exact.reals import Floats
from dpgap.pipelines.forecast import forecast
from dpgap.pipelines.measured import MeasuredTopK
from dpgap.pipelines.routes import JointRoute, PaperRoute, RankedRoute
from dpgap.pipelines.rule import CAUTION

Sizes = Sequence[float] | Mapping[int, float]
"""The largest answers in order, or answers by rank, from 1."""

_SAFE = 0.99
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Outlook:
    """What follows for stated sizes."""

    route: str
    """What the method takes: "joint" or "ranked"."""
    split: Fraction
    """The share of ε that then selects."""
    precision: float
    """The share of winners that will be right on that route."""
    ranked_precision: float
    """The same, if they are ranked by half of ε."""
    safe_epsilon: Fraction | None
    """From this ε on a set chosen with a quarter of it is right; None where no ε is enough."""
    taken: RankedRoute | JointRoute | PaperRoute = field(repr=False)

    def __str__(self) -> str:
        what = {"joint": "chosen as a set", "ranked": "ranked"}[self.route]
        safe = "is never safe: the last winner and the first loser are equal"
        if self.safe_epsilon is not None:
            safe = f"is safe from ε = {readable(self.safe_epsilon)} on"
        return (
            f"With such counts the winners would be {what} by {readable(self.split)} of ε, and "
            f"{100 * self.precision:.1f} % of them would be right (ranked by half of ε: "
            f"{100 * self.ranked_precision:.1f} %). Choosing a set {safe}."
        )


def outlook_for(pipeline: MeasuredTopK, counts: Sizes, items: int) -> Outlook:
    """What a method that is not the paper's would do with answers of this size."""
    n = positive_integer("items", items)
    if n <= pipeline.k:
        raise ValueError(f"items must be more than k, {pipeline.k}, not {n}")
    if n > MAX_STEPS:
        raise ValueError(f"items must be at most 2^60, not {n}")
    curve = _Curve(pipeline, *_by_rank(counts, n), n)
    route: RankedRoute | JointRoute | PaperRoute = pipeline.route
    if pipeline.looking is not None:
        looked = np.array([list(curve.at(pipeline.looking.rule(n).ranks).values())])
        route = pipeline.looking.routes[int(pipeline.looking.decide(looked, n)[0])]
    ranked = curve.ranked(float(pipeline.epsilon) / 2)
    share = route.selection.epsilon / pipeline.epsilon
    selecting = float(route.selection.epsilon)
    right = curve.as_set(selecting) if route.name == "joint" else curve.ranked(selecting)
    return Outlook(route.name, share, right, ranked, _safe(curve), route)


class _Curve:
    """Answers of stated sizes, in units of what one person can change."""

    def __init__(
        self, pipeline: MeasuredTopK, ranks: tuple[int, ...], sizes: Floats, n: int
    ) -> None:
        self._k, self._n, self._ranks = pipeline.k, n, ranks
        self._unit = float(pipeline.sensitivity) * (1 if pipeline.monotonic else 2)
        self._sizes = sizes
        self._forecast = forecast(pipeline.k, n, ranks)

    def at(self, ranks: tuple[int, ...]) -> dict[int, float]:
        """The answers at some ranks."""
        found = self._forecast.counts_at(self._sizes[None], ranks)[0]
        return dict(zip(ranks, found.tolist(), strict=True))

    def as_set(self, epsilon: float) -> float:
        """The share of right winners, chosen as a set with this ε."""
        return float(self._precisions(epsilon)[0][0, 0])

    def ranked(self, epsilon: float) -> float:
        """The share of right winners, ranked with this ε."""
        return float(self._precisions(epsilon)[1][0])

    def _precisions(self, epsilon: float) -> tuple[Floats, Floats]:
        looks = self._sizes[None] / self._unit
        return self._forecast.precisions(looks, np.array([CAUTION * epsilon]), epsilon / self._k)


def _by_rank(counts: Sizes, n: int) -> tuple[tuple[int, ...], Floats]:
    """Ranks and sizes, checked."""
    if isinstance(counts, str) or not hasattr(counts, "__len__"):
        raise TypeError("counts must be a sequence of numbers, or numbers by rank")
    given = counts if isinstance(counts, Mapping) else dict(enumerate(counts, start=1))
    pairs = sorted((positive_integer("a rank in counts", rank), given[rank]) for rank in given)
    sizes = np.array([size for _, size in pairs], dtype=np.float64)
    if not sizes.size or not (np.isfinite(sizes).all() and (sizes >= 0).all()):
        raise ValueError("counts must be numbers from 0 up, at least one")
    if (np.diff(sizes) > 0).any():
        raise ValueError("counts must not grow with the rank: the largest has rank 1")
    if pairs[-1][0] > n:
        raise ValueError(f"counts must have ranks up to items, {n}, not {pairs[-1][0]}")
    return tuple(rank for rank, _ in pairs), sizes


def _safe(curve: _Curve) -> Fraction | None:
    """The least ε, to three digits and rounded up, of which a quarter finds the right set."""
    low, high = 1e-9, 1e9
    if curve.as_set(high / 4) < _SAFE:
        return None
    while high / low > 1 + 1e-4:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if curve.as_set(middle / 4) >= _SAFE else (middle, high)
    digit = Fraction(10) ** (math.floor(math.log10(high)) - _DIGITS + 1)
    return math.ceil(Fraction(high) / digit) * digit

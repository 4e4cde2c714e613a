"""Look before you leap: a small part of ε measures a few order statistics, which then decide.

Choosing the winners as one set leaves far more of ε for measuring than ranking them, wherever the
set stands out; where it does not, luck chooses. So the best method first looks at a few ranks: the
j-th largest answer moves by at most the sensitivity, and with the same sign as all the others, so
that a few of them are measured together for little. The *rule* then decides by that released look
alone, which route to take and how much of ε selects. It is public, and its constants were fixed on
public data; nothing private decides.

A look is noisy, so the rule asks what follows from two dozen places around it, spread by the law of
the look's own noise:

- From ten winners on: a set, if what it gains is at least 3.75 times what it loses.
- For fewer: a set, if it is right nearly everywhere.

Of the shares of ε that could choose a set it takes the smallest that is as good as the best.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpgap.exact.reals import Floats, Integers
from dpgap.exact.shells import ShellNoise
from dpgap.pipelines.forecast import Forecast, forecast

_PLACES = 16
CAUTION = 0.9
"""A set is forecast as if it had this part of its share: the forecast is a little too good."""
_AS_GOOD = 0.004
_CERTAINLY = 6.0
_AT_ONCE = 1 << 11


class Terms(NamedTuple):
    """How to look and to decide, for some numbers of winners."""

    look: Fraction
    """The share of ε to look with."""
    parts_of_k: tuple[Fraction, ...]
    """The ranks to look at, as multiples of k; the first rank is 0."""
    set_shares: tuple[Fraction, ...]
    """Shares of ε that may choose a set, smallest first."""
    rank_share: Fraction
    """The share of ε that ranks."""
    worth: float | None
    """How many times its loss a set's gain must be; None where it must be nearly certain."""


def _fractions(*texts: str) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, texts))


_SHARES = _fractions("0.15", "0.2", "0.25", "0.3", "0.4")
_SOME = Terms(
    look=Fraction("0.05"),
    parts_of_k=_fractions("0", "1/4", "1/2", "1", "5", "25"),
    set_shares=(*_SHARES, Fraction("0.5")),
    rank_share=Fraction("0.5"),
    worth=3.75,
)
_FEW = Terms(
    look=Fraction("0.012"),
    parts_of_k=_fractions("1", "5", "25"),
    set_shares=(*_SHARES, Fraction("0.45")),
    rank_share=Fraction("0.49"),
    worth=None,
)
_TERMS = {
    20: _SOME._replace(look=Fraction("0.08"), set_shares=(*_SHARES, *_fractions("0.5", "0.53"))),
    10: _SOME,
    2: _FEW,
}
"""By the fewest winners. The more there are, the less error costs a longer look."""
_NEARLY_CERTAIN = 0.99


def terms_for(k: int) -> Terms:
    """How to look for k winners; k is at least 2."""
    return next(terms for least, terms in _TERMS.items() if k >= least)


@dataclass(frozen=True, slots=True)
class Rule:
    """Which share of ε chooses a set, or none: decided by a look at `ranks` of n answers."""

    k: int
    n: int
    ranks: tuple[int, ...]
    noise: ShellNoise
    """The look's own, in the units of answers."""
    unit: float
    """How much of an answer ε protects with noise of scale 1: the sensitivity over ε."""
    terms: Terms
    places: Floats = field(init=False, repr=False, compare=False)
    """What a look may be off by, spread evenly over its law."""
    certain: float = field(init=False, repr=False, compare=False)
    """An answer measured so far below 0 is below 0."""
    rates: Floats = field(init=False, repr=False, compare=False)
    """The rates that sets are forecast with, one for each share."""
    foretelling: Forecast = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places = places_around(self.noise, _PLACES)
        values = {
            "places": places,
            "certain": _CERTAINLY * float(places.std()),
            "rates": CAUTION * np.array([float(share) for share in self.terms.set_shares]),
            "foretelling": forecast(self.k, self.n, self.ranks),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def decide(self, looks: Floats) -> Integers:
        """For every row of looks: 0 to rank, else the number of the share of ε for a set, from 1.

        A look has a measured value for each rank.
        """
        rows = max(1, _AT_ONCE // (_PLACES * self.k))
        if len(looks) <= rows:
            return self._decide(looks)
        parts = [self._decide(looks[at : at + rows]) for at in range(0, len(looks), rows)]
        return np.concatenate(parts)

    def _decide(self, looks: Floats) -> Integers:
        as_set, as_ranked = self.precisions(looks)
        mean = as_set.sum(axis=2) / _PLACES
        share = (mean >= mean.max(axis=0) - _AS_GOOD).argmax(axis=0)
        chosen = as_set[share, np.arange(share.size)]
        if self.terms.worth is None:
            takes_set = chosen.min(axis=1) >= _NEARLY_CERTAIN
        else:
            gain = chosen - as_ranked
            lost = np.maximum(-gain, 0.0).sum(axis=1)
            takes_set = np.maximum(gain, 0.0).sum(axis=1) >= self.terms.worth * lost
        return np.where(takes_set, 1 + share, 0)

    def precisions(self, looks: Floats) -> tuple[Floats, Floats]:
        """What to expect at each place around each look: of a set for each share, and ranked."""
        lowest = looks.min(axis=1, keepdims=True)
        # Counts end at 0. Answers that are certainly below it end, as far as is known, here.
        end = np.where(lowest < -self.certain, lowest, 0.0)
        around = ((looks - end)[:, None, :] - self.places) / self.unit
        as_set, as_ranked = self.foretelling.precisions(
            around.reshape(-1, len(self.ranks)),
            self.rates,
            float(self.terms.rank_share) / self.k,
        )
        return as_set.reshape(self.rates.size, -1, _PLACES), as_ranked.reshape(-1, _PLACES)


@lru_cache(maxsize=64)
def ranks_for(k: int, n: int) -> tuple[int, ...]:
    """The ranks to look at, from 1, of n answers."""
    parts = terms_for(k).parts_of_k
    return tuple(sorted({min(max(math.floor(part * k + Fraction(1, 2)), 1), n) for part in parts}))


@lru_cache(maxsize=64)
def places_around(law: ShellNoise, count: int) -> Floats:
    """Noise of a look, spread evenly over its law: always the same rows, one value for each rank.

    Sizes are quantiles of the gamma law that the largest coordinate has; the others follow a
    sequence that fills the cube evenly. Which one is the largest goes round.
    """
    largest = np.array([_gamma_quantile(law.dimension, (i + 0.5) / count) for i in range(count)])
    points = _evenly(count, law.dimension)
    order = np.argsort(_evenly(count, law.dimension + 1)[:, -1], kind="stable")
    rows = np.arange(count)
    turn = rows % law.dimension
    sign = np.where(rows // law.dimension % 2 == 0, 1.0, -1.0) if law.signed else 1.0
    if law.signed:
        points = 2 * points - 1
    points[rows, turn] = sign
    points *= largest[order, None] * float(law.scale)
    return points if law.signed else points[:, 1:] - points[:, :1]


def _evenly(count: int, dimension: int) -> Floats:
    """Points that fill the unit cube evenly: multiples of powers of the root of x^(d+1) = x + 1."""
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dimension + 1))
    steps = root ** -np.arange(1.0, dimension + 1)
    points: Floats = (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1.0
    return points


def _gamma_quantile(shape: int, part: float) -> float:
    """Where a gamma law with a whole shape has this part below it, by halving."""
    low, high = 0.0, 10.0 * shape + 50
    for _ in range(60):
        middle = (low + high) / 2
        terms = [math.exp(i * math.log(middle) - math.lgamma(i + 1) - middle) for i in range(shape)]
        low, high = (middle, high) if 1 - sum(terms) < part else (low, middle)
    return low

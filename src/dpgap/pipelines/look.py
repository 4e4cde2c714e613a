"""Look before you leap: a small part of ε measures a few order statistics, which then decide.

Choosing the winners as one set leaves far more of ε for measuring than ranking them, wherever the
set stands out; where it does not, luck chooses. So the best method first looks at a few ranks: the
j-th largest answer moves by at most the sensitivity, and with the same sign as all the others, so
that a few of them are measured together for little. The *rule* then decides by that released look
alone, which route to take and how much of ε selects. It is public, and its constants were fixed on
public data; nothing private decides.

A look is noisy, so the rule asks what follows from two dozen places around it, spread by the law of
the look's own noise:

- From ten winners on: a set, if what is gained on average is at least six times what is lost.
- For fewer: a set, if it is right nearly everywhere.

Of the shares of ε that could choose a set it takes the smallest that is as good as the best.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpgap.exact.draws import Floats, Integers
from dpgap.exact.joint_laws import ShellNoise
from dpgap.pipelines.forecast import forecast

RANKED = -1
"""The rule's word for: none of the shares, rank them."""

_PLACES = 24
_CAUTION = 0.9
_AS_GOOD = 0.004
_AT_ONCE = 1 << 21


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


_MANY = Terms(
    look=Fraction("0.05"),
    parts_of_k=_fractions("0", "1/4", "1/2", "1", "5"),
    set_shares=_fractions("0.15", "0.2", "0.25", "0.3", "0.4", "0.5"),
    rank_share=Fraction("0.5"),
    worth=6.0,
)
_FEW = Terms(
    look=Fraction("0.012"),
    parts_of_k=_fractions("1", "5"),
    set_shares=_fractions("0.15", "0.2", "0.25", "0.3", "0.4", "0.45"),
    rank_share=Fraction("0.49"),
    worth=None,
)
_NEARLY_CERTAIN = 0.99


def terms_for(k: int) -> Terms:
    """How to look for k winners; k is at least 2."""
    return _MANY if k >= 10 else _FEW


@dataclass(frozen=True, slots=True)
class Rule:
    """Which of the shares chooses a set, or none: decided by a look, which is public.

    `sensitivity` and ε are those of the whole release; `set_shares` and `rank_share` are what
    may select.
    """

    k: int
    n: int
    epsilon: Fraction
    sensitivity: Fraction
    noise: ShellNoise
    """The look's own, in units of answers."""
    ranks: tuple[int, ...]
    set_shares: tuple[Fraction, ...]
    rank_share: Fraction
    monotonic: bool
    worth: float | None

    def decide(self, looks: Floats) -> Integers:
        """For every row of looks: the number of the share that chooses a set, or `RANKED`."""
        rows = max(1, _AT_ONCE // (_PLACES * len(self.set_shares) * 16 * min(self.k, 32)))
        parts = [self._decide(looks[at : at + rows]) for at in range(0, len(looks), rows)]
        return np.concatenate(parts)

    def _decide(self, looks: Floats) -> Integers:
        as_set, as_ranked = self.precisions(looks)
        mean = as_set.mean(axis=2)
        share = np.argmax(mean >= mean.max(axis=0) - _AS_GOOD, axis=0)
        chosen = as_set[share, np.arange(share.size)]
        if self.worth is None:
            takes_set = chosen.min(axis=1) >= _NEARLY_CERTAIN
        else:
            gain = chosen - as_ranked
            lost = np.maximum(-gain, 0.0).mean(axis=1)
            takes_set = np.maximum(gain, 0.0).mean(axis=1) >= self.worth * lost
        return np.where(takes_set, share, RANKED)

    def precisions(self, looks: Floats) -> tuple[Floats, Floats]:
        """What to expect at each place around each look: for each share a set, and ranked."""
        around = looks[:, None, :] - places_around(self.noise, _PLACES)
        in_units = around.reshape(-1, looks.shape[1]) / float(self.sensitivity)
        rate = float(self.epsilon) / (1 if self.monotonic else 2)
        shares = np.array([float(share) for share in self.set_shares])
        as_set, as_ranked = forecast(self.k, self.n, self.ranks).precisions(
            in_units, _CAUTION * rate * shares, rate * float(self.rank_share) / self.k
        )
        return as_set.reshape(shares.size, -1, _PLACES), as_ranked.reshape(-1, _PLACES)


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
    sign = np.where(rows // law.dimension % 2 == 0, 1.0, -1.0) if law.symmetric else 1.0
    if law.symmetric:
        points = 2 * points - 1
    points[rows, turn] = sign
    points *= largest[order, None] * float(law.scale)
    return points if law.symmetric else points[:, 1:] - points[:, :1]


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

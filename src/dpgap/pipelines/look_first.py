"""The best method for several winners: look, let the rule choose a route, take this route.

All of it is one release that costs ε: on every route, the parts for the look, the selection and the
measurement add up to exactly ε. The look is released too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpgap.budget.cost import Cost, split
from dpgap.exact.grid import Grid
from dpgap.exact.parameters import remembered
from dpgap.exact.reals import Floats, Integers, require_scale, without_float_errors
from dpgap.exact.shells import ShellNoise
from dpgap.mechanisms.joint import log_choose
from dpgap.mechanisms.measuring import CountHull, Cube, Joint
from dpgap.mechanisms.mechanism import Claims
from dpgap.pipelines.routes import ExpectedErrors, JointRoute, RankedRoute

# --------------------------------------------------------------------------------------------------
# The expected precision after a look: how many winners will be right, as a set or ranked.
#
# A *look* is a noisy measurement of a few order statistics, such as the 1st, 5th, 10th and 50th
# largest count. A curve through these points replaces all counts: log(1 + count) is linear in
# log(rank) between the ranks of the look. After the last rank the last line goes on, down to 0.
# Counts are in units of the sensitivity.
#
# - As a set: all other sets are in classes, by the first rank that they leave out and the lowest
#   rank that they take (`dpgap.mechanisms.joint`). The chance of a class is about proportional to
#   its size times e^(half-margin / scale). A known share of its members is right.
# - Ranked: with noise, a count x is above a line z with chance e^(−(z − x)/b), at most 1. The line
#   is the z for which these chances add up to k. Those of the top k are their chances to be found.
#
# Both are right to a few hundredths. Ranks are grouped in cells, so the cost hardly grows with k or
# n. Nothing here is private or random: all of it is computed from released numbers.


_TOP_CELLS = 32
_LOW_CELLS = 24
_LARGEST = 700.0


class ExpectedPrecision:
    """The expected precision of the top k of n answers, from looks at some `ranks`; k < n."""

    def __init__(self, k: int, n: int, ranks: tuple[int, ...]) -> None:
        # Ranks up to k in cells, finest at both ends, and how many ranks each cell has.
        ends = np.geomspace(1, k, _TOP_CELLS // 2).round().astype(np.int64)
        if k <= _TOP_CELLS:
            top = np.arange(1, k + 1)
        else:
            top = np.unique(np.concatenate([ends, k + 1 - ends]))
        borders = np.append((top[1:] + top[:-1]) // 2, k)
        top_sizes = np.diff(borders, prepend=0).astype(np.float64)
        # The first and the last ranks of cells from k + 1 to n; farther cells are wider.
        steps = np.geomspace(1, n - k, min(_LOW_CELLS, n - k)).round().astype(np.int64)
        high = k + np.unique(np.append(steps, n - k))
        low = np.append(k + 1, high[:-1] + 1)
        # The logarithm of the number of sets with this first rank left out and this lowest cell.
        kept_ranks = (top - 1)[:, None]
        upto = _log_choose(high - kept_ranks - 1, k - kept_ranks)
        before = _log_choose(low - kept_ranks - 2, k - kept_ranks)
        inside = upto + np.log1p(-np.exp(np.minimum(before - upto, -1e-12)))
        log_sizes = inside + np.log(top_sizes)[:, None]
        # The share of a set's members that is right: the ranks kept, and a part of those between.
        between = (low + high) / 2 - kept_ranks - 2
        by_chance = (k - kept_ranks - 1) ** 2 / np.maximum(between, 1.0)
        right_ranks = kept_ranks + np.where(between > 0, by_chance, 0.0)
        right = np.minimum(right_ranks / k, (k - 1) / k)
        self._k = k
        self._log_sizes = log_sizes.ravel().astype(np.float32)
        self._right = np.stack([np.ones(right.size), right.ravel()], axis=1).astype(np.float32)
        self._counts = np.concatenate([top_sizes, high - low + 1.0])
        self._cells = top.size
        places = np.concatenate([top, [k, k + 1], low, high]).astype(np.float64)
        self._parts = np.cumsum([top.size, 2, low.size])
        self._ranks = np.array(ranks, dtype=np.float64)
        self._weights = _weights(places, self._ranks)
        self._above = np.concatenate([[0.0], np.cumsum(self._counts)])

    def counts_at(self, looks: Floats, ranks: tuple[int, ...]) -> Floats:
        """The values at other ranks of the curve through each row of looks."""
        return _counts(looks, _weights(np.array(ranks, dtype=np.float64), self._ranks))

    @without_float_errors
    def precisions(
        self, looks: Floats, set_rates: Floats, rank_rate: float
    ) -> tuple[Floats, Floats]:
        """For each row of looks, the precision as a set at each of the rates, and ranked.

        A rate is 1/scale of the noise, in units of the sensitivity.
        """
        on_curve = _counts(looks, self._weights)
        # Counts of the top cells and then the low cells, and the lead of rank k.
        top, border, first, last = np.split(on_curve, self._parts, axis=1)
        counts = np.concatenate([top, 0.5 * (first + last)], axis=1)
        lead = border[:, 0] - border[:, 1]
        return self._as_set(counts, lead, set_rates), self._as_ranked(counts, rank_rate)

    def _as_set(self, counts: Floats, lead: Floats, rates: Floats) -> Floats:
        """The precision as a set. Weights are logarithms: a class may have e^1000 sets."""
        top = counts[:, : self._cells, None]
        low = counts[:, None, self._cells :]
        margins = (0.5 * (low - top)).reshape(1, len(counts), -1)
        rates = rates[:, None]
        logs = margins.astype(np.float32) * rates[:, :, None].astype(np.float32)
        logs += self._log_sizes
        log_of_top_set = 0.5 * lead * rates
        largest = np.maximum(log_of_top_set, logs.max(axis=-1))
        logs -= largest[:, :, None].astype(np.float32)
        others = np.exp(logs, out=logs) @ self._right
        top_set = np.exp(log_of_top_set - largest)
        precision: Floats = (top_set + others[..., 1]) / (top_set + others[..., 0])
        return precision

    def _as_ranked(self, counts: Floats, rate: float) -> Floats:
        """The precision as a ranking.

        Between two cells, the sum of chances is a number plus e^(−line) times another number.
        Heights are counts minus the k-th count, limited to what floats can hold.
        """
        last = self._cells - 1
        heights = (counts - counts[:, last : last + 1]) * rate
        powers = np.exp(np.minimum(heights, _LARGEST))
        sums = np.cumsum((powers * self._counts)[:, ::-1], axis=1)[:, ::-1][:, : self._cells]
        lifted = self._above[: self._cells] + sums / powers[:, : self._cells]
        cell = np.argmax(lifted >= self._k, axis=1)
        sums_below = sums[np.arange(cell.size), cell]
        line = np.log(sums_below / (self._k - self._above[cell]))[:, None]
        chances = np.exp(np.minimum(heights[:, : self._cells] - line, 0.0))
        precision: Floats = chances @ self._counts[: self._cells] / self._k
        return precision


expected_precision = lru_cache(maxsize=64)(ExpectedPrecision)
"""The expected precision for these public numbers; the latest are cached."""


@without_float_errors
def _log_choose(n: Integers, k: Integers) -> Floats:
    logs = log_choose(np.maximum(n, k), np.broadcast_to(k, n.shape))
    return np.where(n < k, -np.inf, logs)


def _counts(looks: Floats, weights: Floats) -> Floats:
    logs = np.log1p(np.maximum(-np.sort(-looks, axis=-1), 0.0))
    counts: Floats = np.expm1(np.maximum(logs @ weights, 0.0))
    return counts


def _weights(places: Floats, ranks: Floats) -> Floats:
    """The weight of each look at each rank: linear in log(rank), also after the last rank.

    Before the first rank looked at the curve is flat.
    """
    logs = np.log(np.maximum(places, ranks[0]))
    nodes = np.log(ranks)
    weights = np.zeros((ranks.size, places.size))
    if ranks.size == 1:
        return weights + 1.0
    node = np.clip(np.searchsorted(nodes, logs, side="right") - 1, 0, ranks.size - 2)
    part = (logs - nodes[node]) / (nodes[node + 1] - nodes[node])
    columns = np.arange(places.size)
    weights[node, columns] = 1 - part
    weights[node + 1, columns] = part
    return weights


# --------------------------------------------------------------------------------------------------
# The look and the rule: a small part of ε measures a few order statistics, which choose a route.
#
# If the top set is clear, choosing it as one set leaves far more of ε for measuring than a ranking.
# If it is not clear, the choice of a set is mostly luck. So the best method first looks at a few
# ranks. The j-th largest answer moves by at most the sensitivity, and all of them move in the same
# direction. So a few of them are measured together at little cost. Then the *rule* chooses the
# route, and the share of ε that selects, only from this released look. The rule is public, and its
# constants were fixed on public data; nothing private decides.
#
# A look is noisy. So the rule compares the precision at two dozen points around it, spread by the
# law of the look's noise:
#
# - For ten or more winners: a set, if its gain is at least 3.75 times its loss.
# - For fewer winners: a set, if it is right at nearly all points.
#
# Of the shares of ε that could choose a set, it takes the smallest that is as good as the best.


_PLACES = 16
_CAUTION = 0.9
"""A set is judged as if it had only this part of its share, to correct a small optimism."""
_AS_GOOD = 0.004
_CERTAINLY = 6.0
_AT_ONCE = 1 << 11


class Terms(NamedTuple):
    """The constants of the look and the rule, for some numbers of winners."""

    look: Fraction
    parts_of_k: tuple[Fraction, ...]
    """The ranks of the look, as multiples of k; 0 stands for the first rank."""
    set_shares: tuple[Fraction, ...]
    """Shares of ε that may choose a set, smallest first."""
    rank_share: Fraction
    worth: float | None
    """A set's gain must be this many times its loss; None if it must be nearly certain."""


def _fractions(*texts: str) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, texts))


_SOME = Terms(
    look=Fraction("0.05"),
    parts_of_k=_fractions("0", "1/4", "1/2", "1", "5", "25"),
    set_shares=_fractions("0.15", "0.2", "0.25", "0.3", "0.4", "0.5"),
    rank_share=Fraction("0.5"),
    worth=3.75,
)
_FEW = Terms(
    look=Fraction("0.012"),
    parts_of_k=_fractions("1", "5", "25"),
    set_shares=_fractions("0.15", "0.2", "0.25", "0.3", "0.4", "0.45"),
    rank_share=Fraction("0.49"),
    worth=None,
)
_MANY = _SOME._replace(
    look=Fraction("0.08"),
    set_shares=_fractions("0.15", "0.2", "0.25", "0.3", "0.4", "0.5", "0.53"),
)
"""With more winners, a longer look costs less error."""
_NEARLY_CERTAIN = 0.99


def terms_for(k: int) -> Terms:
    """The constants for k winners; k is at least 2."""
    if k >= 20:
        return _MANY
    if k >= 10:
        return _SOME
    return _FEW


def ranks_for(k: int, n: int) -> tuple[int, ...]:
    """The ranks of the look, counted from 1, for n answers."""
    ranks = set()
    for part in terms_for(k).parts_of_k:
        rounded = math.floor(part * k + Fraction(1, 2))
        ranks.add(min(max(rounded, 1), n))
    return tuple(sorted(ranks))


@lru_cache(maxsize=64)
def places_around(law: ShellNoise, count: int) -> Floats:
    """Values of a look's noise, spread evenly over its law: fixed rows, one value for each rank.

    Sizes are quantiles of the gamma law of the largest coordinate. The other coordinates follow a
    sequence that fills the cube evenly. Each coordinate is the largest in turn.
    """
    parts = (np.arange(count) + 0.5) / count
    powers = np.arange(law.dimension)[:, None]
    logs = np.cumsum(np.log(np.maximum(powers, 1)), axis=0)  # of factorials
    low = np.zeros(count)
    largest = np.full(count, 10.0 * law.dimension + 50)
    for _ in range(60):  # by halving
        middle = (low + largest) / 2
        is_below = 1 - np.exp(powers * np.log(middle) - logs - middle).sum(axis=0) < parts
        low = np.where(is_below, middle, low)
        largest = np.where(is_below, largest, middle)
    points = _evenly(count, law.dimension)
    order = np.argsort(_evenly(count, law.dimension + 1)[:, -1], kind="stable")
    rows = np.arange(count)
    turn = rows % law.dimension
    sizes = largest[order, None] * float(law.scale)
    if law.signed:
        points = 2 * points - 1
        points[rows, turn] = np.where(rows // law.dimension % 2 == 0, 1.0, -1.0)
        return points * sizes
    points[rows, turn] = 1.0
    points *= sizes
    return points[:, 1:] - points[:, :1]


def _evenly(count: int, dimension: int) -> Floats:
    """Points that fill the unit cube evenly: multiples of powers of the root of x^(d+1) = x + 1."""
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dimension + 1))
    steps = root ** -np.arange(1.0, dimension + 1)
    points: Floats = (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1.0
    return points


class Rule:
    """Chooses a share of ε for a set, or a ranking, from a look at some ranks of n answers."""

    def __init__(self, looking: "LookFirst", n: int) -> None:
        look = looking.measurement
        self.ranks = ranks_for(looking.k, n)
        # The scale of noise that costs ε: sensitivity/ε.
        moves = 1 if looking.monotonic else 2
        self.unit = float(moves * look.sensitivity / looking.epsilon)
        self._k = looking.k
        self._worth = looking.terms.worth
        # Errors of a look, spread evenly; and how far below 0 an answer surely is.
        self.places = places_around(look.law(len(self.ranks)), _PLACES)
        self._certain = _CERTAINLY * float(self.places.std())
        set_shares = [float(share) for share in looking.terms.set_shares]
        self._set_rates = _CAUTION * np.array(set_shares)
        self._rank_rate = float(looking.terms.rank_share) / looking.k
        self._precision = expected_precision(looking.k, n, self.ranks)

    def decide(self, looks: Floats) -> Integers:
        """For every row of looks: 0 for a ranking, or the number (from 1) of the share for a set.

        A look has a measured value for each rank.
        """
        rows = max(1, _AT_ONCE // (_PLACES * self._k))
        if len(looks) > rows:
            starts = range(0, len(looks), rows)
            return np.concatenate([self.decide(looks[start : start + rows]) for start in starts])
        # The precision at each point around each look: as a set for each share, and ranked.
        lowest = looks.min(axis=1, keepdims=True)
        # Counts end at 0; answers that are certainly below 0 end at a lower bound from the look.
        end = np.where(lowest < -self._certain, lowest, 0.0)
        around = ((looks - end)[:, None, :] - self.places) / self.unit
        as_set, as_ranked = self._precision.precisions(
            around.reshape(-1, len(self.ranks)), self._set_rates, self._rank_rate
        )
        as_set = as_set.reshape(self._set_rates.size, -1, _PLACES)
        as_ranked = as_ranked.reshape(-1, _PLACES)
        mean = as_set.sum(axis=2) / _PLACES
        share = (mean >= mean.max(axis=0) - _AS_GOOD).argmax(axis=0)
        precision = as_set[share, np.arange(share.size)]
        if self._worth is None:
            takes_set = precision.min(axis=1) >= _NEARLY_CERTAIN
        else:
            difference = precision - as_ranked
            gain = np.maximum(difference, 0.0).sum(axis=1)
            loss = np.maximum(-difference, 0.0).sum(axis=1)
            takes_set = gain >= self._worth * loss
        return np.where(takes_set, 1 + share, 0)


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class LookFirst:
    """Look with a small part of ε, then take one of the routes; for at least 2 winners."""

    k: int
    epsilon: Fraction
    monotonic: bool
    sensitivity: Fraction
    grid: Fraction | None
    terms: Terms
    measurement: Joint
    """The measurement of the look."""

    @classmethod
    def of(cls, claims: Claims, share: Fraction | None) -> "LookFirst":
        """The best method with these claims. A `share` of ε selects on every route, if stated."""
        terms = terms_for(claims.k)
        if share is not None:
            if share + terms.look >= 1:
                raise ValueError(
                    f"split must be below {float(1 - terms.look)} for method='best', "
                    f"which looks with {float(terms.look)} of ε first"
                )
            terms = terms._replace(set_shares=(share,), rank_share=share)
        looking = cls(
            k=claims.k,
            epsilon=claims.epsilon,
            monotonic=claims.monotonic,
            sensitivity=claims.sensitivity,
            grid=claims.grid,
            terms=terms,
            measurement=_look_at(claims, split(claims.epsilon, terms.look)[0]),
        )
        looking._require_scales()
        return looking

    def _require_scales(self) -> None:
        """Refuse an ε with which a route would have too little or too much noise.

        Routes are made after the look, which is paid then. So nothing may refuse them there.
        """
        unit = Grid(self.grid).up(self.sensitivity) / self.epsilon
        moved = unit if self.monotonic else 2 * unit
        require_scale(self.k * moved / self.terms.rank_share)
        for share in self.terms.set_shares:
            require_scale(moved / share)
        for share in self.shares:
            require_scale(Joint.finer * unit / self._share_to_measure(share))

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The share of ε that selects, on each route: first the ranking's, then those of sets."""
        return (self.terms.rank_share, *self.terms.set_shares)

    def _share_to_measure(self, share: Fraction) -> Fraction:
        """The share of ε that the look, and a selection with this share, leave for measuring."""
        return 1 - self.terms.look - share

    @remembered
    def route(self, number: int) -> RankedRoute | JointRoute:
        """The route of this number: 0 ranks the winners, the others choose a set."""
        _, to_select, to_measure = split(self.epsilon, self.terms.look, self.shares[number])
        if number == 0:
            return RankedRoute.of(self, to_select, to_measure)
        return JointRoute.of(self, to_select, to_measure)

    @remembered
    def cost_of(self, number: int) -> Cost:
        """What a release costs on the route of this number, with its look."""
        parts = split(self.epsilon, self.terms.look, self.shares[number])
        steps = ("look", "select", "measure")
        return Cost.composed(zip(steps, map(Cost.pure, parts), strict=True))

    @property
    def costs(self) -> list[Cost]:
        """What a release costs on each route."""
        return [self.cost_of(number) for number in range(len(self.shares))]

    @property
    def routes(self) -> tuple[RankedRoute | JointRoute, ...]:
        """All routes."""
        return tuple([self.route(number) for number in range(len(self.shares))])

    def expected_errors(self, numbers: Sequence[int] = ()) -> ExpectedErrors:
        """The expected error of the first of these routes, and the other errors of the worst.

        Without numbers: of a clear set, and of any route.
        """
        possible = numbers or (1, *range(len(self.shares)))
        clear = self.route(possible[0]).expected_errors()
        worst = self.route(max(possible, key=self.shares.__getitem__)).expected_errors()
        is_set = {number > 0 for number in possible}
        return replace(
            clear,
            route=clear.route if len(is_set) == 1 else None,
            epsilon=self.epsilon,
            close_error=worst.close_error,
            half_width=worst.half_width,
        )

    @lru_cache(maxsize=64)  # noqa: B019 - parameters, and how many answers there are, are public
    def rule(self, n: int) -> Rule:
        """The rule for n answers; n is more than the number of winners."""
        return Rule(self, n)


def _look_at(claims: Claims, epsilon: Fraction) -> Joint:
    """The measurement of a look. It uses the grid of the answers: it needs no finer grid."""
    grid = Grid(claims.grid)
    sensitivity = grid.up(claims.sensitivity) * grid.step
    if claims.monotonic:
        return CountHull(epsilon, sensitivity=sensitivity, grid=claims.grid, monotonic=True)
    return Cube(epsilon, sensitivity=sensitivity, grid=claims.grid)

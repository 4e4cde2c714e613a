"""What a look foretells: how many winners will be right if they are chosen as a set, or ranked.

A *look* is a noisy measurement of a few order statistics, such as the 1st, 5th, 10th and 50th
largest count. A curve through it stands for all counts: log(1 + count) is straight in log(rank)
between the ranks looked at, and after the last one it goes on as before, down to 0. Counts are in
units of the sensitivity.

- As a set: sets other than the top set are in classes by the first rank that they leave out and
  the lowest that they take (`dpgap.mechanisms.joint_kernel`). A class wins about in proportion to
  its size times e^(half-margin / scale), and it has a known share of the right members.
- Ranked: noise lifts a count x over a line z with chance e^(−(z − x)/b), at most 1. The line is
  where k are lifted over it; the chances of the top k are their chances to be found.

Both come within a few hundredths of what happens. Ranks are taken in cells, so that the cost hardly
grows with k or n. Nothing here is private or random: all of it is computed from released numbers.
"""

from functools import lru_cache

import numpy as np

from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.joint_kernel import log_choose

_TOP_CELLS = 32
_LOW_CELLS = 24
_FITS = 600.0
"""Classes of fewer than e^600 sets are counted in floats, others in logarithms."""
_LARGEST = 700.0


class Forecast:
    """Precisions to expect of the top k of n answers, from looks at some `ranks`; k is below n."""

    def __init__(self, k: int, n: int, ranks: tuple[int, ...]) -> None:
        top, top_sizes = _top_cells(k)
        low, high = _low_cells(k, n)
        self._k = k
        log_sizes, right = (
            _log_sizes(k, top, top_sizes, low, high),
            _shares_right(k, top, low, high),
        )
        self._sizes: Floats | None = None
        if log_sizes.max() < _FITS:
            sizes = np.exp(log_sizes)
            self._sizes = np.concatenate([sizes, sizes * right], axis=1)
        self._log_sizes = log_sizes.ravel().astype(np.float32)
        self._right = np.stack([np.ones(right.size), right.ravel()], axis=1).astype(np.float32)
        self._counts = np.concatenate([top_sizes, high - low + 1.0])
        self._cells = top.size
        places = np.concatenate([top, [k, k + 1], low, high]).astype(np.float64)
        self._ranks = np.array(ranks, dtype=np.float64)
        self._weights = _weights(places, self._ranks)
        self._above = np.concatenate([[0.0], np.cumsum(self._counts)])

    def counts_at(self, looks: Floats, ranks: tuple[int, ...]) -> Floats:
        """The curve through each row of looks at other ranks."""
        return _counts(looks, _weights(np.array(ranks, dtype=np.float64), self._ranks))

    def _curve(self, looks: Floats) -> tuple[Floats, Floats]:
        """Counts of the top cells and then the low cells, and the lead of rank k."""
        at = _counts(looks, self._weights)
        counts, borders = np.empty((len(at), self._counts.size)), self._cells + 2
        counts[:, : self._cells] = at[:, : self._cells]
        low, middle = counts[:, self._cells :], (at.shape[1] + borders) // 2
        np.add(at[:, borders:middle], at[:, middle:], out=low)
        low *= 0.5
        return counts, at[:, borders - 2] - at[:, borders - 1]

    @np.errstate(all="ignore")
    def precisions(
        self, looks: Floats, set_rates: Floats, rank_rate: float
    ) -> tuple[Floats, Floats]:
        """For each row of looks: as a set at each of the rates, and ranked at the other.

        A rate is one over the scale of the noise, in units of the sensitivity.
        """
        counts, lead = self._curve(looks)
        as_set = self._as_set_in_logs if self._sizes is None else self._as_set
        return as_set(counts, lead, set_rates), self._as_ranked(counts, rank_rate)

    def _as_set(self, counts: Floats, lead: Floats, rates: Floats) -> Floats:
        """A class's weight is its size times a factor for its first rank and one for its lowest.

        Factors are at most 1, and the top set's own weight is relative to the largest of them.
        """
        halves = 0.5 * rates[:, None, None]
        kept, taken = counts[:, : self._cells], counts[:, self._cells :]
        own = np.exp(np.minimum(2 * halves[:, :, 0] * lead, _LARGEST))
        left_out = np.exp((kept[:, -1:] - kept) * halves)
        brought_in = np.exp((taken - taken[:, :1]) * halves)
        both = (left_out @ self._sizes).reshape(
            *own.shape, 2, -1
        )  # of all members, of the right ones
        others = (both @ brought_in[..., None])[..., 0]
        found: Floats = (own + others[..., 1]) / (own + others[..., 0])
        return found

    def _as_set_in_logs(self, counts: Floats, lead: Floats, rates: Floats) -> Floats:
        top, low = counts[:, : self._cells, None], counts[:, None, self._cells :]
        margins = (0.5 * (low - top)).reshape(1, len(counts), -1)
        rates = rates[:, None]
        logs = margins.astype(np.float32) * rates[:, :, None].astype(np.float32)
        logs += self._log_sizes
        own = 0.5 * lead * rates
        most = np.maximum(own, logs.max(axis=-1))
        logs -= most[:, :, None].astype(np.float32)
        others = np.exp(logs, out=logs) @ self._right
        itself = np.exp(own - most)
        found: Floats = (itself + others[..., 1]) / (itself + others[..., 0])
        return found

    def _as_ranked(self, counts: Floats, rate: float) -> Floats:
        """Between two cells the sum of chances is a number plus e^(−line) times another.

        Heights are those over the k-th. The line is above none that is out of a float's reach.
        """
        last = self._cells - 1
        heights = (counts - counts[:, last : last + 1]) * rate
        powers = np.exp(np.minimum(heights, _LARGEST))
        sums = np.cumsum((powers * self._counts)[:, ::-1], axis=1)[:, ::-1][:, : self._cells]
        lifted = self._above[: self._cells] + sums / powers[:, : self._cells]
        at = np.argmax(lifted >= self._k, axis=1)
        line = np.log(sums[np.arange(at.size), at] / (self._k - self._above[at]))[:, None]
        chances = np.exp(np.minimum(heights[:, : self._cells] - line, 0.0))
        found: Floats = chances @ self._counts[: self._cells] / self._k
        return found


@lru_cache(maxsize=64)
def forecast(k: int, n: int, ranks: tuple[int, ...]) -> Forecast:
    """The forecast for these public numbers; the last ones are remembered."""
    return Forecast(k, n, ranks)


def _top_cells(k: int) -> tuple[Integers, Floats]:
    """Ranks up to k, finest at both ends, and how many ranks each stands for."""
    ends = np.geomspace(1, k, _TOP_CELLS // 2).round().astype(np.int64)
    ranks = np.arange(1, k + 1) if k <= _TOP_CELLS else np.unique([*ends, *(k + 1 - ends)])
    borders = np.append((ranks[1:] + ranks[:-1]) // 2, k)
    return ranks, np.diff(borders, prepend=0).astype(np.float64)


def _low_cells(k: int, n: int) -> tuple[Integers, Integers]:
    """The first and the last ranks of cells from k + 1 to n, the wider the farther."""
    steps = np.geomspace(1, n - k, min(_LOW_CELLS, n - k)).round().astype(np.int64)
    highs = k + np.unique(np.append(steps, n - k))
    return np.append(k + 1, highs[:-1] + 1), highs


def _log_sizes(k: int, top: Integers, widths: Floats, low: Integers, high: Integers) -> Floats:
    """Logarithms of how many sets leave out a rank first and have their lowest in a cell."""
    kept = (top - 1)[:, None]
    upto, before = (_log_choose(ends - kept - 1, k - kept) for ends in (high, low - 1))
    inside = upto + np.log1p(-np.exp(np.minimum(before - upto, -1e-12)))
    return inside + np.log(widths)[:, None]


@np.errstate(all="ignore")
def _log_choose(among: Integers, chosen: Integers) -> Floats:
    logs = log_choose(np.maximum(among, chosen), np.broadcast_to(chosen, among.shape))
    return np.where(among < chosen, -np.inf, logs)


def _shares_right(k: int, top: Integers, low: Integers, high: Integers) -> Floats:
    """Which share of a set's members is right: those kept, and of those in between a part."""
    kept = (top - 1)[:, None]
    open_places, between = k - kept - 1, (low + high) / 2 - kept - 2
    by_chance = open_places**2 / np.maximum(between, 1.0)
    return np.minimum((kept + np.where(between > 0, by_chance, 0.0)) / k, (k - 1) / k)


def _counts(looks: Floats, weights: Floats) -> Floats:
    logs = np.log1p(np.maximum(-np.sort(-looks, axis=-1), 0.0))
    counts: Floats = np.expm1(np.maximum(logs @ weights, 0.0))
    return counts


def _weights(places: Floats, ranks: Floats) -> Floats:
    """What each look counts for at each place: a straight line in log(rank), also after the last.

    Before the first rank looked at the curve is flat.
    """
    logs, nodes = np.log(np.maximum(places, ranks[0])), np.log(ranks)
    weights = np.zeros((ranks.size, places.size))
    if ranks.size == 1:
        return weights + 1.0
    left = np.clip(np.searchsorted(nodes, logs, side="right") - 1, 0, ranks.size - 2)
    part = (logs - nodes[left]) / (nodes[left + 1] - nodes[left])
    weights[left, np.arange(places.size)] = 1 - part
    weights[left + 1, np.arange(places.size)] = part
    return weights

"""Many runs of Noisy Top-K at once, on float noise.

The largest answers are drawn and ranked in every run. The best k + 1 of them set that run's bar;
of all other answers only those that reach it are looked at. What comes out is what a release
shows: indices, and the floors of the leads over the best loser.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpgap.data.private_counts import PrivateCounts
from dpgap.exact.grid import Grid
from dpgap.exact.laws import Law, MemorylessLaw
from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.simulation.floats import Rng, draw, hits

# --------------------------------------------------------------------------------------------------
# Answers in order of size, and where the few that matter end.
#
# The *bar* of a run is the noisy value that an answer must reach to matter in it. Most answers are
# far too small for that in nearly every run, and they are not drawn one by one. Each reaches the
# bar with a known chance. So the few that do are found directly, in *strata* (groups of similar
# answers), and are given noise that reaches the bar. The law is exactly that of drawing them all.
#
# The *border* is the rank where drawing every answer ends. Where it lies changes the speed alone.


_FEW = 8.0


def arrays_only(answers: ArrayLike) -> ArrayLike:
    """`answers`, unless they were made from a table."""
    if isinstance(answers, PrivateCounts):
        raise TypeError(
            "answers must be an array: simulation shows true values, "
            "so it does not take private answers that were made from a table"
        )
    return answers


class Ranked(NamedTuple):
    """Answers in steps, in the order given, and in order of size."""

    answers: Integers
    order: Integers
    """Places in the order given, largest answer first."""
    descending: Floats
    """The answers, largest first."""
    borders: Integers
    """Ranks at which a stratum may begin; each stratum is about as large as all before it."""

    @classmethod
    def of(cls, answers: ArrayLike) -> "Ranked":
        """Rank whole numbers of any type."""
        answers = Grid(None).steps(arrays_only(answers))
        order = np.argsort(-answers, kind="stable")
        borders = [0, 1]
        while borders[-1] < answers.size:
            borders.append(max(borders[-1] + 1, int(borders[-1] * 1.5)))
        ranks = np.array([*borders[:-1], answers.size], dtype=np.int64)
        return cls(answers, order, answers[order].astype(np.float64), ranks)

    @property
    def size(self) -> int:
        """How many answers there are."""
        return self.answers.size

    def less(self, origin: int) -> "Ranked":
        """The same answers counted from `origin`: floats are finest near zero."""
        answers = self.answers - origin
        return self._replace(answers=answers, descending=answers[self.order].astype(np.float64))

    def border(self, needs: list[tuple[Law, Floats]], cost_of_a_hit: float) -> list[int]:
        """For each bar, the rank where drawing every answer should end: the cheapest choice.

        `needs` are the laws that an answer is drawn from and the bars that it must then reach. The
        largest answer is always drawn.
        """
        starts = self.borders[:-1]
        cost = starts + cost_of_a_hit * self.hits_from(needs)
        cost[:, 0] = np.inf
        best = cost.argmin(axis=1)
        chosen = np.where(cost.min(axis=1) < self.size, starts[best], self.size)
        return [int(each) for each in chosen]

    def hits_from(self, needs: list[tuple[Law, Floats]]) -> Floats:
        """For each bar and border, about how many answers from there on reach the bar, at most."""
        starts, sizes = self.borders[:-1], np.diff(self.borders)
        hits_from = np.zeros((needs[0][1].size, starts.size))
        for law, bars in needs:
            in_stratum = law.tail(bars[:, None] - self.descending[starts]) * sizes
            hits_from += in_stratum[:, ::-1].cumsum(axis=1)[:, ::-1]
        return hits_from

    def reaching(
        self, law: Law, bars: Floats, border: int, rng: Rng
    ) -> tuple[Integers, Integers, Floats]:
        """Runs, ranks and noisy values of all answers from `border` on that reach their run's bar.

        A stratum's largest answer and the lowest bar bound the chance of all its answers. Cells
        are hit with that chance, and a hit is kept with the ratio of its own chance to it.
        """
        runs, ranks, values = [], [], []
        lowest = float(bars.min())
        end = border
        strata = self.borders[np.searchsorted(self.borders, border) :].tolist()
        for first, following in pairwise(strata):
            if first < end:
                continue
            most = float(law.tail(lowest - float(self.descending[first])))
            alone = bars.size * (self.size - first) * most < _FEW
            end = self.size if alone else following  # hardly any hits are left: one last stratum
            cells = hits(rng, bars.size * (end - first), most)
            if not cells.size:
                continue
            run, rank = np.divmod(cells, end - first)
            rank += first
            distance = bars[run] - self.descending[rank]
            kept = rng.random(cells.size) * most < law.tail(distance)
            runs.append(run[kept])
            ranks.append(rank[kept])
            assert isinstance(law, MemorylessLaw)  # of others every answer is drawn
            noise = law.beyond(distance[kept], 1 - rng.random(run[kept].size))
            values.append(self.descending[rank[kept]] + noise)
        if not runs:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        return np.concatenate(runs), np.concatenate(ranks), np.concatenate(values)


# --------------------------------------------------------------------------------------------------


_AT_ONCE = 1 << 17
_COST_OF_A_HIT = 16.0
"""In draws."""
_FEW_OF = 16


def select_runs(
    program: NoisyTopK, ranked: Ranked, runs: int, rng: Rng
) -> tuple[Integers, Integers]:
    """Indices, best first, and leads in whole steps; one row a run."""
    last = min(program.k, ranked.size - 1)
    places, values = best_runs(program, ranked, runs, rng)
    leads = np.floor(values[:, :last] - values[:, last : last + 1]).astype(np.int64)
    return places[:, : program.k], leads


def best_runs(program: NoisyTopK, ranked: Ranked, runs: int, rng: Rng) -> tuple[Integers, Floats]:
    """The places of the best k + 1, in order, and their noisy answers; one row a run."""
    border, cost_of_hits = _border(program, ranked, rng)
    at_once = max(1, int(_AT_ONCE / max(border, cost_of_hits)))
    parts = [
        _select(program, ranked, border, min(at_once, runs - done), rng)
        for done in range(0, runs, at_once)
    ]
    return np.concatenate([each[0] for each in parts]), np.concatenate([each[1] for each in parts])


def _border(program: NoisyTopK, ranked: Ranked, rng: Rng) -> tuple[int, float]:
    """Where drawing every answer ends, and about how much the hits beyond it cost a run.

    Only answers before the border set the bar. One trial run says how high it may be.
    """
    need = min(program.k + 1, ranked.size)
    if not isinstance(program.law, MemorylessLaw) or ranked.size <= 2 * need:
        return ranked.size, 0.0
    starts = ranked.borders[:-1]
    tried = np.flatnonzero(starts >= need)
    if not tried.size:
        return ranked.size, 0.0
    bars = _bars(program, ranked, need, starts[tried], rng)
    hits = ranked.hits_from([(program.law, bars)])[np.arange(tried.size), tried]
    cost = starts[tried] + _COST_OF_A_HIT * hits
    best = int(cost.argmin())
    if cost[best] >= ranked.size:
        return ranked.size, 0.0
    return int(starts[tried[best]]), _COST_OF_A_HIT * float(hits[best])


def _bars(program: NoisyTopK, ranked: Ranked, need: int, borders: Integers, rng: Rng) -> Floats:
    """A cautious bar for each border: what the last of the best before it had in one run."""
    noisy = ranked.descending + draw(program.law, rng, ranked.size)
    best, bars = np.empty(0), []
    for first, end in pairwise([0, *borders.tolist()]):
        best = np.append(best, noisy[first:end])
        best = np.partition(best, -need)[-need:]
        bars.append(best[0])
    return np.array(bars) - float(program.law.scale)


def _select(
    program: NoisyTopK, ranked: Ranked, border: int, runs: int, rng: Rng
) -> tuple[Integers, Floats]:
    need = min(program.k + 1, ranked.size)
    noisy = draw(program.law, rng, runs, border)
    noisy += ranked.descending[:border]
    ranks = _best(noisy, need)
    values = np.take_along_axis(noisy, ranks, axis=1)
    if border < ranked.size:
        reached = ranked.reaching(program.law, values[:, -1], border, rng)
        _insert(ranks, values, *reached)
    return ranked.order[ranks], values


def _best(noisy: Floats, need: int) -> Integers:
    """Places of the largest in every row, in order; where they are few, the rest is not sorted."""
    if noisy.shape[1] < _FEW_OF * need:
        return np.argsort(noisy, axis=1)[:, : -need - 1 : -1]
    some = np.argpartition(noisy, -need, axis=1)[:, -need:]
    order = np.argsort(np.take_along_axis(noisy, some, axis=1), axis=1)[:, ::-1]
    return np.take_along_axis(some, order, axis=1)


def _insert(
    ranks: Integers, values: Floats, run: Integers, new_ranks: Integers, new_values: Floats
) -> None:
    """Let newcomers take their places in the rankings of their runs, which keep their length."""
    order = np.argsort(run, kind="stable")
    run, new_ranks, new_values = run[order], new_ranks[order], new_values[order]
    touched, first, count = np.unique(run, return_index=True, return_counts=True)
    if not touched.size:
        return
    length = ranks.shape[1]
    wide_values = np.full((touched.size, length + int(count.max())), -np.inf)
    wide_ranks = np.zeros(wide_values.shape, dtype=np.int64)
    wide_values[:, :length], wide_ranks[:, :length] = values[touched], ranks[touched]
    row = np.repeat(np.arange(touched.size), count)
    column = length + np.arange(run.size) - np.repeat(first, count)
    wide_values[row, column], wide_ranks[row, column] = new_values, new_ranks
    best = np.argsort(-wide_values, axis=1)[:, :length]
    values[touched] = np.take_along_axis(wide_values, best, axis=1)
    ranks[touched] = np.take_along_axis(wide_ranks, best, axis=1)

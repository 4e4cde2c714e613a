"""Answers in order of size, and where the few that matter end.

The *bar* of a run is the noisy value that an answer must reach to matter in it. Most answers are
far too small for that in nearly every run, and they are not drawn one by one. Each reaches the bar
with a known chance. So the few that do are found directly, in *strata* (groups of similar answers),
and are given noise that reaches the bar. The law is exactly that of drawing them all.

The *border* is the rank where drawing every answer ends. Where it lies changes the speed alone.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpgap.data.private_counts import PrivateCounts
from dpgap.exact.grid import Grid
from dpgap.exact.laws import Law
from dpgap.exact.reals import Floats, Integers
from dpgap.research.simulation.floats import Rng, beyond, hits

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
            noise = beyond(law, rng, distance[kept])
            values.append(self.descending[rank[kept]] + noise)
        if not runs:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        return np.concatenate(runs), np.concatenate(ranks), np.concatenate(values)

"""Noisy Top-K on grouped answers: many answers with the same value cost no more than a few.

Of m answers with one value, only the k + 1 largest noises can matter. Those are drawn straight
from their own law: with V₁, V₂, … uniform, the largest of m uniforms is V₁^(1/m), the next is that
times V₂^(1/(m−1)), and so on; noise is the law's quantile of them. So a whole table is selected
from by its count of counts, whatever the number of its items, and the result has the law of
selecting from all the answers one by one, ties and gaps included.

Like every draw, these are real numbers refined on demand: floats enclose them, and where floats
overlap the program decides on decimals and further bits.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpgap.exact.bits import Bits
from dpgap.exact.draws import (
    Enclosure,
    Floats,
    Integers,
    Real,
    Uniform,
    exponential_bounds,
)
from dpgap.exact.laws import MemorylessLaw, require_memoryless
from dpgap.mechanisms.top_k.kernel import TopKProgram, ranked


class GroupedSelection(NamedTuple):
    """For each winner, best first: its group, its place in the group, and its lead in steps.

    Places are uniform among a group's members and distinct.
    """

    groups: Integers
    places: Integers
    leads: Integers


@np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
def select_grouped(
    program: TopKProgram, values: Integers, sizes: Integers, bits: Bits
) -> GroupedSelection:
    """Run the program once on answers given as values and how many answers have each."""
    law = require_memoryless(program.law, "for grouped answers")
    tops = _Tops(law, program.k, values, sizes, bits)
    order, leads, certain = ranked(tops.low[None], tops.high[None], program.k)
    winners, whole = order[0], leads[0]
    if not certain[0]:
        indices, exact_leads = program.run(values[tops.groups].tolist(), tops)
        winners, whole = np.array(indices), np.array(exact_leads, dtype=np.int64)
    groups = tops.groups[winners]
    return GroupedSelection(groups, _places(groups, sizes, bits), whole)


class _Tops:
    """The noisy answers that may be among the best k + 1, as enclosing floats and as reals."""

    def __init__(
        self, law: MemorylessLaw, k: int, values: Integers, sizes: Integers, bits: Bits
    ) -> None:
        self._law, self._bits, self._sizes = law, bits, sizes
        need = min(k + 1, int(sizes.sum()))
        offsets = (values - values.max()).astype(np.float64)
        self.groups = np.empty(0, dtype=np.int64)
        self._positions = np.empty(0, dtype=np.int64)
        self.low, self.high = np.empty(0), np.empty(0)
        self._words: list[dict[int, int]] = []
        sums = np.zeros((2, sizes.size))  # enclosing −ln of the uniform that is reached
        active, bar = np.arange(sizes.size), -math.inf
        for position in range(need):
            active = active[sizes[active] > position]
            if not active.size:
                break
            words = bits.words(active.size)
            self._words.append(dict(zip(active.tolist(), words.tolist(), strict=True)))
            left = (sizes[active] - position).astype(np.float64)
            grown = np.stack(exponential_bounds(1.0, words)) / left * _OUTWARDS
            sums[:, active] = (sums[:, active] + grown) * _OUTWARDS
            low, high = noise_bounds(self._law, sums[:, active])
            slack = (np.abs(offsets[active]) + np.abs(low)) * 2.0**-50
            self._keep(
                active, position, offsets[active] + low - slack, offsets[active] + high + slack
            )
            if self.low.size >= need:
                bar = float(np.partition(self.low, -need)[-need])
                self._drop_below(bar)
            # A group whose last answer is certainly too low has no better one to come.
            active = active[offsets[active] + high + slack >= bar]
        self._uniforms: dict[tuple[int, int], Uniform] = {}
        self._next = self._reals()

    def _keep(self, groups: Integers, position: int, low: Floats, high: Floats) -> None:
        self.groups = np.concatenate([self.groups, groups])
        self._positions = np.concatenate([self._positions, np.full(groups.size, position)])
        self.low, self.high = np.concatenate([self.low, low]), np.concatenate([self.high, high])

    def _drop_below(self, bar: float) -> None:
        kept = self.high >= bar
        self.groups, self._positions = self.groups[kept], self._positions[kept]
        self.low, self.high = self.low[kept], self.high[kept]

    def draw(self, law: MemorylessLaw) -> Real:
        """The next contender's noise: what the program asks for where floats do not decide."""
        return next(self._next)

    def _reals(self) -> Iterator[Real]:
        for group, position in zip(self.groups.tolist(), self._positions.tolist(), strict=True):
            uniforms = [self._uniform(group, earlier) for earlier in range(position + 1)]
            yield Real(0, TopDraw(self._law, int(self._sizes[group]), uniforms).enclosure)

    def _uniform(self, group: int, position: int) -> Uniform:
        """One uniform, shared by all the draws that depend on it."""
        key = group, position
        if key not in self._uniforms:
            self._uniforms[key] = Uniform.of_word(self._words[position][group], self._bits)
        return self._uniforms[key]


# Factors that outweigh the roundings of a sum of quotients, for its lower and its upper end.
_OUTWARDS = np.array([[1 - 2.0**-48], [1 + 2.0**-48]])


def noise_bounds(law: MemorylessLaw, sums: Floats) -> tuple[Floats, Floats]:
    """The law's quantile at e^(−sum): it falls as the sum grows, so the ends change places."""
    scale = float(law.scale)
    low, high = law.quantile(sums[1]), law.quantile(sums[0])
    slack = scale * 2.0**-48
    return scale * low - np.abs(low) * slack - slack, scale * high + np.abs(high) * slack + slack


class TopDraw:
    """The j-th largest of many draws from a law, as a real number refined on demand."""

    __slots__ = ("_law", "_size", "_uniforms")

    def __init__(self, law: MemorylessLaw, size: int, uniforms: list[Uniform]) -> None:
        self._law = law
        self._size = size
        self._uniforms = uniforms

    def enclosure(self, level: int) -> Enclosure:
        """Rationals below and above the draw; 64 more bits a level."""
        low, high = self._sum(level)
        while not low:  # nothing is known yet of how large the draw is
            level += 1
            low, high = self._sum(level)
        digits = 40 * (level + 2)
        slack = self._law.scale / 10 ** (digits // 2)
        return (
            self._law.scale * self._law.exact_quantile(high, digits) - slack,
            self._law.scale * self._law.exact_quantile(low, digits) + slack,
        )

    def _sum(self, level: int) -> Enclosure:
        """−ln of the uniform whose quantile this is: a sum of exponentials over what is left."""
        low = high = Fraction(0)
        for position, uniform in enumerate(self._uniforms):
            near, far = uniform.exponential(level + 1)
            low += near / (self._size - position)
            high += far / (self._size - position)
        return low, high


def _places(groups: Integers, sizes: Integers, bits: Bits) -> Integers:
    """A uniform place in its group for every winner, no place twice."""
    taken: set[tuple[int, int]] = set()
    places = []
    for group in groups.tolist():
        place = bits.below(int(sizes[group]))
        while (group, place) in taken:
            place = bits.below(int(sizes[group]))
        taken.add((group, place))
        places.append(place)
    return np.array(places, dtype=np.int64)

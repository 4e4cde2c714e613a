"""Sparse Vector with gap, plain and adaptive: which answers of a stream are above a threshold?

Algorithm 2 of the paper. The threshold gets noise once; every answer gets fresh noise and is
compared with it. "Below" costs nothing, "above" is charged, and the gap to the noisy threshold
comes free. The adaptive mechanism first tries cheap branches: much noise, a small charge, and a
margin that only answers far above the threshold clear. So easy questions cost less. The plain
mechanism is the one whose only branch is the last.

Budgets are counted in whole units, the charge of the cheapest branch, never in floats. Noise is
floored to the grid of the answers: shifts by whole steps keep every ≥, so ties do no harm.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpgap._package import public
from dpgap.budget.account import Account, Request, charged
from dpgap.data.private_counts import PrivateCounts, errors_without_answers, require_facts
from dpgap.estimates.errors import GapErrors
from dpgap.exact.bits import secure_bits
from dpgap.exact.grid import MAX_STEPS, Grid, require_labels
from dpgap.exact.laws import Law, MemorylessLaw, Noise, Scalar, require_noise
from dpgap.exact.parameters import (
    Rational,
    boolean,
    positive_integer,
    positive_rational,
    rational,
    share,
)
from dpgap.exact.reals import Floats
from dpgap.mechanisms.sparse_vector.branches import (
    Branch,
    Outcome,
    best_threshold_share,
    evidence_of,
    laws_of,
    limits_of,
)
from dpgap.mechanisms.sparse_vector.kernel import Sifting
from dpgap.mechanisms.sparse_vector.run import Run
from dpgap.mechanisms.sparse_vector.streams import Stream
from dpgap.mechanisms.top_k.candidates import Draw
from dpgap.releases.drawn import Above
from dpgap.releases.release import AboveRelease, MechanismUsed, Promise

_MAX_BRANCHES = 16


@public
@dataclass(frozen=True, slots=True, init=False)
class SparseVector:
    """Find the first k answers that are above a threshold, and by how much.

    Guarantee: pure ε-differential privacy of everything said about the stream, gaps included.

    Parameters
    ----------
    threshold
        What answers are compared with.
    k
        How many times "above" can be paid for.
    epsilon
        The privacy budget ε that all of it costs: a number, or text such as "0.7" or "2/3".
    monotonic
        Whether one person can only move all answers the same way, as adding a person to counts
        can only raise them. It halves the noise; to say so where it is not true voids the promise.
    sensitivity
        The most that one person can move any one answer.
    threshold_share
        The part of ε that goes into the threshold's own noise; by default the part that makes
        gaps most accurate.
    noise
        The law of the noise: "laplace", "staircase" or "exponential".
    grid
        A power of two, such as 0.25. Answers are then real numbers, rounded to multiples of it;
        without it they must be whole.

    >>> mechanism = SparseVector(threshold=100, k=2, epsilon=1000, monotonic=True)
    >>> release = mechanism.release([3, 250, 7, 180, 400])
    >>> release.indices.tolist(), release.processed
    ([1, 3], 4)
    """

    threshold: Fraction
    k: int
    epsilon: Fraction
    monotonic: bool
    sensitivity: Fraction
    threshold_share: Fraction
    noise: str
    grid: Fraction | None
    threshold_law: Law = field(init=False, repr=False, compare=False)
    """The noise that the threshold gets."""
    ways: tuple[Branch, ...] = field(init=False, repr=False, compare=False)
    """The branches in the order in which they are tried, cheapest first."""
    limits: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """For each branch, the most units that may be used before it is tried."""

    def __init__(
        self,
        threshold: Rational,
        k: int,
        epsilon: Rational,
        *,
        monotonic: bool = False,
        sensitivity: Rational = 1,
        threshold_share: Rational | None = None,
        noise: str = "laplace",
        grid: Rational | None = None,
    ) -> None:
        keep = object.__setattr__
        keep(self, "threshold", rational("threshold", threshold))
        keep(self, "k", positive_integer("k", k))
        keep(self, "epsilon", positive_rational("epsilon", epsilon))
        keep(self, "monotonic", boolean("monotonic", monotonic))
        keep(self, "sensitivity", positive_rational("sensitivity", sensitivity))
        keep(
            self,
            "threshold_share",
            best_threshold_share(self.k, self.monotonic)
            if threshold_share is None
            else share("threshold_share", threshold_share),
        )
        keep(self, "noise", require_noise(noise))
        where = Grid.read(grid)
        keep(self, "grid", where.declared)
        branches, drain = self._shape()
        if self.k << (branches - 1) > MAX_STEPS:
            raise ValueError(f"k must be at most 2^60 over 2^(branches - 1), not {k}")
        if abs(self.threshold) > MAX_STEPS * where.step:
            raise ValueError("threshold must lie within ±2^60 grid steps")
        threshold_law, ways = laws_of(self, branches)
        keep(self, "threshold_law", threshold_law)
        keep(self, "ways", ways)
        keep(self, "limits", limits_of(ways, self.capacity, drain))

    def _shape(self) -> tuple[int, bool]:
        """How many branches there are, and whether the budget is drained."""
        return 1, False

    @property
    def capacity(self) -> int:
        """All the units there are."""
        return self.k * self.ways[-1].units

    @property
    def unit(self) -> Fraction:
        """The ε of one unit: what the cheapest branch charges."""
        return self.ways[0].charge

    def live(self, used: Scalar) -> int:
        """How many branches, from the cheapest on, are tried once `used` units are used."""
        return sum(bool(used <= limit) for limit in self.limits)

    def spent(self, used: int) -> Fraction:
        """The ε spent once `used` units are: the threshold's share and the charges."""
        return self.threshold_share * self.epsilon + used * self.unit

    def run(self, answers: Iterable[Scalar], noise: Noise) -> Iterator[Outcome]:
        """The algorithm: what is said of each answer, one by one, until the budget is used."""
        threshold = self.threshold + noise.draw(self.threshold_law)
        used: Scalar = 0
        for answer in answers:
            outcome, used = self.step(used, answer, threshold, noise)
            yield outcome
            if not self.live(used):
                return

    def step(
        self, used: Scalar, answer: Scalar, threshold: Scalar, noise: Noise
    ) -> tuple[Outcome, Scalar]:
        """One answer: the first branch that it clears, by what gap, and the units then used."""
        for way in self.ways[: self.live(used)]:
            gap = answer + noise.draw(way.law) - threshold
            if gap >= way.margin:
                return Outcome(way.number, gap), used + way.units
        return Outcome(None, None), used

    def align(
        self,
        answers: Sequence[Scalar],
        neighbour: Sequence[Scalar],
        noise: Sequence[Scalar],
        output: Sequence[tuple[int | None, Any]],
    ) -> Iterator[Scalar]:
        """The proof: how far to shift each draw so that the neighbour gives the same output.

        Raising the threshold's noise by Δ keeps every failed comparison failed; whoever cleared a
        branch makes up for that rise and for its own change. Where all answers fall, failed
        comparisons stay failed by themselves, and nothing but the own change is made up for.
        """
        yield (rise := self.rise(answers, neighbour))
        used: Scalar = 0
        for before, after, outcome in zip(answers, neighbour, output, strict=False):
            shifts, used = self.align_step(used, rise + before - after, outcome)
            yield from shifts

    def rise(self, answers: Sequence[Scalar], neighbour: Sequence[Scalar]) -> Scalar:
        """How far the threshold's noise is shifted: not at all where answers (their sum) fall."""
        falling = self.monotonic and sum(neighbour) <= sum(answers)
        return 0 if falling else self.sensitivity

    def align_step(
        self, used: Scalar, move: Scalar, outcome: tuple[int | None, Any]
    ) -> tuple[list[Scalar], Scalar]:
        """The shifts of one answer's draws, and the units then used: `move` where it cleared."""
        branch, _ = outcome
        if branch is None:
            return [0] * self.live(used), used
        return [*[0] * (branch - 1), move], used + self.ways[branch - 1].units

    def in_steps(self) -> Self:
        """The same mechanism, for answers in whole grid steps."""
        grid = Grid(self.grid)
        steps = 1 / grid.step
        scaled = object.__new__(type(self))
        for each in fields(self):
            object.__setattr__(scaled, each.name, getattr(self, each.name))
        keep = object.__setattr__
        keep(scaled, "threshold", grid.up(self.threshold))
        keep(scaled, "sensitivity", grid.up(self.sensitivity))
        keep(scaled, "grid", None)
        keep(scaled, "threshold_law", self.threshold_law.scaled(steps))
        keep(scaled, "ways", tuple(way.in_steps(steps) for way in self.ways))
        return scaled

    @property
    def gap_offsets(self) -> Floats:
        """For each branch, what to add to a gap in steps, times the grid, to release it.

        It is then over the threshold as stated, not as rounded up, and the known mean of one-sided
        noise is taken off.
        """
        grid, program = Grid(self.grid), self.in_steps()
        means = np.array([way.law.floor_mean for way in program.ways])
        over = (means - program.threshold_law.floor_mean) * grid.width
        return grid.excess(self.threshold) - over

    @property
    def gap_errors(self) -> GapErrors:
        """What gaps may be off by."""
        laws = tuple(way.law for way in self.ways)
        return GapErrors(self.threshold, self.threshold_law, laws, self.grid)

    @errors_without_answers
    def release(
        self,
        answers: ArrayLike | PrivateCounts,
        *,
        labels: Sequence[Any] | None = None,
        max_answers: int | None = None,
        account: Account | None = None,
    ) -> AboveRelease:
        """Go through a whole list on secure exact noise, from first to last.

        `max_answers` stops the run after so many answers above; what is then left of ε is
        `remaining`. `labels` are as for `NoisyTopK`. The account is charged ε first and credited
        with what was not spent. Answers made from a table come in the order of its domain, and
        those of an engine as a stream.
        """
        stream = self.prepare(answers, labels)
        most = None if max_answers is None else positive_integer("max_answers", max_answers)
        with charged(account, Request(self.epsilon, self)) as charge:
            release = charge.keep(self.build(self.draw_paid(stream, most).drawn))
            charge.spent = release.spent
        return release

    def prepare(
        self, answers: ArrayLike | PrivateCounts | Stream, labels: Sequence[Any] | None = None
    ) -> Stream:
        """The answers as a stream; refused before anything is charged."""
        source = answers.source if isinstance(answers, Stream) else answers
        if isinstance(source, PrivateCounts):
            require_facts(
                source,
                sensitivity=self.sensitivity,
                monotonic=self.monotonic,
                labelled=labels is not None,
                grid=self.grid,
            )
        if isinstance(answers, Stream):
            return answers
        if isinstance(answers, PrivateCounts):
            names = require_labels(labels, len(answers))
            if not isinstance(self.threshold_law, MemorylessLaw):  # none can be left undrawn
                names = answers.labels if names is None else names
                return Stream.of(Grid(self.grid).steps(answers.expanded()), names)
            return Stream.on_grid(answers, answers.in_order(), self.grid, names)
        array = Grid(self.grid).steps(answers)
        return Stream.of(array, require_labels(labels, array.size, answers))

    def draw_paid(self, stream: Stream, max_answers: int | None = None) -> Draw[Above]:
        """Go through the stream; the caller has paid."""
        sifting = Sifting(self.in_steps(), 1, secure_bits(), max_answers)
        parts = []
        for chunk in stream.chunks:
            if chunk.places is None:
                _, places, branches, gaps = sifting.take(chunk.values)
            else:
                taken = chunk.values, chunk.places, chunk.size
                _, places, branches, gaps = sifting.take_sparse(*taken)
            parts.append((chunk.found(places), chunk.at(places), branches, gaps))
            if not sifting.going:
                break
        found, steps, branches, gaps = zip(*parts, strict=True)
        above = Above(
            *stream.together(found),
            np.concatenate(branches),
            np.concatenate(gaps),
            int(sifting.used[0]),
            int(sifting.processed[0]),
        )
        return Draw(above, np.concatenate(steps))

    def build(self, drawn: Above) -> AboveRelease:
        """The release of what was drawn."""
        branch_of = drawn.branches
        raw: Floats = np.multiply(drawn.gaps, Grid(self.grid).width, dtype=np.float64)
        return AboveRelease(
            indices=drawn.indices,
            gaps=raw + self.gap_offsets[branch_of - 1],
            evidence=evidence_of(self.ways, branch_of, raw),
            branch_of=branch_of,
            labels=drawn.labels,
            epsilon=self.epsilon,
            spent=self.spent(drawn.used),
            processed=drawn.processed,
            promise=Promise(self.epsilon, self.sensitivity, self.monotonic),
            errors=self.gap_errors,
            mechanisms=(MechanismUsed.of(self),),
        )

    def start(self, *, account: Account | None = None) -> Run:
        """Open a run that is asked one answer at a time; use it in a `with` block.

        The whole ε is reserved in the `account` until the run ends; the rest is credited then.
        """
        return Run(self, account)


@public
@dataclass(frozen=True, slots=True, init=False)
class AdaptiveSparseVector(SparseVector):
    """Sparse Vector that charges less for answers far above the threshold.

    A *branch* is one way to be above, with its own noise and its own price. The cheap ones are
    tried first. They have much noise, so only answers far above clear them.

    Guarantee: pure ε-differential privacy of everything said about the stream, gaps included.

    Parameters
    ----------
    threshold, k, epsilon, monotonic, sensitivity, threshold_share, noise, grid
        As for `SparseVector`. The run may find more than k, since easy answers cost less.
    branches
        How many branches there are. With two, as in the paper, an easy answer costs half; each
        further branch halves the least price again.
    drain
        Whether to *drain* the budget: to go on with the cheap branches when the dearest can no
        longer be paid. The paper stops there.

    >>> mechanism = AdaptiveSparseVector(threshold=100, k=2, epsilon=1000, monotonic=True)
    >>> release = mechanism.release([3, 250, 7, 180, 400], max_answers=2)
    >>> release.branch_of.tolist(), release.remaining > 300
    ([1, 1], True)
    """

    branches: int
    drain: bool

    def __init__(
        self,
        threshold: Rational,
        k: int,
        epsilon: Rational,
        *,
        monotonic: bool = False,
        sensitivity: Rational = 1,
        threshold_share: Rational | None = None,
        noise: str = "laplace",
        grid: Rational | None = None,
        branches: int = 2,
        drain: bool = False,
    ) -> None:
        object.__setattr__(self, "branches", positive_integer("branches", branches))
        object.__setattr__(self, "drain", boolean("drain", drain))
        if self.branches > _MAX_BRANCHES:
            raise ValueError(f"branches must be at most {_MAX_BRANCHES}, not {branches}")
        SparseVector.__init__(
            self,
            threshold,
            k,
            epsilon,
            monotonic=monotonic,
            sensitivity=sensitivity,
            threshold_share=threshold_share,
            noise=noise,
            grid=grid,
        )

    def _shape(self) -> tuple[int, bool]:
        return self.branches, self.drain

"""Sparse Vector with gap, plain and adaptive: which answers of a stream are above a threshold?

This is Algorithm 2 of the paper. The threshold gets noise once. Every answer gets fresh noise and
is compared with the noisy threshold. "Below" costs nothing, "above" is charged, and the gap to the
noisy threshold costs nothing extra. The adaptive mechanism first tries cheap branches: they have
much noise, a small charge, and a margin that only answers far above the threshold clear. So easy
questions cost less. The plain mechanism has only the last branch.

Budgets are counted in whole units (one unit is the charge of the cheapest branch), never in floats.
Noise is floored to the grid of the answers. Shifts by whole steps keep every ≥, so ties do no harm.
"""

import atexit
import math
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from types import EllipsisType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpgap._package import public
from dpgap.budget.account import Account, BudgetExhausted, Request, Reservation, reserved, settle
from dpgap.budget.cost import Cost, equal_part, split
from dpgap.data.private_counts import (
    Chunk,
    Found,
    PrivateCounts,
    errors_without_answers,
    redacted_repr,
    require_facts,
)
from dpgap.estimates.certificates import Evidence
from dpgap.estimates.errors import GapErrors
from dpgap.exact.bits import Bits, ProcessBound, secure_bits
from dpgap.exact.grid import MAX_STEPS, Grid, Labels, read_grid, require_labels
from dpgap.exact.laws import (
    LAWS,
    Law,
    MemorylessLaw,
    Noise,
    Scalar,
    Vector,
    law_on_grid,
    require_memoryless,
    require_noise,
)
from dpgap.exact.parameters import (
    Exact,
    ExactOrNone,
    Parameter,
    Rational,
    altered,
    boolean,
    confidence_level,
    declared,
    derived,
    or_none,
    parameter,
    positive_integer,
    positive_rational,
    rational,
    readable_down,
    readable_up,
    remembered,
    share,
)
from dpgap.exact.reals import Flags, Floats, GridNoise, Integers, decide
from dpgap.mechanisms.mechanism import Draw, Mechanism, Winners, require_threshold
from dpgap.mechanisms.top_k import Tops, claims_of, named
from dpgap.releases.detail import Detail, MechanismUsed, Promise
from dpgap.releases.drawn import Above
from dpgap.releases.plain import plain
from dpgap.releases.release import ItemsAbove


class Stream(NamedTuple):
    """A stream of answers in a public order: chunks in whole steps, and labels if chunks have none.

    Only one chunk is in memory, so a stream may be as long as an engine can make it.
    """

    chunks: Iterator[Chunk]
    extremes: Integers
    """The smallest and the largest possible answer."""
    labels: Labels = None
    """The labels of the answers by their positions."""
    max_answers: int | None = None
    """The run ends after this many answers above; None: as many as ε can pay."""

    def __repr__(self) -> str:
        return redacted_repr(self)

    @classmethod
    def of(cls, steps: Integers, labels: Labels) -> Self:
        """A stream of one chunk with all answers."""
        everything = Chunk(steps, lambda places: Found(places, None))
        return cls(iter([everything]), np.array([steps.min(), steps.max()]), labels)

    def together(self, parts: Sequence[Found]) -> Found:
        """Join the results of several chunks."""
        positions = np.concatenate([part.positions for part in parts])
        if self.labels is not None:
            return Found(positions, named(positions, self.labels))
        labels: list[Any] = []
        for part in parts:
            if part.labels is None:
                return Found(positions, None)
            labels += part.labels
        return Found(positions, tuple(labels))


class Branch(NamedTuple):
    """A test for "above": its charge, its noise, and the gap that it demands (margin)."""

    number: int
    units: int
    charge: Fraction
    law: Law
    margin: Scalar


class Outcome(NamedTuple):
    """The outcome for one answer: the branch that it cleared (None if none) and its gap."""

    branch: int | None
    gap: Scalar


def law_of(mechanism: "SparseVector", charge: Fraction) -> Law:
    """The noise for which a shift by the sensitivity costs this charge."""
    kind = LAWS[mechanism.noise]
    return law_on_grid(kind, mechanism.grid, mechanism.sensitivity, charge)


def threshold_law_of(mechanism: "SparseVector") -> Law:
    """The noise of the threshold: its shift costs the threshold's share."""
    return law_of(mechanism, shares_of(mechanism)[0])


def shares_of(mechanism: "SparseVector") -> tuple[Fraction, Fraction]:
    """The parts of ε for the threshold, and for all answers above."""
    to_threshold, to_answers = split(mechanism.epsilon, mechanism.threshold_share)
    return to_threshold, to_answers


def branches_of(mechanism: "SparseVector") -> Iterator[Branch]:
    """The branches, cheapest first: each charges twice as much as the one before."""
    branches = mechanism.shape[0]
    dearest = equal_part(shares_of(mechanism)[1], mechanism.k)
    for number in range(1, branches + 1):
        charge = equal_part(dearest, 1 << (branches - number))
        law = law_of(mechanism, charge if mechanism.monotonic else equal_part(charge, 2))
        margin = _margin(law, mechanism.threshold_law, Grid(mechanism.grid), number == branches)
        yield Branch(number, 1 << (number - 1), charge, law, margin)


def limits_of(branches: Sequence[Branch], capacity: int, drain: bool) -> tuple[int, ...]:
    """For each branch, the most units that may be used before it is tried.

    As in the paper, the run ends when the dearest branch cannot be paid any more; a run that drains
    goes on with the branches that can be paid.
    """
    return tuple(capacity - (branch.units if drain else branches[-1].units) for branch in branches)


def evidence_of(
    branches: Sequence[Branch], branch_of: Integers, raw_gaps: Floats
) -> Evidence | None:
    """The evidence of raw gaps over the noisy threshold; its noise has the branches' kind."""
    if branches[0].law.signed:
        return None
    cleared = [branches[number - 1] for number in branch_of.tolist()]
    margins = np.array([max(float(branch.margin), 0.0) for branch in cleared])
    return Evidence.of((raw_gaps - margins).tolist(), [branch.law for branch in cleared])


def best_threshold_share(k: int, monotonic: bool) -> Fraction:
    """The share of ε for the threshold that makes gaps most accurate, as a rational.

    >>> best_threshold_share(1, monotonic=True)
    Fraction(1, 2)
    """
    charged_answers = k if monotonic else 2 * k
    best = Fraction(1 / (1 + charged_answers ** (2 / 3))).limit_denominator(1 << 20)
    return max(best, Fraction(1, 1 << 20))


def _margin(law: Law, threshold_law: Law, grid: Grid, is_last: bool) -> Fraction:
    """The gap that a branch demands: the noise's mean; 2 deviations more before the last.

    Any margin that is fixed beforehand is private. This one is rounded up to the grid.
    """
    law = law.scaled(1 / grid.step)
    threshold_law = threshold_law.scaled(1 / grid.step)
    centre = law.floor_mean - threshold_law.floor_mean
    deviations = 0 if is_last else 2
    return math.ceil(centre + deviations * math.sqrt(law.variance)) * grid.step


_OPEN: "weakref.WeakSet[Run]" = weakref.WeakSet()
"""The runs that hold budget. Late in its shutdown Python shows no warnings (3.12 and later)."""


@atexit.register
def _warn_of_open_runs() -> None:
    for run in list(_OPEN):
        run.__del__()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question; `gap` and `branch` are None below the threshold.

    `threshold` is that of the question; None if it was the mechanism's. `made_by` is the mechanism.

    `p_value` is that of "this answer is not truly above": how often noise alone would give a lead
    this long to an answer that is not above. It is about one answer, and it is not the probability
    that the answer is wrong. None below the threshold, and without exponential noise.
    """

    above: bool
    gap: float | None
    branch: int | None
    charge: Fraction
    p_value: float | None = None
    threshold: Fraction | None = None
    made_by: "SparseVector | None" = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values that JSON can hold; the charge is exact text."""
        answer: dict[str, Any] = plain(self)
        del answer["made_by"]
        return answer


class Run(ProcessBound):
    """Ask with `ask`, look at `answers_left`, `spent` and `remaining`, stop with `close`.

    Any thread may ask. Questions of several threads are answered one after another.

    A run holds budget, so it must never exist twice: it cannot be copied or pickled, and a forked
    child cannot ask. The whole ε is reserved while the run is open. Only closing credits the
    unspent ε, and closing is final. If an exception leaves the `with` block, nothing is credited,
    because the exception may depend on private data. A run that is dropped without closing credits
    nothing either, because the time of this depends on the garbage collector.

    An account that archives gets all answers of a run when it is closed. A run that is killed
    settles nothing, so its answers are gone.

    >>> from dpgap import AdaptiveSparseVector
    >>> with AdaptiveSparseVector(threshold=100, k=2, epsilon=1000, monotonic=True).start() as run:
    ...     run.ask(3).above, run.ask(250).above, run.ask(250, threshold=400).above
    ...     run.answers_left, run.remaining > 400
    (False, True, False)
    ((1, 2), True)
    """

    _reservation: Reservation | None = None

    def __init__(self, mechanism: "SparseVector", account: Account | None) -> None:
        super().__init__()
        self._mechanism = mechanism
        self._waiting: list[int] = []  # the next answer for the program
        self._noise = GridNoise()
        self._outcomes = mechanism.in_steps().run(iter(self._waiting.pop, None), self._noise)
        self._grid = Grid(mechanism.grid)
        self._used = 0
        self._processed = 0
        self._above: list[tuple[int, int, int]] = []  # index, branch and gap
        self._thresholds: list[Fraction] = []
        self._has_thresholds = False
        self._closed = False
        self._has_warned = False
        self._lock = threading.RLock()
        self._busy = False
        self._reservation = reserved(account, Request(mechanism.cost, mechanism))
        if self._reservation is not None:
            _OPEN.add(self)

    @property
    def cost(self) -> Cost:
        """What the run did cost so far; the threshold's share is spent from the start."""
        return self._mechanism.cost_of(self._used)

    @property
    def spent(self) -> Fraction:
        """The ε spent so far."""
        return self.cost.pure_epsilon

    @property
    def remaining(self) -> Fraction:
        """The ε not spent so far; it is free for other use only after the run is closed."""
        return (self._mechanism.cost - self.cost).pure_epsilon

    @property
    def exhausted(self) -> bool:
        """Whether no more questions can be asked."""
        return self._used > self._mechanism.limits[0]

    @property
    def answers_left(self) -> tuple[int, int]:
        """How many more answers above ε can pay: if all cost the most, and if all cost the least.

        Answers below cost nothing and do not count. A closed run has none left.
        """
        if self._closed:
            return 0, 0
        return self._mechanism.answers_left(self._used)

    @errors_without_answers
    def ask(self, answer: object, *, threshold: Rational | EllipsisType = ...) -> Answer:
        """Is this private answer above the threshold?

        The answer must count persons, so that one person moves it by at most 1; for events, cap
        each person's at c and pass `sensitivity=c` to the mechanism. Else ε promises less.

        A `threshold` replaces that of the mechanism for this question. It must be public, or fixed
        before the answer is seen. It may depend on earlier releases, never on private data.
        """
        self.refuse_elsewhere("a run")
        replaced = None if threshold is ... else rational("threshold", threshold)
        over = self._mechanism.over(replaced)
        # The program compares all answers with the mechanism's own threshold.
        steps = self._grid.steps_of_one(answer)
        steps += self._grid.up(self._mechanism.threshold) - self._grid.up(over.threshold)
        with self._alone():
            if self._closed:
                raise RuntimeError("this run is closed: start a new one")
            if self.exhausted:
                raise BudgetExhausted(
                    f"this run has spent {readable_up(self.spent)} of its ε = "
                    f"{readable_down(self._mechanism.epsilon)} and can give no more answers above: "
                    "start a new one to ask more"
                )
            self._closed = True  # closed, unless everything below succeeds
            self._noise.freshen()
            self._waiting.append(steps)
            branch, gap = next(self._outcomes)
            if branch is not None and gap is not None:
                self._used += self._mechanism.every_branch[branch - 1].units
                self._above.append((self._processed, branch, int(gap)))
                self._thresholds.append(over.threshold)
            self._has_thresholds |= replaced is not None
            self._processed += 1
            public_answer = self.build(branch, gap, replaced)
            self._closed = False
            return public_answer

    def build(
        self, branch: int | None, gap: int | None, threshold: Fraction | None = None
    ) -> Answer:
        """The answer to one question, from its branch, its gap in steps and its threshold."""
        if branch is None or gap is None:
            return Answer(
                above=False, gap=None, branch=None, charge=Fraction(0), threshold=threshold
            )
        branches = self._mechanism.every_branch
        offsets = self._mechanism.over(threshold).gap_offsets
        # The gap that is shown is centred; the raw gap over the noisy threshold is evidence.
        raw_gap = gap * self._grid.width
        evidence = evidence_of(branches, np.array([branch]), np.array([raw_gap]))
        p_value = None
        if evidence is not None:
            p_value = float(evidence.p_values(1)[0])
        return Answer(
            above=True,
            gap=raw_gap + float(offsets[branch - 1]),
            branch=branch,
            charge=branches[branch - 1].charge,
            p_value=p_value,
            threshold=threshold,
            made_by=self._mechanism,
        )

    def lower_bound(self, answer: Answer, level: float = 0.95) -> float:
        """The true answer is at least this, with confidence `level`.

        The confidence is for one question, above or not. If you look only at answers that came out
        above, it is less: for answers at the threshold, 90 % instead of a nominal 95 %; for answers
        that noise lifted from far below, nearly 0. If n questions are asked, `1 - 0.05 / n` is a
        level for all of them at once.
        """
        if getattr(answer, "made_by", self) not in (None, self._mechanism):
            raise ValueError("answer must be of this run: another mechanism has other noise")
        if answer.gap is None or answer.branch is None:
            raise ValueError("answer must be above the threshold: others have no bound")
        errors = self._mechanism.over(answer.threshold).gap_errors
        return errors.lower_bound(answer.gap, answer.branch, confidence_level(level))

    def close(self) -> None:
        """End the run for ever, and credit the ε that it did not spend.

        If its account fails, an `UnsettledWarning` says that the whole ε stays charged.
        """
        self._end(credit=True)

    def _end(self, *, credit: bool) -> None:
        if self.is_elsewhere:  # a forked child's copy settles nothing
            return
        with self._alone():
            was_closed = self._closed
            self._closed = True
            _OPEN.discard(self)
            if credit and not was_closed:
                settle(self._reservation, self.cost, self._archived())

    def _archived(self) -> ItemsAbove | None:
        """All answers, for an account that archives; None if it does not."""
        reference = getattr(self._reservation, "reference", None)
        if reference is None:
            return None
        indices, branches, gaps = np.array(self._above, dtype=np.int64).reshape(-1, 3).T
        above = Above(indices, None, branches, gaps, self._used, self._processed)
        thresholds = tuple(self._thresholds) if self._has_thresholds else None
        return self._mechanism.build(above, thresholds)._paid_by(reference)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A lock: one thread at a time, and no second entry in a thread (a signal handler)."""
        with self._lock:
            if self._busy:
                raise RuntimeError(
                    "this run is being asked or closed in this thread: a signal handler, or "
                    "whatever else runs meanwhile, can do neither"
                )
            try:
                self._busy = True
                yield
            finally:
                self._busy = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(credit=kind is None or issubclass(kind, BudgetExhausted))

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        if self._reservation is None:
            return
        if not (self._closed or self._has_warned or self.is_elsewhere):
            self._has_warned = True
            warn(
                "a run was never closed, so its whole ε stays charged. Use it in a "
                "block, which closes it: `with mechanism.start(account=account) as run:`",
                ResourceWarning,
                source=self,
            )

    def __repr__(self) -> str:
        at_full_price, at_lowest_price = self.answers_left
        number = "no"
        if at_lowest_price:
            number = f"{at_full_price} to {at_lowest_price}"
        return f"<run of {self._mechanism!r}: {number} more answers above>"


_MAX_BRANCHES = 16


def _read_branches(name: str, value: object) -> int:
    branches = positive_integer(name, value)
    if branches > _MAX_BRANCHES:
        raise ValueError(f"{name} must be at most {_MAX_BRANCHES}, not {branches}")
    return branches


@public
@declared()
class SparseVector(Mechanism[Stream, ItemsAbove]):
    """Find the first k answers that are above a threshold, and by how much.

    Guarantee: pure ε-differential privacy of all output about the stream, including gaps.

    Parameters
    ----------
    threshold
        The number with which answers are compared.
    k
        For how many answers "above" ε pays at the full price.
    epsilon
        The privacy budget ε of the whole release: a number, or text such as "0.7" or "2/3".
    monotonic
        Whether one person moves all answers in the same direction: one more person can only raise
        counts. This halves the noise. If it is not true, the result is not private.
    sensitivity
        The most that one person can move any one answer.
    threshold_share
        The part of ε for the noise of the threshold. The default makes gaps most accurate.
    noise
        The law of the noise. "exponential", the default, has p-values and the least spread;
        "laplace" is the paper's; or "staircase".
    grid
        A power of two, such as 0.25: answers may be real numbers, and are rounded to multiples of
        it. Without a grid, answers must be whole numbers.

    >>> mechanism = SparseVector(threshold=100, k=2, epsilon=1000, monotonic=True)
    >>> release = mechanism.release([3, 250, 7, 180, 400])
    >>> release.indices.tolist(), release.processed
    ([1, 3], 4)
    """

    threshold: Exact = parameter(rational, then=require_threshold)
    k: int = parameter(positive_integer, then=lambda self: self._require_units())
    epsilon: Exact = parameter(positive_rational)
    _: KW_ONLY
    monotonic: bool = parameter(boolean, default=False)
    sensitivity: Exact = parameter(positive_rational, default=1)
    threshold_share: Parameter[Rational | None, Fraction] = parameter(
        or_none(share),
        default=None,
        then=lambda self: self.threshold_share or best_threshold_share(self.k, self.monotonic),
    )
    noise: str = parameter(require_noise, default="exponential")
    grid: ExactOrNone = parameter(read_grid, default=None)
    threshold_law: Law = derived(lambda self: threshold_law_of(self))
    every_branch: tuple[Branch, ...] = derived(lambda self: tuple(branches_of(self)))
    """The branches in the order in which they are tried, cheapest first."""
    limits: tuple[int, ...] = derived(
        lambda self: limits_of(self.every_branch, self.capacity, self.shape[1])
    )
    """For each branch, the most units that may be used before it is tried."""

    @property
    def shape(self) -> tuple[int, bool]:
        """How many branches there are, and whether the budget is drained."""
        return 1, False

    def _require_units(self) -> int:
        if self.k << (self.shape[0] - 1) > MAX_STEPS:
            raise ValueError(f"k must be at most 2^60 over 2^(branches - 1), not {self.k}")
        return self.k

    @property
    def capacity(self) -> int:
        """The number of units in the whole budget."""
        return self.k * self.every_branch[-1].units

    @property
    def unit(self) -> Fraction:
        """The ε of one unit: the charge of the cheapest branch."""
        return self.every_branch[0].charge

    def live(self, used: Scalar) -> int:
        """How many branches, from the cheapest on, are tried after `used` units are used."""
        return sum(bool(used <= limit) for limit in self.limits)

    def answers_left(self, used: int) -> tuple[int, int]:
        """How many more answers above can be paid after `used` units: at most price, at least.

        A run that drains pays with the dearest branch that is left, down to the last unit.
        """
        at_full_price, remainder = divmod(self.capacity - used, self.every_branch[-1].units)
        _, is_drained = self.shape
        if is_drained:
            at_full_price += remainder.bit_count()
        return at_full_price, max(self.limits[0] - used + 1, 0)

    def cost_of(self, used: int) -> Cost:
        """What a run did cost after `used` units: the threshold's share and the charges."""
        loss = Cost.pure(shares_of(self)[0]) + Cost.pure(self.unit).times(used)
        return self.cost.realised(loss)

    def spent(self, used: int) -> Fraction:
        """The ε of this cost."""
        return self.cost_of(used).pure_epsilon

    def run(self, answers: Iterable[Scalar], noise: Noise) -> Iterator[Outcome]:
        """The algorithm: the outcome for each answer, one by one, until the budget is used."""
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
        """One answer: the first branch that it clears, its gap, and the units used after it."""
        for branch in self.every_branch[: self.live(used)]:
            gap = answer + noise.draw(branch.law) - threshold
            if gap >= branch.margin:
                return Outcome(branch.number, gap), used + branch.units
        return Outcome(None, None), used

    def align(
        self, answers: Vector, neighbour: Vector, noise: Vector, output: Sequence[Outcome]
    ) -> Iterator[Scalar]:
        """The proof: how far to shift each draw so that the neighbour gives the same output.

        The threshold's noise rises by Δ, so every failed comparison still fails. The noise of an
        answer that cleared a branch is shifted by this rise and by the answer's own change. If all
        answers fall, failed comparisons still fail without a rise, so only the own change remains.
        """
        yield (rise := self.rise(sum(answers), sum(neighbour)))
        used: Scalar = 0
        for before, after, outcome in zip(answers, neighbour, output, strict=False):
            shifts, used = self.align_step(used, rise + before - after, outcome)
            yield from shifts

    def rise(self, before: Scalar, after: Scalar) -> Scalar:
        """The shift of the threshold's noise: 0 if answers (their sum) fall."""
        if self.monotonic and after <= before:
            return 0
        return self.sensitivity

    def align_step(
        self, used: Scalar, move: Scalar, outcome: Outcome
    ) -> tuple[list[Scalar], Scalar]:
        """The shifts of one answer's draws (`move` for a cleared branch), and the units used."""
        branch, _ = outcome
        if branch is None:
            return [0] * self.live(used), used
        return [*[0] * (branch - 1), move], used + self.every_branch[branch - 1].units

    @remembered
    def in_steps(self) -> Self:
        """The same mechanism, for answers in whole grid steps."""
        grid = Grid(self.grid)
        factor = 1 / grid.step
        branches = []
        for branch in self.every_branch:
            law = branch.law.scaled(factor)
            branches.append(branch._replace(law=law, margin=int(branch.margin * factor)))
        return altered(
            self,
            threshold=grid.up(self.threshold),
            sensitivity=grid.up(self.sensitivity),
            grid=None,
            threshold_law=self.threshold_law.scaled(factor),
            every_branch=tuple(branches),
        )

    def over(self, threshold: Rational | None) -> Self:
        """The same mechanism with another threshold; the noise does not depend on it."""
        if threshold is None:
            return self
        other = altered(self, threshold=rational("threshold", threshold))
        require_threshold(other)
        return other

    @property
    @remembered
    def gap_offsets(self) -> Floats:
        """For each branch, the length to add to a gap before it is released.

        Then the gap is over the stated threshold, not over the one rounded up to steps. The known
        mean of one-sided noise is subtracted.
        """
        grid = Grid(self.grid)
        program = self.in_steps()
        means = np.array([branch.law.floor_mean for branch in program.every_branch])
        means_of_gaps = (means - program.threshold_law.floor_mean) * grid.width
        offsets: Floats = grid.excess(self.threshold) - means_of_gaps
        offsets.flags.writeable = False  # it is cached
        return offsets

    @property
    def gap_errors(self) -> GapErrors:
        """The errors of gaps."""
        laws = tuple(branch.law for branch in self.every_branch)
        return GapErrors(self.threshold, self.threshold_law, laws, self.grid)

    @errors_without_answers
    def release(
        self,
        answers: ArrayLike | PrivateCounts,
        *,
        labels: Labels = None,
        max_answers: int | None = None,
        account: Account | None = None,
    ) -> ItemsAbove:
        """Go through a whole list on secure exact noise, from first to last.

        The run stops after `max_answers` answers above; `remaining` is the ε that is left then.
        `labels` are as for `NoisyTopK`. The account is charged ε first, and then credited with the
        unspent part. Answers made from a table come in the order of its domain; those of an engine
        come as a stream.
        """
        stream = self.prepare(answers, labels)
        if max_answers is not None:
            limit = positive_integer("max_answers", max_answers)
            stream = stream._replace(max_answers=limit)
        return self._release_prepared(stream, account)

    def prepare(
        self,
        answers: ArrayLike | PrivateCounts,
        labels: Labels = None,
        chunks: Iterator[Chunk] | None = None,
    ) -> Stream:
        """The answers as a stream; refused before anything is charged.

        Private counts come in the order of their domain, unless `chunks` of them are given.
        """
        to_steps = Grid(self.grid).steps
        if not isinstance(answers, PrivateCounts):
            array = to_steps(answers)
            return Stream.of(array, require_labels(labels, array.size, answers))
        require_facts(answers, labelled=labels is not None, **claims_of(self))
        names = require_labels(labels, len(answers))
        if not isinstance(self.threshold_law, MemorylessLaw):  # no draw can be left out
            if names is None:
                names = answers.labels
            return Stream.of(to_steps(answers.expanded()), names)

        def in_steps(chunk: Chunk) -> Chunk:
            if not chunk.values.size:  # a chunk with only absent items has nothing to refuse
                return chunk
            return chunk._replace(values=to_steps(chunk.values))

        stream = map(in_steps, chunks or answers.in_order())
        return Stream(stream, to_steps(answers.ends), names)

    def draw_paid(self, stream: Stream) -> Draw[Above]:
        """Go through the stream; the caller has paid."""
        sifting = Sifting(self.in_steps(), 1, secure_bits(), stream.max_answers)
        members = []
        answers = []
        branches = []
        gaps = []
        for chunk in stream.chunks:
            if chunk.places is None:
                above = sifting.take(chunk.values)
            else:
                above = sifting.take_sparse(chunk.values, chunk.places, chunk.size)
            members.append(chunk.found(above.indices))
            answers.append(chunk.at(above.indices))
            branches.append(above.branches)
            gaps.append(above.gaps)
            if not sifting.going().any():
                break
        joined = stream.together(members)
        all_above = Above(
            joined.positions,
            joined.labels,
            np.concatenate(branches),
            np.concatenate(gaps),
            int(sifting.used[0]),
            int(sifting.processed(sifting.size)[0]),
        )
        return Draw(all_above, np.concatenate(answers))

    def winners(self, above: Above) -> Winners:
        """The drawn winners in the units of answers, with their evidence and the promise."""
        raw_gaps = self._raw_gaps(above)
        return Winners(
            indices=above.indices,
            labels=above.labels,
            gaps=raw_gaps + self.gap_offsets[above.branches - 1],
            evidence=evidence_of(self.every_branch, above.branches, raw_gaps),
            promise=Promise(self.cost, self.sensitivity, self.monotonic),
        )

    def _raw_gaps(self, above: Above) -> Floats:
        """The gaps over the noisy threshold, in the units of answers."""
        gaps: Floats = np.multiply(above.gaps, Grid(self.grid).width, dtype=np.float64)
        return gaps

    def build(self, above: Above, thresholds: tuple[Fraction, ...] | None = None) -> ItemsAbove:
        """The release of what was drawn; `thresholds` are those of a run's questions."""
        winners = self.winners(above)
        gaps = winners.gaps
        if thresholds is not None:
            pairs = zip(thresholds, above.branches.tolist(), strict=True)
            offsets = [self.over(line).gap_offsets[branch - 1] for line, branch in pairs]
            gaps = self._raw_gaps(above) + np.array(offsets)
        return ItemsAbove(
            cost=self.cost_of(above.used),
            indices=winners.indices,
            labels=winners.labels,
            gaps=gaps,
            branch_of=above.branches,
            detail=Detail(
                promise=winners.promise,
                mechanisms=(MechanismUsed.of(self),),
                evidence=winners.evidence,
                gap_errors=self.gap_errors,
                thresholds=thresholds,
                processed=above.processed,
            ),
        )

    def start(self, *, account: Account | None = None) -> Run:
        """Open a run that is asked one answer at a time; use it in a `with` block.

        Each number must count persons, so that one person moves it by at most 1; for events, cap
        each person's at c and pass `sensitivity=c` to the mechanism. Else ε promises less.

        The whole ε is reserved in the `account` until the run ends; the rest is credited then. A
        ledger archives all answers then. If the process is killed before, they are gone: store each
        answer before you act on it.
        """
        return Run(self, account)


@public
@declared()
class AdaptiveSparseVector(SparseVector):
    """Sparse Vector that charges less for answers far above the threshold.

    A *branch* is a test for "above", with its own noise and its own price. The cheap ones are tried
    first. They have much noise, so only answers far above clear them.

    Guarantee: pure ε-differential privacy of all output about the stream, including gaps.

    Parameters
    ----------
    threshold, k, epsilon, monotonic, sensitivity, threshold_share, noise, grid
        As for `SparseVector`. The run may find more than k, since easy answers cost less.
    branches
        How many branches there are. With two, as in the paper, an easy answer costs half; each
        further branch halves the least price again.
    drain
        Whether to *drain* the budget: to go on with the cheap branches when the most expensive one
        cannot be paid any more. The paper stops there.

    >>> mechanism = AdaptiveSparseVector(threshold=100, k=2, epsilon=1000, monotonic=True)
    >>> release = mechanism.release([3, 250, 7, 180, 400], max_answers=2)
    >>> release.branch_of.tolist(), release.remaining > 300
    ([1, 1], True)
    """

    _: KW_ONLY
    branches: int = parameter(_read_branches, default=2)
    drain: bool = parameter(boolean, default=False)

    @property
    def shape(self) -> tuple[int, bool]:
        return self.branches, self.drain


_AT_ONCE = 64


def exceedances(law: Law, line: int, size: int, bits: Bits) -> Integers:
    """The floors of those of `size` draws that are at least `line`, the largest first.

    Of m draws from a law only the few largest may reach the line. They are drawn from the largest
    on, directly from their law, as in `dpgap.mechanisms.top_k`, until one is below the line. Floats
    enclose them. If floats do not decide a floor, decimals and further bits do. So the result has
    exactly the law of m draws without those below the line.
    """
    law = require_memoryless(law, "where most answers are 0")
    zero = np.zeros(1, dtype=np.int64)
    tops = Tops(law, size - 1, zero, np.array([size]), bits, line, _AT_ONCE)
    low, high = np.floor([tops.low, tops.high])
    floors = np.where(low == high, low, 0).astype(np.int64)
    undecided = np.flatnonzero(low != high)
    if undecided.size:
        draws = list(tops.exact())
        for index in undecided.tolist():
            floors[index] = decide(draws[index], math.floor)
    return floors[floors >= line]


_WORDS_AT_ONCE = 1 << 16


class FoundAbove(NamedTuple):
    """Answers found above: for each its run, its index, the branch that it cleared and its gap."""

    runs: Integers
    indices: Integers
    branches: NDArray[Any]
    gaps: NDArray[Any]

    @classmethod
    def joined(cls, parts: Sequence["FoundAbove"]) -> "FoundAbove":
        """Join the results of consecutive parts of a stream, run by run in the order asked."""
        runs = np.concatenate([part.runs for part in parts])
        order = np.argsort(runs, kind="stable")
        return cls(
            runs=runs[order],
            indices=np.concatenate([part.indices for part in parts])[order],
            branches=np.concatenate([part.branches for part in parts])[order],
            gaps=np.concatenate([part.gaps for part in parts])[order],
        )


_NO_INTEGERS = np.empty(0, dtype=np.int64)
_NONE_ABOVE = FoundAbove(_NO_INTEGERS, _NO_INTEGERS, _NO_INTEGERS, _NO_INTEGERS)


class RunStates:
    """The state of parallel runs: units `used`, answers `found`, index of the `last` answer above.

    `thresholds` are noisy and in steps, as are the answers.
    """

    def __init__(
        self, program: "SparseVector", thresholds: NDArray[Any], max_answers: int | None
    ) -> None:
        # A run that drains goes on with cheap branches when expensive ones cannot be paid any more.
        # Otherwise all branches end at once, and one level is left.
        self._levels: list[tuple[int, int]] = []
        for live, limit in enumerate(program.limits, start=1):
            if limit not in program.limits[live:]:
                self._levels.insert(0, (live, limit))
        self._max_answers = max_answers
        self.thresholds = thresholds
        self.used = np.zeros(thresholds.size, dtype=np.int64)
        self.found = np.zeros(thresholds.size, dtype=np.int64)
        self.last = np.full(thresholds.size, -1, dtype=np.int64)

    def going(self, runs: Integers | slice = slice(None)) -> Flags:
        """Which of these runs still take answers."""
        _, last_limit = self._levels[-1]
        going: Flags = self.used[runs] <= last_limit
        if self._max_answers is not None:
            going &= self.found[runs] < self._max_answers
        return going

    def processed(self, size: int) -> Integers:
        """How many of all `size` answers each run has processed, after all have been taken."""
        return np.where(self.going(), size, self.last + 1)

    def judge(
        self, runs: Integers, indices: Integers, branches: NDArray[Any], gaps: NDArray[Any]
    ) -> FoundAbove:
        """The answers above that these runs find among the next answers; one row for each run.

        Branches are tried cheapest first, and live branches are always the cheapest ones. So only
        the first branch that an answer clears (or 0), and its gap, matter.
        """
        before = self.found[runs]
        cells = np.flatnonzero(self._charge(runs, branches))
        counts = self.found[runs] - before
        columns = cells - np.repeat(np.arange(runs.size) * indices.size, counts)
        indices_above = indices[columns]
        with_answers = np.flatnonzero(counts)
        last_ones = counts.cumsum()[with_answers] - 1
        self.last[runs[with_answers]] = indices_above[last_ones]
        return FoundAbove(
            runs=np.repeat(runs, counts),
            indices=indices_above,
            branches=branches.ravel()[cells],
            gaps=gaps.ravel()[cells],
        )

    def _charge(self, runs: Integers, branches: NDArray[Any]) -> Flags:
        """Charge for the answers that are above, and return which they are.

        Outcomes are final until a branch cannot be paid any more. From there on they are computed
        again, with the remaining branches.
        """
        _, first_limit = self._levels[0]
        is_above, is_ahead = self._charge_up_to(runs, branches, first_limit)
        for live, limit in self._levels[1:]:
            columns_ahead = np.flatnonzero(is_ahead.any(axis=0))
            if not columns_ahead.size:
                break
            ahead = np.s_[:, columns_ahead[0] :]
            is_alive = is_ahead[ahead] & (branches[ahead] <= live)
            in_time, is_late = self._charge_up_to(runs, branches[ahead] * is_alive, limit)
            is_above[ahead] |= in_time
            is_ahead[ahead] &= is_late
        return is_above

    def _charge_up_to(
        self, runs: Integers, branches: NDArray[Any], limit: int
    ) -> tuple[Flags, Flags]:
        """Charge for answers that cleared a branch in time; return these, and those too late."""
        clears = branches > 0
        # A branch charges twice as much as the one before; the first one charges one unit.
        units = branches.astype(np.int64)
        np.left_shift(1, units, out=units)
        units >>= 1
        before = units.cumsum(axis=1)
        before -= units
        before += self.used[runs][:, None]
        late = before > limit
        if self._max_answers is not None:
            found_before = clears.cumsum(axis=1) - clears + self.found[runs][:, None]
            late |= found_before >= self._max_answers
        in_time = clears & ~late
        units *= in_time
        self.used[runs] += units.sum(axis=1)
        self.found[runs] += np.count_nonzero(in_time, axis=1)
        return in_time, late


class Sifting(RunStates):
    """Parallel runs on exact noise; answers come one after another, in whole grid steps.

    The outcomes are the program's. Answers are taken in chunks. Within a chunk, every live branch
    is tried on every answer at once. A branch is live as long as the budget can pay it, so each
    branch ends at most once. Outcomes before such an end are final; outcomes after it are computed
    again with fewer branches. If nearly all answers are 0, only those zeros are drawn that clear a
    branch.
    """

    def __init__(
        self, program: "SparseVector", runs: int, bits: Bits, max_answers: int | None = None
    ) -> None:
        thresholds = int(program.threshold) + program.threshold_law.floors(bits, runs)
        super().__init__(program, thresholds, max_answers)
        self._branches = program.every_branch
        self._bits = bits
        self._runs = np.arange(runs)
        self._margins = np.array([branch.margin for branch in program.every_branch], dtype=np.int64)
        self.size = 0
        """How many answers every run has processed, unless it stopped before."""

    def take(self, answers: Integers, words_at_once: int = _WORDS_AT_ONCE) -> FoundAbove:
        """Give every run the next answers, in steps; return those above, by their indices here."""
        parts = [_NONE_ABOVE]
        runs = self._runs.size
        chunk = max(1, words_at_once // runs)
        for start in range(0, answers.size, chunk):
            if not self.going().any():
                break
            next_answers = answers[start : start + chunk]
            size = next_answers.size
            over = next_answers - self.thresholds[:, None]
            gaps = np.empty((len(self._branches), runs, size), dtype=np.int64)
            for gap, branch in zip(gaps, self._branches, strict=True):
                np.add(over, branch.law.floors(self._bits, runs, size), out=gap)
            parts.append(self._judge_all(gaps, np.arange(size), size, start))
        return FoundAbove.joined(parts)

    def take_sparse(
        self,
        values: Integers,
        places: Integers,
        size: int,
        clearing: int = 64,
        shortest: int = 1 << 10,
    ) -> FoundAbove:
        """Give a single run the next `size` answers: `values` at `places`, and 0 elsewhere.

        Only those zeros are drawn that clear a branch. So the time grows with the number of values
        and of answers above, not with `size`. Zeros are taken in stretches of at least `shortest`
        answers, of which about `clearing` clear a branch.
        """
        parts = [_NONE_ABOVE]
        done = 0
        threshold = int(self.thresholds[0])
        chance = max(float(branch.law.tail(branch.margin + threshold)) for branch in self._branches)
        stretch = int(min(max(clearing / max(chance, 2.0**-60), shortest), 2.0**60))
        while done < size and self.going().any():
            length = min(stretch, size - done)
            first, last = np.searchsorted(places, [done, done + length])
            if last - first > _WORDS_AT_ONCE:
                last = first + _WORDS_AT_ONCE
                length = int(places[last - 1]) + 1 - done
            gaps, indices = self._events(values[first:last], places[first:last] - done, length)
            parts.append(self._judge_all(gaps, indices, length, done))
            done += length
        return FoundAbove.joined(parts)

    def _events(self, values: Integers, places: Integers, length: int) -> tuple[Integers, Integers]:
        """The gaps of all values, and of the zeros that clear a branch; and their indices."""
        threshold = int(self.thresholds[0])
        zeros = length - values.size
        noise_of_branches = []
        ranks_of_branches = []
        for branch, margin in zip(self._branches, self._margins, strict=True):
            noise = exceedances(branch.law, int(margin) + threshold, zeros, self._bits)
            noise_of_branches.append(noise)
            ranks_of_branches.append(self._bits.distinct(noise.size, zeros))
        ranks = np.unique(np.concatenate(ranks_of_branches))
        gaps = np.empty((len(self._branches), values.size + ranks.size), dtype=np.int64)
        gaps[:, values.size :] = self._margins[:, None] - 1
        over = values - threshold
        for number, branch in enumerate(self._branches):
            gap = gaps[number]
            np.add(over, branch.law.floors(self._bits, values.size), out=gap[: values.size])
            columns = values.size + np.searchsorted(ranks, ranks_of_branches[number])
            gap[columns] = noise_of_branches[number] - threshold
        # The r-th zero stands after as many values as have at most r zeros before them.
        before = np.searchsorted(places - np.arange(places.size), ranks, side="right")
        indices = np.concatenate([places, ranks + before])
        order = np.argsort(indices)
        return gaps[:, None, order], indices[order]

    def _judge_all(self, gaps: Integers, indices: Integers, size: int, done: int) -> FoundAbove:
        """Take `size` answers after `done` ones; return those above, of the ones at `indices`."""
        clears = gaps >= self._margins[:, None, None]
        columns = np.flatnonzero(clears.any(axis=(0, 1)))  # only these can matter, and they are few
        clears = clears[..., columns]
        first = clears.argmax(axis=0)
        branches = np.where(clears.any(axis=0), first + 1, 0)
        first_gaps = np.take_along_axis(gaps[..., columns], first[None], axis=0)[0]
        start = self.size - done
        above = self.judge(self._runs, indices[columns] + self.size, branches, first_gaps)
        self.size += size
        return above._replace(indices=above.indices - start)

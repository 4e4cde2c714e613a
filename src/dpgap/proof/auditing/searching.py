"""The search for the neighbours and the event with the strongest evidence, and their tests.

All pairs get a few calls. The more suspicious third of them gets more, and so on until two are
left. Events are built on one half of the outputs and judged on the other half, so overfitted events
score no better.

Tests of dpgap's mechanisms are at a level of 1e-6: a sound mechanism fails one audit in a million.
"""

import heapq
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from dpgap._package import how_to_get
from dpgap.exact.reals import Floats, Integers
from dpgap.proof.auditing import calling
from dpgap.proof.auditing import outputs as output_columns
from dpgap.proof.auditing.calling import Answers, Calls, Pair
from dpgap.proof.auditing.outputs import Codes, Outputs, Part, differs
from dpgap.proof.checker.numbers import exact

LEVEL = 1e-6
EPSILON, DELTA = "ε", "δ"
_MOST_INTERVALS = 256
_BEYOND_COUNTS = 300.0
"""An ε that no counts refute, small enough that e^ε is a float."""
_LARGEST, _NEAR = 16.0, 1e-3
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found."""

    name: str
    kind: str
    variant: str
    source: str
    """Where samples come from: a release's `document`, a `program`, or none: it is `exact`."""
    claimed: float
    lower_bound: float
    samples: int
    p_value: float | None
    """The p-value of the evidence, if the claim is true; None if the event was known."""
    seconds: float
    bounds: str = EPSILON
    """What is claimed, and bounded from below: ε, or δ."""

    @property
    def caught(self) -> bool:
        """Whether the claim is refuted."""
        unlikely = self.p_value is not None and self.p_value <= LEVEL
        return unlikely or self.lower_bound > self.claimed


def require_scipy() -> None:
    """Raise an error unless SciPy can be imported."""
    try:
        import_module("scipy.special")
    except Exception:  # a SciPy that was made for another NumPy fails while it is loaded
        raise ModuleNotFoundError(f"audits need SciPy: {how_to_get('proof')}") from None


def _laws() -> Any:
    """SciPy's distributions, imported when needed because they load slowly."""
    require_scipy()
    return import_module("scipy.stats")


def p_value(
    hits: int,
    hits_neighbour: int,
    runs: int,
    epsilon: float,
    delta: float,
    *,
    spare: float,
    level: float = 0.0,
) -> float:
    """An upper bound of the probability of this many hits beyond e^ε times the neighbour's.

    If ε and δ hold, this probability is largest where they hold with equality. Then it depends only
    on the chance p of the event on the neighbour. The largest value over a confidence interval for
    p counts; the interval is wrong with chance `spare`, which is added (Berger and Boos). This is
    sharper than bounds on both sides.

    For all p between two values, an upper bound uses the larger value for the hits and the smaller
    one for the others. So the interval is halved again and again at its worst part, until the bound
    is sharp; or, with a `level`, until it is clear on which side of the level the result is.

    >>> p_value(2_000, 300, 10_000, 1.0, 0.0, spare=1e-8) < 1e-6
    True
    >>> p_value(300, 110, 1_000, 1.0, 0.0, spare=1e-8) > 0.1
    True
    """
    factor = math.exp(min(epsilon, _BEYOND_COUNTS))
    beyond = hits - factor * hits_neighbour
    if beyond <= delta * runs:
        return 1.0

    binom = _laws().binom

    def at_most(least: float, most: float) -> float:
        """P(hits − factor·others ≥ beyond): others have the least chance, hits the most."""
        ends = binom.ppf(spare / 4, runs, least), binom.isf(spare / 4, runs, least)
        others = np.arange(int(ends[0]), int(ends[1]) + 1)
        needed = np.ceil(beyond + factor * others - _ROUNDING)
        tails = binom.sf(needed - 1, runs, min(1.0, factor * most + delta))
        return float((binom.pmf(others, runs, least) * tails).sum())

    least = lower_chance(hits_neighbour, runs, spare / 4)
    most = upper_chance(hits_neighbour, runs, spare / 4)
    narrow = (most - least) / _MOST_INTERVALS
    cells = [(-at_most(least, most), least, most)]
    while spare - cells[0][0] > level and cells[0][2] - cells[0][1] > narrow:
        _, low, high = heapq.heappop(cells)
        middle = (low + high) / 2
        for cell in ((low, middle), (middle, high)):
            heapq.heappush(cells, (-at_most(*cell), *cell))
        if level and spare + at_most(middle, middle) > level:
            break
    return min(1.0, spare - cells[0][0])


def lower_bound(
    hits: int, hits_neighbour: int, runs: int, level: float = LEVEL, *, delta: float = 0.0
) -> float:
    """A lower bound of ε, from the counts of an event on each side.

    Every smaller ε has a p-value of at most the level; a hundredth of the level is `spare`.

    >>> 1.7 < lower_bound(2_000, 300, 10_000, 1e-3) < 1.9, lower_bound(100, 100, 1_000)
    (True, 0.0)
    """
    refuted, open_ = 0.0, _LARGEST
    tested = partial(p_value, hits, hits_neighbour, runs, delta=delta, spare=level / 100)
    if tested(refuted, level=level) > level:
        return 0.0
    while open_ - refuted > _NEAR:
        middle = (refuted + open_) / 2
        if tested(middle, level=level) <= level:
            refuted = middle
        else:
            open_ = middle
    return refuted


def lower_chance(hits: int, runs: int, level: float = LEVEL) -> float:
    """A lower bound of a probability, from its count (Clopper–Pearson).

    >>> 0.16 < lower_chance(2_000, 10_000) < 0.2, lower_chance(0, 1_000)
    (True, 0.0)
    """
    beta = _laws().beta
    return float(beta.ppf(level, hits, runs - hits + 1)) if hits else 0.0


def upper_chance(hits: int, runs: int, level: float = LEVEL) -> float:
    """An upper bound of a probability, from its count (Clopper–Pearson).

    >>> 0.2 < upper_chance(2_000, 10_000) < 0.23, upper_chance(10, 10)
    (True, 1.0)
    """
    beta = _laws().beta

    return float(beta.isf(level, hits + 1, runs - hits)) if hits < runs else 1.0


# --------------------------------------------------------------------------------------------------
# The search for an event: a few clauses, each of which separates two inputs better.
#
# A clause says that a part of the output is at most, at least, equal to or not equal to a number.
# Clauses are added one after another. The next clause is the one with the most *promise*: the
# estimated lower bound of ε from the counts so far, reduced by some standard deviations.


AT_MOST, AT_LEAST, IS, IS_NOT = "≤", "≥", "is", "is not"
_COMPARED: dict[str, Callable[[Floats, float], Any]] = {
    AT_MOST: operator.le,
    AT_LEAST: operator.ge,
    IS: operator.eq,
    IS_NOT: operator.ne,
}
_MOST_CLAUSES = 12
_STARTS = 3
_SOME = 1
"""This many hits may always be chance."""
_LEAST_GAIN_OF_A_CLAUSE = 0.05
_MOST_ROWS = 60_000

Rows = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition on a part of the output."""

    part: Part
    sign: str
    value: float

    def holds(self, outputs: Outputs) -> Rows:
        """The runs in which it is true."""
        rows: Rows = _COMPARED[self.sign](self.part.of(outputs), self.value)
        return rows

    def in_words(self, codes: Codes) -> str:
        """The clause in words."""
        words = self.part.words
        if self.part.is_ordered:
            return f"{words} {self.sign} {self.value:.6g}"
        thing = codes.thing(self.value)
        if not isinstance(thing, tuple):
            return f"{words} {self.sign} {thing}"
        telling = codes.telling(thing) or thing
        said = ", ".join(f"{path} {value}" for path, value in telling) or f"floats alone in {words}"
        return f"{'' if self.sign == IS else 'not '}({said})"


class OutputEvent(NamedTuple):
    """Clauses that must all hold."""

    clauses: tuple[Clause, ...]

    def count(self, outputs: Outputs) -> int:
        """The number of runs in which it happens."""
        rows = np.ones(outputs.runs, dtype=bool)
        for clause in self.clauses:
            rows &= clause.holds(outputs)
        return int(rows.sum())

    @property
    def in_floats(self) -> bool:
        """Whether it is about bits that real numbers do not have."""
        return any(clause.part.in_floats for clause in self.clauses)

    def in_words(self, codes: Codes) -> str:
        """The event in words; of several limits of a part, the last is the closest."""
        last = {(it.part, it.sign, it.part.is_ordered or it.value): it for it in self.clauses}
        return " and ".join(each.in_words(codes) for each in last.values()) or "anything at all"


def promise(
    hits: Any, hits_neighbour: Any, runs: int, delta: float, *, caution: float = 2.0
) -> Any:
    """An estimated lower bound of ε, minus some standard deviations for caution."""
    beyond = np.asarray(hits - delta * runs, dtype=np.float64)
    others = np.asarray(hits_neighbour, dtype=np.float64) + 1
    some = np.maximum(beyond, 1e-9)
    spread = np.sqrt(hits / some**2 + 1 / others)
    return np.where(beyond > 0, np.log(some / others) - caution * spread, -np.inf)


def excess(hits: int, hits_neighbour: int, runs: int, epsilon: float, delta: float) -> float:
    """About how many standard deviations likelier the event is than ε and δ allow."""
    factor = math.exp(min(epsilon, _BEYOND_COUNTS))
    allowed = max(0.0, hits - delta * runs) / factor
    beyond = hits - delta * runs - factor * hits_neighbour
    spread = math.sqrt(hits + factor**2 * max(hits_neighbour, allowed) + _SOME)
    return (beyond - _SOME) / spread


def events(parts: Sequence[Part], sides: Sequence[Outputs], delta: float) -> Iterator[OutputEvent]:
    """Events that are likelier on the first side, by these samples; each longer than the last."""
    runs = min(_MOST_ROWS, sides[0].runs)
    columns = [np.concatenate([part.of(side)[:runs] for side in sides]) for part in parts]
    parts = [part for part, each in zip(parts, columns, strict=True) if differs(each)]
    is_first = np.arange(2 * runs) < runs
    if not parts:
        return
    table = np.column_stack([each for each in columns if differs(each)])
    ordered = np.array([part.is_ordered for part in parts])
    starts = sorted(_best(table, is_first, ordered, runs, delta), reverse=True)[:_STARTS]
    for best, place, sign, value in starts:
        clauses: tuple[Clause, ...] = ()
        rows, own = table, is_first
        while len(clauses) < _MOST_CLAUSES:
            clauses = (*clauses, Clause(parts[place], sign, value))
            yield OutputEvent(clauses)
            keep = _COMPARED[sign](rows[:, place], value)
            rows, own = rows[keep], own[keep]
            last = best
            best, place, sign, value = max(_best(rows, own, ordered, runs, delta))
            if best < last + _LEAST_GAIN_OF_A_CLAUSE:
                break


def _best(
    table: Floats, is_first: Rows, ordered: Any, runs: int, delta: float
) -> Iterator[tuple[float, int, str, float]]:
    """For each part, the best clause: its promise, the part, the sign and the number."""
    rows, width = table.shape
    order = np.argsort(table, axis=0)
    seen = np.take_along_axis(table, order, axis=0)
    known = ~np.isnan(seen)
    hits = np.cumsum(is_first[order] & known, axis=0)
    count = np.cumsum(known, axis=0)
    edge = np.ones((1, width), dtype=bool)
    last = known & np.concatenate([seen[1:] != seen[:-1], edge])
    totals = hits[-1], count[-1]
    for place in range(width):
        ends = np.flatnonzero(last[:, place])
        if not ends.size:
            continue
        up_to = hits[ends, place], count[ends, place]
        before = [np.concatenate([[0], each[:-1]]) for each in up_to]
        exactly = [most - least for most, least in zip(up_to, before, strict=True)]
        choices: dict[str, Sequence[Integers]] = {
            IS: exactly,
            IS_NOT: [int(is_first.sum()) - exactly[0], rows - exactly[1]],
        }
        if ordered[place]:
            choices[AT_MOST] = up_to
            choices[AT_LEAST] = [all_[place] - b for all_, b in zip(totals, before, strict=True)]
        yield max(
            (float(scores[at]), place, sign, float(seen[ends[at], place]))
            for sign, (own, both) in choices.items()
            for scores in [promise(own, both - own, runs, delta)]
            for at in [int(scores.argmax())]
        )


# --------------------------------------------------------------------------------------------------


_CALLS_FOR_A_PAIR = 2_000
_FEWEST = 8
_LOOK = 15
_FAR = 8
_GLANCE = 16
"""How many calls each side of large answers gets first: enough to see a certain leak."""
_FINALISTS = 2
_PLAIN = 2.5


class Suspicion(NamedTuple):
    """An event, the answers on which it is likely, and the neighbour on which it is not."""

    excess: float
    promise: float
    answers: Answers
    neighbour: Answers
    event: OutputEvent
    not_looked_at: int = 0
    """How many numbers and texts of the outputs were not looked at."""


class Tried(NamedTuple):
    """Neighbours to try, how many were left out, and the first reason."""

    pairs: Sequence[Pair]
    left_out: int
    reason: str


def search(
    calls: Calls, tried: Sequence[Pair], until: int, epsilon: float, delta: float
) -> Suspicion:
    """The strongest event, after `until` calls; the first and the last round get most calls."""
    budget, rounds = until - calls.made, _rounds(len(tried))
    seen: dict[Pair, list[Outputs]] = {}
    left: Sequence[Pair] = tried
    while True:
        is_last = len(left) <= _FINALISTS
        share = budget // (rounds + 2) * (2 if left == tried else 1)
        caution = 1.5  # what is rare should not be given up too early
        if is_last:
            share, caution = until - calls.made, 2.0
        runs = max(2, share // len(left) // 2)
        found: dict[Pair, Suspicion] = {}
        for pair in left:
            fresh = calls.both(pair, runs)
            known = seen.get(pair)
            seen[pair] = fresh if known is None else list(map(output_columns.joined, known, fresh))
            found[pair] = _worst(_suspicions(pair, seen[pair], epsilon, delta, calls.bits, caution))
        if is_last:
            return _worst(found.values())
        by_excess, by_promise = _kept(len(left))
        left = [
            *sorted(left, key=lambda pair: -found[pair].excess)[:by_excess],
            *sorted(left, key=lambda pair: -found[pair].promise)[:by_promise],
        ]
        left = list(dict.fromkeys(left))


def _kept(many: int) -> tuple[int, int]:
    """The numbers of pairs that stay in the search: by their excess, and by their promise."""
    return math.ceil(many / 4), math.ceil(many / 8)


def _rounds(many: int) -> int:
    return 1 if many <= _FINALISTS else 1 + _rounds(sum(_kept(many)))


def _worst(suspicions: Iterable[Suspicion]) -> Suspicion:
    """The suspicion with the largest excess, if any is large; else that with the most promise."""
    listed = list(suspicions)
    worst = max(listed, key=lambda each: each.excess)
    return worst if worst.excess > _PLAIN else max(listed, key=lambda each: each.promise)


def _suspicions(
    pair: Pair, sides: Sequence[Outputs], epsilon: float, delta: float, bits: bool, caution: float
) -> Iterator[Suspicion]:
    """Events in both directions, built on even rows and judged on odd rows."""
    moves = [float(exact(after) - exact(before)) for before, after in zip(*pair, strict=True)]
    parts = output_columns.parts_of(sides, bits=bits, moves=moves)
    made, judged = ([side.rows(slice(start, None, 2)) for side in sides] for start in (0, 1))
    yield Suspicion(-math.inf, -math.inf, *pair, OutputEvent(()))
    runs, unseen = judged[0].runs, output_columns.not_looked_at(sides)
    for one, other in ((0, 1), (1, 0)):
        for event in events(parts, (made[one], made[other]), delta):
            hits, hits_neighbour = event.count(judged[one]), event.count(judged[other])
            yield Suspicion(
                excess(hits, hits_neighbour, runs, epsilon, delta),
                float(promise(hits, hits_neighbour, runs, delta, caution=caution)),
                pair[one],
                pair[other],
                event,
                unseen,
            )


def neighbours_to_try(
    calls: Calls,
    budget: int,
    *,
    epsilon: float,
    sensitivity: Any,
    monotonic: bool,
    reach: int | None,
) -> Tried:
    """Built-in neighbours that the function takes, as many as the calls allow.

    Answers below 0 are left out if the function refuses them, as one that takes counts does.
    """

    def mode(answers: Answers) -> dict[str, Any] | None:
        """The usual value at each path of the output; None if these answers are refused."""
        scaled = tuple(answer * sensitivity for answer in answers)
        if calls.refusal(scaled) is not None:
            return None
        return calls(scaled, _LOOK).modes(0.8 * _LOOK)

    levels = calling.decision_levels(mode)
    moves: Any = {"monotonic": monotonic, "reach": reach}
    far = math.ceil(_FAR / epsilon)
    most = max(_FEWEST, budget // _CALLS_FOR_A_PAIR)
    built_in = calling.pairs(levels, sensitivity, far=far, **moves)
    if mode((-1,) * 3) is None:
        built_in = list(dict.fromkeys(map(calling.lifted, built_in)))
    usual = taken(calls, built_in, most - 1)
    hopes: dict[Pair, float] = {}
    refused: list[Pair] = []
    for pair in calling.wide(sensitivity, **moves):
        if None not in map(calls.refusal, pair):
            refused.append(pair)
            continue
        sides = calls.both(pair, _GLANCE)
        hopes[pair] = _worst(_suspicions(pair, sides, epsilon, 0.0, calls.bits, 1.0)).promise
    reasons = [usual.reason, *(_reason(calls, pair) for pair in refused[:1])]
    most_promising = sorted(hopes, key=hopes.__getitem__, reverse=True)[:1]
    return Tried(
        [*usual.pairs, *most_promising],
        usual.left_out + len(refused),
        "; ".join(filter(None, reasons)),
    )


def taken(calls: Calls, tried: Iterable[Pair], most: int) -> Tried:
    """The first pairs of which the function accepts a side; refusing the other is an output."""
    kept: list[Pair] = []
    refused: list[Pair] = []
    for pair in tried:
        if len(kept) >= most:
            break
        (kept if None in [*map(calls.refusal, pair)] else refused).append(pair)
    return Tried(kept, len(refused), _reason(calls, refused[0]) if refused else "")


def _reason(calls: Calls, refused: Pair) -> str:
    return f"on {list(refused[0])} it raised {calls.refusal(refused[0])!r}"

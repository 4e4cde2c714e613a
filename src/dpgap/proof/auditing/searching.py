"""The search for the neighbours and the event with the strongest evidence, and their tests.

All pairs get a few calls. The more suspicious third of them gets more, and so on until two are
left. Events are built on one half of the outputs and judged on the other half, so overfitted events
score no better.

Tests of dpgap's mechanisms are at a level of 1e-6: a sound mechanism fails one audit in a million.
"""

import heapq
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from dpgap._package import how_to_get
from dpgap.exact.reals import Floats, Integers
from dpgap.proof.auditing import calling
from dpgap.proof.auditing import outputs as output_columns
from dpgap.proof.auditing.calling import Answers, Calls, Pair
from dpgap.proof.auditing.outputs import Codes, OutputPart, Outputs, differs
from dpgap.proof.checker.numbers import exact

LEVEL = 1e-6
EPSILON = "ε"
DELTA = "δ"
_MOST_INTERVALS = 256
_BEYOND_COUNTS = 300.0
"""An ε that no counts refute, small enough that e^ε is a float."""
_LARGEST = 16.0
_NEAR = 1e-3
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

    def chance_between(low: float, high: float) -> float:
        """P(hits − factor·others ≥ beyond): others have the low chance, hits the high one."""
        fewest = int(binom.ppf(spare / 4, runs, low))
        others = np.arange(fewest, int(binom.isf(spare / 4, runs, low)) + 1)
        needed = np.ceil(beyond + factor * others - _ROUNDING)
        tails = binom.sf(needed - 1, runs, min(1.0, factor * high + delta))
        return float((binom.pmf(others, runs, low) * tails).sum())

    low = lower_chance(hits_neighbour, runs, spare / 4)
    high = upper_chance(hits_neighbour, runs, spare / 4)
    narrow = (high - low) / _MOST_INTERVALS
    intervals = [(-chance_between(low, high), low, high)]  # a heap: the worst one comes first
    while True:
        negative_chance, low, high = intervals[0]
        bound = spare - negative_chance
        if bound <= level or high - low <= narrow:
            return min(1.0, bound)
        heapq.heappop(intervals)
        middle = (low + high) / 2
        heapq.heappush(intervals, (-chance_between(low, middle), low, middle))
        heapq.heappush(intervals, (-chance_between(middle, high), middle, high))
        if level and spare + chance_between(middle, middle) > level:
            return min(1.0, spare - intervals[0][0])


def lower_bound(
    hits: int, hits_neighbour: int, runs: int, level: float = LEVEL, *, delta: float = 0.0
) -> float:
    """A lower bound of ε, from the counts of an event on each side.

    Every smaller ε has a p-value of at most the level; a hundredth of the level is `spare`.

    >>> 1.7 < lower_bound(2_000, 300, 10_000, 1e-3) < 1.9, lower_bound(100, 100, 1_000)
    (True, 0.0)
    """

    def is_refuted(epsilon: float) -> bool:
        p = p_value(hits, hits_neighbour, runs, epsilon, delta, spare=level / 100, level=level)
        return p <= level

    if not is_refuted(0.0):
        return 0.0
    refuted = 0.0
    not_refuted = _LARGEST
    while not_refuted - refuted > _NEAR:
        middle = (refuted + not_refuted) / 2
        if is_refuted(middle):
            refuted = middle
        else:
            not_refuted = middle
    return refuted


def lower_chance(hits: int, runs: int, level: float = LEVEL) -> float:
    """A lower bound of a probability, from its count (Clopper–Pearson).

    >>> 0.16 < lower_chance(2_000, 10_000) < 0.2, lower_chance(0, 1_000)
    (True, 0.0)
    """
    if hits == 0:
        return 0.0
    return float(_laws().beta.ppf(level, hits, runs - hits + 1))


def upper_chance(hits: int, runs: int, level: float = LEVEL) -> float:
    """An upper bound of a probability, from its count (Clopper–Pearson).

    >>> 0.2 < upper_chance(2_000, 10_000) < 0.23, upper_chance(10, 10)
    (True, 1.0)
    """
    if hits >= runs:
        return 1.0
    return float(_laws().beta.isf(level, hits + 1, runs - hits))


# --------------------------------------------------------------------------------------------------
# The search for an event: a few clauses, each of which separates two inputs better.
#
# A clause says that a part of the output is at most, at least, equal to or not equal to a number.
# Clauses are added one after another. The next clause is the one with the most *promise*: the
# estimated lower bound of ε from the counts so far, reduced by some standard deviations.


AT_MOST = "≤"
AT_LEAST = "≥"
IS = "is"
IS_NOT = "is not"
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

RunFlags = np.ndarray[tuple[int], np.dtype[np.bool_]]
"""One value for each run."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition on a part of the output."""

    part: OutputPart
    sign: str
    value: float

    def holds(self, outputs: Outputs) -> RunFlags:
        """The runs in which it is true."""
        rows: RunFlags = _COMPARED[self.sign](self.part.of(outputs), self.value)
        return rows

    def in_words(self, codes: Codes) -> str:
        """The clause in words."""
        name = self.part.name
        if self.part.is_ordered:
            return f"{name} {self.sign} {self.value:.6g}"
        value = codes.value(self.value)
        if not isinstance(value, tuple):
            return f"{name} {self.sign} {value}"
        pairs = codes.telling(value) or value
        text = ", ".join(f"{path} {leaf}" for path, leaf in pairs)
        if not pairs:
            text = f"floats alone in {name}"
        return f"({text})" if self.sign == IS else f"not ({text})"


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
        last_clauses = {
            (clause.part, clause.sign, clause.part.is_ordered or clause.value): clause
            for clause in self.clauses
        }
        texts = [clause.in_words(codes) for clause in last_clauses.values()]
        return " and ".join(texts) or "anything at all"


def promise(
    hits: Any, hits_neighbour: Any, runs: int, delta: float, *, caution: float = 2.0
) -> Any:
    """An estimated lower bound of ε, minus some standard deviations for caution."""
    beyond = np.asarray(hits - delta * runs, dtype=np.float64)
    others = np.asarray(hits_neighbour, dtype=np.float64) + 1
    positive = np.maximum(beyond, 1e-9)
    spread = np.sqrt(hits / positive**2 + 1 / others)
    return np.where(beyond > 0, np.log(positive / others) - caution * spread, -np.inf)


def excess(hits: int, hits_neighbour: int, runs: int, epsilon: float, delta: float) -> float:
    """About how many standard deviations likelier the event is than ε and δ allow."""
    factor = math.exp(min(epsilon, _BEYOND_COUNTS))
    allowed = max(0.0, hits - delta * runs) / factor
    beyond = hits - delta * runs - factor * hits_neighbour
    spread = math.sqrt(hits + factor**2 * max(hits_neighbour, allowed) + _SOME)
    return (beyond - _SOME) / spread


class CandidateClause(NamedTuple):
    """A clause that may come next, on a column of a table of parts. The better is the larger."""

    promise: float
    column: int
    sign: str
    value: float


def events(
    parts: Sequence[OutputPart], sides: Sequence[Outputs], delta: float
) -> Iterator[OutputEvent]:
    """Events that are likelier on the first side, by these samples; each longer than the last."""
    runs = min(_MOST_ROWS, sides[0].runs)
    varying_parts = []
    columns = []
    for part in parts:
        column = np.concatenate([part.of(side)[:runs] for side in sides])
        if differs(column):
            varying_parts.append(part)
            columns.append(column)
    if not columns:
        return
    is_first = np.arange(2 * runs) < runs
    table = np.column_stack(columns)
    ordered = np.array([part.is_ordered for part in varying_parts])
    starts = sorted(_best_clauses(table, is_first, ordered, runs, delta), reverse=True)[:_STARTS]
    for candidate in starts:
        clauses: list[Clause] = []
        rows = table
        rows_are_first = is_first
        while len(clauses) < _MOST_CLAUSES:
            part = varying_parts[candidate.column]
            clauses.append(Clause(part, candidate.sign, candidate.value))
            yield OutputEvent(tuple(clauses))
            holds = _COMPARED[candidate.sign](rows[:, candidate.column], candidate.value)
            rows = rows[holds]
            rows_are_first = rows_are_first[holds]
            least_promise = candidate.promise + _LEAST_GAIN_OF_A_CLAUSE
            candidate = max(_best_clauses(rows, rows_are_first, ordered, runs, delta))
            if candidate.promise < least_promise:
                break


def _best_clauses(
    table: Floats, is_first: RunFlags, ordered: Any, runs: int, delta: float
) -> Iterator[CandidateClause]:
    """The best clause for each column."""
    rows, width = table.shape
    order = np.argsort(table, axis=0)
    values = np.take_along_axis(table, order, axis=0)
    is_number = ~np.isnan(values)
    hits_up_to = np.cumsum(is_first[order] & is_number, axis=0)
    count_up_to = np.cumsum(is_number, axis=0)
    edge = np.ones((1, width), dtype=bool)
    is_last = is_number & np.concatenate([values[1:] != values[:-1], edge])
    all_hits = int(is_first.sum())
    for column in range(width):
        ends = np.flatnonzero(is_last[:, column])
        if not ends.size:
            continue
        hits = hits_up_to[ends, column]
        counts = count_up_to[ends, column]
        hits_before = np.concatenate([[0], hits[:-1]])
        counts_before = np.concatenate([[0], counts[:-1]])
        exact_hits = hits - hits_before
        exact_counts = counts - counts_before
        choices: dict[str, tuple[Integers, Integers]] = {
            IS: (exact_hits, exact_counts),
            IS_NOT: (all_hits - exact_hits, rows - exact_counts),
        }
        if ordered[column]:
            choices[AT_MOST] = (hits, counts)
            hits_from = hits_up_to[-1, column] - hits_before
            choices[AT_LEAST] = (hits_from, count_up_to[-1, column] - counts_before)
        candidates = []
        for sign, (sign_hits, sign_counts) in choices.items():
            promises = promise(sign_hits, sign_counts - sign_hits, runs, delta)
            best = int(promises.argmax())
            value = float(values[ends[best], column])
            candidates.append(CandidateClause(float(promises[best]), column, sign, value))
        yield max(candidates)


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


class PairSelection(NamedTuple):
    """Neighbours to try, how many were left out, and the first reason."""

    pairs: Sequence[Pair]
    left_out: int
    reason: str


def search(
    calls: Calls, tried: Sequence[Pair], until: int, epsilon: float, delta: float
) -> Suspicion:
    """The strongest event, after `until` calls; the first and the last round get most calls."""
    share = (until - calls.count) // (_rounds(len(tried)) + 2)
    calls_of_round = 2 * share
    outputs: dict[Pair, list[Outputs]] = {}
    pairs = list(tried)
    while True:
        is_last = len(pairs) <= _FINALISTS
        caution = 1.5  # what is rare should not be given up too early
        if is_last:
            calls_of_round = until - calls.count
            caution = 2.0
        runs = max(2, calls_of_round // len(pairs) // 2)
        suspicions: dict[Pair, Suspicion] = {}
        for pair in pairs:
            sides = calls.on_pair(pair, runs)
            if pair in outputs:
                sides = list(map(output_columns.joined, outputs[pair], sides))
            outputs[pair] = sides
            suspicions[pair] = _worst(_suspicions(pair, sides, epsilon, delta, calls.bits, caution))
        if is_last:
            return _worst(suspicions.values())
        pairs = _most_suspicious(suspicions)
        calls_of_round = share


def _most_suspicious(suspicions: Mapping[Pair, Suspicion]) -> list[Pair]:
    """The pairs that stay in the search."""
    by_excess, by_promise = _pairs_that_stay(len(suspicions))
    pairs = sorted(suspicions, key=lambda pair: -suspicions[pair].excess)[:by_excess]
    pairs += sorted(suspicions, key=lambda pair: -suspicions[pair].promise)[:by_promise]
    return list(dict.fromkeys(pairs))


def _pairs_that_stay(many: int) -> tuple[int, int]:
    """The numbers of pairs that stay in the search: by their excess, and by their promise."""
    return math.ceil(many / 4), math.ceil(many / 8)


def _rounds(many: int) -> int:
    if many <= _FINALISTS:
        return 1
    return 1 + _rounds(sum(_pairs_that_stay(many)))


def _worst(suspicions: Iterable[Suspicion]) -> Suspicion:
    """The suspicion with the largest excess, if any is large; else that with the most promise."""
    candidates = list(suspicions)
    worst = max(candidates, key=attrgetter("excess"))
    if worst.excess > _PLAIN:
        return worst
    return max(candidates, key=attrgetter("promise"))


def _suspicions(
    pair: Pair, sides: Sequence[Outputs], epsilon: float, delta: float, bits: bool, caution: float
) -> Iterator[Suspicion]:
    """Events in both directions, built on even rows and judged on odd rows."""
    answers, neighbour = pair
    moves = [float(exact(b) - exact(a)) for a, b in zip(answers, neighbour, strict=True)]
    parts = output_columns.parts_of(sides, bits=bits, moves=moves)
    even_rows = [side.rows(slice(0, None, 2)) for side in sides]
    odd_rows = [side.rows(slice(1, None, 2)) for side in sides]
    runs = odd_rows[0].runs
    not_looked_at = output_columns.not_looked_at(sides)
    yield Suspicion(-math.inf, -math.inf, answers, neighbour, OutputEvent(()))
    for likely, unlikely in ((0, 1), (1, 0)):
        for event in events(parts, (even_rows[likely], even_rows[unlikely]), delta):
            hits = event.count(odd_rows[likely])
            hits_neighbour = event.count(odd_rows[unlikely])
            yield Suspicion(
                excess(hits, hits_neighbour, runs, epsilon, delta),
                float(promise(hits, hits_neighbour, runs, delta, caution=caution)),
                pair[likely],
                pair[unlikely],
                event,
                not_looked_at,
            )


def neighbours_to_try(
    calls: Calls,
    budget: int,
    *,
    epsilon: float,
    sensitivity: Any,
    monotonic: bool,
    reach: int | None,
) -> PairSelection:
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
    far = math.ceil(_FAR / epsilon)
    limit = max(_FEWEST, budget // _CALLS_FOR_A_PAIR)
    built_in = calling.pairs(levels, sensitivity, monotonic=monotonic, reach=reach, far=far)
    if mode((-1,) * 3) is None:
        built_in = list(dict.fromkeys(map(calling.lifted, built_in)))
    usual = accepted(calls, built_in, limit - 1)
    pairs = list(usual.pairs)
    reasons = [usual.reason]
    promises: dict[Pair, float] = {}
    refused: list[Pair] = []
    for pair in calling.wide(sensitivity, monotonic=monotonic, reach=reach):
        if _is_refused(calls, pair):
            refused.append(pair)
            continue
        sides = calls.on_pair(pair, _GLANCE)
        worst = _worst(_suspicions(pair, sides, epsilon, 0.0, calls.bits, 1.0))
        promises[pair] = worst.promise
    if promises:
        pairs.append(max(promises, key=promises.__getitem__))
    if refused:
        reasons.append(_reason(calls, refused[0]))
    reason = "; ".join(filter(None, reasons))
    return PairSelection(pairs, usual.left_out + len(refused), reason)


def accepted(calls: Calls, tried: Iterable[Pair], limit: int) -> PairSelection:
    """The first pairs of which the function accepts a side; refusing the other is an output."""
    pairs: list[Pair] = []
    refused: list[Pair] = []
    for pair in tried:
        if len(pairs) >= limit:
            break
        if _is_refused(calls, pair):
            refused.append(pair)
        else:
            pairs.append(pair)
    reason = _reason(calls, refused[0]) if refused else ""
    return PairSelection(pairs, len(refused), reason)


def _is_refused(calls: Calls, pair: Pair) -> bool:
    """Whether the function refuses both sides of a pair."""
    refusals = [calls.refusal(answers) for answers in pair]
    return None not in refusals


def _reason(calls: Calls, refused: Pair) -> str:
    return f"on {list(refused[0])} it raised {calls.refusal(refused[0])!r}"

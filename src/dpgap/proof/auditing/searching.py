"""The search for the neighbours and the event that tell most.

All pairs get a few calls. The more suspicious third of them gets more, and so on until two are
left. Events are made up on one half of the outputs and judged on the other, so that luck is no
merit.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpgap.exact.reals import Floats, Integers
from dpgap.proof.auditing import calling
from dpgap.proof.auditing.calling import NOT_ONE, Answers, Calls, Pair
from dpgap.proof.auditing.finding import BEYOND_COUNTS
from dpgap.proof.auditing.outputs import (
    Codes,
    Outputs,
    Part,
    differs,
    joined,
    not_looked_at,
    parts_of,
)

# --------------------------------------------------------------------------------------------------
# The search for an event: a few clauses, each of which makes it tell two inputs apart better.
#
# A clause says that a part of the output is at most, at least, exactly or not a number. Clauses are
# added one after another. Each time the one is taken that raises most what ε is at least, given the
# counts so far and less what chance may have done (*promise*).


AT_MOST, AT_LEAST, IS, IS_NOT = "≤", "≥", "is", "is not"
_MOST_CLAUSES = 12
_STARTS = 3
_SOME = 1
"""So many hits may always be luck."""
_GAIN = 0.05
"""What a further clause must add to the promise."""
_MOST_ROWS = 60_000

Rows = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of the output, and what is said about it."""

    part: Part
    sign: str
    value: float

    def holds(self, outputs: Outputs) -> Rows:
        """In which runs it is true."""
        return _true(self.part.look(outputs), self.sign, self.value)

    def in_words(self, codes: Codes) -> str:
        """The clause as a person would say it."""
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
        """In how many runs it happens."""
        rows = np.ones(outputs.runs, dtype=bool)
        for clause in self.clauses:
            rows &= clause.holds(outputs)
        return int(rows.sum())

    @property
    def in_floats(self) -> bool:
        """Whether real numbers would not have it."""
        return any(clause.part.in_floats for clause in self.clauses)

    def in_words(self, codes: Codes) -> str:
        """The event as a person would say it."""
        return " and ".join(each.in_words(codes) for each in self.clauses) or "anything at all"


def promise(
    hits: Any, hits_neighbour: Any, runs: int, delta: float, *, caution: float = 2.0
) -> Any:
    """About what ε is at least, given the counts; less some standard deviations for caution."""
    beyond = np.asarray(hits - delta * runs, dtype=np.float64)
    others = np.asarray(hits_neighbour, dtype=np.float64) + 1
    some = np.maximum(beyond, 1e-9)
    spread = np.sqrt(hits / some**2 + 1 / others)
    return np.where(beyond > 0, np.log(some / others) - caution * spread, -np.inf)


def excess(hits: int, hits_neighbour: int, runs: int, epsilon: float, delta: float) -> float:
    """By how many standard deviations the event is likelier than ε and δ allow, about."""
    factor = math.exp(min(epsilon, BEYOND_COUNTS))
    allowed = max(0.0, hits - delta * runs) / factor
    beyond = hits - delta * runs - factor * hits_neighbour
    spread = math.sqrt(hits + factor**2 * max(hits_neighbour, allowed) + _SOME)
    return (beyond - _SOME) / spread


def events(parts: Sequence[Part], sides: Sequence[Outputs], delta: float) -> Iterator[OutputEvent]:
    """Events that are likelier on the first side, by these samples; each longer than the last."""
    runs = min(_MOST_ROWS, sides[0].runs)
    look = [[part.look(side)[:runs] for side in sides] for part in parts]
    columns = [np.concatenate(each) for each in look]
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
            keep = _true(rows[:, place], sign, value)
            rows, own = rows[keep], own[keep]
            last = best
            best, place, sign, value = max(_best(rows, own, ordered, runs, delta))
            if best < last + _GAIN:
                break


def _true(column: Floats, sign: str, value: float) -> Rows:
    compared: dict[str, Any] = {
        AT_MOST: np.less_equal,
        AT_LEAST: np.greater_equal,
        IS: np.equal,
        IS_NOT: np.not_equal,
    }
    rows: Rows = compared[sign](column, value)
    return rows


def _best(
    table: Floats, is_first: Rows, ordered: Any, runs: int, delta: float
) -> Iterator[tuple[float, int, str, float]]:
    """For each part the clause of most promise: its promise, the part, the sign and the number."""
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


_A_PAIR = 2_000
"""How many calls of the search a pair of neighbours should get, on the whole."""
_FEWEST = 8
_LOOK = 15
_FAR = 8
_GLANCE = 16
"""How many calls each side of wide answers gets first: what tells nearly always shows in these."""
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
    """How many numbers of the outputs were not."""


class Tried(NamedTuple):
    """Neighbours to try, and how many were left out, for which reason first."""

    pairs: Sequence[Pair]
    left_out: int
    reason: str


def search(
    calls: Calls, tried: Sequence[Pair], until: int, epsilon: float, delta: float
) -> Suspicion:
    """What tells most, after so many calls; the first and the last round get most of them."""
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
            seen[pair] = fresh if known is None else list(map(joined, known, fresh))
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
    """How many pairs go on for their excess, and how many for their promise."""
    return math.ceil(many / 4), math.ceil(many / 8)


def _rounds(many: int) -> int:
    return 1 if many <= _FINALISTS else 1 + _rounds(sum(_kept(many)))


def _worst(suspicions: Iterable[Suspicion]) -> Suspicion:
    """The one with the largest excess, if any is large; or else the one of most promise."""
    listed = list(suspicions)
    worst = max(listed, key=lambda each: each.excess)
    return worst if worst.excess > _PLAIN else max(listed, key=lambda each: each.promise)


def _suspicions(
    pair: Pair, sides: Sequence[Outputs], epsilon: float, delta: float, bits: bool, caution: float
) -> Iterator[Suspicion]:
    """Events in both directions, made up on even rows and judged on odd ones."""
    moves = [after - before for before, after in zip(*pair, strict=True)]
    parts = parts_of(sides, bits=bits, moves=moves)
    made, judged = ([side.rows(slice(start, None, 2)) for side in sides] for start in (0, 1))
    yield Suspicion(-math.inf, -math.inf, *pair, OutputEvent(()))
    runs, unseen = judged[0].runs, not_looked_at(sides)
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

    def mode(answers: Answers) -> Any:
        """The discrete part of most outputs, or that there is none; None if refused."""
        scaled = tuple(answer * sensitivity for answer in answers)
        if calls.refusal(scaled) is not None:
            return None
        said: Floats = calls(scaled, _LOOK).discrete
        ((most, times),) = Counter(said.tolist()).most_common(1)
        return most if times > 0.8 * _LOOK else NOT_ONE

    levels = list(dict.fromkeys([0, *calling.changes_of_mind(mode)]))
    moves: Any = {"monotonic": monotonic, "reach": reach}
    far = math.ceil(_FAR / epsilon)
    most = max(_FEWEST, budget // _A_PAIR)
    built_in = calling.pairs(levels, sensitivity, far=far, **moves)
    if mode((-1,) * 3) is None:
        built_in = list(dict.fromkeys(map(calling.lifted, built_in)))
    usual = taken(calls, built_in, most - 1)
    wide = {
        pair: _worst(_suspicions(pair, calls.both(pair, _GLANCE), epsilon, 0.0, calls.bits, 1.0))
        for pair in calling.wide(sensitivity, **moves)
        if None in map(calls.refusal, pair)
    }
    most_promising = sorted(wide, key=lambda pair: -wide[pair].promise)[:1]
    return usual._replace(pairs=[*usual.pairs, *most_promising])


def taken(calls: Calls, tried: Iterable[Pair], most: int) -> Tried:
    """The first pairs of which the function takes one side; to refuse the other is an output."""
    kept: list[Pair] = []
    left_out, reason = 0, ""
    for pair in tried:
        if len(kept) >= most:
            break
        why = {side: calls.refusal(side) for side in pair}
        if None in why.values():
            kept.append(pair)
            continue
        left_out += 1
        reason = reason or f"on {list(pair[0])} it said {why[pair[0]]!r}"
    if not kept:
        raise ValueError(f"the function took none of the answers that were tried: {reason}")
    return Tried(kept, left_out, reason)

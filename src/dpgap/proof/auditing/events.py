"""The search for an event: a few clauses, each of which makes it tell two inputs apart better.

A clause says that a part of the output is at most, at least, exactly or not a number. Clauses are
added one after another. Each time the one is taken that raises most what ε is at least, given the
counts so far and less what chance may have done (*promise*).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpgap.exact.reals import Floats, Integers
from dpgap.proof.auditing.finding import BEYOND_COUNTS
from dpgap.proof.auditing.outputs import Codes, Outputs
from dpgap.proof.auditing.parts import Part, differs

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

"""The search for an event: a few clauses, each of which separates two inputs better.

A clause says that a part of the output is at most, at least, equal to or not equal to a number.
Clauses are added one after another. The next clause is the one with the most *promise*: the
estimated lower bound of ε from the counts so far, reduced by some standard deviations.
"""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpgap.exact.reals import Floats, Integers
from dpgap.proof.auditing.chances import BEYOND_COUNTS
from dpgap.proof.auditing.outputs import Codes, Outputs
from dpgap.proof.auditing.parts import OutputPart, differs

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
    factor = math.exp(min(epsilon, BEYOND_COUNTS))
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

"""From a table to a release: count, select, measure, estimate, in one call.

>>> import pandas, dpgap
>>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
>>> best = dpgap.top_k(sold, unit="who", item="what", domain=["fig", "pea", "oat"], k=1, epsilon=1)
>>> best.labels, best.interval(0.95).shape
(('fig',), (1, 2))
"""

import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpgap.budget import Account
from dpgap.domain import OBSERVED
from dpgap.exact import Floats
from dpgap.mechanisms.streams import Stream
from dpgap.parameters import Rational, boolean
from dpgap.pipelines import MeasuredAbove, MeasuredTopK
from dpgap.private_answers import Integers, Origin, PrivateAnswers
from dpgap.releases import Measured, readable
from dpgap.sources import NEIGHBOURS, counts, require_neighbours
from dpgap.tracebacks import errors_without_answers


class Question(NamedTuple):
    """What was asked of a table; every word of it is public."""

    kind: str
    """"top-k" or "above"."""
    k: int
    epsilon: Fraction
    origin: Origin
    items: int
    """How many items the domain has."""
    method: str
    threshold: Fraction | None = None
    adaptive: bool = False

    def guarantee(self) -> str:
        """What is promised, in plain words: the unit, the neighbours, what is public."""
        epsilon, origin = readable(self.epsilon), self.origin
        if not origin.is_private:
            return (
                "NOT differentially private: the items were read from the private data itself "
                f"(domain {OBSERVED!r}), so that an item being shown at all can give a unit away. "
                f"The noise is that of ε = {epsilon}, but the result is not ε-private. For "
                "exploration by those who may see the data; state a public domain to release it."
            )
        change, public = _CHANGES[origin.neighbours]
        return (
            f"Pure differential privacy with ε = {epsilon} and no δ: if one unit {change}, nothing "
            f"shown here (gaps included) would become more than {_factor(self.epsilon)} times as "
            f"likely or unlikely. A unit is {_unit_in_words(origin.unit)}; counts are of distinct "
            f"units. Public are the domain ({origin.domain}), the names and types of the columns"
            f"{public} and all parameters. Everything else about the table is private. The domain "
            "was given as values and must be public: values taken from the table would void this."
        )


_CHANGES = {
    "add-or-remove": ("were added or taken away, with all its rows", ""),
    "replace": ("were replaced by any other, with all its rows", ", how many units there are"),
}


def _factor(epsilon: Fraction) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e^{readable(epsilon)}"


def _unit_in_words(unit: str) -> str:
    return {"row": "one row", "line": "one line of the file"}.get(
        unit, f"everything with the same value in column {unit!r}"
    )


@dataclass(frozen=True, slots=True, eq=False)
class TableRelease(Measured):
    """What a table was asked, and the answer: items with estimates, intervals and gaps."""

    question: Question

    @property
    def guarantee(self) -> str:
        """What ε promises, in plain words."""
        return self.question.guarantee()

    def _repr_html_(self) -> str:
        from dpgap.report.page import chart

        return chart(self) + Measured._repr_html_(self)


@errors_without_answers
def top_k(
    table: Any,
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: Any = None,
    k: int,
    epsilon: Rational,
    method: str | None = None,
    split: Rational | None = None,
    neighbours: str | None = None,
    account: Account | None = None,
) -> TableRelease:
    """The k items with the most distinct units, with estimates, for ε in all.

    `table`, `unit`, `item`, `domain` and `neighbours` are as for `dpgap.counts`; or `table` is
    what that function gave, to count once and ask several times.
    """
    pipeline = MeasuredTopK(
        k,
        epsilon,
        monotonic=_is_monotonic(table, neighbours),
        **_given(method=method, split=split),
    )
    with _counted(table, unit, item, domain, neighbours) as (answers, origin):
        release = pipeline.release(answers, account=account)
    question = Question(
        kind="top-k",
        k=pipeline.selection.k,
        epsilon=pipeline.epsilon,
        origin=origin,
        items=len(answers),
        method=pipeline.method,
    )
    return TableRelease(**_values(release), question=question)


@errors_without_answers
def above(
    table: Any,
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: Any = None,
    threshold: Rational,
    k: int,
    epsilon: Rational,
    adaptive: bool = True,
    method: str | None = None,
    split: Rational | None = None,
    neighbours: str | None = None,
    account: Account | None = None,
) -> TableRelease:
    """Items with at least `threshold` distinct units, about k of them, with estimates.

    Items are asked in a fresh secure random order until the budget is used, and shown largest
    estimate first. An adaptive run pays less for items far above the threshold, so that it may
    find more than k. The table is stated as in `top_k`.
    """
    pipeline = MeasuredAbove(
        threshold,
        k,
        epsilon,
        adaptive=boolean("adaptive", adaptive),
        monotonic=_is_monotonic(table, neighbours),
        **_given(method=method, split=split),
    )
    with (
        _counted(table, unit, item, domain, neighbours) as (answers, origin),
        closing(answers.shuffled()) as chunks,
    ):
        stream = Stream.on_grid(answers, chunks, pipeline.selection.grid)
        release = pipeline.release(stream, account=account)
    question = Question(
        kind="above",
        k=pipeline.selection.k,
        epsilon=pipeline.epsilon,
        origin=origin,
        items=len(answers),
        method=pipeline.method,
        threshold=pipeline.selection.threshold,
        adaptive=adaptive,
    )
    return TableRelease(**_largest_first(release), question=question)


def _is_monotonic(table: Any, neighbours: str | None) -> bool:
    if isinstance(table, PrivateAnswers):
        return table.monotonic
    return require_neighbours(neighbours or NEIGHBOURS[0]) == NEIGHBOURS[0]


@contextmanager
def _counted(
    table: Any, unit: str | None, item: str | None, domain: Any, neighbours: str | None
) -> Iterator[tuple[PrivateAnswers, Origin]]:
    """Counts for as long as the block lasts; those that the user made are left open."""
    if not isinstance(table, PrivateAnswers):
        options = _given(neighbours=neighbours)
        made = counts(table, unit=unit, item=item, domain=domain, **options)
        with closing(made):
            yield made, _origin(made)
    elif not all(each is None for each in (unit, item, domain, neighbours)):
        raise TypeError("unit, item, domain and neighbours were stated when these were counted")
    else:
        yield table, _origin(table)


def _origin(answers: PrivateAnswers) -> Origin:
    if answers.origin is None:
        raise TypeError("table must be answers that `dpgap.counts` made, with their origin")
    return answers.origin


def _values(release: Measured) -> dict[str, Any]:
    return {field.name: getattr(release, field.name) for field in fields(release)}


def _largest_first(release: Measured) -> dict[str, Any]:
    """The values of a release, the largest estimate first."""
    order = np.argsort(-release.estimates, kind="stable")
    return {name: _reordered(value, order) for name, value in _values(release).items()}


def _reordered(value: Any, order: Integers) -> Any:
    """Rows, or a function of the level that gives rows, in another order; all else as it is."""
    if isinstance(value, np.ndarray):
        return value[order]
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(value[place] for place in order.tolist())
    return partial(_rows_in, order, value) if callable(value) else value


def _rows_in(order: Integers, rows: Callable[[float], Floats], level: float) -> Floats:
    return rows(level)[order]


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given; others know their own defaults."""
    return {name: value for name, value in options.items() if value is not None}

"""From a table to a release: count, select, measure, estimate, in one call.

>>> import pandas, dpgap
>>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
>>> best = dpgap.top_k(sold, unit="who", item="what", domain=["fig", "pea", "oat"], k=1, epsilon=1)
>>> best.labels, best.interval(0.95).shape
(('fig',), (1, 2))
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dpgap.budget import Account
from dpgap.counts import Answers, Integers
from dpgap.domain import OBSERVED, read_domain
from dpgap.parameters import Rational, boolean
from dpgap.pipelines import MeasuredAbove, MeasuredTopK
from dpgap.randomness import secure_bits
from dpgap.releases import Measured, readable
from dpgap.sources import NEIGHBOURS, counts, require_neighbours


class Question(NamedTuple):
    """What was asked of a table; every word of it is public."""

    kind: str
    """"top-k" or "above"."""
    k: int
    epsilon: Fraction
    unit: str
    item: str
    domain: str
    """The public domain in words."""
    items: int
    """How many items the domain has."""
    neighbours: str
    method: str
    is_private: bool = True
    threshold: Fraction | None = None
    adaptive: bool = False

    def guarantee(self) -> str:
        """What is promised, in plain words: the unit, the neighbours, what is public."""
        epsilon = readable(self.epsilon)
        if not self.is_private:
            return (
                "NOT differentially private: the items were read from the private data itself "
                f"(domain {OBSERVED!r}), so that an item being shown at all can give a unit away. "
                f"The noise is that of ε = {epsilon}, but the result is not ε-private. For "
                "exploration by those who may see the data; state a public domain to release it."
            )
        change, public = _CHANGES[self.neighbours]
        return (
            f"Pure differential privacy with ε = {epsilon} and no δ: if one unit {change}, nothing "
            f"shown here (gaps included) would become more than {_factor(self.epsilon)} times as "
            f"likely or unlikely. A unit is {_unit_in_words(self.unit)}; counts are of distinct "
            f"units. Public are the domain ({self.domain}), the names and types of the columns"
            f"{public} and all parameters. Everything else about the table is private."
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


def top_k(
    table: Any,
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: Any,
    k: int,
    epsilon: Rational,
    method: str | None = None,
    split: Rational | None = None,
    neighbours: str = NEIGHBOURS[0],
    account: Account | None = None,
) -> TableRelease:
    """The k items with the most distinct units, with estimates, for ε in all.

    `table` is any frame or the path of a file, `unit` the column that says whose row it is (or
    "row"), `item` the column to count. `domain` states which items there are: a list, a range, a
    file, a column of a public table. `neighbours="replace"` protects against replacing a unit
    instead of adding or removing one.
    """
    pipeline = MeasuredTopK(
        k, epsilon, monotonic=_monotonic(neighbours), **_chosen(method=method, split=split)
    )
    answers, words = _counted(table, unit, item, domain, neighbours)
    release = pipeline.release(answers, account=account)
    question = Question(
        kind="top-k",
        k=pipeline.selection.k,
        epsilon=pipeline.epsilon,
        unit=unit or "line",
        item=item or "item",
        domain=words,
        items=len(answers),
        neighbours=neighbours,
        method=pipeline.method,
        is_private=not _is_observed(domain),
    )
    return TableRelease(**_values(release), question=question)


def above(
    table: Any,
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: Any,
    threshold: Rational,
    k: int,
    epsilon: Rational,
    adaptive: bool = True,
    method: str | None = None,
    split: Rational | None = None,
    neighbours: str = NEIGHBOURS[0],
    account: Account | None = None,
) -> TableRelease:
    """Items with at least `threshold` distinct units, about k of them, with estimates.

    Items are asked in a fresh secure random order until the budget is used, and shown largest
    estimate first. An adaptive run pays less for items far above the threshold, so that it may
    find more than k.
    """
    pipeline = MeasuredAbove(
        threshold,
        k,
        epsilon,
        adaptive=boolean("adaptive", adaptive),
        monotonic=_monotonic(neighbours),
        **_chosen(method=method, split=split),
    )
    answers, words = _counted(table, unit, item, domain, neighbours)
    all_counts = answers.expanded()
    asked = np.argsort(secure_bits().words(all_counts.size))
    release = pipeline.release(all_counts[asked], account=account)
    question = Question(
        kind="above",
        k=pipeline.selection.k,
        epsilon=pipeline.epsilon,
        unit=unit or "line",
        item=item or "item",
        domain=words,
        items=len(answers),
        neighbours=neighbours,
        method=pipeline.method,
        is_private=not _is_observed(domain),
        threshold=pipeline.selection.threshold,
        adaptive=adaptive,
    )
    found = _largest_first(release, asked, answers.labels)
    return TableRelease(**found, question=question)


def _counted(
    table: Any, unit: str | None, item: str | None, domain: Any, neighbours: str
) -> tuple[Answers, str]:
    if _is_observed(domain):
        answers = counts(table, unit=unit, item=item, domain=domain, neighbours=neighbours)
        return answers, "the items observed in the table"
    public = read_domain(domain)
    answers = counts(table, unit=unit, item=item, domain=public, neighbours=neighbours)
    return answers, public.words


def _values(release: Measured) -> dict[str, Any]:
    return {field.name: getattr(release, field.name) for field in fields(release)}


def _largest_first(release: Measured, asked: Integers, labels: Sequence[Any]) -> dict[str, Any]:
    """The values of a release that was `asked` in some order, the largest estimate first."""
    order = np.argsort(-release.estimates, kind="stable")
    values, half_widths = _values(release), release.half_widths
    for name in ("gaps", "measurements", "estimates", "variances"):
        values[name] = values[name][order]
    values["indices"] = asked[release.indices][order]
    values["labels"] = tuple(labels[place] for place in values["indices"])
    values["half_widths"] = lambda level: half_widths(level)[order]
    return values


def _monotonic(neighbours: str) -> bool:
    return require_neighbours(neighbours) == NEIGHBOURS[0]


def _is_observed(domain: Any) -> bool:
    return isinstance(domain, str) and domain == OBSERVED


def _chosen(**options: Any) -> dict[str, Any]:
    """The options that were given; the pipelines know their own defaults."""
    return {name: value for name, value in options.items() if value is not None}

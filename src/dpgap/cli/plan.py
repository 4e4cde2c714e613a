"""`dpgap plan`: the expected errors of a release, before anything is spent."""

import json as json_format
from dataclasses import asdict
from typing import Annotated, Any

import typer

from dpgap.cli.commands import JSON, keyword_option
from dpgap.question import read_counting

PLANNED = (
    keyword_option("k", needed=True),
    *map(keyword_option, ("split", "neighbours", "delta", "max_items")),
    keyword_option("adaptive", default=False),
)
"""Keywords of a question that a plan passes on."""


def plan(
    stated: dict[str, Any],
    epsilon: Annotated[str | None, "The privacy budget."] = None,
    error: Annotated[str | None, "Instead of ε: the standard error of each estimate."] = None,
    method: Annotated[
        str | None, "best, joint, ranked, paper, histogram or baseline; else all."
    ] = None,
    select: Annotated[str, "The question: top-k, or above."] = "top-k",
    items: Annotated[int | None, "How many items there are in all."] = None,
    counts: Annotated[
        str | None, "Counts that you expect, by rank: 1:9000,10:2000,100:300. Not private."
    ] = None,
    json: JSON = False,
) -> None:
    """Print the expected error for an ε, or the ε that an error needs. Nothing is spent.

    The errors of sums are those of the plan times at_most.
    """
    from dpgap.exact.parameters import rational
    from dpgap.pipelines.plan import plan as make_plan
    from dpgap.releases.plain import number

    neighbours = stated.pop("neighbours")
    counting = read_counting({"neighbours": neighbours, "max_items": stated["max_items"]})
    made = make_plan(
        epsilon=epsilon,
        error=None if error is None else float(rational("error", error)),
        method=method,
        monotonic=counting.is_monotonic,
        select=select,
        counts=None if counts is None else _by_rank(counts),
        items=items,
        **stated,
    )
    if json:
        rows = []
        for row in made.rows:
            threshold = None if row.threshold is None else number(row.threshold)
            rows.append(asdict(row) | {"epsilon": number(row.epsilon), "threshold": threshold})
        content = {"k": made.k, "select": made.select, "methods": rows}
        typer.echo(json_format.dumps(content, indent=2))
        return
    from rich.console import Console

    from dpgap.releases.text import print_table

    console = Console(highlight=False)
    print_table(made.cells(), console)
    console.print(made.guarantee, markup=False)


def _by_rank(text: str) -> dict[int, float]:
    """Counts by rank, from text such as "1:9000,10:2000"."""
    pairs = [part.split(":") for part in text.split(",")]
    try:
        by_rank = {int(rank): float(int(count)) for rank, count in pairs}
    except ValueError:
        raise ValueError(
            f"--counts must be ranks and whole counts such as 1:9000,10:2000, not {text!r}"
        ) from None
    if len(by_rank) < len(pairs):
        raise ValueError(f"--counts must name every rank once, not {text!r}")
    return by_rank

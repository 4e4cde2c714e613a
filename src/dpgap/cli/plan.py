"""`dpgap plan`: the expected errors of a release, before anything is spent."""

import json as json_format
from dataclasses import asdict
from typing import Annotated

import typer

from dpgap.cli.commands import JSON, option
from dpgap.question import Counting, read_counting


def plan(
    k: Annotated[int, option("How many answers to find.", "-k", "--k")],
    epsilon: Annotated[
        str | None, "The privacy budget ε for selecting and measuring together."
    ] = None,
    error: Annotated[
        str | None,
        "Instead of --epsilon: the wanted standard error of each estimate, if winners are clear.",
    ] = None,
    method: Annotated[
        str | None, "best, joint, ranked, paper, histogram or baseline; else all."
    ] = None,
    select: Annotated[str, 'The question: "top-k" or "above".'] = "top-k",
    adaptive: Annotated[
        bool, 'Whether items far above the threshold cost less; for "above" only.'
    ] = False,
    items: Annotated[int | None, "How many items, or answers, there are in all."] = None,
    counts: Annotated[
        str | None, "Counts that you expect, by rank: 1:9000,10:2000,100:300. Not private."
    ] = None,
    delta: Annotated[
        str,
        "If no domain will be stated: the chance that an item of only one unit is shown, such as "
        "1e-6.",
    ] = "0",
    max_items: Annotated[
        int | None, "The most items that a unit counts for, if this is bounded."
    ] = None,
    neighbours: Annotated[str, "What privacy hides."] = "add-or-remove",
    split: Annotated[str | None, "The share of ε for selecting."] = None,
    json: JSON = False,
) -> None:
    """Print the expected error for an ε, or the ε that an error needs. Nothing is spent.

    The errors of sums are those of the plan times at_most.
    """
    from dpgap.exact.parameters import rational
    from dpgap.pipelines.plan import plan as make_plan
    from dpgap.releases.plain import number

    counting = read_counting(Counting(neighbours=neighbours, max_items=max_items))
    made = make_plan(
        k=k,
        epsilon=epsilon,
        error=None if error is None else float(rational("error", error)),
        method=method,
        select=select,
        adaptive=adaptive,
        items=items,
        counts=None if counts is None else _by_rank(counts),
        delta=delta,
        max_items=max_items,
        monotonic=counting.is_monotonic,
        split=split,
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
    print_table(made._cells(), console)
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

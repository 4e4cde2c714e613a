"""`dpgap plan`: what a release will tell, before anything is spent."""

import json as json_format
from typing import Annotated

import typer

from dpgap.cli.errors import plainly
from dpgap.releases.printable import printable


@plainly
def plan(
    k: Annotated[int, typer.Option("-k", "--k", help="How many items to find.")],
    epsilon: Annotated[str | None, typer.Option(help="The privacy budget.")] = None,
    error: Annotated[
        str | None, typer.Option(help="Instead: the standard error wanted of each estimate.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="best, paper or baseline; else all.")] = None,
    select: Annotated[str, typer.Option(help="The question: top-k, or above.")] = "top-k",
    adaptive: Annotated[bool, typer.Option("--adaptive/--plain", help="For above only.")] = False,
    split: Annotated[str, typer.Option(help="The share of ε for selecting.")] = "1/2",
    neighbours: Annotated[
        str, typer.Option(help="What one unit may do: add-or-remove, or replace another.")
    ] = "add-or-remove",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which error to expect for an ε, or which ε an error takes; spend nothing."""
    from dpgap.data.counts import NEIGHBOURS, require_neighbours
    from dpgap.exact.parameters import rational
    from dpgap.pipelines.plan import plan as make_plan
    from dpgap.releases.rows import number

    made = make_plan(
        k=k,
        epsilon=epsilon,
        error=None if error is None else float(rational("error", error)),
        method=method,
        monotonic=require_neighbours(neighbours) == NEIGHBOURS[0],
        split=split,
        select=select,
        adaptive=adaptive,
    )
    if not json:
        typer.echo("\n".join(map(printable, str(made).split("\n"))))
        return
    rows = [
        {
            "method": row.method,
            "epsilon": number(row.epsilon),
            "error": row.error,
            "close_error": row.close_error,
            "half_width": row.half_width,
            "selection_noise": row.selection_noise,
        }
        for row in made.rows
    ]
    typer.echo(json_format.dumps({"k": made.k, "select": made.select, "methods": rows}, indent=2))

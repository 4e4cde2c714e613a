"""`dpgap plan`: what a release will tell, before anything is spent."""

import json as json_format
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from dpgap.cli.options import Adaptive, AsJSON, K, Neighbours, Split

if TYPE_CHECKING:
    from dpgap.pipelines.plan import Plan


def plan(
    k: K,
    epsilon: Annotated[str | None, typer.Option(help="The privacy budget.")] = None,
    error: Annotated[
        str | None, typer.Option(help="Instead: the standard error wanted of each estimate.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="best, paper or baseline; else all.")] = None,
    select: Annotated[str, typer.Option(help="The question: top-k, or above.")] = "top-k",
    adaptive: Adaptive = False,
    split: Split = "1/2",
    neighbours: Neighbours = "add-or-remove",
    json: AsJSON = False,
) -> None:
    """Say which error to expect for an ε, or which ε an error takes; spend nothing."""
    from dpgap.data.counts import NEIGHBOURS, require_neighbours
    from dpgap.exact.parameters import rational
    from dpgap.pipelines.plan import plan as make_plan
    from dpgap.releases.numbers import number

    made = make_plan(
        k=k,
        epsilon=epsilon,
        error=None if error is None else float(rational("error", error)),
        method=method,
        monotonic=require_neighbours(neighbours) == NEIGHBOURS[0],
        split=split or "1/2",
        select=select,
        adaptive=adaptive,
    )
    if not json:
        typer.echo(_words(made))
        return
    rows = [asdict(row) | {"epsilon": number(row.epsilon)} for row in made.rows]
    typer.echo(json_format.dumps({"k": made.k, "select": made.select, "methods": rows}, indent=2))


def _words(made: "Plan") -> str:
    """The plan as this terminal shows it."""
    from rich.console import Console

    from dpgap.releases.release import texts
    from dpgap.releases.terminal import Column, fitted

    columns = [Column(name, list(texts(cells))) for name, cells in made.columns().items()]
    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(fitted(columns, console), made.guarantee, sep="\n", markup=False)
    return captured.get().removesuffix("\n")

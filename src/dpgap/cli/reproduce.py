"""`dpgap reproduce`: run the paper's experiments again, with figures and claims."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpgap.cli.commands import JSON, progress

if TYPE_CHECKING:
    from dpgap.research.claims import Claim
    from dpgap.research.experiments import Result
    from dpgap.research.reproduction import Progress, ReproductionPlan

RESULTS, PAGE, SUMMARY = "results.json", "reproduction.html", "reproduction.md"
FOLDER = "figures"


def reproduce(
    figure: Annotated[list[int] | None, "Only this figure, 1 to 4; may be repeated."] = None,
    runs: Annotated[int, "How many runs for each point."] = 10_000,
    data: Annotated[
        str | None,
        "A folder with the paper's data sets, or any FIMI, CSV or Parquet file. "
        "Default: the folder that DPGAP_DATA names, else data sets that are made up.",
    ] = None,
    out: Annotated[Path, "The folder to write to; pages and results there are replaced."] = Path(
        "reproduction"
    ),
    seed: Annotated[int | None, "Another seed gives other figures."] = None,
    json: JSON = False,
) -> None:
    """Draw the paper's figures again, and compare its claims with new measurements."""
    from dpgap.research.datasets import load_all
    from dpgap.research.experiments import FIGURES
    from dpgap.research.figures import require_matplotlib
    from dpgap.research.page import warnings_about
    from dpgap.research.reproduction import SEED, ReproductionPlan, as_json, require_sound

    seed = SEED if seed is None else seed
    try:
        figures = tuple(sorted(set(figure or FIGURES)))
        require_sound(figures, runs, seed)  # before data is read, which may take a while
        require_matplotlib()
        plan = ReproductionPlan(load_all(data), figures, runs, seed)
        for warning in warnings_about(plan.datasets):
            typer.echo(warning, err=json)
        for dataset in plan.datasets:
            typer.echo(f"{dataset.name}: {dataset.source}", err=json)
        with progress("Simulating", is_quiet=json) as update:
            results, claims = reproduce_into(
                out, plan, lambda done, total: update(completed=done, total=total)
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the figures that were finished are kept") from None
    if json:
        typer.echo(as_json(results), nl=False)
        return
    for claim in claims:
        typer.echo(f"The paper: {claim.statement}\n  {claim.verdict}: {claim.measured}")
    typer.echo(f"Written to {out}: {PAGE}, {SUMMARY}, {RESULTS} and the figures.")


def reproduce_into(
    out: Path, plan: "ReproductionPlan", progress: "Progress" = lambda done, total: None
) -> "tuple[list[Result], list[Claim]]":
    """Write figures, results and pages to a folder; each figure as soon as it is finished."""
    from dpgap.research.claims import judge
    from dpgap.research.datasets import OWN
    from dpgap.research.figures import draw, draw_datasets
    from dpgap.research.page import as_html, as_markdown
    from dpgap.research.reproduction import as_json, finished_figures, write

    drawn = {"datasets": draw_datasets(plan.datasets)}
    write(out / FOLDER / "datasets.svg", drawn["datasets"])
    results: list[Result] = []
    claims: list[Claim] = []
    for figure, points in finished_figures(plan, progress):
        results = sorted([*results, *points])
        claims = judge(results)
        if plan.datasets[0].warning == OWN:  # the paper says nothing about them
            claims = [claim._replace(verdict="your data") for claim in claims]
        drawn[f"figure-{figure}"] = draw(figure, points, plan.datasets)
        paths = {name: f"{FOLDER}/{name}.svg" for name in drawn}
        for name, path in paths.items():
            write(out / path, drawn[name])
        write(out / RESULTS, as_json(results))
        write(out / PAGE, as_html(claims, plan.datasets, drawn, plan.runs))
        write(out / SUMMARY, as_markdown(claims, plan.datasets, paths, plan.runs))
    return results, claims

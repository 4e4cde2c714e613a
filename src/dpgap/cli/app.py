"""The command line: `dpgap top-k`, `above`, `plan`, `ledger`, and what other parts add.

Engines, NumPy and Rich tables are loaded by the command that needs them, so that help is at hand
at once. Whatever goes wrong ends with one clear message and a non-zero exit code.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpgap.cli.errors import notes, plainly
from dpgap.cli.files import Output, input_files, require_outputs
from dpgap.cli.later import add_later
from dpgap.cli.ledger import ledger_app
from dpgap.cli.plan import plan
from dpgap.cli.streams import AnyLetterGroup

if TYPE_CHECKING:
    from fractions import Fraction

    from dpgap.budget.ledger import LedgerAccount
    from dpgap.releases.questions import TableRelease

app = typer.Typer(
    name="dpgap",
    cls=AnyLetterGroup,
    help="The largest and the above-threshold items of private data, with the gaps that come free.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(ledger_app, name="ledger")

File = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="Parquet, CSV, JSON lines or FIMI .dat, also .gz; or postgresql://…/db?table=sales.",
    ),
]
Unit = Annotated[
    str | None, typer.Option(help='The column that says whose row it is; or "row", or "line".')
]
Item = Annotated[str | None, typer.Option(help="The column to count.")]
Domain = Annotated[
    str,
    typer.Option(
        help="The public items: items.txt, table.parquet:column, 0..16469; in a database also "
        "table:column."
    ),
]
K = Annotated[int, typer.Option("-k", "--k", help="How many items to find.")]
Epsilon = Annotated[str, typer.Option(help="The privacy budget, exact: 1, 0.7 or 2/3.")]
Method = Annotated[str | None, typer.Option(help="How to select, measure and estimate.")]
Split = Annotated[str | None, typer.Option(help="The share of ε for selecting.")]
Neighbours = Annotated[
    str, typer.Option(help="What one unit may do: add-or-remove, or replace another.")
]
LedgerURL = Annotated[str | None, typer.Option("--ledger", help="The ledger to charge.")]
Dataset = Annotated[str | None, typer.Option(help="The data set in the ledger.")]
AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CSVFile = Annotated[Path | None, typer.Option("--csv", help="Also write the rows to this file.")]
HTMLFile = Annotated[Path | None, typer.Option("--html", help="Also write a report page.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]


@app.command("top-k")
@plainly
def top_k(
    file: File,
    domain: Domain,
    k: K,
    epsilon: Epsilon,
    unit: Unit = None,
    item: Item = None,
    method: Method = None,
    split: Split = None,
    neighbours: Neighbours = "add-or-remove",
    ledger: LedgerURL = None,
    dataset: Dataset = None,
    json: AsJSON = False,
    csv: CSVFile = None,
    html: HTMLFile = None,
    force: Force = False,
) -> None:
    """Find the k items with the most units, with estimates, error bars and gaps."""
    ask = {"k": k, "epsilon": epsilon, "method": method, "split": split}
    table = {"table": file, "unit": unit, "item": item, "domain": domain, "neighbours": neighbours}
    _release("top_k", table, ask, ledger, dataset, json, csv, html, force)


@app.command("above")
@plainly
def above(
    file: File,
    domain: Domain,
    threshold: Annotated[str, typer.Option(help="How many units an item must have.")],
    k: K,
    epsilon: Epsilon,
    unit: Unit = None,
    item: Item = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive/--plain", help="Pay less for items far above.")
    ] = True,
    method: Method = None,
    split: Split = None,
    neighbours: Neighbours = "add-or-remove",
    ledger: LedgerURL = None,
    dataset: Dataset = None,
    json: AsJSON = False,
    csv: CSVFile = None,
    html: HTMLFile = None,
    force: Force = False,
) -> None:
    """Find items above a threshold, asked in a fresh random order, with estimates and gaps."""
    ask = {"k": k, "epsilon": epsilon, "method": method, "split": split}
    ask |= {"threshold": threshold, "adaptive": adaptive}
    table = {"table": file, "unit": unit, "item": item, "domain": domain, "neighbours": neighbours}
    _release("above", table, ask, ledger, dataset, json, csv, html, force)


app.command("plan")(plan)


def _release(
    function: str,
    table: dict[str, Any],
    ask: dict[str, Any],
    ledger: str | None,
    dataset: str | None,
    as_json: bool,
    csv: Path | None,
    html: Path | None,
    force: bool,
) -> None:
    """Charge and release; then show what was paid for, whatever becomes of the files."""
    wanted = {"csv": csv, "html": html}
    files = _outputs(wanted, table["table"], table["domain"], ledger, force)
    require_outputs(list(files.values()))
    from dpgap.data.counts import counts

    # While the engine counts, Python loads the rest.
    with notes(), ThreadPoolExecutor(1) as background, working("Counting …"):
        counting = background.submit(counts, **table)
        account = _account(ledger, dataset)
        from dpgap.cli.delivery import deliver
        from dpgap.pipelines import tables
        from dpgap.releases.rows import to_csv, to_json
        from dpgap.releases.terminal import shown

        answers = counting.result()
    release: TableRelease = getattr(tables, function)(answers, account=account, **ask)
    remaining = release.remaining if account is None else _left(account)
    whose = None if account is None else account.dataset

    def page() -> str:
        from dpgap.releases.page import page

        return page(release)

    def as_object() -> str:
        return to_json(release, remaining)

    render = {"csv": lambda: to_csv(release), "html": page}
    deliver(
        [(output, render[name]) for name, output in files.items()],
        shown=as_object if as_json else lambda: shown(release, remaining, whose),
        complete=as_object,
    )


def _outputs(
    wanted: dict[str, Path | None], table: str, domain: str, ledger: str | None, force: bool
) -> dict[str, Output]:
    paths = {name: path for name, path in wanted.items() if path is not None}
    inputs = input_files(table, domain, ledger) if paths else []
    return {name: Output(f"--{name}", path, inputs, force) for name, path in paths.items()}


def _left(account: "LedgerAccount") -> "Fraction | None":
    """What the data set has left. The ledger may be out of reach by now; the release is not."""
    try:
        return account.remaining
    except Exception:
        return None


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that work is under way, where somebody is looking."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    console = Console(stderr=True)
    spinner = "dots" if console.encoding.startswith("utf") else "line"
    with console.status(what, spinner=spinner):
        yield


def _account(ledger: str | None, dataset: str | None) -> "LedgerAccount | None":
    if ledger is None and dataset is None:
        return None
    if ledger is None or dataset is None:
        raise ValueError("--ledger and --dataset must be given together")
    from dpgap.budget.ledger import Ledger

    return Ledger(ledger).account(dataset)


for _name, _summary in (
    ("prove", "Prove every mechanism, and refute the mutants."),
    ("audit", "Bound every ε from below by samples, and compare releases with their law."),
):
    add_later(app, _name, "dpgap.cli.proofs", _summary)
add_later(
    app, "reproduce", "dpgap.cli.reproduce", "Redraw the paper's figures and check its claims."
)

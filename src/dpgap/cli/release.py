"""`dpgap top-k` and `dpgap above`: from a table to a release that reaches somebody."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpgap.cli.errors import notes
from dpgap.cli.files import Wanted, input_files
from dpgap.cli.options import Adaptive, AsJSON, CSVFile, Force, HTMLFile, K, Neighbours, Split

if TYPE_CHECKING:
    from fractions import Fraction

    from dpgap.budget.ledger import LedgerAccount
    from dpgap.releases.questions import TableRelease

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
Epsilon = Annotated[str, typer.Option(help="The privacy budget, exact: 1, 0.7 or 2/3.")]
TopKMethod = Annotated[
    str | None,
    typer.Option(
        help="best, the default: looks, then takes joint (a set) or ranked (with gaps); or paper."
    ),
]
Method = Annotated[str | None, typer.Option(help="best, the default, or paper.")]
LedgerURL = Annotated[str | None, typer.Option("--ledger", help="The ledger to charge.")]
Dataset = Annotated[str | None, typer.Option(help="The data set in the ledger.")]
Reason = Annotated[str, typer.Option(help="Why it is asked; the ledger keeps it.")]
Key = Annotated[
    str | None, typer.Option(help="A name for this request: sent twice, it is charged once.")
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Pay for fresh noise, though the ledger has the answer.")
]


def top_k(
    file: File,
    domain: Domain,
    k: K,
    epsilon: Epsilon,
    unit: Unit = None,
    item: Item = None,
    method: TopKMethod = None,
    split: Split = None,
    neighbours: Neighbours = "add-or-remove",
    ledger: LedgerURL = None,
    dataset: Dataset = None,
    reason: Reason = "",
    key: Key = None,
    fresh: Fresh = False,
    json: AsJSON = False,
    csv: CSVFile = None,
    html: HTMLFile = None,
    force: Force = False,
) -> None:
    """Find the k items with the most units, with estimates, error bars and gaps."""
    ask = {"k": k, "epsilon": epsilon, "method": method, "split": split, "fresh": fresh}
    table = {"table": file, "unit": unit, "item": item, "domain": domain, "neighbours": neighbours}
    _release(
        "top_k", table, ask, _Payer(ledger, dataset, reason, key), json, Wanted(csv, html, force)
    )


def above(
    file: File,
    domain: Domain,
    threshold: Annotated[str, typer.Option(help="How many units an item must have.")],
    k: K,
    epsilon: Epsilon,
    unit: Unit = None,
    item: Item = None,
    adaptive: Adaptive = True,
    method: Method = None,
    split: Split = None,
    neighbours: Neighbours = "add-or-remove",
    ledger: LedgerURL = None,
    dataset: Dataset = None,
    reason: Reason = "",
    key: Key = None,
    fresh: Fresh = False,
    json: AsJSON = False,
    csv: CSVFile = None,
    html: HTMLFile = None,
    force: Force = False,
) -> None:
    """Find items above a threshold, asked in a fresh random order, with estimates and gaps."""
    ask = {"k": k, "epsilon": epsilon, "method": method, "split": split, "fresh": fresh}
    ask |= {"threshold": threshold, "adaptive": adaptive}
    table = {"table": file, "unit": unit, "item": item, "domain": domain, "neighbours": neighbours}
    _release(
        "above", table, ask, _Payer(ledger, dataset, reason, key), json, Wanted(csv, html, force)
    )


@dataclass(frozen=True, slots=True)
class _Payer:
    """Whose budget pays: a data set in a ledger, or nobody's."""

    ledger: str | None
    dataset: str | None
    reason: str
    key: str | None

    def account(self) -> "LedgerAccount | None":
        if self.ledger is None and self.dataset is None:
            if self.reason or self.key:
                raise ValueError("--reason and --key are for a ledger: give --ledger and --dataset")
            return None
        if self.ledger is None or self.dataset is None:
            raise ValueError("--ledger and --dataset must be given together")
        from dpgap.budget.ledger import Ledger

        return Ledger(self.ledger).account(self.dataset).of(reason=self.reason, key=self.key)


def _release(
    function: str,
    table: dict[str, Any],
    ask: dict[str, Any],
    payer: _Payer,
    json: bool,
    wanted: Wanted,
) -> None:
    """Charge and release; then show what was paid for, whatever becomes of the files."""
    files = wanted.files(lambda: input_files(table["table"], table["domain"], payer.ledger))
    from dpgap.data.counts import counts

    # While the engine counts, Python loads the rest.
    with notes(), ThreadPoolExecutor(1) as background, _working("Counting …"):
        counting = background.submit(counts, **table)
        account = payer.account()
        from dpgap.cli.delivery import deliver, renders
        from dpgap.pipelines import tables
        from dpgap.releases.rows import to_json
        from dpgap.releases.terminal import shown

        answers = counting.result()
    with notes():
        release: TableRelease = getattr(tables, function)(answers, account=account, **ask)
    remaining = release.remaining if account is None else _left(account)
    whose = None if account is None else account.dataset

    def as_object() -> str:
        return to_json(release, remaining)

    render = renders(release)
    deliver(
        [(output, render[kind]) for kind, output in files.items()],
        shown=as_object if json else lambda: shown(release, remaining, whose),
        complete=as_object,
    )


def _left(account: "LedgerAccount") -> "Fraction | None":
    """What the data set has left. The ledger may be out of reach by now; the release is not."""
    try:
        return account.remaining
    except (Exception, KeyboardInterrupt):
        return None


@contextmanager
def _working(what: str) -> Iterator[None]:
    """Show that work is under way, where somebody is looking."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    console = Console(stderr=True)
    spinner = "dots" if console.encoding.startswith("utf") else "line"
    with console.status(what, spinner=spinner):
        yield

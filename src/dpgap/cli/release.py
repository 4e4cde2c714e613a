"""`dpgap top-k`, `above` and `count`: from a table to a release that reaches somebody."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dpgap.cli.errors import notes
from dpgap.cli.files import Wanted, input_files
from dpgap.cli.options import (
    Adaptive,
    AsJSON,
    CSVFile,
    Force,
    HTMLFile,
    K,
    Neighbours,
    Split,
    with_groups,
)

if TYPE_CHECKING:
    from fractions import Fraction

    from dpgap.budget.ledger import LedgerAccount
    from dpgap.pipelines.session import Answered

_ROWS = "Which rows, and how much of a unit counts"
_PAYING = "Who pays"
_OUTPUT = "Where it goes"
_NO_DOMAIN = (
    "say which items there are: --domain FILE (public, one on each line); or, if nobody listed "
    "them, --max-items 3 --delta 1e-6"
)
_NO_LEDGER = "of this run (no ledger keeps count: runs add up)"

Epsilon = Annotated[str, typer.Option(help="The privacy budget, exact: 1, 0.7 or 2/3.")]
Delta = Annotated[
    str, typer.Option(help="Without --domain: the chance that a unit's own item is shown.")
]
TopKMethod = Annotated[
    str | None,
    typer.Option(
        help="best, the default: the way with the least error; or joint (a set), ranked (with "
        "gaps), paper, histogram (with --max-items)."
    ),
]
Method = Annotated[
    str | None, typer.Option(help="best, the default, paper, or histogram (with --max-items).")
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Pay for fresh noise, though the ledger has the answer.")
]
Most = Annotated[
    int | None,
    typer.Option("-k", "--k", help="How many items to find; with --max-items all, unless said."),
]


class Rows(NamedTuple):
    """The table, whose rows they are, and which of them count."""

    file: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="Parquet, CSV, JSON lines or FIMI .dat, also .gz; or "
            "postgresql://…/db?table=sales.",
        ),
    ]
    unit: Annotated[
        str | None, typer.Option(help='The column that says whose row it is; or "row", or "line".')
    ] = None
    where: Annotated[
        str | None,
        typer.Option(
            help="Which rows count: \"country = 'CH' and amount >= 10\".", rich_help_panel=_ROWS
        ),
    ] = None
    neighbours: Neighbours = "add-or-remove"


class Items(NamedTuple):
    """What is counted or added up, and how much of a unit counts."""

    item: Annotated[str | None, typer.Option(help="The column to count.")] = None
    domain: Annotated[
        str | None,
        typer.Option(
            help="The public items: items.txt, table.parquet:column, 0..16469; in a database also "
            "table:column. Without it: whatever there is, with --delta and --max-items."
        ),
    ] = None
    max_items: Annotated[
        int | None,
        typer.Option(
            help="The most items a unit counts for; others are dropped.", rich_help_panel=_ROWS
        ),
    ] = None
    by: Annotated[
        str | None,
        typer.Option(help="A column of groups: an answer for each.", rich_help_panel=_ROWS),
    ] = None
    groups: Annotated[
        str | None,
        typer.Option(help="The public groups: CH,DE,FR or groups.txt.", rich_help_panel=_ROWS),
    ] = None
    max_groups: Annotated[
        int | None,
        typer.Option(
            help="The most groups a unit counts in, others are dropped; --by needs it.",
            rich_help_panel=_ROWS,
        ),
    ] = None
    sum: Annotated[
        str | None,
        typer.Option(help="A column of amounts to add up.", rich_help_panel=_ROWS),
    ] = None
    at_most: Annotated[
        str | None,
        typer.Option(help="The most a unit adds to an item.", rich_help_panel=_ROWS),
    ] = None
    at_least: Annotated[str, typer.Option(help="The least, 0 or below.", rich_help_panel=_ROWS)] = (
        "0"
    )
    step: Annotated[
        str, typer.Option(help="What amounts are rounded to.", rich_help_panel=_ROWS)
    ] = "0.01"


class Payer(NamedTuple):
    """Whose budget pays: a data set in a ledger, or nobody's."""

    ledger: Annotated[
        str | None,
        typer.Option("--ledger", help="The ledger to charge.", rich_help_panel=_PAYING),
    ] = None
    dataset: Annotated[
        str | None, typer.Option(help="The data set in the ledger.", rich_help_panel=_PAYING)
    ] = None
    reason: Annotated[
        str, typer.Option(help="Why it is asked; the ledger keeps it.", rich_help_panel=_PAYING)
    ] = ""
    key: Annotated[
        str | None,
        typer.Option(
            help="A name for this request: sent twice, it is charged once.",
            rich_help_panel=_PAYING,
        ),
    ] = None
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Pay for fresh noise, though the ledger has the answer.",
            rich_help_panel=_PAYING,
        ),
    ] = False

    def account(self) -> "LedgerAccount | None":
        """What is charged, if anything is."""
        if self.ledger is None and self.dataset is None:
            if self.reason or self.key:
                raise ValueError("--reason and --key are for a ledger: give --ledger and --dataset")
            return None
        if self.ledger is None or self.dataset is None:
            raise ValueError("--ledger and --dataset must be given together")
        from dpgap.budget.ledger import Ledger

        return Ledger(self.ledger).account(self.dataset).of(reason=self.reason, key=self.key)


class Output(NamedTuple):
    """What is printed, and which files are written."""

    json: AsJSON = False
    csv: CSVFile = None
    html: HTMLFile = None
    force: Force = False


@with_groups
def top_k(
    rows: Rows,
    k: K,
    epsilon: Epsilon,
    items: Items,
    payer: Payer,
    output: Output,
    delta: Delta = "0",
    method: TopKMethod = None,
    split: Split = None,
) -> None:
    """Find the k items with the most units or the largest sums, with estimates and error bars."""
    ask = {"k": k, "epsilon": epsilon, "delta": delta, "method": method, "split": split}
    _release("top_k", _counting(rows, items, delta), ask, payer, output)


@with_groups
def above(
    rows: Rows,
    threshold: Annotated[str, typer.Option(help="How many units an item must have, or which sum.")],
    epsilon: Epsilon,
    items: Items,
    payer: Payer,
    output: Output,
    k: Most = None,
    delta: Delta = "0",
    adaptive: Adaptive = True,
    method: Method = None,
    split: Split = None,
) -> None:
    """Find items above a threshold, asked in a fresh random order, with estimates and gaps."""
    ask = {"k": k, "epsilon": epsilon, "delta": delta, "method": method, "split": split}
    ask |= {"threshold": threshold, "adaptive": adaptive}
    _release("above", _counting(rows, items, delta), ask, payer, output)


@with_groups
def count(rows: Rows, epsilon: Epsilon, payer: Payer, output: Output) -> None:
    """Count the units of a table, with an interval."""
    _release("count", _stated(rows), {"epsilon": epsilon}, payer, output)


def _counting(rows: Rows, items: Items, delta: str) -> dict[str, Any]:
    """What is said of counting, as `dpgap.counts` takes it."""
    if items.domain is None and (items.max_items is None or delta == "0"):
        raise ValueError(_NO_DOMAIN)
    counting = _stated(rows) | _stated(items)
    if items.groups is not None:
        counting["groups"] = _groups(items.groups)
    return counting


def _stated(options: Rows | Items) -> dict[str, Any]:
    """The options that were given; the table is one of them."""
    given = {
        name: each
        for name, each in options._asdict().items()
        if each != options._field_defaults.get(name)
    }
    return {"table" if name == "file" else name: each for name, each in given.items()}


def _groups(stated: str) -> list[Any]:
    """Groups from a list in one word, or from a file."""
    if "," in stated or not Path(stated).is_file():
        return [group.strip() for group in stated.split(",")]
    from dpgap.data.domain import read_domain

    return list(read_domain(stated).labels)


def _release(
    function: str, table: dict[str, Any], ask: dict[str, Any], payer: Payer, output: Output
) -> None:
    """Charge and release; then show what was paid for, whatever becomes of the files."""
    wanted = Wanted(output.csv, output.html, output.force)
    domain = table.get("domain") or ""
    files = wanted.files(lambda: input_files(table["table"], domain, payer.ledger))
    from dpgap.data.counts import counts

    # While the engine counts, Python loads the rest.
    with notes(), ThreadPoolExecutor(1) as background, _working("Counting …"):
        counting = None if function == "count" else background.submit(counts, **table)
        account = payer.account()
        from dpgap.cli.delivery import deliver, renders
        from dpgap.pipelines import tables
        from dpgap.releases.text import shown, to_json

        ask = {"account": account, "fresh": payer.fresh, **ask}
        ask |= table if counting is None else {"table": counting.result()}
    with notes():
        release: Answered = getattr(tables, function)(**ask)
    remaining = release.epsilon - release.spent if account is None else _left(account)
    whose = _NO_LEDGER if account is None else f"for you in data set {account.dataset!r}"

    def as_object() -> str:
        return to_json(release, remaining)

    render = renders(release)
    deliver(
        [(file, render[kind]) for kind, file in files.items()],
        shown=as_object if output.json else lambda: shown(release, remaining, whose),
        complete=as_object,
    )


def _left(account: "LedgerAccount") -> "Fraction | None":
    """What is left for this person. The ledger may be out of reach by now; the release is not."""
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

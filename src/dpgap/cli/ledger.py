"""`dpgap ledger`: open a budget, look at it, check that nobody tampered with it."""

import json as json_format
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpgap.cli.errors import say_error
from dpgap.cli.options import AsJSON
from dpgap.releases.printable import printable

if TYPE_CHECKING:
    from dpgap.budget.entries import Entry

ledger_app = typer.Typer(
    no_args_is_help=True, help="Budgets that last: create, show and verify a ledger."
)

URL = Annotated[
    str, typer.Option("--ledger", help="sqlite:///budget.db or postgresql://user@host/name.")
]
Dataset = Annotated[str, typer.Option(help="The data set whose budget it is.")]
AnyDataset = Annotated[str | None, typer.Option(help="Only this data set; else all.")]

_BALANCE = ("total", "spent", "reserved", "remaining")


@ledger_app.command()
def create(
    ledger: URL,
    dataset: Dataset,
    epsilon: Annotated[str, typer.Option(help="The total for all releases, exact.")],
    json: AsJSON = False,
) -> None:
    """Open a budget for a data set that has none yet."""
    from dpgap.budget.ledger import Ledger

    balance = Ledger(ledger).create(dataset, epsilon).balance
    if json:
        typer.echo(json_format.dumps(_summary([balance]), indent=2))
    else:
        typer.echo(_words([balance]))


@ledger_app.command()
def show(ledger: URL, dataset: AnyDataset = None, json: AsJSON = False) -> None:
    """Print totals, entries and the head of the chain, which is worth noting elsewhere."""
    from dpgap.budget.ledger import Ledger

    store = Ledger(ledger)
    names = store.datasets() if dataset is None else [store.account(dataset).dataset]
    books = [store.entries(name) for name in names]
    if not json:
        typer.echo("\n\n".join(map(_words, books)) or "The ledger has no data sets yet.")
    elif dataset is None:
        typer.echo(json_format.dumps({"datasets": [_summary(book) for book in books]}, indent=2))
    else:
        typer.echo(json_format.dumps(_summary(books[0]), indent=2))


@ledger_app.command()
def verify(
    ledger: URL,
    dataset: AnyDataset = None,
    head: Annotated[
        str | None, typer.Option(help="A head noted earlier, which must still be in the chain.")
    ] = None,
    json: AsJSON = False,
) -> None:
    """Check every entry; exit code 1 if any was edited, removed or put in."""
    from dpgap.budget.ledger import Ledger

    flaws = Ledger(ledger).verify(dataset, head=head)
    if json:
        typer.echo(json_format.dumps({"intact": not flaws, "flaws": flaws}, indent=2))
    elif flaws:
        for flaw in flaws:
            say_error(flaw)
    else:
        typer.echo("The ledger is intact.")
    if flaws:
        raise typer.Exit(1)


def _summary(book: "list[Entry]") -> dict[str, Any]:
    from dpgap.budget.amounts import readable_text

    last = book[-1]
    shown = ("number", "kind", "about", "epsilon", "purpose", "who", "at", "hash")
    return {
        "dataset": last.dataset,
        **{name: readable_text(getattr(last, name)) for name in _BALANCE},
        "head": last.hash,
        "entries": [
            {name: getattr(entry, name) for name in shown}
            | {"epsilon": readable_text(entry.epsilon)}
            for entry in book
        ],
    }


def _words(book: "list[Entry]") -> str:
    from dpgap.exact.parameters import readable

    last = book[-1]
    notes = {"reserved": "   (under way or broken off; counts as spent)"}
    lines = [
        f"data set   {last.dataset}",
        *(f"{it:<9}  {readable(getattr(last, it))}{notes.get(it, '')}" for it in _BALANCE),
        f"head       {last.hash}",
        "",
        *(_line(entry) for entry in book),
    ]
    return "\n".join(map(printable, lines))


def _line(entry: "Entry") -> str:
    from dpgap.exact.parameters import readable

    about = "" if entry.about is None else f" of {entry.about}"
    what = f"{entry.kind}{about} ε = {readable(entry.epsilon)}"
    return f"{entry.number:>5}  {entry.at[:19]}  {entry.who}  {what}  {entry.purpose}".rstrip()

"""`dpgap ledger`: open a budget, look at it, change it, check that nobody tampered with it."""

import csv
import io
import json as json_format
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpgap.cli.commands import AsJSON, PageTitle, say_error
from dpgap.cli.release import OutputFile, input_files
from dpgap.printable import in_a_cell, printable

if TYPE_CHECKING:
    from dpgap.budget.entries import Entry
    from dpgap.budget.ledger import Ledger
    from dpgap.budget.steward import Steward


# --------------------------------------------------------------------------------------------------
# A ledger for a spreadsheet.


_TEXTS = ("person", "actor", "kind", "reservation", "purpose", "reason", "key", "who")
_NUMBERS = ("epsilon", "delta", "total", "spent", "reserved", "remaining")


def to_csv(books: "list[list[Entry]]") -> str:
    """Every entry as a row: decimals for people, and the exact charge. No name is a formula."""
    from dpgap.budget.account import readable_text
    from dpgap.exact.parameters import approximately

    out = io.StringIO()
    writer = csv.writer(out)
    columns = ("dataset", "number", "at", *_TEXTS, *_NUMBERS, "exact epsilon", "hash")
    writer.writerow(columns)
    for entry in (each for book in books for each in book):
        row = [in_a_cell(entry.dataset), entry.number, entry.at]
        row += [in_a_cell(getattr(entry, name)) for name in _TEXTS]
        row += [approximately(getattr(entry, name), 12) for name in _NUMBERS]
        writer.writerow([*row, in_a_cell(readable_text(entry.epsilon)), entry.hash])
    return out.getvalue()


# --------------------------------------------------------------------------------------------------


ledger_app = typer.Typer(
    no_args_is_help=True,
    help="Budgets that last: create, show, change and verify a ledger.",
)

URL = Annotated[
    str, typer.Option("--ledger", help="sqlite:///budget.db or postgresql://user@host/name.")
]
Dataset = Annotated[str, typer.Option(help="The data set whose budget it is.")]
AnyDataset = Annotated[str | None, typer.Option(help="Only this data set; else all.")]
Reason = Annotated[str, typer.Option(help="Why; it is kept in the ledger.")]
Total = Annotated[str, typer.Option(help="The total for all releases, exact.")]
Delta = Annotated[str | None, typer.Option(help="The total δ for all releases, exact.")]
Table = Annotated[
    str | None, typer.Option(help="The table that the budget is for: a file or an address.")
]
Unit = Annotated[str | None, typer.Option(help="The column that says whose row it is.")]
Relation = Annotated[
    str | None,
    typer.Option("--neighbours", help="How neighbouring tables differ: add-or-remove, or replace."),
]
Beside = Annotated[
    str | None, typer.Option(help="The data set whose budget is for the same table and unit.")
]
Month = Annotated[str | None, typer.Option(help="Only this month, such as 2026-10, in UTC.")]
From = Annotated[str | None, typer.Option("--from", help="Only from this day on: 2026-10-01.")]
To = Annotated[str | None, typer.Option("--to", help="Only up to this day, which counts.")]
Out = Annotated[Path | None, typer.Option("--out", help="Write to this file; else print.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]

_BALANCE = ("total", "spent", "reserved", "remaining")
_SHOWN = ("number", "kind", "reservation", "epsilon", "delta", "purpose", "reason")
_PEOPLE = ("person", "actor", "who", "at", "key", "hash")
_WITHOUT_AMOUNT = ("close", "bind", "migrate")
_CHARGES = ("reserve", "settle", "write-off")
_FEW = 10
_LONGEST = 60


@ledger_app.command()
def create(
    ledger: URL,
    dataset: Dataset,
    epsilon: Total,
    delta: Delta = None,
    table: Table = None,
    unit: Unit = None,
    neighbours: Relation = None,
    beside: Beside = None,
    reason: Reason = "",
    json: AsJSON = False,
) -> None:
    """Open a budget for a data set that has none yet, and state the table that it is for."""
    from dpgap.budget.ledger import Ledger

    facts = _facts(table, unit, neighbours) | {"beside": beside}
    account = Ledger(ledger).create(dataset, epsilon, delta=delta or 0, reason=reason, **facts)
    _tell(account.balance, json)


@ledger_app.command()
def show(
    ledger: URL,
    dataset: AnyDataset = None,
    all_entries: Annotated[bool, typer.Option("--all", help="Every entry, in full.")] = False,
    json: AsJSON = False,
) -> None:
    """Print totals, the last entries and the head of the chain, which is worth noting elsewhere."""
    from dpgap.budget.ledger import Ledger

    store = Ledger(ledger)
    names = store.datasets() if dataset is None else [store.steward(dataset).dataset]
    few = None if all_entries or json else _FEW
    books = [store.entries(name, last=few) for name in names]
    balances = [
        store.steward(book[-1].dataset).balance_of("").last if book[-1].renewal else book[-1]
        for book in books
    ]
    if not json:
        texts = (
            _words(book, _purpose_of_budget(store, book), few, _people(store, now), now)
            for book, now in zip(books, balances, strict=True)
        )
        typer.echo("\n\n".join(texts) or "The ledger has no data sets yet.")
        return
    shown = [
        _summary(book, now)
        | {"people": [*map(_person, store.people(name))], "beside": store.beside(name)}
        for name, book, now in zip(names, books, balances, strict=True)
    ]
    typer.echo(json_format.dumps({"datasets": shown} if dataset is None else shown[0], indent=2))


@ledger_app.command()
def verify(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="What `export` wrote; else --ledger."),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option("--ledger", help="The ledger, if not a file.")
    ] = None,
    dataset: AnyDataset = None,
    head: Annotated[
        str | None, typer.Option(help="A head noted earlier, which must still be in the chain.")
    ] = None,
    json: AsJSON = False,
) -> None:
    """Check every entry and document; exit code 1 if any was edited, removed or put in."""
    from dpgap.budget.ledger import Ledger, verify_export

    notes: list[str] = []
    if (file is None) == (ledger is None) or (file is not None and dataset is not None):
        raise ValueError("state either FILE or --ledger; --dataset goes with --ledger only")
    if file is not None:
        flaws, notes = verify_export(_text_of(file), head=head)
    else:
        flaws = Ledger(ledger or "").verify(dataset, head=head)
    if json:
        said = {"intact": not flaws, "flaws": flaws} | ({"unchecked": notes} if file else {})
        typer.echo(json_format.dumps(said, indent=2))
    elif flaws:
        for flaw in flaws:
            say_error(flaw)
    else:
        typer.echo("The ledger is intact." if file is None else "Everything in the file is intact.")
        for note in notes:
            typer.echo(printable(note))
    if flaws:
        raise typer.Exit(1)


@ledger_app.command()
def migrate(ledger: URL) -> None:
    """Give a ledger of an older layout the third, for good; heads noted earlier stay valid."""
    from dpgap.budget.ledger import Ledger

    migrated = Ledger(ledger).migrate()
    if not migrated:
        typer.echo("The ledger has the third layout already.")
    for name in migrated:
        typer.echo(printable(f"data set {name!r} has the third layout now"))


@ledger_app.command("raise")
def raise_total(
    ledger: URL,
    dataset: Dataset,
    epsilon: Total,
    reason: Reason,
    delta: Delta = None,
    json: AsJSON = False,
) -> None:
    """Grant a larger total."""
    _tell(_steward(ledger, dataset).raise_to(epsilon, delta=delta, reason=reason), json)


@ledger_app.command()
def lower(
    ledger: URL,
    dataset: Dataset,
    epsilon: Total,
    reason: Reason,
    delta: Delta = None,
    json: AsJSON = False,
) -> None:
    """Grant a smaller total, though never less than is spent and reserved."""
    _tell(_steward(ledger, dataset).lower_to(epsilon, delta=delta, reason=reason), json)


@ledger_app.command()
def close(ledger: URL, dataset: Dataset, reason: Reason, json: AsJSON = False) -> None:
    """Let nothing more be charged, for good."""
    _tell(_steward(ledger, dataset).close(reason=reason), json)


@ledger_app.command()
def allow(
    ledger: URL,
    dataset: Dataset,
    person: Annotated[str, typer.Option(help="Whose allowance it is.")],
    epsilon: Annotated[str, typer.Option(help="The most that this person may spend in all.")],
    delta: Annotated[
        str | None, typer.Option(help="The most δ. Without it δ stays, or is the same share as ε.")
    ] = None,
    reason: Reason = "",
    json: AsJSON = False,
) -> None:
    """Say how much of the total one person may spend."""
    entry = _steward(ledger, dataset).allow(person, epsilon, delta=delta, reason=reason)
    _tell(entry, json)


@ledger_app.command()
def renew(
    ledger: URL,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The data set, if not --dataset.")
    ] = None,
    dataset: AnyDataset = None,
    every: Annotated[str | None, typer.Option(help="day, week or month, in UTC.")] = None,
    epsilon: Annotated[str, typer.Option(help="What each period may cost, exact.")] = "0",
    carry: Annotated[
        bool, typer.Option("--carry", help="Keep what was left; else it lapses.")
    ] = False,
    off: Annotated[bool, typer.Option("--off", help="Renew the budget no more.")] = False,
    reason: Reason = "",
    json: AsJSON = False,
) -> None:
    """Grant ε anew every day, week or month, at the first charge; δ stays as it is."""
    if (name is None) == (dataset is None):
        raise ValueError("state the data set once: as NAME or as --dataset")
    if off == (every is not None):
        raise ValueError("state --every day, week or month, or --off to stop renewing")
    steward = _steward(ledger, name or dataset or "")
    said = steward.renew(every=every or "never", epsilon=epsilon, carry=carry, reason=reason)
    _tell(said, json)


@ledger_app.command()
def bind(
    ledger: URL,
    dataset: Dataset,
    reason: Reason,
    table: Table = None,
    unit: Unit = None,
    neighbours: Relation = None,
    beside: Beside = None,
    json: AsJSON = False,
) -> None:
    """State the table that a budget is for, instead of what was stated before."""
    facts = _facts(table, unit, neighbours) | {"beside": beside}
    _tell(_steward(ledger, dataset).bind(**facts, reason=reason), json)


@ledger_app.command("write-off")
def write_off(
    ledger: URL,
    dataset: Dataset,
    reason: Reason,
    entry: Annotated[list[int] | None, typer.Option(help="A reservation, by number.")] = None,
    before: Annotated[
        str | None, typer.Option(help="All that were made before a day such as 2026-11-01.")
    ] = None,
) -> None:
    """Count reservations that nobody will settle as spent. Nothing is credited."""
    steward = _steward(ledger, dataset)
    if (entry is None or not entry) == (before is None):
        raise ValueError("state which reservations to write off: either --entry or --before")
    numbers = entry or [stale.number for stale in steward.stale(before)]
    for number in numbers:
        written = steward.write_off(number, reason=reason)
        typer.echo(f"reservation {number} is written off: {written.charge} counts as spent")
    if not numbers:
        typer.echo("There is no such reservation.")


@ledger_app.command()
def archive(
    ledger: URL,
    dataset: Dataset,
    entry: Annotated[int | None, typer.Option(help="Print the document of this entry.")] = None,
) -> None:
    """List the releases that were paid for, or print one of them."""
    from dpgap.budget.ledger import Ledger
    from dpgap.releases.document import handed_out

    account = Ledger(ledger).account(dataset)
    if entry is not None:
        typer.echo(handed_out(account.document(entry)))
        return
    book = {each.number: each for each in account.ledger.entries(dataset)}
    kept = [book[each.reservation or 0] for each in account.archive()]
    lines = [_line(each, _LONGEST) for each in kept]
    typer.echo("\n".join(map(printable, lines)) or "Nothing is archived yet.")


@ledger_app.command()
def export(
    ledger: URL,
    dataset: AnyDataset = None,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV; else as JSON, with hashes.")] = False,
    documents: Annotated[
        bool, typer.Option("--documents", help="Also what was released, in the JSON.")
    ] = False,
    month: Month = None,
    start: From = None,
    end: To = None,
    out: Out = None,
    force: Force = False,
) -> None:
    """Write entries as JSON, which `verify` reads without the ledger, or as CSV."""
    from dpgap.budget.ledger import Ledger

    store, (days, _) = Ledger(ledger), _days(month, start, end)
    if csv and documents:
        raise ValueError("--documents goes into JSON: leave out --csv")
    if csv:
        names = store.datasets() if dataset is None else [store.steward(dataset).dataset]
        text = to_csv([store.entries(name, **days) for name in names])
    else:
        text = store.export(dataset, documents=documents, **days)
    _write(text, out, ledger, force)


@ledger_app.command()
def page(
    ledger: URL,
    month: Month = None,
    start: From = None,
    end: To = None,
    out: Out = None,
    title: PageTitle = None,
    force: Force = False,
) -> None:
    """Write one HTML page: what was spent, by data set, by person and over time."""
    from dpgap.budget.ledger import Ledger
    from dpgap.releases.ledger_page import ledger_page

    store, (days, when) = Ledger(ledger), _days(month, start, end)
    outlines = [store.outline(name, **days) for name in store.datasets()]
    _write(ledger_page(outlines, when, title), out, ledger, force)


def _days(month: str | None, start: str | None, end: str | None) -> tuple[dict[str, Any], str]:
    """The first day of a range and the first after it, if they are given, and the range in words.

    >>> _days("2026-12", None, None)
    ({'since': '2026-12-01', 'until': '2027-01-01'}, 'in 2026-12')
    >>> _days(None, "2026-10-01", "2026-10-31")
    ({'since': '2026-10-01', 'until': '2026-11-01'}, 'from 2026-10-01 to 2026-10-31')
    """
    if month is not None and (start or end):
        raise ValueError("state either --month or --from and --to, not both")
    try:
        if month is not None:
            first = date.fromisoformat(f"{month}-01")
            after = (first + timedelta(31)).replace(day=1)
            return {"since": first.isoformat(), "until": after.isoformat()}, f"in {month}"
        days = {"since": start and date.fromisoformat(start).isoformat()}
        days["until"] = end and (date.fromisoformat(end) + timedelta(1)).isoformat()
    except ValueError:
        raise ValueError(
            "--month must be a month such as 2026-10, --from and --to days such as 2026-10-01"
        ) from None
    if start and end and start > end:
        raise ValueError("--from must not be later than --to")
    words = (f"from {start}" if start else "", f"to {end}" if end else "")
    return days, " ".join(filter(None, words))


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        raise ValueError(f"the file {str(file)!r} cannot be read as UTF-8 text") from None


def _steward(ledger: str, dataset: str) -> "Steward":
    from dpgap.budget.ledger import Ledger

    return Ledger(ledger).steward(dataset)


def _facts(table: str | None, unit: str | None, neighbours: str | None) -> dict[str, Any]:
    """What is stated of a table; its address and columns are looked up."""
    stated: dict[str, Any] = {"table": table, "unit": unit, "neighbours": neighbours}
    if table is None:
        return stated
    from dpgap.data.counts import table_facts
    from dpgap.data.sources import require_columns

    address, columns = table_facts(table)
    if columns and unit not in (None, "row", "line"):
        require_columns([name for name, _ in columns], unit)
    return stated | {"table": address, "columns": columns}


def _write(text: str, out: Path | None, ledger: str, force: bool) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return

    inputs = [each for each in input_files("", "", ledger) if each.what == "the ledger"]
    output = OutputFile("--out", out, inputs, force)
    output.require_writable()
    output.write(text)
    typer.echo(printable(f"{out} is written"))


def _tell(last: "Entry", json: bool) -> None:
    if json:
        typer.echo(json_format.dumps(_summary([last], last), indent=2))
    else:
        typer.echo(_words([last], [], None, [], last))


def _summary(book: "list[Entry]", now: "Entry") -> dict[str, Any]:
    """For programs: the last entries, and where the budget stands now."""
    from dpgap.budget.account import readable_text

    exact = ("epsilon", "delta")
    return {
        "dataset": now.dataset,
        **{name: readable_text(getattr(now, name)) for name in _BALANCE},
        "delta_total": readable_text(now.granted.delta),
        "delta_remaining": readable_text(now.left.delta),
        "closed": now.closed,
        **({} if now.renewal is None else {"renewal": now.renewal.exact()}),
        "head": book[-1].hash,
        "entries": [
            {name: getattr(entry, name) for name in (*_SHOWN, *_PEOPLE)}
            | {name: readable_text(getattr(entry, name)) for name in exact}
            | {"extra": entry.extra}
            for entry in book
        ],
    }


def _person(mine: "Entry") -> dict[str, Any]:
    """What a person has spent and may spend, exact; nobody limits whoever has no allowance."""
    spent, most = mine.person_spent.exact(), mine.allowance and mine.allowance.exact()
    return {"person": mine.person, "spent": spent, "allowance": most}


def _purpose_of_budget(store: Any, book: "list[Entry]") -> list[str]:
    """What the budget is for, in one line."""
    from dpgap.budget.ledger import LedgerAccount
    from dpgap.budget.requests import fingerprint

    if book[-1].bound is None:
        return []
    facts = LedgerAccount(store, book[-1].dataset).facts or {}
    words = [f"{name} {facts[name]}" for name in ("table", "unit", "neighbours") if facts.get(name)]
    columns = fingerprint(facts)
    lines = [f"for        {', '.join(words + ([f'columns {columns}'] if columns else []))}"]
    if others := store.beside(book[-1].dataset):
        lines.append(f"beside     {', '.join(others)}   (for the same table: their ε add up)")
    return lines


def _people(store: "Ledger", last: "Entry") -> list[str]:
    """What each person has spent and may spend, a line each; also of those who spent nothing."""
    from dpgap.budget.entries import Balance

    lines = []
    for mine in store.people(last.dataset):
        most = "none" if mine.allowance is None else mine.allowance.at_least
        amounts = f"spent or reserved {mine.person_spent}; allowance {most}"
        lines.append(f"  {mine.person}: {amounts}; left {Balance(last, mine).left.at_least}")
    return ["", "people", *lines] if lines else []


def _words(
    book: "list[Entry]", purpose: list[str], few: int | None, people: Sequence[str], now: "Entry"
) -> str:
    """For people: where the budget stands now, and the last entries."""
    from dpgap.exact.parameters import readable_down, readable_up

    renewal, rounded = now.renewal, {"spent": readable_up, "reserved": readable_up}
    notes = {"reserved": "   (under way or broken off; counts as spent)"}
    earlier = book[0].number
    left, total = now.left.delta, now.granted.delta
    lines = [
        f"data set   {now.dataset}{'   (closed)' if now.closed else ''}",
        *purpose,
        *(
            f"{it:<9}  {rounded.get(it, readable_down)(getattr(now, it))}{notes.get(it, '')}"
            for it in _BALANCE
        ),
        *([f"δ left     {readable_down(left)} of {readable_down(total)}"] if total else []),
        *([f"renewed    {renewal}; next on {renewal.next}"] if renewal else []),
        f"head       {book[-1].hash}",
        *people,
        "",
        *([f"  …  {earlier} earlier entries: --all shows them"] if few and earlier else []),
        *(_line(entry, _LONGEST if few else None) for entry in book),
    ]
    return "\n".join(map(printable, lines))


def _line(entry: "Entry", longest: int | None) -> str:
    ended = "" if entry.reservation is None else f" of {entry.reservation}"
    charged = entry.charge if entry.kind in _CHARGES else entry.charge.at_least
    amount = "" if entry.kind in _WITHOUT_AMOUNT else f" {charged}"
    concerned = f" for {entry.person}" if entry.kind == "allow" else ""
    reason = f" ({entry.reason})" if entry.reason else ""
    period = f"from {entry.period.since}" if entry.kind == "new-period" and entry.period else ""
    if entry.kind == "renew":
        amount = f" {entry.period}"
    said = f"{entry.purpose}{period}{reason}".strip()
    if longest is not None and len(said) > longest:
        said = said[: longest - 1] + "…"
    concerns_another = entry.kind in ("allow", "write-off")  # older entries name only them
    who = entry.actor or ("" if concerns_another else entry.person) or entry.who
    at = (entry.at[:16] if longest else entry.at[:19]).replace("T", " ")
    return (
        f"{entry.number:>5}  {at}  {who}  {entry.kind}{ended}{concerned}{amount}  {said}".rstrip()
    )

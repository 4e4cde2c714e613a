"""`dpgap ledger`: open a budget, show it, change it, and check that nobody tampered with it."""

import csv
import io
import json as json_format
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dpgap.cli.commands import JSON, CommandLine, Force, PageTitle, UsageError, option, say_error
from dpgap.cli.release import OutputFile, ledger_files
from dpgap.printable import in_a_cell, printable

if TYPE_CHECKING:
    from dpgap.budget.entries import Entry, Renewal
    from dpgap.budget.ledger import Ledger
    from dpgap.budget.steward import Steward
    from dpgap.budget.store import Period


# --------------------------------------------------------------------------------------------------
# A ledger for a spreadsheet.


_TEXTS = "dataset number at person actor kind reservation purpose reason key who".split()
_NUMBERS = ["epsilon", "delta", "total", "spent", "reserved", "remaining"]


def to_csv(books: "list[list[Entry]]") -> str:
    """CSV with a row for each entry: decimals for people, and the exact charge; no formulas."""
    from dpgap.exact.parameters import approximately

    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(_TEXTS + _NUMBERS + ["exact epsilon", "hash"])
    for entry in chain.from_iterable(books):
        row = [in_a_cell(getattr(entry, name)) for name in _TEXTS]
        for name in _NUMBERS:
            number = getattr(entry, name)
            row.append("" if number is None else approximately(number, 12))
        row.append(in_a_cell(str(entry.epsilon)))
        row.append(entry.hash)
        writer.writerow(row)
    return file.getvalue()


# --------------------------------------------------------------------------------------------------


ledger_app = CommandLine(help="Budgets that last: create, show, change and verify a ledger.")

URL = Annotated[str, "sqlite:///budget.db or postgresql://user@host/name."]
Dataset = Annotated[str, "The data set whose budget it is."]
AnyDataset = Annotated[str | None, "Only this data set; else all."]
Reason = Annotated[str, "Why; it is kept in the ledger."]
Total = Annotated[str, "The total for all releases, exact."]
Delta = Annotated[str | None, "The total δ for all releases, exact."]

_SHOWN = "number kind reservation epsilon delta purpose reason person actor who at key hash".split()
_OPEN = ("number", "at", "person", "purpose", "key")
_FACTS = ("table", "unit", "neighbours")
_COST = ("epsilon", "rho", "delta")
_LIMIT = ("currency", "amount", "delta")
_HEAD = ("dataset", "number", "at", "hash")
_FEW = 10
_LONGEST = 60


def _opened(url: str) -> "Ledger":
    from dpgap.budget.ledger import Ledger  # it loads slowly

    return Ledger(url)


class Act(NamedTuple):
    """The options of a steward's action: the budget, and the reason."""

    ledger: URL
    dataset: Dataset
    reason: Reason = ""
    json: JSON = False

    @property
    def steward(self) -> "Steward":
        """The steward who acts."""
        return _opened(self.ledger).steward(self.dataset)

    def tell(self, last: "Entry") -> None:
        """Print the entry that was written, and the balance of the budget."""
        if self.json:
            typer.echo(json_format.dumps(_summary([last], last), indent=2))
        else:
            typer.echo(_budget_in_words([last], last))


class Facts(NamedTuple):
    """The table that a budget is for."""

    table: Annotated[str | None, "The table that the budget is for: a file or an address."] = None
    unit: Annotated[str | None, "The column with the unit of each row."] = None
    neighbours: Annotated[str | None, "How neighbours differ: add-or-remove, or replace."] = None
    beside: Annotated[str | None, "The data set with a budget for the same table and unit."] = None

    def arguments(self) -> dict[str, Any]:
        """The facts as a budget states them, with the address and the columns of the table."""
        if self.table is None:
            return self._asdict()
        from dpgap.data.counts import table_facts
        from dpgap.data.sources import require_columns

        address, columns = table_facts(self.table)
        if columns and self.unit not in (None, "row", "line"):
            require_columns([name for name, _ in columns], self.unit)
        return self._asdict() | {"table": address, "columns": columns}


class Written(NamedTuple):
    """The days of an export, and its file."""

    month: Annotated[str | None, "Only this month, such as 2026-10, in UTC."] = None
    start: Annotated[str | None, option("Only from this day on: 2026-10-01.", "--from")] = None
    end: Annotated[str | None, option("Only up to and including this day.", "--to")] = None
    out: Annotated[Path | None, "Write to this file; else print."] = None
    force: Force = False

    def days(self) -> tuple[dict[str, Any], str]:
        """The first day and the first day after the range, if they are stated; the range in words.

        >>> Written("2026-12").days()
        ({'since': '2026-12-01', 'until': '2027-01-01'}, 'in 2026-12')
        >>> Written(None, "2026-10-01", "2026-10-31").days()
        ({'since': '2026-10-01', 'until': '2026-11-01'}, 'from 2026-10-01 to 2026-10-31')
        """
        from dpgap.budget.requests import require_day

        month, start, end = self[:3]
        if month is not None and (start or end):
            raise ValueError("state either --month or --from and --to, not both")
        ends = {"in": month, "from": start, "to": end}
        phrase = " ".join(f"{preposition} {day}" for preposition, day in ends.items() if day)
        if month is not None:
            try:
                first = date.fromisoformat(f"{month}-01")
                until = (first + timedelta(31)).replace(day=1)
            except (ValueError, OverflowError):
                raise ValueError(f"month must be a month such as 2026-10, not {month!r}") from None
            return {"since": str(first), "until": str(until)}, phrase
        since = start and require_day("start", start)
        last = end and date.fromisoformat(require_day("end", end))
        if since and last and since > str(last):
            raise ValueError("--from must not be later than --to")
        day_after = last and str(min(last, date(9999, 12, 30)) + timedelta(1))
        return {"since": since, "until": day_after}, phrase

    def write(self, text: str, ledger: str) -> None:
        """Write the text to the file, which is not the ledger; or print it."""
        if self.out is None:
            typer.echo(text, nl=False)
            return
        output = OutputFile("--out", self.out, ledger_files(ledger), self.force)
        output.require_writable()
        try:
            output.write(text)
        except OSError as error:  # name the file, though a temporary one may be meant
            raise OSError(error.errno, error.strerror, str(self.out)) from None
        typer.echo(printable(f"{self.out} is written"))


@ledger_app.add
def create(act: Act, epsilon: Total, facts: Facts, delta: Delta = None) -> None:
    """Open a budget for a data set that has none yet, and state the table that it is for."""
    arguments = facts.arguments()
    account = _opened(act.ledger).create(
        act.dataset, epsilon, delta=delta or 0, reason=act.reason, **arguments
    )
    act.tell(account.balance)


@ledger_app.add
def show(
    ledger: URL,
    dataset: AnyDataset = None,
    all: Annotated[bool, "Every entry, in full."] = False,
    json: JSON = False,
) -> None:
    """Print open reservations, totals, the last entries, and the head: note it elsewhere."""
    store = _opened(ledger)
    names = store.datasets() if dataset is None else [dataset]
    limit = None if all or json else _FEW
    texts = []
    summaries = []
    for steward in list(map(store.steward, names)):
        book = store.entries(steward.dataset, last=limit)
        balance = steward.balance_of("").last
        if json:
            summaries.append(_summary(book, balance) | _details(steward))
        else:
            texts.append(_budget_in_words(book, balance, limit, steward))
    if not json:
        typer.echo("\n\n".join(texts) or "The ledger has no data sets yet.")
    elif dataset is None:
        typer.echo(json_format.dumps({"datasets": summaries}, indent=2))
    else:
        typer.echo(json_format.dumps(summaries[0], indent=2))


@ledger_app.add
def verify(
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="A file that `export` wrote, instead of --ledger."),
    ] = None,
    ledger: Annotated[str | None, "The ledger, if not a file."] = None,
    dataset: AnyDataset = None,
    head: Annotated[
        list[str] | None, "A head noted earlier, still in the chain; may be repeated."
    ] = None,
    json: JSON = False,
) -> None:
    """Check every entry and document; exit code 1 if any was edited, removed or inserted."""
    from dpgap.budget.entries import UnreadableEntry, is_head
    from dpgap.budget.ledger import verify_export

    if (file is None) == (ledger is None) or (file is not None and dataset is not None):
        raise ValueError("state either FILE or --ledger; --dataset goes with --ledger only")
    noted = [text.lower() for text in head or ()]
    if not all(map(is_head, noted)):
        raise UsageError("a head has 64 hexadecimal digits")
    last: list[Entry] = []
    if file is None:
        store = _opened(ledger or "")
        with suppress(UnreadableEntry):  # this is a flaw that is found below
            last = store.heads(dataset)
        flaws = store.verify(dataset, head=noted)
        notes = list(map(_intact, last))
    else:
        try:
            flaws, notes = verify_export(_export_in(file), head=noted)
        except OSError:
            raise UsageError(f"there is no file {file!r} that can be read") from None
        except ValueError as error:
            raise UsageError(f"{file} cannot be verified: {error}") from None
    if json:
        report: dict[str, Any] = {"intact": not flaws, "flaws": flaws}
        if file is None:
            report["heads"] = [_values(entry, _HEAD) for entry in last]
        else:
            report["unchecked"] = notes
        typer.echo(json_format.dumps(report, indent=2))
    elif not flaws:
        if file is not None:
            notes.insert(0, "Everything in the file is intact.")
        elif not last:
            notes.append("The ledger has no data sets yet.")
        typer.echo("\n".join(map(printable, notes)))
    if not json:
        for flaw in flaws:
            say_error(flaw)
    if flaws:
        raise typer.Exit(1)


def _intact(last: "Entry") -> str:
    """Up to which entry a book is intact."""
    at = last.at[:16].replace("T", " ")
    return (
        f"{last.dataset}: intact up to entry {last.number} of {at} UTC; later entries would not be "
        "missed"
    )


@ledger_app.add
def heads(ledger: URL, dataset: AnyDataset = None) -> None:
    """Print the heads of all data sets in one line, to note elsewhere, as options of `verify`."""
    typer.echo(" ".join(f"--head {last.hash}" for last in _opened(ledger).heads(dataset)))


@partial(ledger_app.add, needed="reason")
def accept(
    act: Act,
    head: Annotated[list[str], "The head of the entries that are lost; only one."],
    epsilon: Annotated[str, "The most ε that they spent, exact."],
    delta: Annotated[str, "The most δ that they spent, exact."] = "0",
) -> None:
    """Go on with a ledger that was put back: what is lost with later entries counts as spent."""
    if len(head) > 1:
        raise ValueError(
            "--head must be stated once: the one that you noted for this data set. Accept each "
            "data set by itself"
        )
    (lost,) = head
    act.tell(act.steward.accept(lost.lower(), epsilon, delta=delta, reason=act.reason))


def _export_in(file: str) -> str:
    """The text of a file that should be an export; if it is something else, an error says what."""
    if "://" in file:  # it may hold a password
        raise UsageError("FILE is an address and no file: state it as --ledger")
    content = Path(file).read_bytes()
    if content.startswith(b"SQLite format 3"):
        raise ValueError(f"it is a database: use --ledger {file} if it is a ledger")
    if b'"dpgap release"' in content[:10_000] and b'"dpgap": "ledger"' not in content[:100]:
        raise ValueError("it is a release document: `dpgap show` reads it")
    if content.startswith(b"dataset,number,"):
        raise ValueError("only the JSON export can be verified, not the CSV")
    return content.decode(errors="replace")  # an export is ASCII; other bytes mean damage


@partial(ledger_app.add, needed="reason", name="raise")
def raise_total(act: Act, epsilon: Total, delta: Delta = None) -> None:
    """Grant a larger total."""
    act.tell(act.steward.raise_to(epsilon, delta=delta, reason=act.reason))


@partial(ledger_app.add, needed="reason")
def lower(act: Act, epsilon: Total, delta: Delta = None) -> None:
    """Grant a smaller total, but never less than is spent and reserved."""
    act.tell(act.steward.lower_to(epsilon, delta=delta, reason=act.reason))


@partial(ledger_app.add, needed="reason")
def close(act: Act) -> None:
    """End a budget for ever: nothing more can be charged."""
    act.tell(act.steward.close(reason=act.reason))


@ledger_app.add
def allow(
    act: Act,
    person: Annotated[str, "Whose allowance it is."],
    epsilon: Annotated[str, "The most that this person may spend in all."],
    delta: Annotated[str | None, "The most δ. Else: unchanged, or the same share as ε."] = None,
) -> None:
    """Set how much of the total one person may spend."""
    people = {entry.person for entry in _opened(act.ledger).people(act.dataset)}
    act.tell(act.steward.allow(person, epsilon, delta=delta, reason=act.reason))
    if person not in people:
        say_error(f"note: nobody called {person!r} has asked yet")


@partial(ledger_app.add, needed="reason")
def bind(
    act: Act, facts: Facts, unbind: Annotated[bool, "Drop facts that are not stated again."] = False
) -> None:
    """State which table a budget is for. This replaces what was stated before."""
    arguments = facts.arguments()
    bound = _opened(act.ledger).account(act.dataset).facts or {}
    options = []
    for name in _FACTS:
        is_left_out = arguments[name] is None and bound.get(name)
        if is_left_out and bound[name] != "add-or-remove":
            options.append(f"--{name} {bound[name]}")
    lost = ", ".join(options)
    if lost and not unbind:
        raise ValueError(f"the budget is for {lost}: state it again, or drop it with --unbind")
    act.tell(act.steward.bind(**arguments, reason=act.reason))
    if lost:
        say_error(f"note: the budget is no longer for {lost} only: it pays for others, too")


@ledger_app.add
def renew(
    ledger: URL,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The data set, if not --dataset.")
    ] = None,
    dataset: Annotated[str | None, "The data set whose budget it is, if not NAME."] = None,
    every: Annotated[str | None, "day, week or month, in UTC."] = None,
    epsilon: Annotated[str, "What each period may cost, exact."] = "0",
    carry: Annotated[bool, "Keep unspent ε; otherwise it lapses."] = False,
    off: Annotated[bool, "Stop the renewal."] = False,
    reason: Reason = "",
    json: JSON = False,
) -> None:
    """Grant ε anew every day, week or month, at the first charge; δ stays as it is."""
    if (name is None) == (dataset is None):
        raise ValueError("state the data set once: as NAME or as --dataset")
    if off == (every is not None) or every not in (None, "day", "week", "month"):
        raise ValueError("state either --every day, week or month, with --epsilon; or --off alone")
    act = Act(ledger, name or dataset or "", reason, json)
    act.tell(act.steward.renew(every=every or "never", epsilon=epsilon, carry=carry, reason=reason))


@partial(ledger_app.add, needed="reason")
def begin_period(act: Act) -> None:
    """Begin the period of today in a renewed budget, after a wrong clock or a long pause."""
    act.tell(act.steward.begin_period(reason=act.reason))


@partial(ledger_app.add, needed="reason")
def write_off(
    ledger: URL,
    dataset: Dataset,
    reason: Reason = "",
    entry: Annotated[list[int] | None, "A reservation, by number."] = None,
    before: Annotated[str | None, "All that were made before a day such as 2026-11-01."] = None,
) -> None:
    """Count reservations that nobody will settle as spent. Nothing is credited."""
    if bool(entry) == (before is not None):
        raise ValueError("state which reservations to write off: either --entry or --before")
    steward = Act(ledger, dataset).steward
    numbers = entry or [stale.number for stale in steward.stale(before)]
    if before is not None and before > str(datetime.now(UTC).date()):
        raise ValueError("before must not be later than today: a day ends at 00:00 UTC")
    for number in numbers:
        written = steward.write_off(number, reason=reason)
        typer.echo(f"reservation {number} is written off: {written.charge} counts as spent")
    if not numbers:
        reservations = [
            f"entry {reservation.number} ({reservation.person}, {reservation.at[:10]}, "
            f"{reservation.charge})"
            for reservation in steward.stale()
        ]
        still_open = ", ".join(reservations) or "none"
        typer.echo(printable(f"None was made before {before}. Open: {still_open}."))


@ledger_app.add
def archive(
    ledger: URL,
    dataset: Dataset,
    entry: Annotated[int | None, "Print the document of this entry."] = None,
) -> None:
    """List the releases that were paid for, or print one of them."""
    from dpgap.releases.document import handed_out

    account = _opened(ledger).account(dataset)
    if entry is not None:
        typer.echo(handed_out(account.document(entry)))
        return
    book = {reservation.number: reservation for reservation in account.ledger.entries(dataset)}
    numbers = [settlement.reservation or 0 for settlement in account.archive()]
    lines = [_line(book[number], _LONGEST) for number in numbers]
    typer.echo("\n".join(map(printable, lines)) or "Nothing is archived yet.")


@ledger_app.add
def export(
    ledger: URL,
    written: Written,
    dataset: AnyDataset = None,
    csv: Annotated[bool, "As CSV, as to a file *.csv; else as JSON, with hashes."] = False,
    documents: Annotated[bool, "Add the released documents to the JSON."] = False,
) -> None:
    """Write entries as JSON, which `verify` reads without the ledger, or as CSV."""
    store = _opened(ledger)
    days, _ = written.days()
    csv = csv or (written.out is not None and written.out.suffix.lower() == ".csv")
    if csv and documents:
        raise ValueError("--documents goes into JSON: leave out --csv, and the ending .csv")
    if csv:
        if dataset is None:
            names = store.datasets()
        else:
            names = [store.steward(dataset).dataset]
        text = to_csv([store.entries(name, **days) for name in names])
    else:
        text = store.export(dataset, documents=documents, **days)
    written.write(text, ledger)


@ledger_app.add
def page(ledger: URL, written: Written, title: PageTitle = None) -> None:
    """Write one HTML page: what was spent, by data set, by person and over time."""
    from dpgap.releases.ledger_page import ledger_page

    store = _opened(ledger)
    days, when = written.days()
    outlines = [store.outline(name, **days) for name in store.datasets()]
    written.write(ledger_page(outlines, when, title, **days), ledger)


def _values(entry: "Entry", names: Iterable[str]) -> dict[str, Any]:
    """The values of an entry with these names."""
    return {name: getattr(entry, name) for name in names}


def _details(steward: "Steward") -> dict[str, Any]:
    """For programs: who spent, what is open, and the current period of a renewed budget."""
    store = steward.ledger
    details: dict[str, Any] = {
        "people": [_person(entry) for entry in store.people(steward.dataset)],
        "beside": store.beside(steward.dataset),
        "open": [
            _values(entry, _OPEN) | {"epsilon": str(entry.epsilon)} for entry in steward.stale()
        ],
    }
    period = steward.period()
    if period is not None:
        details["period"] = {name: str(amount) for name, amount in period._asdict().items()}
    return details


def _person(last: "Entry") -> dict[str, Any]:
    """For programs: what a person spent, and their allowance; None if there is no limit."""
    allowance = None
    if last.allowance is not None:
        allowance = dict(zip(_LIMIT, last.allowance.exact(), strict=True))
    spent = dict(zip(_COST, last.person_spent.exact(), strict=True))
    return {"person": last.person, "spent": spent, "allowance": allowance}


def _summary(book: "list[Entry]", balance: "Entry") -> dict[str, Any]:
    """For programs: the last entries, and the balance of the budget now."""
    summary: dict[str, Any] = {"dataset": balance.dataset}
    for name in ("total", "spent", "reserved", "remaining"):
        summary[name] = str(getattr(balance, name))
    summary["delta_total"] = str(balance.granted.delta)
    summary["delta_remaining"] = str(balance.left.delta)
    summary["closed"] = balance.closed
    if balance.renewal is not None:
        summary["renewal"] = balance.renewal.exact()
    summary["head"] = book[-1].hash
    summary["entries"] = list(map(_entry, book))
    return summary


def _entry(entry: "Entry") -> dict[str, Any]:
    """For programs: what an entry says."""
    values = _values(entry, _SHOWN)
    values["epsilon"] = str(entry.epsilon)
    values["delta"] = str(entry.delta)
    values["extra"] = entry.extra
    return values


def _purpose_and_people(store: "Ledger", last: "Entry") -> tuple[list[str], list[str]]:
    """What the budget is for; and one line for each person: spent, and allowance."""
    from dpgap.budget.entries import Balance

    facts = store.account(last.dataset).facts or {}
    names = [f"{name} {facts[name]}" for name in _FACTS if facts.get(name)]
    if not facts.get("table"):
        names.insert(0, "any table (--table binds it to one)")
    purpose = [f"for        {', '.join(names)}"]
    others = store.beside(last.dataset)
    if others:
        purpose.append(f"beside     {', '.join(others)}   (for the same table: their ε add up)")
    people = []
    for mine in store.people(last.dataset):  # also those who spent nothing
        amounts = f"spent or reserved {mine.person_spent}; allowance {mine.allowance or 'none'}"
        people.append(f"  {mine.person}: {amounts}; left {Balance(last, mine).left}")
    if people:
        people[:0] = ["", "people"]
    return purpose, people


def _open_in_words(reservations: "list[Entry]", limit: int | None) -> list[str]:
    """A line for each open reservation, the oldest first."""
    longest = None if limit is None else _LONGEST
    lines = []
    for entry in reservations[:limit]:
        line = f"open       entry {entry.number}, {_minute(entry.at)}, {entry.person or entry.who}"
        line += f", {entry.charge}"
        if entry.key is not None:
            line += f", key {entry.key!r}"
        lines.append(f"{line}: {_cut(entry.purpose, longest)}")
    left_out = len(reservations) - len(lines)
    if left_out:
        lines.append(f"open       {left_out} more: --all shows them")
    return lines


def _period_in_words(period: "Period", renewal: "Renewal") -> str:
    """What is spent of the current period, and when the next one begins."""
    from dpgap.exact.parameters import readable_down, readable_up

    current = f"this {renewal.every}"
    first_day = renewal.next
    if renewal.every == "day":
        current = "today"
    if renewal.every == "week":
        first_day = "Monday"
    amounts = f"{readable_up(period.spent)} of {readable_down(period.total)} spent"
    if period.reserved:
        amounts += f", {readable_up(period.reserved)} reserved"
    return f"{current}: {amounts}, renews {first_day} 00:00 UTC"


def _budget_in_words(
    book: "list[Entry]",
    balance: "Entry",
    limit: int | None = None,
    steward: "Steward | None" = None,
) -> str:
    """For people: the balance of the budget now, and the last entries."""
    from dpgap.exact.parameters import readable_down, readable_up

    purpose: list[str] = []
    people: list[str] = []
    if steward is not None:
        purpose, people = _purpose_and_people(steward.ledger, balance)
        period = steward.period()
        if period is not None and balance.renewal is not None:
            purpose.insert(0, _period_in_words(period, balance.renewal))
        purpose = _open_in_words(steward.stale(), limit) + purpose
    heading = f"data set   {balance.dataset}"
    remaining = readable_down(balance.remaining)
    if balance.closed:
        heading += "   (closed)"
        remaining = f"0   (closed; {remaining} was not used)"
    lines = [heading]
    lines += purpose
    lines += [
        f"total      {readable_down(balance.total)}",
        f"spent      {readable_up(balance.spent)}",
        f"reserved   {readable_up(balance.reserved)}   (under way or interrupted; counts as spent)",
        f"remaining  {remaining}",
    ]
    if balance.granted.delta:
        delta = readable_down(balance.granted.delta)
        lines.append(f"δ left     {readable_down(balance.left.delta)} of {delta}")
    if balance.renewal is not None:
        lines.append(f"renewed    {balance.renewal}; next on {balance.renewal.next}")
    if balance.hash != book[-1].hash:
        lines.append(
            f"           a new period began: its first charge adds {balance.amount}, counted here "
            "already"
        )
    lines.append(f"head       {book[-1].hash}")
    lines += people
    lines.append("")
    if limit and book[0].number:
        lines.append(f"  …  {book[0].number} earlier entries: --all shows them")
    longest = _LONGEST if limit else None
    lines += [_line(entry, longest) for entry in book]
    return "\n".join(map(printable, lines))


def _cut(text: str, longest: int | None) -> str:
    if longest is None or len(text) <= longest:
        return text
    return f"{text[: longest - 1]}…"


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


def _line(entry: "Entry", longest: int | None) -> str:
    """One line for people: when an entry was written, by whom, and what it says."""
    act = entry.kind
    reservation = entry.extra.get("paid_by", entry.reservation)
    if reservation is not None:
        act += f" of {reservation}"
    if entry.kind == "allow":
        act += f" for {entry.person}"
    if entry.kind == "renew":
        act += f" {entry.period}"
    elif entry.kind not in ("again", "close", "bind"):
        act += f" {entry.amount}"
    purpose = entry.purpose
    if entry.kind == "new-period" and entry.period is not None:
        purpose += f"from {entry.period.since}"
    if entry.reason:
        purpose += f" ({entry.reason})"
    purpose = _cut(purpose.strip(), longest)
    at = _minute(entry.at) if longest else entry.at[:19].replace("T", " ")
    return f"{entry.number:>5}  {at}  {entry.actor}  {act}  {purpose}".rstrip()

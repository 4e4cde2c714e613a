"""`dpgap ledger`: open a budget, show it, change it, and check that nobody tampered with it."""

import csv
import io
import json as json_format
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
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
_NUMBERS = ("epsilon", "delta", "total", "spent", "reserved", "remaining")


def to_csv(books: "list[list[Entry]]") -> str:
    """CSV with a row for each entry: decimals for people, and the exact charge; no formulas."""
    from dpgap.exact.parameters import approximately

    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([*_TEXTS, *_NUMBERS, "exact epsilon", "hash"])
    for entry in (each for book in books for each in book):
        row = [in_a_cell(getattr(entry, name)) for name in _TEXTS]
        for name in _NUMBERS:
            number = getattr(entry, name)
            row.append("" if number is None else approximately(number, 12))
        writer.writerow([*row, in_a_cell(str(entry.epsilon)), entry.hash])
    return out.getvalue()


# --------------------------------------------------------------------------------------------------


ledger_app = CommandLine(help="Budgets that last: create, show, change and verify a ledger.")

URL = Annotated[str, "sqlite:///budget.db or postgresql://user@host/name."]
Dataset = Annotated[str, "The data set whose budget it is."]
AnyDataset = Annotated[str | None, "Only this data set; else all."]
Reason = Annotated[str, "Why; it is kept in the ledger."]
Total = Annotated[str, "The total for all releases, exact."]
Delta = Annotated[str | None, "The total δ for all releases, exact."]

_SHOWN = "number kind reservation epsilon delta purpose reason person actor who at key hash".split()
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
        summary = json_format.dumps(_summary([last], last), indent=2)
        typer.echo(summary if self.json else _words([last], last))


class Facts(NamedTuple):
    """The table that a budget is for."""

    table: Annotated[str | None, "The table that the budget is for: a file or an address."] = None
    unit: Annotated[str | None, "The column with the unit of each row."] = None
    neighbours: Annotated[str | None, "How neighbours differ: add-or-remove, or replace."] = None
    beside: Annotated[str | None, "The data set with a budget for the same table and unit."] = None

    def stated(self) -> dict[str, Any]:
        """The stated facts, with the address and the columns of the table."""
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
        stated = {"in": month, "from": start, "to": end}
        words = " ".join(f"{word} {day}" for word, day in stated.items() if day)
        if month is not None:
            try:
                first = date.fromisoformat(f"{month}-01")
                until = (first + timedelta(31)).replace(day=1)
            except (ValueError, OverflowError):
                raise ValueError(f"month must be a month such as 2026-10, not {month!r}") from None
            return {"since": str(first), "until": str(until)}, words
        since = start and require_day("start", start)
        last = end and date.fromisoformat(require_day("end", end))
        if since and last and since > str(last):
            raise ValueError("--from must not be later than --to")
        return {
            "since": since,
            "until": last and str(min(last, date(9999, 12, 30)) + timedelta(1)),
        }, words

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
    said = facts.stated() | {"delta": delta or 0, "reason": act.reason}
    act.tell(_opened(act.ledger).create(act.dataset, epsilon, **said).balance)


@ledger_app.add
def show(
    ledger: URL,
    dataset: AnyDataset = None,
    all: Annotated[bool, "Every entry, in full."] = False,
    json: JSON = False,
) -> None:
    """Print open reservations, totals, the last entries, and the head: note it elsewhere."""
    store = _opened(ledger)
    stewards = list(map(store.steward, store.datasets() if dataset is None else [dataset]))
    few = None if all or json else _FEW
    books = [(store.entries(it.dataset, last=few), it.balance_of("").last) for it in stewards]
    if not json:
        texts = [
            _words(book, now, few, steward)
            for steward, (book, now) in zip(stewards, books, strict=True)
        ]
        typer.echo("\n\n".join(texts) or "The ledger has no data sets yet.")
        return
    shown = []
    for steward, (book, now) in zip(stewards, books, strict=True):
        period = steward.period()
        people = [_person(entry) for entry in store.people(now.dataset)]
        more: dict[str, Any] = {"people": people, "beside": store.beside(now.dataset)}
        more["open"] = [
            {name: getattr(it, name) for name in ("number", "at", "person", "purpose", "key")}
            | {"epsilon": str(it.epsilon)}
            for it in steward.stale()
        ]
        if period is not None:
            amounts = period._asdict().items()
            more["period"] = {name: str(amount) for name, amount in amounts}
        shown.append(_summary(book, now) | more)
    typer.echo(json_format.dumps({"datasets": shown} if dataset is None else shown[0], indent=2))


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
        flaws, notes = store.verify(dataset, head=noted), list(map(_intact, last))
    else:
        try:
            flaws, notes = verify_export(_export_in(file), head=noted)
        except OSError:
            raise UsageError(f"there is no file {file!r} that can be read") from None
        except ValueError as error:
            raise UsageError(f"{file} cannot be verified: {error}") from None
    if json:
        said: dict[str, Any] = {"intact": not flaws, "flaws": flaws}
        if file is None:
            said["heads"] = [{name: getattr(it, name) for name in _HEAD} for it in last]
        else:
            said["unchecked"] = notes
        typer.echo(json_format.dumps(said, indent=2))
    elif not flaws:
        if file is not None:
            notes.insert(0, "Everything in the file is intact.")
        elif not last:
            notes.append("The ledger has no data sets yet.")
        typer.echo("\n".join(map(printable, notes)))
    for flaw in () if json else flaws:
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
    known = {it.person for it in _opened(act.ledger).people(act.dataset)}
    act.tell(act.steward.allow(person, epsilon, delta=delta, reason=act.reason))
    if person not in known:
        say_error(f"note: nobody called {person!r} has asked yet")


@partial(ledger_app.add, needed="reason")
def bind(
    act: Act, facts: Facts, unbind: Annotated[bool, "Drop facts that are not stated again."] = False
) -> None:
    """State which table a budget is for. This replaces what was stated before."""
    said, held = facts.stated(), _opened(act.ledger).account(act.dataset).facts or {}
    left_out = (it for it in ("table", "unit", "neighbours") if said[it] is None and held.get(it))
    lost = ", ".join(f"--{it} {held[it]}" for it in left_out if held[it] != "add-or-remove")
    if lost and not unbind:
        raise ValueError(f"the budget is for {lost}: state it again, or drop it with --unbind")
    act.tell(act.steward.bind(**said, reason=act.reason))
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
        left = [
            f"entry {it.number} ({it.person}, {it.at[:10]}, {it.charge})" for it in steward.stale()
        ]
        typer.echo(printable(f"None was made before {before}. Open: {', '.join(left) or 'none'}."))


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
    book = {each.number: each for each in account.ledger.entries(dataset)}
    lines = [_line(book[each.reservation or 0], _LONGEST) for each in account.archive()]
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
    store, (days, _) = _opened(ledger), written.days()
    csv = csv or (written.out is not None and written.out.suffix.lower() == ".csv")
    if csv and documents:
        raise ValueError("--documents goes into JSON: leave out --csv, and the ending .csv")
    if csv:
        names = store.datasets() if dataset is None else [store.steward(dataset).dataset]
        text = to_csv([store.entries(name, **days) for name in names])
    else:
        text = store.export(dataset, documents=documents, **days)
    written.write(text, ledger)


@ledger_app.add
def page(ledger: URL, written: Written, title: PageTitle = None) -> None:
    """Write one HTML page: what was spent, by data set, by person and over time."""
    from dpgap.releases.ledger_page import ledger_page

    store, (days, when) = _opened(ledger), written.days()
    outlines = [store.outline(name, **days) for name in store.datasets()]
    written.write(ledger_page(outlines, when, title, **days), ledger)


def _person(last: "Entry") -> dict[str, Any]:
    """For programs: what a person spent, and their allowance; None if there is no limit."""
    allowance = None
    if last.allowance is not None:
        allowance = dict(zip(_LIMIT, last.allowance.exact(), strict=True))
    spent = dict(zip(_COST, last.person_spent.exact(), strict=True))
    return {"person": last.person, "spent": spent, "allowance": allowance}


def _summary(book: "list[Entry]", now: "Entry") -> dict[str, Any]:
    """For programs: the last entries, and the balance of the budget now."""
    balance = ("total", "spent", "reserved", "remaining")
    return {
        "dataset": now.dataset,
        **{name: str(getattr(now, name)) for name in balance},
        "delta_total": str(now.granted.delta),
        "delta_remaining": str(now.left.delta),
        "closed": now.closed,
        **({} if now.renewal is None else {"renewal": now.renewal.exact()}),
        "head": book[-1].hash,
        "entries": [
            {name: getattr(entry, name) for name in _SHOWN}
            | {name: str(getattr(entry, name)) for name in ("epsilon", "delta")}
            | {"extra": entry.extra}
            for entry in book
        ],
    }


def _purpose_and_people(store: "Ledger", last: "Entry") -> tuple[list[str], list[str]]:
    """What the budget is for; and one line for each person: spent, and allowance."""
    from dpgap.budget.entries import Balance

    facts, people = store.account(last.dataset).facts or {}, []
    names = [f"{name} {facts[name]}" for name in ("table", "unit", "neighbours") if facts.get(name)]
    if not facts.get("table"):
        names.insert(0, "any table (--table binds it to one)")
    purpose = [f"for        {', '.join(names)}"]
    if others := store.beside(last.dataset):
        purpose.append(f"beside     {', '.join(others)}   (for the same table: their ε add up)")
    for mine in store.people(last.dataset):  # also those who spent nothing
        most = "none" if mine.allowance is None else str(mine.allowance)
        amounts = f"spent or reserved {mine.person_spent}; allowance {most}"
        people.append(f"  {mine.person}: {amounts}; left {Balance(last, mine).left}")
    return purpose, ["", "people", *people] if people else []


def _open_in_words(reservations: "list[Entry]", few: int | None) -> list[str]:
    """A line for each open reservation, the oldest first."""
    lines = []
    for it in reservations[:few]:
        key = "" if it.key is None else f", key {it.key!r}"
        purpose = _cut(it.purpose, None if few is None else _LONGEST)
        who = f"entry {it.number}, {_minute(it.at)}, {it.person or it.who}"
        lines.append(f"open       {who}, {it.charge}{key}: {purpose}")
    left_out = len(reservations) - len(lines)
    return [*lines, f"open       {left_out} more: --all shows them"] if left_out else lines


def _period_in_words(period: "Period", renewal: "Renewal") -> str:
    """What is spent of the current period, and when the next one begins."""
    from dpgap.exact.parameters import readable_down, readable_up

    begins = "Monday" if renewal.every == "week" else renewal.next
    this = "today" if renewal.every == "day" else f"this {renewal.every}"
    reserved = f", {readable_up(period.reserved)} reserved" if period.reserved else ""
    spent = f"{readable_up(period.spent)} of {readable_down(period.total)} spent"
    return f"{this}: {spent}{reserved}, renews {begins} 00:00 UTC"


def _words(
    book: "list[Entry]", now: "Entry", few: int | None = None, steward: "Steward | None" = None
) -> str:
    """For people: the balance of the budget now, and the last entries."""
    from dpgap.exact.parameters import readable_down, readable_up

    purpose: list[str] = []
    people: list[str] = []
    if steward is not None:
        purpose, people = _purpose_and_people(steward.ledger, now)
        period = steward.period()
        if period is not None and now.renewal is not None:
            purpose.insert(0, _period_in_words(period, now.renewal))
        purpose = _open_in_words(steward.stale(), few) + purpose
    renewal, earlier = now.renewal, book[0].number
    left, total, remaining = now.left.delta, now.granted.delta, readable_down(now.remaining)
    begun = f"a new period began: its first charge adds {now.amount}, counted here already"
    lines = [
        f"data set   {now.dataset}{'   (closed)' if now.closed else ''}",
        *purpose,
        f"total      {readable_down(now.total)}",
        f"spent      {readable_up(now.spent)}",
        f"reserved   {readable_up(now.reserved)}   (under way or interrupted; counts as spent)",
        f"remaining  {f'0   (closed; {remaining} was not used)' if now.closed else remaining}",
        *([f"δ left     {readable_down(left)} of {readable_down(total)}"] if total else []),
        *([f"renewed    {renewal}; next on {renewal.next}"] if renewal else []),
        *([f"           {begun}"] if now.hash != book[-1].hash else []),
        f"head       {book[-1].hash}",
        *people,
        "",
        *([f"  …  {earlier} earlier entries: --all shows them"] if few and earlier else []),
        *(_line(entry, _LONGEST if few else None) for entry in book),
    ]
    return "\n".join(map(printable, lines))


def _cut(text: str, longest: int | None) -> str:
    return text if longest is None or len(text) <= longest else f"{text[: longest - 1]}…"


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


def _line(entry: "Entry", longest: int | None) -> str:
    kind, period = entry.kind, entry.period
    paid_by = entry.extra.get("paid_by", entry.reservation)
    ended = "" if paid_by is None else f" of {paid_by}"
    amount = f" {entry.amount}"
    if kind in ("again", "close", "bind", "renew"):
        amount = f" {period}" if kind == "renew" else ""
    concerned = f" for {entry.person}" if kind == "allow" else ""
    since = f"from {period.since}" if kind == "new-period" and period else ""
    reason = f" ({entry.reason})" if entry.reason else ""
    said = f"{entry.purpose}{since}{reason}".strip()
    said = _cut(said, longest)
    at = _minute(entry.at) if longest else entry.at[:19].replace("T", " ")
    return (
        f"{entry.number:>5}  {at}  {entry.actor}  {kind}{ended}{concerned}{amount}  {said}".rstrip()
    )

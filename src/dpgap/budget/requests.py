"""Requests to a ledger: names, clocks, the table of a budget, archived documents and quotas."""

import getpass
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from dpgap.budget import account
from dpgap.budget.account import UNDER_WAY, RefusedRequest, Request
from dpgap.budget.cost import Cost
from dpgap.budget.entries import (
    AGAIN,
    RESERVE,
    SETTLE,
    Entry,
    LedgerError,
    WrongClock,
    hash_of,
    read_number,
)
from dpgap.budget.store import Document, Rows, Store
from dpgap.question import Neighbours

# --------------------------------------------------------------------------------------------------
# Names of data sets in a ledger: each means one budget, to people as well as to the computer.
#
# A person takes "sales" and "Sales " for one data set, and would grant its ε twice. So no budget is
# opened under a name that looks like one in use.


_LONGEST = 200

# The letters that Unicode calls default-ignorable: they are invisible.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


# Letters of Cyrillic and Greek that are drawn as Latin ones, if only as capitals.
_LATIN = str.maketrans("авекмнорстухѕіјαβεζηικμνορτυχ", "abekmhopctyxsijabezhikmnoptyx")


def require_words(name: str, text: object) -> str:
    """A short printable text, or an error that names the argument."""
    if not isinstance(text, str):
        raise ValueError(f"{name} must be text, not {type(text).__name__}")
    if not (0 < len(text) <= _LONGEST and text.isprintable()):
        raise ValueError(f"{name} must be 1 to {_LONGEST} printable characters")
    return text


def require_name(dataset: object) -> str:
    """The name of a data set in its normal form, or an error if it is not a name."""
    return unicodedata.normalize("NFC", require_words("dataset", dataset))


def look_alike(name: str, others: Iterable[str]) -> str | None:
    """One of the others that a person could take for this name, if there is any.

    >>> look_alike("Ｓａｌｅｓ", ["clinic", "sales "])
    'sales '
    """
    latin = _in_latin(name)
    return next((other for other in others if _in_latin(other) == latin), None)


def refuse_look_alike(dataset: str, others: Iterable[str]) -> None:
    """Refuse a new budget whose name a person could take for that of another."""
    other = look_alike(dataset, others)
    if other is not None:
        raise ValueError(f"dataset {dataset!r} looks like {other!r}, which has a budget already")


def _in_latin(name: str) -> str:
    """The name in Latin, without its capitals, widths, spaces and invisible letters."""
    text = name
    for _ in range(2):  # casefold can make letters that NFKC changes again
        text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).casefold()
    return " ".join(unicodedata.normalize("NFKC", text).translate(_LATIN).split())


def system_user() -> str:
    """The system's name for the user who runs this program."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


# --------------------------------------------------------------------------------------------------
# Clocks: a charge that is dated years ahead would begin a period that lasts until then.
#
# In PostgreSQL there are two clocks, that of the program and that of the server. They must agree
# within a day if a charge is more than a day after the newest entry, or begins a period. A SQLite
# file has only the clock of the program, and a pause of some days is common. So there a period
# begins at most 100 days after the newest one began. Beyond that, a steward begins it.


_APART = 1
_PAUSE = 100
"""How many days two clocks may be apart, and how long a pause may be that no clock confirms."""


def require_clock(rows: Rows, last: Entry, at: str) -> None:
    """Refuse a charge that is far after the newest entry, if the clock of the server denies it."""
    if rows.has_clock and _days(last.at, at) > _APART:
        require_two_clocks(rows, at, rows.now())


def require_two_clocks(rows: Rows, ours: str, theirs: str) -> None:
    """Refuse a program whose clock is more than a day apart from that of the server."""
    if rows.has_clock and abs(_days(ours, theirs)) > _APART:
        raise WrongClock(
            f"the clock of this machine says {ours[:10]}, and that of the ledger's server "
            f"{theirs[:10]}: one of them is wrong. Nothing was charged. Set it right"
        )


def require_no_leap(rows: Rows, last: Entry, at: str) -> None:
    """Refuse a new period long after the newest one began, if there is no second clock.

    The time of the newest entry does not count: acts of stewards have any time, and a settlement
    has that of its charge.
    """
    if rows.has_clock or last.period is None:
        return
    if _days(last.period.since, at) > _PAUSE:
        raise WrongClock(
            f"the clock says {at[:10]}, more than {_PAUSE} days after the newest period of data "
            f"set {last.dataset!r} began, on {last.period.since}, and a SQLite ledger has no "
            "second clock. Nothing was charged. Set the clock right; or, if it is right, a "
            "steward begins the period with `dpgap ledger begin-period`"
        )


def _days(earlier: str, later: str) -> int:
    try:
        return (date.fromisoformat(later[:10]) - date.fromisoformat(earlier[:10])).days
    except ValueError:  # an edited book may hold any text
        return _PAUSE


# --------------------------------------------------------------------------------------------------
# What a budget is for: a table, its unit, its neighbours and its columns, all of them public.
#
# The call that opens a budget may state them. A request that contradicts them is refused before
# anything is charged; so is a request that is not private. A fact that a request does not state
# contradicts nothing: a frame in memory has no address, and a bare array states no facts.


Facts = Mapping[str, Any]
Others = Iterable[tuple[str, Facts | None]]
ANY = "any"
"""The family of a column that does not state its type; it contradicts none."""

_PORTS = {"postgresql": "5432", "mysql": "3306"}
IN_FILES = ("duckdb", "sqlite")
_ASKED_FACTS = ("table", "unit", "neighbours")
"""The facts that a request states as one text each."""
_MEND = "use another budget, or change what this one is for with `dpgap ledger bind`"


def stated_facts(
    table: str | None,
    unit: str | None,
    neighbours: str | None,
    columns: Iterable[tuple[str, str]] | None,
) -> dict[str, Any] | None:
    """The stated facts of a table, as an entry holds them; None if there are none.

    >>> stated_facts("sales", "customer", None, [("customer", "integer")])["columns"]
    [['customer', 'integer']]
    """
    listed = sorted([name, kind] for name, kind in columns or ()) or None
    facts = {"table": table, "unit": unit, "neighbours": neighbours, "columns": listed}
    if all(value is None for value in facts.values()):
        return None
    for name, value in (("table", table), ("unit", unit)):
        if value is not None and not (isinstance(value, str) and value):
            raise ValueError(f"{name} must be a name, not {value!r}")
    if neighbours is not None or table is not None:
        facts["neighbours"] = str(Neighbours.read("neighbours", neighbours))
    if table is not None:
        facts["table"] = _location(table)
    return facts


def _location(table: str) -> str:
    """The table, for comparison: an address, the real path of an existing file, or a name."""
    if "://" in table:
        if "@" in urlsplit(table).netloc or "password" in urlsplit(table).query.lower():
            raise ValueError(
                "table must be an address without a user and a password, such as "
                "postgresql://host/shop?schema=public&table=sales"
            )
        return table
    if os.path.exists(table):
        return os.path.realpath(table)
    return table


def table_address(url: SplitResult, options: dict[str, str], names: dict[str, str]) -> str:
    """The address of a table in a database, without user, password and options of the connection.

    `names` are those of the table and its schema; `options` are the other options of the URL.

    >>> from urllib.parse import urlsplit
    >>> url = urlsplit("postgres://ann:secret@DB.example.org:5432/shop?sslmode=require")
    >>> table_address(url, {"sslmode": "require"}, {"schema": "public", "table": "sales"})
    'postgresql://db.example.org/shop?schema=public&table=sales'
    """
    kind = "postgresql" if url.scheme == "postgres" else url.scheme
    if kind in IN_FILES:
        location = os.path.realpath(url.netloc + url.path)
    else:
        location = quote(url.hostname or options.get("host", ""), safe="")
        usual_port = _PORTS.get(kind, "")
        port = str(url.port or options.get("port", usual_port))
        if port != usual_port:
            location += f":{port}"
        database = url.path.strip("/").partition("/")[0] or options.get("dbname", "")
        location += f"/{database}"
    return f"{kind}://{location}?{urlencode(sorted(filter(all, names.items())))}"


def is_one_table(facts: Facts | None, other: Facts | None) -> bool:
    """Whether two budgets are for the same units of the same table, as far as both state it.

    A budget without a unit may be for any unit. A frame has no address, so it is never the same.

    >>> sales = {"table": "postgres://DB/shop?table=sales", "unit": "customer"}
    >>> is_one_table(sales, {"table": "postgresql://db:5432/shop?table=sales", "unit": None})
    True
    """
    if not (facts and other and facts.get("table") and other.get("table")):
        return False
    units = {facts.get("unit"), other.get("unit")} - {None}
    return len(units) < 2 and _spelling(facts["table"]) == _spelling(other["table"])


def _spelling(table: str) -> str:
    """The address of the table in its normal form."""
    if "://" not in table:
        return _location(table)
    try:
        url = urlsplit(table)
        options = dict(parse_qsl(url.query))
        names = {name: options.pop(name, "") for name in ("schema", "table")}
        return table_address(url, options, names)
    except ValueError:  # it is no address, such as one with a port that is no number
        return table


def refuse_contradiction(dataset: str, budget: Facts | None, request: Facts | None) -> None:
    """Raise an error if the request is not private, or contradicts the facts of the budget."""
    if request is not None and request.get("private") is False:
        raise RefusedRequest(
            "this release would not be private, as its items are read from the table itself, so "
            "no budget can pay for it: state a public domain, or ask without a ledger"
        )
    if budget is None or request is None:
        return
    for name in _ASKED_FACTS:
        budgeted = budget.get(name)
        requested = request.get(name)
        if budgeted is None or requested is None:
            continue
        agree = _is_same_table if name == "table" else str.__eq__
        if not agree(budgeted, requested):
            raise RefusedRequest(
                f"the budget of data set {dataset!r} is for the {name} {budgeted!r}, and this "
                f"release has the {name} {requested!r}: {_MEND}"
            )
    _refuse_other_columns(
        dataset, dict(budget.get("columns") or ()), dict(request.get("columns") or ())
    )


def _refuse_other_columns(
    dataset: str, budgeted: dict[str, str], requested: dict[str, str]
) -> None:
    """Raise an error if both state their columns, and these are not the same."""
    if not budgeted or not requested:
        return
    only_budgeted = _columns_missing(budgeted, requested)
    only_requested = _columns_missing(requested, budgeted)
    if only_budgeted or only_requested:
        raise RefusedRequest(
            f"the budget of data set {dataset!r} is for a table with other columns. Only in that "
            f"table: {_listed(only_budgeted)}. Only in the table of this release: "
            f"{_listed(only_requested)}. So {_MEND}"
        )


def _columns_missing(columns: dict[str, str], others: dict[str, str]) -> set[tuple[str, str]]:
    """The columns that another table lacks, or has with a type of another family."""
    missing = set()
    for name, family in columns.items():
        if name in others and ANY in (family, others[name]):
            continue
        if name not in others or others[name] != family:
            missing.add((name, family))
    return missing


def _is_same_table(budgeted: str, requested: str) -> bool:
    """Whether both are the same table; that of the budget may be only a name."""
    name = os.path.basename(requested)
    if "://" in requested:
        name = dict(parse_qsl(urlsplit(requested).query)).get("table", "")
    return budgeted == requested or ("/" not in budgeted and budgeted == name)


def _listed(columns: set[tuple[str, str]]) -> str:
    """A few columns with the families of their types."""
    names = [f"{name} ({family})" for name, family in sorted(columns)]
    if len(names) > 5:
        names[5:] = ["…"]
    return ", ".join(names) or "none"


_RELEASE = "dpgap release"
"""The format of release documents. A ledger keeps any text, but only these are read again."""
_AT_ONCE = 50
"""How many documents are read in one transaction."""
_LATELY = timedelta(minutes=1)
"""How long a reservation that is not settled counts as under way."""
_FREE = 10
"""How many keys of free answers are kept in a day for each request that may be charged."""


def require_day(name: str, day: object) -> str:
    """A day such as 2026-10-01, which can be compared with the times of entries as text."""
    try:
        return date.fromisoformat(str(day)).isoformat()
    except ValueError:
        raise ValueError(f"{name} must be a day such as 2026-10-01, not {day!r}") from None


def extra_of(request: Request) -> dict[str, Any]:
    """The part of a request that its entry keeps, besides its cost and its purpose."""
    facts = request.facts or {}
    extra = dict(request.extra or {})
    extra["asked"] = {name: facts[name] for name in _ASKED_FACTS if facts.get(name)}
    extra["identity"] = request.identity
    return {name: value for name, value in extra.items() if value}


def facts_of(rows: Rows, last: Entry) -> dict[str, Any] | None:
    """The facts of the budget, from the entry that states them; the last entry names this one."""
    if last.bound is None:
        return None
    stating_entry = rows.entry(last.dataset, number=last.bound)
    if stating_entry is None:
        return None
    return dict(stating_entry.extra["facts"])


def facts_of_others(rows: Rows, dataset: str) -> Others:
    """The facts of the budgets of all other data sets, read when they are needed."""
    others = (name for name in rows.datasets() if name != dataset)
    return ((name, facts_of(rows, rows.find(name)[-1])) for name in others)


def beside(facts: Facts | None, others: Others) -> list[str]:
    """The other data sets whose budget is for the same units of the same table."""
    if facts is None or facts.get("table") is None:
        return []
    return [name for name, other in others if is_one_table(facts, other)]


def stating(facts: Facts | None, others: Others, meant: str | None) -> dict[str, Any]:
    """The part of an entry that states the table of a budget.

    A second budget for the same units is refused, unless `meant` names the first one's data set:
    the costs of both add up for the same people.
    """
    same = beside(facts, others)
    if meant is None and same:
        raise ValueError(
            f"data set {same[0]!r} has a budget for the same table and unit, and what two "
            f"budgets pay for adds up: use that one, or state beside={same[0]!r} if you want two"
        )
    if meant is not None and meant not in same:
        names = ", ".join(map(repr, same)) or "none"
        raise ValueError(
            f"beside must name a data set whose budget is for the same table and unit, not "
            f"{meant!r}: there is {names}"
        )
    extra = {"facts": facts, "beside": meant}
    return {name: value for name, value in extra.items() if value is not None}


def document_of(rows: Rows, dataset: str, first: int = 0, **values: Any) -> str | None:
    """A document, by the number of its settlement or by its question; None if there is none."""
    paid = archived(rows, dataset, first, **values)
    if paid is None:
        return None
    _, document = paid
    return document


def archived(rows: Rows, dataset: str, first: int = 0, **values: Any) -> tuple[Entry, str] | None:
    """A document as `document_of` finds it, with the reservation that paid for it.

    Documents that were paid for before the entry `first` are left out. It must agree with its
    entries, and they with their hashes, else it is a `LedgerError`.
    """
    document = rows.document(dataset, first, **values)
    if document is None:
        return None
    settlement = rows.entry(dataset, number=document.number)
    reservation = None
    if settlement is not None and settlement.reservation is not None:
        reservation = rows.entry(dataset, number=settlement.reservation)
    if reservation is None or not _is_proven(document, settlement, reservation):
        raise LedgerError(
            f"the document of entry {document.number} does not agree with the entry that paid for "
            "it: it is not shown, see `verify`"
        )
    return reservation, document.document


def _is_proven(document: Document, settlement: Entry | None, reservation: Entry) -> bool:
    """Whether both entries of a document match their hashes, and it matches them."""
    if settlement is None or settlement.hash != settlement.seal():
        return False
    if reservation.hash != reservation.seal():
        return False
    return _matches(document, settlement, reservation)


def documents_of(store: Store, dataset: str, first: int = 0) -> Iterator[Document]:
    """The documents of a data set, from the entry `first` on.

    Few are read at a time, because a writer to SQLite waits for every reader.
    """
    several = [Document(first - 1, None, "")]
    while several:
        with store.reading() as rows:
            several = rows.documents(dataset, several[-1].number, _AT_ONCE)
        yield from several


def edited_documents(documents: Iterable[Document], book: list[Entry]) -> list[str]:
    """The flaws of documents: edited, moved to another entry, or removed.

    Documents that are newer than the book are left out. If the reservation came before the book's
    first entry, only the document's hash is compared.
    """
    by_number = {entry.number: entry for entry in book}
    archived = {entry.number for entry in book if "document" in entry.extra}
    flaws: list[str] = []
    for document in documents:
        archived.discard(document.number)
        settlement = by_number.get(document.number)
        if settlement is None:
            continue
        number = -1
        if settlement.reservation is not None:
            number = settlement.reservation
        if 0 <= number < book[0].number:
            is_same = settlement.extra.get("document") == hash_of(str(document.document))
        else:
            is_same = _matches(document, settlement, by_number.get(number))
        if not is_same:
            flaws.append(f"the document of entry {document.number} was edited, or contradicts it")
    return flaws + [f"the document of entry {number} is missing" for number in sorted(archived)]


def _matches(archived: Document, settlement: Entry, reservation: Entry | None) -> bool:
    """Whether a document and its entries agree: hash, question, reservation and cost."""
    text = archived.document
    if reservation is None or not isinstance(text, str):  # SQLite keeps any type
        return False
    identity = reservation.extra.get("identity")
    if settlement.extra.get("document") != hash_of(text) or archived.identity != identity:
        return False
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return True  # it is no release, and nobody reads it as one
    if not isinstance(content, dict) or content.get("format") != _RELEASE:
        return True
    try:
        promised = _read_cost(content["promise"]["cost"])
        spent = _read_cost(content["cost"])
        return (
            content["made"]["ledger"] == reference_of(reservation)
            and content.get("question", {}).get("identity") == identity
            and reservation.charge == promised.up()
            and settlement.charge == spent.up()
        )
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return False


def _read_cost(cost: Mapping[str, Any]) -> Cost:
    """A cost as a release document states it."""
    epsilon = cost.get("epsilon")
    return Cost(
        epsilon=None if epsilon is None else read_number(epsilon),
        rho=read_number(cost["rho"]),
        delta=read_number(cost.get("delta", "0")),
    )


def reference_of(entry: Entry) -> dict[str, Any]:
    """How a release names the reservation that paid for it."""
    return {"dataset": entry.dataset, "entry": entry.number, "hash": entry.hash}


class ChargedRequest(NamedTuple):
    """A request in the book: its reservation, and the entry that ended this, if one did."""

    reservation: Entry
    ending: Entry | None

    @property
    def number(self) -> int:
        """The number of its reservation."""
        return self.reservation.number

    @property
    def state(self) -> str:
        """`UNDER_WAY` (or broken off), "settled" or "written off"."""
        if self.ending is None:
            return UNDER_WAY
        if self.ending.kind == SETTLE:
            return "settled"
        return "written off"

    @property
    def is_shown(self) -> bool:
        """Whether there is a release to show: streams, for example, settle without any."""
        return self.ending is not None and "document" in self.ending.extra


def paid_by(rows: Rows, entry: Entry) -> Entry:
    """The reservation that pays for a request with a key: its own, or an earlier one."""
    if entry.kind != AGAIN:
        return entry
    number = entry.extra["paid_by"]
    reservation = rows.entry(entry.dataset, number=number)
    if reservation is None:
        raise LedgerError(f"entry {number}, which paid for request {entry.key!r}, is missing")
    return reservation


def answered_by(rows: Rows, entry: Entry) -> account.Answered:
    """The state and the document of the request that made an entry."""
    reservation = paid_by(rows, entry)
    ending = rows.entry(reservation.dataset, reservation=reservation.number)
    document = None
    if ending is not None:
        document = document_of(rows, ending.dataset, number=ending.number)
    state = ChargedRequest(reservation, ending).state
    return account.Answered(reservation.number, state, document, again=entry.kind == AGAIN)


def refuse_used_key(
    rows: Rows, matches: Iterable[Entry], key: str | None, request: Request
) -> None:
    """Refuse to charge a request whose key was used before. Only `AlreadyCharged` answers it."""
    if key is None:
        return
    entry = next((entry for entry in matches if entry.key == key), None)
    if entry is None:
        return
    reservation = paid_by(rows, entry)
    charged = (reservation.charge, reservation.extra.get("identity"), reservation.purpose)
    if charged != (request.cost.up(), request.identity, request.purpose):
        raise account.KeyUsed(
            f"request key {key!r} was used for another request, {entry.purpose!r}: use a new key "
            "for each request"
        )
    answered = answered_by(rows, entry)
    state = answered.state.replace(UNDER_WAY, f"{UNDER_WAY}, or was interrupted")
    raise account.AlreadyCharged(
        f"request {key!r} was charged before, as entry {answered.entry}, and is {state}: it is "
        "never charged again",
        answered,
    )


def under_way(rows: Rows, matches: list[Entry], identity: str | None) -> Entry | None:
    """The reservation of a question that another request asked a moment ago."""
    if identity is None:
        return None
    moment = datetime.now(UTC)
    since = (moment - _LATELY).isoformat(timespec="microseconds")
    until = (moment + _LATELY).isoformat(timespec="microseconds")
    for entry in matches:
        is_recent = since < entry.at < until  # a clock that is far ahead blocks nobody
        is_same_question = entry.extra.get("identity") == identity
        if is_recent and is_same_question and entry.kind == RESERVE:
            answered = answered_by(rows, entry)
            if answered.document is not None or answered.state == UNDER_WAY:
                return entry
    return None


class Quota(NamedTuple):
    """The limits for the requests of one person, whatever is left of the budget.

    In a day of UTC, so many `requests` are charged, the keys of ten times as many free answers are
    kept, and documents of so many `characters` are archived for them. The `archive` of the data set
    has so many characters, whoever asked.
    """

    requests: int
    characters: int
    archive: int


def refuse_beyond(
    rows: Rows, last: Entry, person: str, quota: Quota, *, is_free: bool = False
) -> None:
    """Refuse a request beyond a quota. Only public facts decide: entries and archived documents."""
    today = datetime.now(UTC).date()
    tomorrow = today + timedelta(days=1)
    charged, free, archived = rows.usage(
        last.dataset, person, today.isoformat(), tomorrow.isoformat()
    )
    again = f"ask again from {tomorrow} 00:00 UTC on"
    if is_free:
        if free >= _FREE * quota.requests:
            raise account.QuotaExhausted(
                f"{person!r} may get {_FREE * quota.requests} free answers from data set "
                f"{last.dataset!r} in a day: look into the archive, or {again}"
            )
        return
    if charged >= quota.requests:
        raise account.QuotaExhausted(
            f"{person!r} may ask {quota.requests} questions of data set {last.dataset!r} in a day, "
            f"and has asked {charged}: {again}"
        )
    if archived >= quota.characters:
        raise account.QuotaExhausted(
            f"answers to {person!r} may take {_megabytes(quota.characters)} of the archive of data "
            f"set {last.dataset!r} in a day. They take {_megabytes(archived)} now: {again}"
        )
    if last.archived >= quota.archive:
        raise account.QuotaExhausted(
            f"the archive of data set {last.dataset!r} may take {_megabytes(quota.archive)}, and "
            f"takes {_megabytes(last.archived)} now: a steward can give it more room"
        )


def _megabytes(characters: int) -> str:
    return f"{characters / 10**6:,.3g} MB"

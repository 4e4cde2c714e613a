"""Ranges of days, and exports that are verified without the ledger."""

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from dpgap.budget.cost import Cost
from dpgap.budget.entries import hash_of
from dpgap.budget.ledger import Ledger, LedgerAccount, verify_export
from dpgap.budget.store import Rows
from dpgap.releases.ledger_page import ledger_values

EIGHTH = Fraction(1, 8)


@pytest.fixture
def account(url: str, monkeypatch: pytest.MonkeyPatch) -> LedgerAccount:
    """Opened in September; a reservation of October is settled in November."""
    day = ["2026-09-15"]
    author = Ledger._author

    def at_noon(self: Ledger, *given: Any, **named: Any) -> Any:
        return author(self, *given, **named)._replace(at=f"{day[0]}T12:00:00.000000+00:00")

    monkeypatch.setattr(Ledger, "_author", at_noon)
    monkeypatch.setattr(Rows, "now", lambda _: f"{day[0]}T12:00:00.000000+00:00")
    account = Ledger(url).create("sales", 2)
    account.of("ann").reserve(Cost.pure(EIGHTH), "in September").settle(
        Cost.pure(EIGHTH), "a document of September"
    )
    day[0] = "2026-10-31"
    account.of("bob").reserve(Cost.pure(EIGHTH), "in October").settle(
        Cost.pure(EIGHTH / 2), "a document of October"
    )
    late = account.of("ann").reserve(Cost.pure(4 * EIGHTH), "from October to November")
    day[0] = "2026-11-01"
    account.of("ann").reserve(Cost.pure(EIGHTH), "in November").settle(Cost.pure(EIGHTH))
    late.settle(Cost.pure(2 * EIGHTH), "a late document")
    return account


def _numbers(account: LedgerAccount, **days: str) -> list[int]:
    return [entry.number for entry in account.ledger.entries("sales", **days)]  # type: ignore[arg-type]


def test_months_split_a_book_into_parts_that_follow_each_other(account: LedgerAccount) -> None:
    months = [
        _numbers(account, since="2026-09-01", until="2026-10-01"),
        _numbers(account, since="2026-10-01", until="2026-11-01"),
        _numbers(account, since="2026-11-01", until="2026-12-01"),
    ]
    assert months == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert _numbers(account, until="2026-11-01") == [0, 1, 2, 3, 4, 5]
    assert _numbers(account, since="2026-12-01") == _numbers(account, until="2026-09-01") == []
    assert [it.number for it in account.ledger.entries("sales", last=2, until="2026-11-01")] == [
        4,
        5,
    ]
    with pytest.raises(ValueError, match="since must be a day such as 2026-10-01, not 'May'"):
        _numbers(account, since="May")


def test_the_pages_of_all_months_add_up_to_the_page_of_the_book(account: LedgerAccount) -> None:
    ledger = account.ledger
    whole = ledger_values([ledger.outline("sales")])
    parts = [
        ledger_values([ledger.outline("sales", since=since, until=until)])
        for since, until in [
            ("2026-09-01", "2026-10-01"),
            ("2026-10-01", "2026-11-01"),
            ("2026-11-01", "2026-12-01"),
        ]
    ]
    assert [it["facts"]["releases settled"] for it in parts] == [1, 1, 2]
    assert [it["facts"]["people"] for it in parts] == [1, 2, 1]
    assert [it["of_datasets"][0].spent for it in parts] == [EIGHTH, EIGHTH / 2, 3 * EIGHTH]
    assert [it["of_datasets"][0].held for it in parts] == [0, 4 * EIGHTH, 0]
    spent: dict[str, Fraction] = {}
    for part in (part for it in parts for part in it["of_people"]):
        assert part.spent >= 0
        spent[part.name] = spent.get(part.name, Fraction(0)) + part.spent
    assert spent == {part.name: part.spent for part in whole["of_people"]}
    assert ledger.outline("sales", until="2026-09-01") is None
    assert parts[1]["over_time"][0]["first"] == "2026-10-31", "the first of the month"


def test_a_whole_export_is_verified_without_the_ledger(account: LedgerAccount) -> None:
    text = account.ledger.export(documents=True)
    flaws, notes = verify_export(text, head=account.head)
    assert flaws == []
    last = "sales: the last entry in the file is 8. "
    covered = "Data sets in the file: sales. Days: all. No file shows whether others were taken out"
    assert notes == [
        covered,
        f"{last}The head that you stated is in the file: it is that of entry 8",
    ]
    earlier = account.ledger.entries("sales")[3].hash
    assert verify_export(text, head=earlier)[1][1].endswith("it is that of entry 3")
    compare = "Compare its hash with the ledger or with a head that you noted: "
    assert verify_export(text)[1] == [covered, f"{last}{compare}{account.head}"]
    assert verify_export(text, head="0" * 64)[0] == [
        (
            f"no entry has the hash {'0' * 64}: the ledger was rewritten, truncated or restored "
            "from an older copy, or this is an export of other days"
        )
    ]


def test_a_part_says_what_was_not_checked(account: LedgerAccount) -> None:
    text = account.ledger.export("sales", since="2026-11-01", documents=True)
    flaws, notes = verify_export(text)
    assert flaws == []
    assert notes[0].startswith("Data sets in the file: sales. Days: from 2026-11-01. ")
    assert notes[1] == (
        "sales: of entry 6 and entry 8 only the hash was checked, not the sums: "
        "entries 0 to 5 are not in the file"
    )
    flaws, notes = verify_export(account.ledger.export("sales", since="2026-10-01"))
    assert flaws == []
    assert notes[1] == "sales: the file has no documents, so they were not checked"
    assert notes[2].startswith("sales: of entry 3 only the hash was checked")
    nothing = "Data sets in the file: none. Days: from 2027-01-01. "
    assert verify_export(account.ledger.export(since="2027-01-01"))[1][0].startswith(nothing)


def _edited(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    said = json.loads(text)
    change(said)
    return json.dumps(said)


def _reseal(entry: dict[str, Any], old: str, new: str) -> None:
    assert old in entry["body"]
    entry["body"] = entry["body"].replace(old, new)
    entry["hash"] = hash_of(entry["body"])


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        (lambda it: it["entries"].pop(1), "sales: entry 7 is missing: entry 8 was found instead"),
        (lambda it: it["entries"].reverse(), "sales: entry 9 is missing: entry 7 was found"),
        (
            lambda it: it["entries"][1].update(hash="0" * 64),
            "sales: entry 7 was edited: it does not match its hash",
        ),
        (
            lambda it: _reseal(
                it["entries"][1], '"held":["1/2","1/8","0"]', '"held":["1/4","1/8","0"]'
            ),
            "sales: entry 7 does not add up",
        ),
        (
            lambda it: it["entries"][0].update(body="{}"),
            "entry number 1 in the file was edited: it cannot be read",
        ),
        (
            lambda it: it["documents"][0].update(document="another"),
            "sales: the document of entry 8 was edited, or contradicts it",
        ),
        (lambda it: it["documents"].clear(), "sales: the document of entry 8 is missing"),
        (
            lambda it: it["documents"][0].update(number=99),
            "sales: entry 99 is missing, though its document is there",
        ),
        (lambda it: it.update(since="2026-11-02"), "sales: entry 6 is not of the stated days"),
        (lambda it: it.update(until="2026-11-01"), "sales: entry 6 is not of the stated days"),
        (lambda it: it.update(since=None), "sales: entry 0 is missing: entry 6 was found instead"),
    ],
)
def test_an_export_that_was_edited_shows_it(
    account: LedgerAccount, change: Callable[[dict[str, Any]], object], flaw: str
) -> None:
    text = account.ledger.export("sales", since="2026-11-01", documents=True)
    assert any(it.startswith(flaw) for it in verify_export(_edited(text, change))[0])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"used":["3/16",', '"used":["1/8",'),
        ('"held":["1/2","1/8","0"]', '"held":["1/4","1/8","0"]'),
        ('"person_spent":["5/8",', '"person_spent":["1/4",'),
    ],
)
def test_the_first_entry_of_a_person_in_a_part_adds_up(
    account: LedgerAccount, old: str, new: str
) -> None:
    """Entry 5 is the first of ann in the file; only what she had spent before is not known."""
    said = json.loads(account.ledger.export("sales", since="2026-10-01", until="2026-11-01"))
    _reseal(said["entries"][-1], old, new)
    assert verify_export(json.dumps(said))[0] == ["sales: entry 5 does not add up"]


def test_a_period_that_has_not_begun_is_a_flaw_of_an_export(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    account.ledger.steward("sales").renew(every="week", epsilon=1)
    said = json.loads(account.ledger.export())
    day = json.loads(said["entries"][1]["body"])["at"][:10]
    since = json.loads(said["entries"][1]["body"])["period"]["since"]
    _reseal(said["entries"][1], f'"since":"{since}"', '"since":"2126-11-18"')
    _reseal(said["entries"][1], f'"at":"{day}', '"at":"2126-11-20')
    assert verify_export(json.dumps(said))[0] == [
        "sales: the newest period began on 2126-11-18, which is still to come"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"dpgap": "release", "entries": []}',
        '{"dpgap": "ledger", "format": 1, "entries": [1]}',
        '{"dpgap": "ledger", "format": 1, "entries": [{"body": [], "hash": ""}]}',
        '{"dpgap": "ledger", "format": 1, "entries": [], "documents": [{"dataset": "sales"}]}',
        '{"dpgap": "ledger", "entries": []}',
        '{"dpgap": "ledger", "format": "1", "entries": []}',
        '{"dpgap": "ledger", "format": 1, "entries": [], "since": 5}',
        '{"dpgap": "ledger", "format": 1, "entries": [], "until": "soon"}',
    ],
)
def test_what_is_no_export_is_refused_in_plain_words(text: str) -> None:
    with pytest.raises(ValueError, match="was damaged or edited after export, or is no export"):
        verify_export(text)


def test_an_export_of_a_later_format_asks_for_an_update() -> None:
    with pytest.raises(ValueError, match="format 9, which a later dpgap wrote: update dpgap"):
        verify_export('{"dpgap": "ledger", "format": 9, "entries": []}')

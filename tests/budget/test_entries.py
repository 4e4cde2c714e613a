"""The book of a budget: it always adds up, and no edit goes unnoticed."""

import json
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgap.budget.account import BudgetExhausted
from dpgap.budget.cost import NOTHING, Cost, Limit
from dpgap.budget.entries import (
    Author,
    Balance,
    Entry,
    UnreadableEntry,
    flaws,
    following,
    opening,
    read_entry,
)

SHARES = st.fractions(min_value=0, max_value=1, max_denominator=10**6)
ACTS = [
    "reserve",
    "reserve",
    "settle",
    "settle",
    "write off",
    "raise",
    "lower",
    "allow",
    "bind",
    "again",
]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(ACTS), SHARES, st.integers(0, 30), st.sampled_from(["ann", "bob", "eve"])
    ),
    max_size=30,
)
Steps = list[tuple[str, Fraction, int, str]]
HALF = Fraction(1, 2)


def _author(person: str = "ann") -> Author:
    return Author(f"{person}@lab", "2026", person, "because")


def _balance(book: list[Entry], person: str = "ann") -> Balance:
    mine = [entry for entry in book if entry.person == person]
    return Balance(book[-1], mine[-1] if mine else None)


def _next(book: list[Entry], act: str, share: Fraction, place: int, person: str) -> Entry:
    balance, author, last = _balance(book, person), _author(person), book[-1]
    ended = {entry.reservation for entry in book}
    waiting = [it for it in book if it.kind == "reserve" and it.number not in ended]
    if act in ("settle", "write off") and waiting:
        about = waiting[place % len(waiting)]
        balance = _balance(book, about.person)
        if act == "write off":
            return following(balance, "write-off", author, about)
        spent = Cost.pure(share * about.charge.epsilon, about.charge.delta)
        extra = {"document": "0" * 64, "length": place}
        return following(balance, "settle", author, about, charge=spent, extra=extra)
    stated: dict[str, dict[str, Any]] = {
        "raise": {"granted": last.granted.raised(Limit("epsilon", share))},
        "lower": {"granted": last.granted.lowered(Cost.pure(min(share, last.total)))},
        "allow": {"allowance": Limit("epsilon", share, HALF)},
        "bind": {"extra": {"facts": {"table": f"table {place}"}}},
        "again": {"key": f"{len(book)}", "extra": {"paid_by": place}},
    }
    if act in stated:
        return following(balance, act, author, **stated[act])
    charge = Cost.pure(share + Fraction(1, 9), share / 1000)
    said = {"charge": charge, "purpose": "a release", "key": f"{len(book)}"}
    return following(balance, "reserve", author, **said)


def _reserved(book: list[Entry], charge: Cost) -> Entry:
    return following(_balance(book), "reserve", _author(), charge=charge, purpose="a release")


def _book(steps: Steps) -> list[Entry]:
    """A book in which releases and stewards do anything that is possible, in any order."""
    book = [
        opening(
            "sales",
            Limit("epsilon", Fraction(3), Fraction(1, 500)),
            _author(),
            {"facts": {"table": "sales"}},
        )
    ]
    for step in steps:
        try:
            book.append(_next(book, *step))
        except (BudgetExhausted, ValueError):
            continue
    return book


@given(STEPS)
def test_a_book_is_intact_and_never_overspent(steps: Steps) -> None:
    book = _book(steps)
    assert flaws(book) == []
    people: dict[str, Entry] = {}
    for entry in book:
        assert NOTHING.fits(entry.used)
        assert NOTHING.fits(entry.held)
        assert entry.granted.covers(entry.gone)
        assert entry.granted.lowered(entry.gone).amount == entry.left.amount
        assert entry.gone.delta + entry.left.delta == entry.granted.delta
        people[entry.person] = entry
        assert Cost.sum(each.person_spent for each in people.values()) == entry.gone
        if entry.kind == "reserve" and entry.allowance is not None:
            assert entry.allowance.covers(entry.person_spent)


@given(STEPS)
def test_every_entry_can_be_read_again_from_its_body(steps: Steps) -> None:
    for entry in _book(steps):
        assert read_entry(entry.body(), entry.hash) == entry


CHANGES: dict[str, Any] = {
    "dataset": "clinic",
    "number": 77,
    "kind": "gift",
    "reservation": 5,
    "charge": Cost.pure(Fraction(1, 10**9)),
    "granted": Limit("epsilon", Fraction(99)),
    "used": Cost.pure(Fraction(1, 7**9)),
    "held": Cost.pure(Fraction(1, 7**9)),
    "purpose": "nothing",
    "who": "mallory@lab",
    "at": "1999",
    "previous": "0" * 64,
    "person": "mallory",
    "reason": "none",
    "key": "another",
    "person_spent": Cost.pure(Fraction(1, 7**9)),
    "actor": "mallory",
    "archived": 55,
    "allowance": Limit("epsilon", Fraction(77)),
    "bound": 66,
    "closed": True,
    "extra": {"table": "clinic"},
    "period": {"days": 30},
    "hash": "0" * 64,
}


@given(STEPS, st.data())
def test_any_edit_of_any_entry_is_noticed(steps: Steps, data: st.DataObject) -> None:
    book = _book(steps)
    place = data.draw(st.integers(0, len(book) - 1))
    name = data.draw(st.sampled_from([field.name for field in fields(Entry)]))
    edited = [*book]
    edited[place] = replace(book[place], **{name: CHANGES[name]})
    assert flaws(edited)
    if place < len(book) - 1:
        assert flaws(book[:place] + book[place + 1 :])


BALANCES = [
    *("charge", "granted", "used", "held", "person_spent", "allowance", "bound"),
    *("closed", "archived", "period"),
]


@given(STEPS, st.data())
def test_an_edit_of_a_balance_is_noticed_though_its_hash_fits(
    steps: Steps, data: st.DataObject
) -> None:
    """What an entry says of the balance, it must have from the one before."""
    book = _book(steps)
    name = data.draw(st.sampled_from(BALANCES))
    edited = replace(book[-1], **{name: CHANGES[name]}).sealed()
    is_stated = (edited.kind, name) in (("allow", "allowance"), ("create", "granted"))
    if not is_stated:
        assert f"entry {edited.number} does not add up" in flaws([*book[:-1], edited])


def test_an_edit_with_a_fitting_hash_breaks_the_chain_or_the_sums() -> None:
    book = _book(
        [
            ("reserve", HALF, 0, "ann"),
            ("settle", Fraction(1), 0, "ann"),
            ("reserve", HALF, 0, "bob"),
        ]
    )
    cheaper = replace(book[2], charge=NOTHING, used=NOTHING).sealed()
    assert flaws([*book[:2], cheaper, book[3]])
    unpaid = replace(book[1], held=NOTHING).sealed()
    assert "entry 1 does not add up" in flaws([book[0], unpaid])
    twice = replace(book[3], key=book[1].key).sealed()
    assert "entry 3 does not add up" in flaws([*book[:3], twice])


def test_a_chain_without_a_key_can_be_rewritten_and_only_a_head_noted_earlier_shows_it() -> None:
    book = _book([("reserve", HALF, 0, "ann"), ("settle", Fraction(1), 0, "ann")])
    little = Cost.pure(Fraction(1, 100))
    forged = [book[0], _reserved(book[:1], little)]
    assert flaws(forged) == []
    assert book[-1].hash in [entry.hash for entry in book]
    assert book[-1].hash not in [entry.hash for entry in forged]


def test_an_empty_book_is_not_intact() -> None:
    assert flaws([]) == ["there are no entries"]


TOO_MUCH = [Cost.pure(2), Cost.pure(1, "1e-9"), Cost(Fraction(1), Fraction(2))]


@pytest.mark.parametrize("spent", TOO_MUCH)
def test_what_is_settled_lies_within_what_was_reserved(spent: Cost) -> None:
    book = [opening("sales", Limit("epsilon", Fraction(3)), _author())]
    book.append(_reserved(book, Cost.pure(Fraction(1))))
    with pytest.raises(ValueError, match="cost must be at most what was reserved, ε = 1"):
        following(_balance(book), "settle", _author(), book[1], charge=spent)


def _edited(body: str, **changes: object) -> str:
    return json.dumps(json.loads(body) | changes, sort_keys=True, separators=(",", ":"))


BODY = opening("sales", Limit("epsilon", Fraction(3)), Author("ann@lab", "2026", "ann")).body()


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[",
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        BODY.replace(",", ", "),
        BODY[:-1] + ',"gift":1}',
        _edited(BODY, number="0"),
        _edited(BODY, number=0.0),
        _edited(BODY, used=["1e999999999", "0", "0"]),
        _edited(BODY, used=["2/4", "0", "0"]),
        _edited(BODY, used=["1/0", "0", "0"]),
        _edited(BODY, used=["-1", "0", "0"]),
        _edited(BODY, used=["1", None, "0"]),
        _edited(BODY, granted=["epsilon", "-1", "0"]),
        _edited(BODY, granted=None),
        _edited(BODY, used=["1"]),
        _edited(BODY, used=None),
        _edited(BODY, allowance=[]),
        _edited(BODY, closed=1),
        _edited(BODY, extra=[]),
        _edited(BODY, period=0),
        _edited(BODY, archived="0"),
    ],
)
def test_a_body_that_is_not_written_as_entries_are_is_refused_in_words(body: str) -> None:
    with pytest.raises(UnreadableEntry, match="was edited"):
        read_entry(body)


LATER: dict[str, Any] = {
    "version": 2,
    "period": {"days": 30},
    "range": {"from": "2026-01-01"},
    "granted": ["renyi", "1", "0"],
}


@pytest.mark.parametrize("name", LATER)
def test_a_value_that_only_a_later_dpgap_knows_is_refused_in_words(name: str) -> None:
    """Amounts of another currency may have another number of parts: it is looked at first."""
    for parts in (["1"], ["1", "0"]):
        body = _edited(BODY, **{name: LATER[name]}, used=parts)
        called = "currency" if name == "granted" else name
        with pytest.raises(UnreadableEntry, match=f"which knows another {called}: update dpgap"):
            read_entry(body)


def test_a_body_names_every_field_in_full() -> None:
    names = "actor allowance archived at bound charge closed dataset extra"
    names += " granted held key kind number period person person_spent previous purpose range"
    names += " reason reservation used version who"
    assert list(json.loads(BODY)) == names.split()

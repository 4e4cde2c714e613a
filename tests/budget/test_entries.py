"""The book of a budget: it always adds up, and no edit goes unnoticed."""

from dataclasses import fields, replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgap.budget.account import BudgetExhausted
from dpgap.budget.entries import Entry, flaws, has_head, opening, reserving, settling

SHARES = st.fractions(min_value=0, max_value=1, max_denominator=10**6)
STEPS = st.lists(st.tuples(st.booleans(), SHARES, st.integers(0, 30)), max_size=30)


def _book(steps: list[tuple[bool, Fraction, int]]) -> list[Entry]:
    """A book in which releases reserve and settle in any order that is possible."""
    book = [opening("sales", Fraction(3), "ann@lab", "2026")]
    waiting: list[Entry] = []
    for reserves, share, place in steps:
        last = book[-1]
        if reserves or not waiting:
            try:
                entry = reserving(last, share + Fraction(1, 9), "a release", "ann@lab", "2026")
            except BudgetExhausted:
                assert share + Fraction(1, 9) > last.remaining
                continue
            waiting.append(entry)
        else:
            about = waiting.pop(place % len(waiting))
            spent = share * about.epsilon
            entry = settling(last, about.number, about.epsilon, spent, "bob@lab", "2026")
        book.append(entry)
    return book


@given(STEPS)
def test_a_book_is_intact_and_never_overspent(steps: list[tuple[bool, Fraction, int]]) -> None:
    book = _book(steps)
    assert flaws(book) == []
    for entry in book:
        assert entry.spent >= 0
        assert entry.reserved >= 0
        assert entry.spent + entry.reserved + entry.remaining == entry.total == 3
        assert entry.remaining >= 0


CHANGES = {
    "dataset": "clinic",
    "number": 77,
    "kind": "gift",
    "about": 5,
    "epsilon": Fraction(1, 10**9),
    "total": Fraction(99),
    "spent": Fraction(-1),
    "reserved": Fraction(-1),
    "purpose": "nothing",
    "who": "eve@lab",
    "at": "1999",
    "previous": "0" * 64,
    "hash": "0" * 64,
}


@given(STEPS, st.data())
def test_any_edit_of_any_entry_is_noticed(
    steps: list[tuple[bool, Fraction, int]], data: st.DataObject
) -> None:
    book = _book(steps)
    place = data.draw(st.integers(0, len(book) - 1))
    name = data.draw(st.sampled_from([field.name for field in fields(Entry)]))
    edited = [*book]
    edited[place] = replace(book[place], **{name: CHANGES[name]})
    assert flaws(edited)
    if place < len(book) - 1:
        assert flaws(book[:place] + book[place + 1 :])


def test_an_edit_with_a_fitting_hash_breaks_the_chain_or_the_sums() -> None:
    book = _book([(True, Fraction(1, 2), 0), (False, Fraction(1), 0), (True, Fraction(1), 0)])
    cheaper = replace(book[2], epsilon=Fraction(0), spent=Fraction(0)).sealed()
    assert flaws([*book[:2], cheaper, book[3]])
    unpaid = replace(book[1], reserved=Fraction(0)).sealed()
    assert "entry 1 does not add up" in flaws([book[0], unpaid])


def test_a_chain_without_a_key_can_be_rewritten_and_only_a_head_noted_earlier_shows_it() -> None:
    book = _book([(True, Fraction(1, 2), 0), (False, Fraction(1), 0)])
    forged = [book[0], reserving(book[0], Fraction(1, 100), "a release", "eve@lab", "2026")]
    assert flaws(forged) == []
    assert has_head(book, book[-1].hash)
    assert not has_head(forged, book[-1].hash)


def test_an_empty_book_is_not_intact() -> None:
    assert flaws([]) == ["there are no entries"]


@pytest.mark.parametrize("spent", [Fraction(-1), Fraction(2)])
def test_what_is_settled_lies_within_what_was_reserved(spent: Fraction) -> None:
    last = opening("sales", Fraction(3), "ann@lab", "2026")
    with pytest.raises(ValueError, match="between 0 and the 1 reserved"):
        settling(last, 1, Fraction(1), spent, "ann@lab", "2026")

"""What a steward does: raise, lower, close, allow and write off, each as an entry in the chain."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from dpgap.budget import requests
from dpgap.budget.account import AlreadyCharged, BudgetExhausted, QuotaExhausted, Request
from dpgap.budget.cost import NOTHING, Cost, Limit
from dpgap.budget.entries import flaws
from dpgap.budget.ledger import Ledger, LedgerAccount, LedgerError, verify_export
from dpgap.budget.requests import Quota
from dpgap.budget.steward import Steward
from dpgap.budget.store import Rows, Store

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)


@pytest.fixture
def account(url: str) -> LedgerAccount:
    return Ledger(url).create("sales", 1)


@pytest.fixture
def steward(account: LedgerAccount) -> Steward:
    return account.ledger.steward("sales")


def test_a_raised_total_can_be_spent(account: LedgerAccount, steward: Steward) -> None:
    account.reserve(Cost.pure(Fraction(1)), "everything")
    entry = steward.of("sue").raise_to("1.5", reason="a second survey")
    assert (entry.kind, entry.actor, entry.reason) == ("raise", "sue", "a second survey")
    assert entry.person == ""  # it concerns nobody more than others
    account.reserve(Cost.pure(HALF), "the rest")
    assert account.remaining == 0
    assert account.ledger.verify() == []


def test_what_somebody_notes_in_an_entry_is_in_no_other(steward: Steward) -> None:
    steward.raise_to(2, reason="more").extra["note"] = "mine"
    assert steward.raise_to(3, reason="more").extra == {}


def test_a_lowered_total_cannot_be_spent_and_never_falls_below_what_is_gone(
    account: LedgerAccount, steward: Steward
) -> None:
    account.reserve(Cost.pure(QUARTER), "settled").settle(Cost.pure(QUARTER))
    account.reserve(Cost.pure(QUARTER), "under way")
    with pytest.raises(ValueError, match=r"has spent and reserved ε = 0\.5: .* to ε = 0\.4"):
        steward.lower_to("0.4", reason="less")
    assert steward.lower_to(HALF, reason="less").remaining == 0
    with pytest.raises(BudgetExhausted):
        account.reserve(Cost.pure(Fraction(1, 100)), "more")
    assert account.ledger.verify() == []


def test_nothing_is_reserved_from_a_closed_budget_but_what_is_under_way_is_settled(
    account: LedgerAccount, steward: Steward
) -> None:
    reservation = account.reserve(Cost.pure(HALF), "under way")
    steward.close(reason="the project ended")
    with pytest.raises(BudgetExhausted, match="the budget of data set 'sales' is closed"):
        account.reserve(Cost.pure(QUARTER), "more")
    reservation.settle(Cost.pure(QUARTER), "a document")
    assert (account.spent, account.reserved) == (QUARTER, 0)
    assert account.balance.closed
    assert account.ledger.verify() == []


def test_a_person_spends_up_to_the_allowance_and_others_as_before(
    account: LedgerAccount, steward: Steward
) -> None:
    ann, bob = account.of("ann"), account.of("bob")
    ann.reserve(Cost.pure(QUARTER), "before there was an allowance").settle(Cost.pure(QUARTER))
    steward.allow("ann", HALF, reason="her share")
    with pytest.raises(
        BudgetExhausted, match=r"'ann' may spend ε = 0\.5 .* reserved ε = 0\.25, so ε = 0\.25"
    ):
        ann.reserve(Cost.pure(HALF), "too much")
    reservation = ann.reserve(Cost.pure(QUARTER), "all of it")
    with pytest.raises(BudgetExhausted, match="a steward can allow more"):
        ann.reserve(Cost.pure(Fraction(1, 100)), "a little more")
    reservation.settle(Cost.pure(Fraction(1, 8)))
    ann.reserve(Cost.pure(Fraction(1, 8)), "what came back")
    bob.reserve(Cost.pure(QUARTER), "no allowance, so what is left")
    steward.allow("ann", "3/4")
    ann.reserve(Cost.pure(Fraction(1, 8)), "more was allowed")
    with pytest.raises(BudgetExhausted, match="cannot cover"):
        ann.reserve(Cost.pure(HALF), "more than the budget has")
    assert account.ledger.verify() == []


def test_an_entry_says_who_acted_and_whom_it_concerns(
    account: LedgerAccount, steward: Steward
) -> None:
    account.of("ann").reserve(Cost.pure(HALF), "broken off")
    account.of("bob").reserve(Cost.pure(QUARTER), "settled").settle(Cost.pure(QUARTER))
    steward.of("sue").allow("ann", HALF)
    steward.of("sue").write_off(1, reason="the machine died")
    steward.of("sue").bind(unit="customer", reason="it was forgotten")
    user = account.ledger._user
    assert [
        (entry.kind, entry.actor, entry.person) for entry in account.ledger.entries("sales")
    ] == [
        ("create", user, ""),
        ("reserve", "ann", "ann"),
        ("reserve", "bob", "bob"),
        ("settle", "bob", "bob"),
        ("allow", "sue", "ann"),
        ("write-off", "sue", "ann"),
        ("bind", "sue", ""),
    ]
    assert account.ledger.verify() == []


def test_a_refusal_names_what_is_short_and_what_is_left_for_this_person(url: str) -> None:
    account = Ledger(url).create("sales", 2, delta="1e-6")
    steward, tiny = account.ledger.steward("sales"), Fraction(1, 10**6)
    steward.allow("ann", HALF, delta=0)
    steward.allow("bob", HALF, delta=tiny / 10)
    for person, charge, delta, words in [
        (
            "ann",
            QUARTER,
            tiny / 10,
            r"'ann' may spend ε = 0\.5 .* so ε = 0\.5 and δ = 0 are left for them and ε = 0\.25",
        ),
        (
            "bob",
            QUARTER,
            tiny / 2,
            r"'bob' may spend .* so ε = 0\.5 and δ = 10⁻⁷ are left for them",
        ),
        ("bob", 1, tiny, r"'bob' may spend ε = 0\.5, δ = 10⁻⁷ .* allow more"),
        (
            "eve",
            QUARTER,
            2 * tiny,
            r"cannot cover this release: total ε = 2, δ = 10⁻⁶, .* requested ε = 0\.25, δ =",
        ),
        ("eve", 3, tiny, r"cannot cover this release: total ε = 2, .*requested ε = 3, δ ="),
        ("eve", 3, 2 * tiny, r"cannot cover this release: total ε = 2, δ = 10⁻⁶, "),
    ]:
        request = Request(Cost.pure(Fraction(charge), delta), "top 1")
        with pytest.raises(BudgetExhausted, match=words):
            account.of(person).reserve_for(request)
    account.of("ann").reserve(Cost.pure(QUARTER), "a pure one")
    assert account.balance.held == Cost.pure(QUARTER)
    pure = Ledger(url).create("clinic", 2)
    with pytest.raises(BudgetExhausted, match="remaining ε = 2, δ = 0, requested ε = 1, δ ="):
        pure.reserve_for(Request(Cost.pure(Fraction(1), tiny), "top 1"))


def test_what_is_left_is_what_is_left_for_this_person(
    account: LedgerAccount, steward: Steward
) -> None:
    ann = account.of("ann")
    ann.reserve(Cost.pure(HALF), "before there was an allowance")
    assert ann.remaining == HALF
    steward.allow("ann", "3/4")
    assert (ann.remaining, account.of("bob").remaining) == (QUARTER, HALF)
    steward.allow("ann", QUARTER)
    assert ann.left.is_empty  # though it was lowered below what she spent
    account.of("bob").reserve(Cost.pure(HALF), "all that is left")
    steward.allow("ann", 1)
    assert ann.remaining == 0
    steward.close(reason="done")
    steward.allow("bob", 9)
    assert account.of("bob").remaining == 0


def test_people_are_listed_with_what_they_spent_and_may_spend(
    account: LedgerAccount, steward: Steward
) -> None:
    steward.allow("eve", 0)
    account.of("ann").reserve(Cost.pure(HALF), "settled").settle(Cost.pure(QUARTER))
    steward.of("sue").raise_to(2, reason="more")
    people = [(it.person, it.person_spent, it.allowance) for it in account.ledger.people("sales")]
    assert people == [("ann", Cost.pure(QUARTER), None), ("eve", NOTHING, Limit("epsilon", 0))]


@pytest.mark.parametrize("name", ["Ann", "ann ", "ａｎｎ", "an\ufe0fn"])
def test_a_person_whose_name_looks_like_that_of_another_gets_no_allowance(
    name: str, account: LedgerAccount, steward: Steward
) -> None:
    """Such as by a slip: then the right person would have no allowance, and could spend it all."""
    steward.allow("bob", HALF)
    account.of("ann").reserve(Cost.pure(QUARTER), "before there was an allowance")
    with pytest.raises(ValueError, match=r"person '.*' looks like 'ann', who .* data set 'sales'"):
        steward.allow(name, HALF)
    assert steward.allow("ann", HALF).allowance == Limit("epsilon", HALF)
    assert account.ledger.verify() == []


def test_a_slip_in_the_name_of_a_person_can_be_mended(steward: Steward) -> None:
    steward.allow("ann ", HALF)
    with pytest.raises(ValueError, match="looks like 'ann '"):
        steward.allow("ann", HALF)
    steward.allow("ann ", 0, reason="a slip")
    steward.allow("ann", HALF)
    assert steward.allow("ann ", QUARTER).person == "ann ", "who is there already goes on"


def test_an_allowance_may_be_nothing(account: LedgerAccount, steward: Steward) -> None:
    steward.allow("eve", 0)
    with pytest.raises(BudgetExhausted, match="'eve' may spend ε = 0"):
        account.of("eve").reserve(Cost.pure(Fraction(1, 10**9)), "anything")


def test_a_written_off_reservation_counts_as_spent_and_is_settled_by_nobody(
    account: LedgerAccount, steward: Steward
) -> None:
    reservation = account.of("ann").reserve(Cost.pure(HALF), "broken off")
    assert [entry.number for entry in steward.stale()] == [1]
    assert steward.stale("1999-01-01") == []
    entry = steward.write_off(1, reason="the machine died")
    assert (entry.person, entry.reservation, entry.person_spent.epsilon) == ("ann", 1, HALF)
    assert (account.spent, account.reserved, account.remaining) == (HALF, 0, HALF)
    assert steward.stale() == []
    with pytest.raises(LedgerError, match="settled once"):
        reservation.settle(Cost.pure(Fraction(0)), "a document")
    assert account.spent == HALF
    assert account.ledger.verify() == []


REFUSED: dict[str, tuple[Callable[[Steward], object], str]] = {
    "raise to less": (lambda it: it.raise_to(HALF, reason="r"), "to raise it, state a larger one"),
    "raise to as much": (lambda it: it.raise_to(1, reason="r"), "to raise it, state a larger one"),
    "lower to more": (lambda it: it.lower_to(2, reason="r"), "to lower it, state a smaller one"),
    "lower to nothing": (lambda it: it.lower_to(0, reason="r"), "greater than 0"),
    "no reason": (lambda it: it.close(reason=" "), "reason must say why"),
    "a negative allowance": (lambda it: it.allow("ann", -1), "must not be less than 0"),
    "nobody": (lambda it: it.allow("", 1), "person must be 1 to 200 printable characters"),
    "no reservation": (lambda it: it.write_off(0, reason="r"), "entry 0 .* is no reservation"),
    "no entry": (lambda it: it.write_off(77, reason="r"), "entry 77 .* is no reservation"),
    "settled": (lambda it: it.write_off(1, reason="r"), "was settled already, as entry 2"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_is_refused_and_writes_nothing(
    account: LedgerAccount, steward: Steward, what: str
) -> None:
    account.reserve(Cost.pure(QUARTER), "settled").settle(Cost.pure(QUARTER))
    act, words = REFUSED[what]
    with pytest.raises(ValueError, match=words):
        act(steward)
    assert len(account.ledger.entries("sales")) == 3


def test_whoever_loses_the_race_to_write_off_is_told_who_was_first(
    account: LedgerAccount, steward: Steward, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.reserve(Cost.pure(QUARTER), "broken off")
    writing = Store.writing

    def after_sue(store: Store, *given: Any) -> Any:
        monkeypatch.undo()
        steward.of("sue").write_off(1, reason="its desk is gone")
        return writing(store, *given)

    monkeypatch.setattr(Store, "writing", after_sue)
    words = (
        "reservation 1 of data set 'sales' was written off by 'sue' already, as entry 2: nothing"
    )
    with pytest.raises(ValueError, match=words):
        steward.write_off(1, reason="nobody will settle it")
    assert len(account.ledger.entries("sales")) == 3
    assert account.ledger.verify() == []


def test_a_closed_budget_is_not_raised_or_closed_again(steward: Steward) -> None:
    steward.close(reason="done")
    with pytest.raises(ValueError, match="is closed: its total cannot be raised"):
        steward.raise_to(2, reason="more")
    with pytest.raises(ValueError, match="is closed already"):
        steward.close(reason="done")


@pytest.mark.parametrize(
    "before", ["yesterday", "", "~", "9", "2026", "2026-11", "31.12.2025", "2026-13", "2026-11-99"]
)
def test_what_is_no_day_calls_no_reservation_stale(
    before: str, account: LedgerAccount, steward: Steward
) -> None:
    account.reserve(Cost.pure(HALF), "under way")
    with pytest.raises(ValueError, match="before must be a day such as"):
        steward.stale(before)


def test_a_reservation_is_stale_from_the_day_after_it_on(
    account: LedgerAccount, steward: Steward
) -> None:
    entry = account.reserve(Cost.pure(HALF), "under way").entry
    made = date.fromisoformat(entry.at[:10])
    assert steward.stale(made.isoformat()) == []
    assert steward.stale((made + timedelta(1)).isoformat()) == [entry]


def test_an_allowance_without_a_delta_keeps_it_and_at_first_has_the_share_of_epsilon(
    url: str,
) -> None:
    account = Ledger(url).create("sales", 2, delta="1e-6")
    steward = account.ledger.steward("sales")
    assert steward.allow("ann", HALF).allowance == Limit("epsilon", HALF, Fraction(1, 4 * 10**6))
    assert steward.allow("ann", 1, delta="1e-9").allowance == Limit(
        "epsilon", 1, Fraction(1, 10**9)
    )
    assert steward.allow("ann", 2).allowance == Limit("epsilon", 2, Fraction(1, 10**9))
    assert steward.allow("bob", 5).allowance == Limit("epsilon", 5, Fraction(1, 10**6))
    with pytest.raises(BudgetExhausted, match="'ann' may spend"):
        account.of("ann").reserve_for(Request(Cost.pure(QUARTER, Fraction(1, 10**8)), "all of it"))
    assert account.ledger.verify() == []


QUOTAS = {
    "'ann' may ask 2 questions of data set 'sales' in a day, and has asked 2": Quota(2, 99, 99),
    "answers to 'ann' may take 2e-05 MB of the archive .* They take 2e-05 MB now": Quota(9, 20, 99),
    "the archive of data set 'sales' may take 2e-05 MB, and takes 2e-05 MB now": Quota(9, 99, 20),
}


@pytest.mark.usefixtures("within_a_day")
@pytest.mark.parametrize("words", QUOTAS)
def test_a_quota_bounds_what_one_person_asks_whatever_the_budget_has(
    account: LedgerAccount, words: str
) -> None:
    quota = QUOTAS[words]
    ann, bob = (account.of(name, quota=quota) for name in ("ann", "bob"))
    for number in range(2):
        asked = ann.of(key=f"number {number}")
        asked.reserve(Cost.pure(Fraction(1, 100)), "asked").settle(
            Cost.pure(Fraction(1, 100)), "ten letters"[:10]
        )
    with pytest.raises(QuotaExhausted, match=words):
        ann.reserve(Cost.pure(Fraction(1, 100)), "one more")
    with pytest.raises(AlreadyCharged):  # what was charged before is not refused
        ann.of(key="number 1").reserve(Cost.pure(Fraction(1, 100)), "asked")
    if quota.archive > 20:
        bob.reserve(Cost.pure(Fraction(1, 100)), "others go on")
        account.of("ann").reserve(Cost.pure(Fraction(1, 100)), "without a quota")
    assert account.ledger.verify() == []


@pytest.mark.usefixtures("within_a_day")
def test_a_quota_counts_one_day(account: LedgerAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = account.of("ann", quota=Quota(1, 99, 99))
    ann.reserve(Cost.pure(Fraction(1, 100)), "today")
    with pytest.raises(QuotaExhausted, match=r"ask again from 20\d\d-\d\d-\d\d 00:00 UTC on"):
        ann.reserve(Cost.pure(Fraction(1, 100)), "more today")

    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=1)

    monkeypatch.setattr(requests, "datetime", Tomorrow)
    ann.reserve(Cost.pure(Fraction(1, 100)), "tomorrow")


LOST = "ab" * 32


def test_what_was_lost_with_later_entries_counts_as_spent(
    account: LedgerAccount, steward: Steward
) -> None:
    account.reserve(Cost.pure(QUARTER), "under way")
    assert account.ledger.verify(head=LOST) != []
    entry = steward.of("sue").accept(LOST, "1/4", reason="restored from a copy")
    assert (entry.kind, entry.actor, entry.charge.epsilon) == ("accept", "sue", QUARTER)
    assert (account.spent, account.reserved, account.remaining) == (QUARTER, QUARTER, HALF)
    assert account.ledger.verify(head=[LOST, account.head]) == []
    text = account.ledger.export()
    assert verify_export(text, head=[LOST, account.head])[0] == []
    assert len(verify_export(text, head=["cd" * 32, "ef" * 32])[0]) == 2

    steward.accept("cd" * 32, 9, delta="1/1000", reason="a second copy")
    assert account.balance.granted == Limit("epsilon", Fraction(19, 2), Fraction(1, 1000))
    assert account.balance.left.is_empty
    with pytest.raises(BudgetExhausted):
        account.reserve(Cost.pure(QUARTER), "nothing is left")
    assert account.ledger.verify() == []


@pytest.mark.parametrize(
    ("head", "epsilon", "delta", "words"),
    [
        ("abc", 0, 0, "head must be 64 hexadecimal digits"),
        (LOST, -1, 0, "must not be less than 0"),
        (LOST, "1e100", 0, "epsilon must be less than"),
        (LOST, 1, "1.001", "delta must be at most 1"),
        ("sales", 0, 0, "is in the book of 'sales': nothing is lost"),
        ("clinic", 0, 0, "is in the book of 'clinic': nothing is lost"),
    ],
)
def test_a_loss_that_makes_no_sense_is_refused(
    head: str,
    epsilon: int | str,
    delta: int | str,
    words: str,
    account: LedgerAccount,
    steward: Steward,
) -> None:
    books = {"sales": account.head, "clinic": account.ledger.create("clinic", 1).head}
    with pytest.raises(ValueError, match=words):
        steward.accept(books.get(head, head), epsilon, delta=delta, reason="restored from a copy")
    assert [entry.kind for entry in account.ledger.entries("sales")] == ["create"]


def test_a_loss_is_charged_to_the_present_period(
    account: LedgerAccount, steward: Steward, monkeypatch: pytest.MonkeyPatch
) -> None:
    steward.renew(every="week", epsilon=1)
    later = datetime.fromisoformat(account.balance.at) + timedelta(days=8)
    monkeypatch.setattr(Rows, "now", lambda _: later.isoformat(timespec="microseconds"))
    author = Ledger._author
    monkeypatch.setattr(
        Ledger,
        "_author",
        lambda *given, **named: author(*given, **named)._replace(at=later.isoformat()),
    )
    steward.accept(LOST, "3/4", reason="restored from a copy")
    assert [entry.kind for entry in account.ledger.entries("sales")][-2:] == [
        "new-period",
        "accept",
    ]
    assert account.remaining == QUARTER
    outline = account.ledger.outline("sales")
    assert outline is not None
    assert sorted(limit.amount for limit in outline.limits.values()) == [0, 1]


def test_an_edited_loss_does_not_add_up(account: LedgerAccount, steward: Steward) -> None:
    steward.accept(LOST, "1/4", reason="restored from a copy")
    *before, entry = account.ledger.entries("sales")
    less = replace(entry, charge=Cost.pure(Fraction(1, 8))).sealed()
    assert flaws([*before, less]) == ["entry 1 does not add up"]

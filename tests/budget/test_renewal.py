"""Budgets that renew: once a period, by the database's clock, whoever charges first."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
import spenders
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgap.budget.account import BudgetExhausted, Request
from dpgap.budget.cost import Cost, Limit
from dpgap.budget.entries import (
    NEVER,
    NEW_PERIOD,
    Author,
    Balance,
    Entry,
    Renewal,
    UnreadableEntry,
    WrongClock,
    canonical,
    flaws,
    following,
    opening,
    read_entry,
)
from dpgap.budget.ledger import Ledger, LedgerAccount, LedgerError
from dpgap.budget.steward import Steward
from dpgap.budget.store import Rows

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
Clock = Callable[[str], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Set the clocks of the database and of this machine to noon of a day."""
    author = Ledger._author

    def turn(day: str) -> None:
        noon = f"{day}T12:00:00.000000+00:00"
        monkeypatch.setattr(Rows, "now", lambda _: noon)
        monkeypatch.setattr(Ledger, "_author", lambda *said, **more: at(noon, *said, **more))

    def at(noon: str, *said: Any, **more: Any) -> Author:
        return author(*said, **more)._replace(at=noon)

    turn("2026-11-18")  # a Wednesday
    return turn


@pytest.fixture
def account(url: str, clock: Clock) -> LedgerAccount:
    return Ledger(url).create("sales", 1)


@pytest.fixture
def steward(account: LedgerAccount) -> Steward:
    return account.ledger.steward("sales")


def _kinds(account: LedgerAccount) -> list[str]:
    return [entry.kind for entry in account.ledger.entries("sales")]


def test_the_first_charge_of_a_week_renews_the_budget_once_and_what_was_left_lapses(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=1, reason="a report a week")
    account.reserve(Cost.pure(QUARTER), "in the first week").settle(Cost.pure(QUARTER))
    clock("2026-11-22")
    assert account.remaining == Fraction(3, 4)
    clock("2026-11-23")
    assert (account.remaining, account.total) == (1, Fraction(5, 4))
    assert NEW_PERIOD not in _kinds(account), "only a charge renews"
    account.reserve(Cost.pure(HALF), "the first charge")
    account.reserve(Cost.pure(QUARTER), "the second")
    assert _kinds(account)[4:] == [NEW_PERIOD, "reserve", "reserve"]
    begun = account.ledger.entries("sales")[4]
    assert begun.at == "2026-11-23T12:00:00.000000+00:00", "the time is the database's"
    assert (begun.amount, begun.person) == (Limit("epsilon", Fraction(1)), "")
    assert (account.remaining, account.total) == (QUARTER, Fraction(5, 4))
    with pytest.raises(
        BudgetExhausted, match=r"requested ε = 1\. The next week begins on 2026-11-30"
    ):
        account.reserve(Cost.pure(Fraction(1)), "more than the week has")
    assert account.ledger.verify() == []


def test_what_was_left_is_kept_if_it_is_to_carry_and_a_week_without_a_charge_adds_nothing(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=HALF, carry=True)
    reservation = account.reserve(Cost.pure(Fraction(1)), "under way")
    clock("2026-12-09")  # three weeks later
    account.reserve(Cost.pure(QUARTER), "the first charge since")
    assert account.remaining == QUARTER
    reservation.settle(Cost.pure(HALF))
    assert account.remaining == Fraction(3, 4), "what comes back is kept, too"
    assert account.ledger.verify() == []


def test_what_an_older_period_gives_back_lapses(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=1)
    old = account.of("ann").reserve(Cost.pure(Fraction(3, 4)), "over the week's end")
    clock("2026-11-24")
    new = account.of("ann").reserve(Cost.pure(HALF), "of the new week")
    assert account.remaining == HALF
    old.settle(Cost.pure(QUARTER))
    assert account.remaining == HALF, "it lapsed with the week that it was reserved in"
    assert account.ledger.people("sales")[0].person_spent.epsilon == Fraction(3, 4)
    new.settle(Cost.pure(QUARTER))
    assert account.remaining == Fraction(3, 4)
    assert (account.spent, account.reserved) == (HALF, 0)
    assert account.ledger.verify() == []


def test_an_answer_is_shown_again_in_the_period_that_paid_for_it(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    asked = Request(Cost.pure(QUARTER), "a report", identity="a question")
    account.of("ann").reserve_for(asked).settle(Cost.pure(QUARTER), "before it renewed")
    steward.renew(every="week", epsilon=1)
    over_the_end = account.of("ann", joins=False).reserve_for(asked)
    clock("2026-11-22")
    assert account.paid("a question") == "before it renewed"
    clock("2026-11-23")
    assert account.paid("a question") is None
    over_the_end.settle(Cost.pure(QUARTER), "of the last week")
    assert account.paid("a question") is None
    account.of("ann").reserve_for(asked).settle(Cost.pure(QUARTER), "of this week")
    assert account.paid("a question") == "of this week"
    clock("2026-11-30")
    assert account.paid("a question") is None
    steward.renew(every=NEVER)
    assert account.paid("a question") == "of this week"


def test_what_lapsed_does_not_come_back_when_renewal_stops(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=1)
    old = account.reserve(Cost.pure(Fraction(3, 4)), "over the week's end")
    clock("2026-11-24")
    account.reserve(Cost.pure(HALF), "of the new week")
    assert str(steward.renew(every=NEVER, reason="enough").period) == NEVER
    old.settle(Cost.pure(QUARTER))
    clock("2026-12-24")
    assert account.remaining == HALF
    with pytest.raises(ValueError, match="is not renewed now"):
        steward.renew(every=NEVER)
    assert account.ledger.verify() == []


def test_an_answer_of_the_last_period_that_is_settled_late_hides_no_answer_of_this_one(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=1, reason="a report a week")
    asked = Request(Cost.pure(QUARTER), "how many", identity="a question")
    late = account.reserve_for(asked)
    clock("2026-11-24")
    account.reserve_for(asked).settle(Cost.pure(QUARTER), "of this week")
    late.settle(Cost.pure(QUARTER), "of last week")
    assert account.paid("a question") == "of this week"
    clock("2026-12-01")
    assert account.paid("a question") is None


def test_a_machine_whose_clock_is_late_pays_once_in_a_period(
    account: LedgerAccount, steward: Steward, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    steward.renew(every="week", epsilon=1, reason="a report a week")
    asked = Request(Cost.pure(QUARTER), "how many", identity="a question")
    account.reserve_for(asked).settle(Cost.pure(QUARTER), "of last week")
    clock("2026-11-22")
    monkeypatch.setattr(Rows, "now", lambda _: "2026-11-23T00:00:01.000000+00:00")
    assert account.paid("a question") is None
    account.reserve_for(asked).settle(Cost.pure(QUARTER), "of this week")
    assert account.paid("a question") == "of this week"


def test_the_clock_of_the_database_goes_on_while_a_writer_waits_for_its_turn(url: str) -> None:
    ledger = Ledger(url)
    ledger.create("sales", 1)
    with ledger._store.writing("sales") as rows:
        began = rows.now()
        time.sleep(1.1)
        assert rows.now() > began


def test_a_clock_that_goes_back_renews_nothing(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="day", epsilon=1)
    for day in ("2026-11-19", "2026-11-18", "2026-10-01", "2026-11-19"):
        clock(day)
        account.reserve(Cost.pure(QUARTER), "a charge")
        assert _kinds(account).count(NEW_PERIOD) == 1
    assert account.remaining == 0
    clock("2026-11-01")
    steward.renew(every="week", epsilon=1)
    clock("2026-11-19")
    with pytest.raises(BudgetExhausted):
        account.reserve(
            Cost.pure(QUARTER), "a new rhythm, set by a clock that went back, renews no sooner"
        )


def test_a_raised_total_does_not_lapse_with_the_week_before(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=1)
    account.reserve(Cost.pure(Fraction(1)), "all of it").settle(Cost.pure(Fraction(1)))
    clock("2026-11-23")
    assert steward.raise_to(3, reason="twice as much this week").remaining == 2
    account.reserve(Cost.pure(Fraction(2)), "all of this week")
    clock("2026-11-30")
    assert account.remaining == 1
    assert account.ledger.verify() == []


def test_a_total_that_lapsed_altogether_breaks_nothing(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=1)
    old = account.reserve(Cost.pure(HALF), "over the week's end")
    clock("2026-11-24")
    steward.lower_to(HALF, reason="nothing more this week")
    old.settle(Cost.pure(Fraction(0)))
    assert (account.total, account.remaining) == (0, 0)
    steward.allow("ann", HALF)
    clock("2026-12-01")
    assert account.of("ann").remaining == HALF
    assert account.ledger.verify() == []


def test_delta_and_allowances_are_not_renewed_and_a_closed_budget_is_not(
    url: str, clock: Clock
) -> None:
    account = Ledger(url).create("sales", 1, delta="1e-6")
    steward = account.ledger.steward("sales")
    steward.renew(every="month", epsilon=1)
    steward.allow("ann", HALF)
    account.of("ann").reserve(Cost.pure(HALF), "all that she may")
    clock("2026-12-01")
    assert account.of("bob").left == Limit("epsilon", Fraction(1), Fraction(1, 10**6))
    with pytest.raises(BudgetExhausted, match="'ann' may spend"):
        account.of("ann").reserve(Cost.pure(QUARTER), "more")
    steward.close(reason="it is over")
    assert account.left.is_empty
    with pytest.raises(ValueError, match="is closed: it is not renewed"):
        steward.renew(every="week", epsilon=1)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"every": "year", "epsilon": 1}, "every must be one of 'day', 'week', 'month' or 'never'"),
        ({"every": "week"}, "epsilon must say what a period may cost"),
        ({"every": "week", "epsilon": -1}, "epsilon and delta of a limit must not be less than 0"),
        ({"every": NEVER, "epsilon": 1}, "to stop the renewal, state none"),
    ],
)
def test_what_cannot_be_renewed_is_refused(
    steward: Steward, said: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        steward.renew(**said)  # type: ignore[arg-type]
    assert len(steward.ledger.entries("sales")) == 1


def test_the_clock_is_that_of_the_database_in_utc(url: str) -> None:
    ledger = Ledger(url)
    ledger.create("sales", 1)
    with ledger._store.reading() as rows:
        told = rows.now()
    moment = datetime.fromisoformat(told)
    assert moment.isoformat(timespec="microseconds") == told
    assert abs(moment - datetime.now(UTC)) < timedelta(minutes=1)


def test_processes_at_the_start_of_a_period_renew_once(url: str, clock: Clock) -> None:
    earlier = datetime.now(UTC) - timedelta(40)  # the processes have the real clock
    clock(earlier.date().isoformat())
    account = Ledger(url).create("sales", 1)
    account.ledger.steward("sales").renew(every="month", epsilon=1)
    with spenders.fresh_processes().Pool(2) as pool:
        released = pool.starmap(spenders.spend, [(url, 6, Fraction(1, 8))] * 2)
    assert _kinds(account).count(NEW_PERIOD) == 1
    assert sum(map(len, released)) == 8, "one ε for all of them"
    assert account.ledger.entries("sales")[-1].remaining == 0
    assert flaws(account.ledger.entries("sales")) == []


def test_a_period_begins_once_by_the_database_s_own_index(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=1)
    clock("2026-11-25")
    account.reserve(Cost.pure(QUARTER), "the first charge")
    begun, _ = account.ledger.entries("sales")[-2:]
    again = replace(begun, actor="another writer, from the same entry").sealed()
    with (
        pytest.raises(LedgerError, match="a period begun once"),
        account.ledger._store.writing("sales") as rows,
    ):
        rows.append(again)
    assert account.ledger.verify() == []


def _renewal(every: str, epsilon: Fraction, carry: bool = False) -> Renewal:
    """How a budget is to be renewed; since when follows."""
    return Renewal(every, Limit("epsilon", epsilon), carry, "", None)


def _renewed_book() -> list[Entry]:
    """A book that is opened, renewed weekly, charged, and begins a new week."""
    author = Author("ann@lab", "2026-11-18T12:00:00.000000+00:00")
    book = [opening("sales", Limit("epsilon", Fraction(1)), author)]
    book.append(following(Balance(book[-1]), "renew", author, period=_renewal("week", HALF)))
    book.append(following(Balance(book[-1]), "reserve", author, charge=Cost.pure(QUARTER)))
    later = author._replace(at="2026-11-25T12:00:00.000000+00:00")
    return [*book, following(Balance(book[-1]), NEW_PERIOD, later)]


@pytest.mark.parametrize(
    "forged",
    [
        {"granted": Limit("epsilon", Fraction(2))},
        {"charge": Cost.pure(Fraction(1))},
        {"key": "period\t2026-11-23"},
        {"period": Renewal("week", Limit("epsilon", Fraction(1)), False, "2026-11-23", 3)},
        {"period": Renewal("week", Limit("epsilon", HALF), True, "2026-11-23", 3)},
        {"period": Renewal("week", Limit("epsilon", HALF), False, "2026-11-16", 3)},
        {"period": Renewal("week", Limit("epsilon", HALF), False, "2026-11-23", None)},
        {"at": "2026-11-18T12:00:00.000000+00:00"},
        {"at": "2026-12-01T12:00:00.000000+00:00"},
        {"kind": "raise"},
    ],
)
def test_a_forged_renewal_does_not_add_up(forged: dict[str, object]) -> None:
    book = _renewed_book()
    assert flaws(book) == []
    book[-1] = replace(book[-1], **forged).sealed()  # type: ignore[arg-type]
    assert flaws(book) == ["entry 3 does not add up"]


def test_a_renewal_that_grants_nothing_does_not_add_up() -> None:
    book = _renewed_book()[:2]
    assert book[1].period is not None
    period = replace(book[1].period, grant=Limit("epsilon", Fraction(0)))
    book[1] = replace(book[1], period=period).sealed()
    assert flaws(book) == ["entry 1 does not add up"]


def test_a_renewal_from_before_the_opening_is_a_flaw() -> None:
    """Else a rewritten book could have one period for every week since 1990."""
    opened, renewed, *_ = _renewed_book()
    early = Author("ann@lab", "1990-01-01T12:00:00.000000+00:00")
    forged = following(Balance(opened), "renew", early, period=_renewal("week", HALF))
    assert flaws([opened, renewed]) == []
    assert flaws([opened, forged]) == ["entry 1 renews periods from before the budget was opened"]


def test_a_period_that_begins_twice_does_not_add_up() -> None:
    book = _renewed_book()
    book.append(replace(book[-1], number=4, previous=book[-1].hash).sealed())
    assert flaws(book) == ["entry 4 does not add up"]


def test_a_period_that_has_not_begun_is_a_flaw(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=1)
    clock("2027-01-06")
    account.reserve(Cost.pure(QUARTER), "in a week that is yet to come")
    clock("2026-11-25")
    assert account.ledger.verify() == [
        "sales: the newest period began on 2027-01-04, which is still to come"
    ]


def _kinds_after_a_wrong_clock(account: LedgerAccount, clock: Clock) -> list[str]:
    clock("2027-01-06")
    account.reserve(Cost.pure(QUARTER), "by a clock that is weeks ahead").settle(Cost.pure(QUARTER))
    clock("2026-11-25")
    return _kinds(account)


@pytest.mark.parametrize("carry", [False, True])
def test_a_steward_begins_a_period_anew_after_a_wrong_clock(
    carry: bool, account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=1, carry=carry)
    _kinds_after_a_wrong_clock(account, clock)
    before = account.remaining
    begun = steward.begin_period(reason="the clock was six weeks ahead")
    assert (begun.kind, begun.reason) == (NEW_PERIOD, "the clock was six weeks ahead")
    assert begun.period is not None
    assert begun.period.since == "2026-11-23"
    assert account.ledger.verify() == []
    assert account.remaining == (max(before, 1) if carry else 1), "of one week, not of two"

    account.reserve(Cost.pure(Fraction(1)), "this week").settle(Cost.pure(Fraction(1)))
    clock("2026-12-02")
    assert account.remaining == (before if carry else 1)
    account.reserve(Cost.pure(HALF), "the next week, as ever").settle(Cost.pure(HALF))
    clock("2027-01-06")
    account.reserve(Cost.pure(QUARTER), "the week that began once by mistake").settle(
        Cost.pure(QUARTER)
    )
    assert _kinds(account).count(NEW_PERIOD) == 4
    assert account.ledger.verify() == []


def test_a_period_of_today_is_begun_once(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    with pytest.raises(ValueError, match="is not renewed"):
        steward.begin_period(reason="a wish")
    steward.renew(every="week", epsilon=1)
    with pytest.raises(ValueError, match="has begun already, on 2026-11-16"):
        steward.begin_period(reason="a wish")
    _kinds_after_a_wrong_clock(account, clock)
    steward.begin_period(reason="the clock was six weeks ahead")
    with pytest.raises(ValueError, match="has begun already, on 2026-11-23"):
        steward.begin_period(reason="once more")
    with pytest.raises(ValueError, match="reason must say why"):
        steward.begin_period(reason=" ")


def test_only_a_steward_begins_a_period_instead_of_a_later_one(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=1)
    _kinds_after_a_wrong_clock(account, clock)
    begun = steward.begin_period(reason="the clock was six weeks ahead")
    book = account.ledger.entries("sales")
    forged = replace(begun, reason="").sealed()
    assert flaws([*book[:-1], forged]) == [f"entry {begun.number} does not add up"]


def test_what_a_week_can_cost_counts_both_times_that_it_began(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=1)
    clock("2026-11-24")
    account.reserve(Cost.pure(QUARTER), "this week").settle(Cost.pure(QUARTER))
    _kinds_after_a_wrong_clock(account, clock)
    steward.begin_period(reason="the clock was six weeks ahead")
    outline = account.ledger.outline("sales")
    assert outline is not None
    assert outline.limits["2026-11-23"].amount == 2
    assert outline.limits["2027-01-04"].amount == 1


TEN_YEARS_AHEAD = "2036-11-18"


def test_a_clock_that_is_years_ahead_begins_no_period(
    account: LedgerAccount, steward: Steward, clock: Clock, url: str
) -> None:
    steward.renew(every="week", epsilon=1)
    clock("2026-11-24")
    account.reserve(Cost.pure(QUARTER), "this week").settle(Cost.pure(QUARTER))
    before = account.ledger.entries("sales")
    clock(TEN_YEARS_AHEAD)
    if url.startswith("sqlite"):
        for act in (
            lambda: account.reserve(Cost.pure(QUARTER), "far ahead"),
            lambda: steward.raise_to(9, reason="far ahead"),
        ):
            with pytest.raises(WrongClock, match="dpgap ledger begin-period"):
                act()
        assert account.ledger.entries("sales") == before
        steward.begin_period(reason="nobody asked for ten years")
    account.reserve(Cost.pure(QUARTER), "both clocks agree, or a steward says so")
    assert account.ledger.verify() == []


def test_an_act_of_a_steward_does_not_confirm_a_clock_that_is_years_ahead(
    account: LedgerAccount, steward: Steward, clock: Clock, url: str
) -> None:
    if not url.startswith("sqlite"):
        pytest.skip("a server has a clock of its own")
    steward.renew(every="week", epsilon=1)
    clock(TEN_YEARS_AHEAD)
    steward.allow("ann", 1)
    assert account.balance.at.startswith(TEN_YEARS_AHEAD)
    with pytest.raises(WrongClock, match="after the newest period"):
        account.reserve(Cost.pure(QUARTER), "far ahead")
    clock("2026-11-25")
    account.reserve(Cost.pure(QUARTER), "the week after")


def test_a_late_settlement_does_not_stop_the_next_period(
    account: LedgerAccount, steward: Steward, clock: Clock
) -> None:
    steward.renew(every="week", epsilon=1)
    late = account.reserve(Cost.pure(QUARTER), "settled after months")
    for day in ("2027-01-06", "2027-03-31"):
        clock(day)
        account.reserve(Cost.pure(QUARTER), "each now and then").settle(Cost.pure(QUARTER))
    late.settle(Cost.pure(QUARTER))
    assert account.balance.at.startswith("2026-11-18")
    clock("2027-04-07")
    account.reserve(Cost.pure(QUARTER), "the week after").settle(Cost.pure(QUARTER))
    assert account.ledger.verify() == []


@pytest.mark.parametrize("wrong", ["of the program", "of the server"])
def test_two_clocks_that_disagree_charge_nothing(
    wrong: str,
    account: LedgerAccount,
    steward: Steward,
    clock: Clock,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if url.startswith("sqlite"):
        pytest.skip("a SQLite file has no clock of its own")
    steward.renew(every="week", epsilon=1)
    clock("2026-11-24")
    account.reserve(Cost.pure(QUARTER), "this week").settle(Cost.pure(QUARTER))
    right = Rows.now
    clock(TEN_YEARS_AHEAD)
    ahead = Rows.now
    if wrong == "of the server":
        clock("2026-12-01")
        monkeypatch.setattr(Rows, "now", ahead)
    else:
        monkeypatch.setattr(Rows, "now", right)
    before = account.ledger.entries("sales")
    for act in (
        lambda: account.reserve(Cost.pure(QUARTER), "by two clocks"),
        lambda: steward.begin_period(reason="by two clocks"),
    ):
        with pytest.raises(WrongClock, match=r"2036-11-18.*one of them is wrong"):
            act()
    assert account.ledger.entries("sales") == before


def test_a_budget_that_is_not_renewed_asks_the_server_only(
    account: LedgerAccount, clock: Clock, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Rows.now
    clock(TEN_YEARS_AHEAD)
    account.reserve(Cost.pure(QUARTER), "after a long pause")
    clock("2046-11-18")
    monkeypatch.setattr(Rows, "now", right)
    if url.startswith("sqlite"):
        account.reserve(Cost.pure(QUARTER), "a date that freezes nothing")
        return
    with pytest.raises(WrongClock, match="Nothing was charged"):
        account.reserve(Cost.pure(QUARTER), "by a wrong clock")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"every": "year"}, "later dpgap, which knows another period"),
        ({"more": 1}, "later dpgap, which knows another period"),
        ({"carry": 1}, "was edited"),
        ({"lapsed": "3"}, "was edited"),
        ({"epsilon": "2/4"}, "later dpgap, which knows another period"),
        ({"grant": ["epsilon", "2/4", "0"]}, "was edited"),
        ({"grant": "1"}, "was edited"),
        ({"since": "20261123"}, "was edited"),
    ],
)
def test_a_renewal_is_read_as_it_is_written_and_nothing_else_is(
    change: dict[str, object], words: str
) -> None:
    entry = _renewed_book()[-1]
    assert entry.period is not None
    assert read_entry(entry.body(), entry.hash) == entry
    said = entry.period.exact()
    stated = canonical(said)
    assert stated in entry.body()
    with pytest.raises(UnreadableEntry, match=words):
        read_entry(entry.body().replace(stated, canonical(said | change)))


@pytest.mark.parametrize(
    ("every", "day", "start", "then"),
    [
        ("day", "2026-12-31", "2026-12-31", "2027-01-01"),
        ("week", "2026-12-31", "2026-12-28", "2027-01-04"),
        ("week", "2027-01-03", "2026-12-28", "2027-01-04"),
        ("month", "2028-02-29", "2028-02-01", "2028-03-01"),
        ("month", "2026-12-31", "2026-12-01", "2027-01-01"),
        ("month", "2027-01-30", "2027-01-01", "2027-02-01"),
    ],
)
def test_periods_begin_and_end_in_utc(every: str, day: str, start: str, then: str) -> None:
    renewal = Renewal(every, Limit("epsilon", HALF), False, day, None)
    assert (renewal.start(day), renewal.next) == (start, then)


@given(
    carry=st.booleans(),
    steps=st.lists(
        st.tuples(st.integers(-3, 5), st.integers(0, 8), st.integers(0, 8)), max_size=30
    ),
)
@settings(max_examples=60, deadline=None)
def test_a_book_agrees_with_a_simple_model(carry: bool, steps: list[tuple[int, int, int]]) -> None:
    """Each step moves the clock, asks for some eighths, and settles the oldest for some."""
    day = date(2026, 11, 18)
    author = Author("ann@lab", day.isoformat())
    book = [opening("sales", Limit("epsilon", Fraction(1)), author)]
    weekly = _renewal("week", Fraction(1), carry)
    book.append(following(Balance(book[-1]), "renew", author, period=weekly))
    left, week, waiting = Fraction(1), day.isocalendar()[:2], []
    charged = {week: Fraction(0)}
    for days, asked, back in steps:
        day += timedelta(days)
        author = author._replace(at=day.isoformat())
        period, now = book[-1].period, None
        if period is not None and period.is_over(author.at):
            now = following(Balance(book[-1]), NEW_PERIOD, author)
        begun, ask = day.isocalendar()[:2], Fraction(asked, 8)
        renewed = max(begun, week) != week
        rest = (left if carry or not renewed else Fraction(0)) + renewed
        try:
            entry = following(Balance(now or book[-1]), "reserve", author, charge=Cost.pure(ask))
        except BudgetExhausted:
            assert ask > rest
        else:
            assert ask <= rest
            book += [entry] if now is None else [now, entry]
            left, week = rest - ask, max(begun, week)
            charged[week] = charged.get(week, Fraction(0)) + ask
            waiting.append((entry, week))
        if waiting:
            entry, of_week = waiting.pop(0)
            spent = min(Fraction(back, 8), entry.epsilon)
            cost = Cost.pure(spent)
            book.append(following(Balance(book[-1]), "settle", author, entry, charge=cost))
            left += entry.epsilon - spent if carry or of_week == week else 0
            charged[of_week] -= entry.epsilon - spent
        assert book[-1].remaining == left
        assert book[-1].spent + book[-1].reserved == sum(charged.values())
    assert carry or all(each <= 1 for each in charged.values())
    assert sum(charged.values()) <= len(charged)
    assert flaws(book) == []
    assert [read_entry(entry.body(), entry.hash) for entry in book] == book

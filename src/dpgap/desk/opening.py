"""Budgets and allowances that the steward's file states, and the ledger does not have yet.

What the ledger has holds: it is changed by a steward's act, never by the file. So the file must not
contradict it, and nothing is written before all of the file is known to be right.
"""

from collections.abc import Mapping
from typing import Any

from dpgap.budget.account import granted
from dpgap.budget.ledger import Ledger
from dpgap.budget.requests import (
    is_one_table,
    look_alike,
    refuse_contradiction,
    require_meant,
    stated_facts,
)
from dpgap.budget.store import Store
from dpgap.desk.shelf import Shelf
from dpgap.desk.stewards_file import FileFaults, ListedData, StewardsFile

_REASON = "stated in the steward's file"

Facts = dict[str, Any]
Missing = dict[str, tuple[ListedData, Facts]]
"""Budgets that must be opened, by name, and the table, unit and columns that each is for."""


def missing_budgets(file: StewardsFile, ledger: Ledger, shelf: Shelf) -> Missing:
    """The budgets that a start opens; `FileFaults` if one cannot be, or is for another table."""
    known = ledger.datasets() if Store(file.ledger).is_there() else []
    if known:
        ledger.require_current()
    stated = {name: ledger.account(name).facts for name in known}
    missing: Missing = {}
    faults = []
    for data in sorted(file.datasets.values(), key=lambda it: it.beside is not None):
        facts = _facts(data, shelf)
        try:
            if data.budget not in stated:
                _require_new(data, facts, stated)
                missing[data.budget] = data, facts
                stated[data.budget] = stated_facts(**facts)
            refuse_contradiction(data.budget, stated[data.budget], facts)
        except ValueError as error:
            faults.append((data.line, f"datasets.{data.name}: {error}"))
    if faults:
        raise FileFaults(file.path, faults)
    return missing


def open_budgets(file: StewardsFile, ledger: Ledger, missing: Missing) -> None:
    """Open each budget that is missing, and give each person an allowance that has none yet."""
    for name, (data, facts) in missing.items():
        try:
            amount: dict[str, Any] = {"epsilon": data.epsilon or 0, "delta": data.delta}
            ledger.create(name, **amount, beside=data.beside, reason=_REASON, **facts)
        except ValueError:
            if name not in ledger.datasets():  # another desk may have been quicker
                raise
    for data in file.datasets.values():
        steward = ledger.steward(data.budget)
        for person, share in data.people.items():
            _, mine = steward.balance_of(person)
            if share is not None and (mine is None or mine.allowance is None):
                steward.allow(person, share.epsilon, delta=share.delta, reason=_REASON)


def _facts(data: ListedData, shelf: Shelf) -> Facts:
    """What a budget is for: the table as it was counted, which every question states."""
    origin = shelf.slot(data, next(iter(data.topics.values()))).facts.origin
    assert origin is not None  # it was counted from a table
    named = {"unit": data.unit, "neighbours": data.neighbours}
    return {"table": origin.address, "columns": origin.columns or None, **named}


def _require_new(data: ListedData, facts: Facts, stated: Mapping[str, Facts | None]) -> None:
    """Refuse what `Ledger.create` would refuse."""
    if data.epsilon is None:
        raise ValueError("has no budget in the ledger: state its epsilon")
    granted(data.epsilon, data.delta)
    if (other := look_alike(data.budget, stated)) is not None:
        raise ValueError(f"the budget {data.budget!r} looks like {other!r}, which is another one")
    same = [name for name, other in stated.items() if is_one_table(stated_facts(**facts), other)]
    require_meant(same, data.beside)

"""Budgets and allowances that the steward's file states, and the ledger does not have yet.

What the ledger has holds: it is changed by a steward's act, never by the file.
"""

from dpgap.budget.entries import LedgerError
from dpgap.budget.ledger import Ledger
from dpgap.data.opening import table_facts
from dpgap.desk.stewards_file import FileFaults, ListedData, StewardsFile

_REASON = "stated in the steward's file"


def open_budgets(file: StewardsFile, ledger: Ledger) -> None:
    """Open each budget that is missing, and give each person an allowance that has none yet."""
    known = _known(ledger)
    lacking = [
        (data.line, f"datasets.{data.name} has no budget in the ledger: state its epsilon")
        for data in file.datasets.values()
        if data.budget not in known and data.epsilon is None
    ]
    if lacking:
        raise FileFaults(file.path, lacking)
    if known:
        ledger.require_current()
    for data in sorted(file.datasets.values(), key=lambda it: it.beside is not None):
        if data.budget not in known:
            _open(ledger, data)
        steward = ledger.steward(data.budget)
        for person, share in data.people.items():
            last, mine = steward.balance_of(person)
            if share is not None and (mine is None or mine.allowance is None):
                steward.allow(person, share, delta=last.granted.delta, reason=_REASON)


def _open(ledger: Ledger, data: ListedData) -> None:
    address, columns = table_facts(data.table)
    facts = {"table": address, "unit": data.unit, "neighbours": data.neighbours}
    try:
        ledger.create(
            data.budget,
            data.epsilon or 0,
            delta=data.delta,
            columns=columns or None,
            beside=data.beside,
            reason=_REASON,
            **facts,
        )
    except ValueError:
        if data.budget not in _known(ledger):  # another desk may have been quicker
            raise


def _known(ledger: Ledger) -> list[str]:
    try:
        return ledger.datasets()
    except LedgerError:
        return []  # creating a budget makes the ledger, or says what is wrong with it

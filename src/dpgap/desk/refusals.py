"""Why something is refused: a status and our own words, whatever the error was inside.

>>> with in_our_words():
...     raise LedgerError("sqlite:///secret.db is full")
Traceback (most recent call last):
dpgap.desk.refusals.Refused: The ledger cannot be reached or written just now: nothing is released.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dpgap.budget.account import BudgetExhausted, KeyUsed, QuotaExhausted, RefusedRequest
from dpgap.budget.entries import LedgerError
from dpgap.releases.printable import printable


class Refused(Exception):  # noqa: N818 - it says what happened
    """What a client gets instead of an answer."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


ENTER = 401, "Enter first: with the link that the desk printed, or with your token."
NOT_YOURS = 403, "This is for stewards."
NOT_THERE = 404, "There is nothing here under this name."

_LEDGER = "The ledger cannot be reached or written just now: nothing is released."
_KEY_USED = (
    "This request key was used for another question: send one of its own. Nothing was charged."
)
_OTHER_TABLE = (
    "The budget is for another table, unit or columns than the desk has counted: tell your "
    "steward. Nothing was charged."
)


@contextmanager
def in_our_words() -> Iterator[None]:
    """Refuse what the library refuses, in words that a client may read.

    Only around what checks or answers a question, or changes a budget: there a `ValueError` is the
    library's own. Elsewhere nobody foresaw it, and nothing of it is shown.
    """
    try:
        yield
    except Exception as error:
        refused = refusal_of(error)
        if refused is None:
            raise
        raise refused from None


def refusal_of(error: Exception) -> Refused | None:
    """What to say of an error that we foresaw; None if we did not."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, BudgetExhausted):
        is_quota = isinstance(error, QuotaExhausted)
        return Refused(429 if is_quota else 409, printable(str(error)))
    if isinstance(error, RefusedRequest):
        return Refused(409, _KEY_USED if isinstance(error, KeyUsed) else _OTHER_TABLE)
    if isinstance(error, LedgerError):
        return Refused(503, _LEDGER)
    if isinstance(error, ValueError | TypeError):
        return Refused(422, printable(str(error)))
    return None

"""Names of data sets in a ledger: each means one budget, to people as well as to the computer.

Whoever reads "sales" and "Sales " takes them for one data set, and would grant its ε twice. So a
name that looks like one in use opens no second budget. Budgets that have such names already go on.
"""

import getpass
import os
import re
import unicodedata
from collections.abc import Iterable

_MAX_LENGTH = 200

# The letters that Unicode calls default-ignorable: nothing is drawn for them.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def require_name(dataset: object) -> str:
    """The name in its one spelling, or an error if it is none."""
    if not isinstance(dataset, str):
        raise TypeError(f"dataset must be a name, not {type(dataset).__name__}")
    if not (0 < len(dataset) <= _MAX_LENGTH and dataset.isprintable()):
        raise ValueError(f"dataset must be a name of 1 to {_MAX_LENGTH} printable characters")
    return unicodedata.normalize("NFC", dataset)


def look_alike(name: str, others: Iterable[str]) -> str | None:
    """One of the others that a person could take for this name, if there is any.

    >>> look_alike("Ｓａｌｅｓ", ["clinic", "sales "])
    'sales '
    """
    seen = _seen(name)
    return next((other for other in others if _seen(other) == seen), None)


def _seen(name: str) -> str:
    """What is left of a name without its capitals, widths, spaces and letters that nobody sees."""
    text = name
    for _ in range(2):  # taking capitals away can make letters that have another plain form
        text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).casefold()
    return " ".join(unicodedata.normalize("NFKC", text).split())


def system_user() -> str:
    """Who runs this program, as the system calls them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())

"""A ledger for other programs: JSON that can be verified, CSV for a spreadsheet."""

import csv
import io
import json
from typing import TYPE_CHECKING

from dpgap.budget.amounts import readable_text
from dpgap.exact.parameters import approximately
from dpgap.releases.printable import printable

if TYPE_CHECKING:
    from dpgap.budget.entries import Entry

_TEXTS = ("person", "actor", "kind", "reservation", "purpose", "reason", "key", "who")
_NUMBERS = ("epsilon", "delta", "total", "spent", "reserved", "remaining")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "|", "%")


def to_json(books: "list[list[Entry]]") -> str:
    """Every entry: its version, its body as it was sealed, and the hash of exactly this text."""
    entries = [
        {"version": entry.version, "body": entry.body(), "hash": entry.hash}
        for book in books
        for entry in book
    ]
    return json.dumps({"dpgap": "ledger", "entries": entries}, indent=1) + "\n"


def to_csv(books: "list[list[Entry]]") -> str:
    """Every entry as a row: decimals for people, and the exact charge. No name is a formula."""
    out = io.StringIO()
    writer = csv.writer(out)
    columns = ("dataset", "number", "at", *_TEXTS, *_NUMBERS, "exact epsilon", "hash")
    writer.writerow(columns)
    for entry in (each for book in books for each in book):
        row = [_harmless(entry.dataset), entry.number, entry.at]
        row += [_harmless(getattr(entry, name)) for name in _TEXTS]
        row += [approximately(getattr(entry, name), 12) for name in _NUMBERS]
        writer.writerow([*row, _harmless(readable_text(entry.epsilon)), entry.hash])
    return out.getvalue()


def _harmless(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = printable(value)
    return "'" + text if text.lstrip(" \u00a0").startswith(_FORMULA) else text

"""A ledger for other programs: JSON that can be verified, CSV for a spreadsheet."""

import csv
import io
import json
from typing import TYPE_CHECKING

from dpgap.budget.account import readable_text
from dpgap.exact.parameters import approximately
from dpgap.releases.printable import in_a_cell

if TYPE_CHECKING:
    from dpgap.budget.entries import Entry

_TEXTS = ("person", "actor", "kind", "reservation", "purpose", "reason", "key", "who")
_NUMBERS = ("epsilon", "delta", "total", "spent", "reserved", "remaining")


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
        row = [in_a_cell(entry.dataset), entry.number, entry.at]
        row += [in_a_cell(getattr(entry, name)) for name in _TEXTS]
        row += [approximately(getattr(entry, name), 12) for name in _NUMBERS]
        writer.writerow([*row, in_a_cell(readable_text(entry.epsilon)), entry.hash])
    return out.getvalue()

"""Counting the items of FIMI, CSV and Parquet files, which `dpgap.data` reads.

FIMI files have one transaction a line, item numbers separated by spaces; they may be gzipped.
CSV and Parquet files have columns `item` and `count`, or `unit` and `item` (one row a purchase).
An item that a transaction repeats counts once.
"""

from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpgap.data.domain import whole
from dpgap.data.private_counts import quietly
from dpgap.data.sources import kind_of, quoted, read_file
from dpgap.exact.reals import Integers


class Counted(NamedTuple):
    """Items in order and in how many records each occurs; records, where known."""

    items: Integers
    counts: Integers
    records: int | None


def read_counts(path: Path) -> Counted:
    """Count the items of any file."""
    if kind_of(path.name) == "fimi":
        return _count_lines(path)
    if _has_columns(path, "count"):
        return _take_counts(path)
    if _has_columns(path, "unit"):
        counts, records = _count_units(path, "unit", "item")
        ordered = [counts[item] for item in sorted(counts)]
        return Counted(np.arange(len(ordered)), np.array(ordered, dtype=np.int64), records)
    raise ValueError(
        f"{path.name} must be a readable table with columns item and count, or unit and item"
    )


def _has_columns(path: Path, other: str) -> bool:
    try:
        with read_file(str(path), other, "item"):
            return True
    except ValueError:
        return False


def _count_units(path: Path, unit: str | None, item: str | None) -> tuple[dict[str, int], int]:
    """In how many units each item occurs, and how many units there are."""
    with read_file(str(path), unit, item) as columns:
        own_unit, own_item = quoted(columns.unit), quoted(columns.item)
        rows = columns.table.filter(f"{own_unit} IS NOT NULL AND {own_item} IS NOT NULL")
        counted = f"CAST({own_item} AS VARCHAR), count(DISTINCT {own_unit})"
        counts = dict(_fetch(path, rows.aggregate(counted, f"GROUPING SETS (({own_item}), ())")))
    return counts, counts.pop(None)  # without an item: of all of them together


def _fetch(path: Path, table: Any) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = quietly(
        table.fetchall, f"{path.name} could not be read: it is torn, or its lines do not end alike"
    )
    return rows


def _count_lines(path: Path) -> Counted:
    words, records = _count_units(path, None, None)
    if not words:
        raise ValueError(f"{path.name} has no transactions")
    counts = {whole(word): count for word, count in words.items()}
    items = [-1 if item is None else item for item in counts]
    if not 0 <= min(items) <= max(items) < 1 << 62:
        raise ValueError(
            f"{path.name}: a transaction must be item numbers below 2^62, separated by spaces"
        )
    order = np.argsort(items)
    values = np.array(list(counts.values()), dtype=np.int64)
    return Counted(np.array(items, dtype=np.int64)[order], values[order], records)


def _take_counts(path: Path) -> Counted:
    with read_file(str(path), "count", "item") as columns:
        rows = _fetch(path, columns.table)
    try:
        pairs = {item: _whole(count) for item, count in rows}
        numbers = np.array(list(pairs.values()), dtype=np.int64)
    except (ArithmeticError, ValueError, TypeError):
        raise ValueError(f"{path.name}: every count must be a whole number") from None
    if not numbers.size or (numbers < 0).any():
        raise ValueError(f"{path.name}: counts must be at least 0, and there must be some")
    if len(pairs) < len(rows):
        raise ValueError(f"{path.name}: every item must occur once")
    try:
        named = np.array([int(item) for item in pairs], dtype=np.int64)
    except (ValueError, TypeError, OverflowError):
        named = np.arange(numbers.size)  # names, not numbers: any order serves
    order = np.argsort(named)
    return Counted(named[order], numbers[order], None)


def _whole(count: Any) -> int:
    number = Decimal(count)
    if number != int(number):
        raise ValueError("not a whole number")
    return int(number)

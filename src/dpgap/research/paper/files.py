"""Reading transactions and counts: FIMI, CSV and Parquet files.

FIMI files have one transaction a line, item numbers separated by spaces; they may be gzipped.
CSV and Parquet files have columns `item` and `count`, or `unit` and `item` (one row a purchase).
An item that a transaction repeats counts once.
"""

import csv
import gzip
import importlib
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.draws import Integers

_NEWLINE = ord("\n")
_STRANGE, _DIGIT, _SPACE = range(3)
_KINDS = np.full(256, _STRANGE, dtype=np.uint8)
_KINDS[list(b"0123456789")] = _DIGIT
_KINDS[list(b" \t\r\n")] = _SPACE
_MOST_DIGITS = 11


class Counted(NamedTuple):
    """Items in order and in how many records each occurs; records, where known."""

    items: Integers
    counts: Integers
    records: int | None


def read_counts(path: Path) -> Counted:
    """Count the items of any file."""
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    kind = path.name.lower().removesuffix(".gz")
    if kind.endswith(".parquet"):
        return _from_columns(path, _parquet_columns(path))
    if kind.endswith(".csv"):
        return _from_columns(path, _csv_columns(path))
    return read_fimi(path)


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    try:
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path.name} is not a whole gzip file") from error


def read_fimi(path: Path) -> Counted:
    """Count the items of a FIMI file."""
    content = _content(path)
    if not content.strip():
        raise ValueError(f"{path.name} has no transactions")
    text = np.frombuffer(content, dtype=np.uint8)
    kind = _KINDS[text]
    digit = kind == _DIGIT
    newlines = np.flatnonzero(text == _NEWLINE)
    strange = np.flatnonzero(kind == _STRANGE)
    if strange.size:
        raise _broken(path, int(np.searchsorted(newlines, strange[0])))
    edges = np.flatnonzero(np.diff(digit, prepend=False, append=False))
    begins, ends = edges[::2], edges[1::2]
    lines = np.searchsorted(newlines, begins)
    long = np.flatnonzero(ends - begins > _MOST_DIGITS)
    if long.size:
        raise _broken(path, int(lines[long[0]]))
    items = np.fromstring(content.decode("ascii"), dtype=np.int64, sep=" ")
    records = 1 + int(np.count_nonzero(np.diff(lines)))
    return Counted(*np.unique(_distinct(lines, items), return_counts=True), records)


def _distinct(lines: Integers, items: Integers) -> Integers:
    """Items without those that their line repeats."""
    same_line = lines[1:] == lines[:-1]
    if (same_line & (items[1:] < items[:-1])).any():  # repetitions need not be neighbours
        order = np.lexsort((items, lines))
        lines, items = lines[order], items[order]
        same_line = lines[1:] == lines[:-1]
    distinct: Integers = items[np.append(True, ~(same_line & (items[1:] == items[:-1])))]
    return distinct


def _broken(path: Path, line: int) -> ValueError:
    return ValueError(
        f"{path.name}, line {line + 1}: a transaction must be item numbers below 10^11 "
        "separated by spaces"
    )


def _csv_columns(path: Path) -> dict[str, list[str]]:
    try:
        rows = csv.reader(_content(path).decode("utf-8-sig").splitlines())
        head = [name.strip().lower() for name in next(rows, [])]
        columns = list(zip(*filter(None, rows), strict=True)) if head else []
    except (UnicodeDecodeError, ValueError, csv.Error) as error:
        raise ValueError(f"{path.name} is not a CSV file with equally long rows") from error
    if len(columns) != len(head):
        raise ValueError(f"{path.name} has no rows that match its header")
    return {name: list(column) for name, column in zip(head, columns, strict=True)}


def _parquet_columns(path: Path) -> dict[str, list[str]]:
    try:
        duckdb = importlib.import_module("duckdb")
    except ModuleNotFoundError:
        raise ModuleNotFoundError("reading Parquet needs duckdb: pip install duckdb") from None
    try:
        arrays = duckdb.read_parquet(str(path)).fetchnumpy()
    except duckdb.Error:
        raise ValueError(f"{path.name} is not a readable Parquet file") from None
    return {name.lower(): _texts(column) for name, column in arrays.items()}


def _texts(column: NDArray[Any]) -> list[str]:
    """A column as text; NULL becomes the empty text, as in a CSV file."""
    missing = np.ma.getmaskarray(column)
    return ["" if gone else str(value) for value, gone in zip(column, missing, strict=True)]


def _from_columns(path: Path, columns: dict[str, list[str]]) -> Counted:
    if "item" in columns and "count" in columns:
        return _given_counts(path, columns["item"], columns["count"])
    if "item" in columns and "unit" in columns:
        rows = zip(columns["unit"], columns["item"], strict=True)
        pairs = {(unit, item) for unit, item in rows if unit and item}
        tally = Counter(item for _, item in pairs)
        counts = np.array([tally[item] for item in sorted(tally)], dtype=np.int64)
        records = len({unit for unit, _ in pairs})
        return Counted(np.arange(counts.size), counts, records)
    raise ValueError(f"{path.name} must have columns item and count, or unit and item")


def _whole(text: str) -> int:
    number = Decimal(text)
    if number != int(number):
        raise ValueError("not a whole number")
    return int(number)


def _given_counts(path: Path, items: list[str], counts: list[str]) -> Counted:
    try:
        numbers = np.array([_whole(count) for count in counts], dtype=np.int64)
    except (ArithmeticError, ValueError):
        raise ValueError(f"{path.name}: every count must be a whole number") from None
    if not numbers.size or (numbers < 0).any():
        raise ValueError(f"{path.name}: counts must be at least 0, and there must be some")
    if len(set(items)) < len(items):
        raise ValueError(f"{path.name}: every item must occur once")
    try:
        named = np.array([int(item) for item in items], dtype=np.int64)
    except (ValueError, OverflowError):
        named = np.arange(numbers.size)  # names, not numbers: their order will do
    order = np.argsort(named)
    return Counted(named[order], numbers[order], None)

"""The paper's three data sets, by name: read from files, or synthetic.

A folder may hold the whole files as published (`kosarak.dat`, gzipped or not). It may instead hold
parts of them with known names; then missing counts are estimated, and the data set says so. Without
a folder, all three are synthetic: curves with the published sizes, and nothing else from the real
data. Any other file can replace them.

The queries are the items' counts, in an order that is shuffled once, as in the authors' code.

FIMI files have one transaction a line, item numbers separated by spaces; they may be gzipped. CSV
and Parquet files have columns `item` and `count`, or `unit` and `item` (one row a purchase). An
item that a transaction repeats counts once.
"""

import gzip
import os
import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpgap.data.private_counts import with_masked_errors
from dpgap.data.sources import kind_of, quoted, read_file
from dpgap.exact.reals import Integers


class ItemCounts(NamedTuple):
    """Items in order, the number of records with each, and the number of records, if known."""

    items: Integers
    counts: Integers
    records: int | None

    def dataset(self, name: str, source: str, warning: str = "") -> "Dataset":
        """The counts in an order that is shuffled once."""
        counts = np.random.default_rng(0).permutation(self.counts)
        return Dataset(name, counts, self.records, source, warning)


def read_counts(path: Path) -> ItemCounts:
    """Count the items of any file."""
    is_fimi = kind_of(path.name) == "fimi"
    records = None
    if is_fimi:
        counts, records = _count_units(path, None, None)
    elif _has_columns(path, "count"):
        counts = _take_counts(path)
    elif _has_columns(path, "unit"):
        counts, records = _count_units(path, "unit", "item")
    else:
        columns = "columns item and count, or unit and item"
        raise ValueError(f"{path.name} must be a readable table with {columns}")
    if not counts:
        raise ValueError(f"{path.name} has no transactions: there must be some")
    if is_fimi and _has_pairs(path):
        convert = "make a CSV file of it with columns unit and item (docs/tutorial-researcher.md)"
        raise ValueError(f"{path.name}: every line has two numbers, like one purchase: {convert}")
    try:
        items = np.array([int(item) for item in counts], dtype=np.int64)
    except (ValueError, TypeError, OverflowError):
        counts = dict(sorted(counts.items()))
        items = np.arange(len(counts))  # names, not numbers
    if is_fimi and items.min() < 0:
        raise ValueError(f"{path.name}: a transaction must be numbers below 2^62, and spaces")
    order = np.argsort(items)
    values = np.array(list(counts.values()), dtype=np.int64)
    return ItemCounts(items[order], values[order], records)


def _has_pairs(path: Path) -> bool:
    """Whether the first lines have two numbers with a tab between them, as BMS-POS has."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        return all(re.fullmatch(rb"\d+\t\d+\s*", line) for line in islice(lines, 1_000))


def _has_columns(path: Path, other: str) -> bool:
    try:
        with read_file(str(path), other, "item"):
            return True
    except ValueError:
        return False


def _count_units(path: Path, unit: str | None, item: str | None) -> tuple[dict[str, int], int]:
    """The number of units with each item, and the number of all units."""
    with read_file(str(path), unit, item) as columns:
        sql_unit = quoted(columns.unit)
        sql_item = quoted(columns.item)
        if item is None:  # a word that is not a number is refused later
            sql_item = f"coalesce({sql_item}, -1)"
        rows = columns.table.filter(f"{sql_unit} IS NOT NULL AND {sql_item} IS NOT NULL")
        selected = f"CAST({sql_item} AS VARCHAR), count(DISTINCT {sql_unit})"
        grouped = rows.aggregate(selected, f"GROUPING SETS (({sql_item}), ())")
        counts = dict(_fetch(path, grouped))
    return counts, counts.pop(None)  # without an item: of all of them together


def _fetch(path: Path, table: Any) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = with_masked_errors(
        table.fetchall, f"{path.name} could not be read: it is torn, or its lines do not end alike"
    )
    return rows


def _take_counts(path: Path) -> dict[Any, int]:
    with read_file(str(path), "count", "item") as columns:
        rows = _fetch(path, columns.table)
    try:
        counts = {item: int(count) for item, count in rows}
        is_sound = [Decimal(count) for _, count in rows] == list(counts.values())
    except (ArithmeticError, ValueError, TypeError):
        is_sound = False
    if not (is_sound and all(0 <= count < 1 << 63 for count in counts.values())):
        raise ValueError(
            f"{path.name}: every item must occur once, and every count must be a whole number, "
            "at least 0"
        )
    return counts


FOLDER_VARIABLE = "DPGAP_DATA"
PUBLISHED = {
    "BMS-POS": (515_597, 1_657),
    "Kosarak": (990_002, 41_270),
    "T40I10D100K": (100_000, 942),
}
"""Records and items of each data set, as the paper states them."""
WHERE = (
    "Kosarak and T40I10D100K at http://fimi.uantwerpen.be/data/, "
    "BMS-POS at https://www.kdd.org/kdd-cup/view/kdd-cup-2000"
)
MADE_UP = (
    f"These data are made up. The real ones are public: {WHERE}. "
    "Put them into a folder and say --data FOLDER."
)
OWN = (
    "All figures and numbers here show your own data as they are, WITHOUT privacy: "
    "share them only if everybody may see the data."
)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Counts of items, in the order of the queries, and their source."""

    name: str
    counts: Integers
    records: int | None
    source: str
    warning: str = ""
    """A warning that is shown before anything else about the data."""

    @property
    def items(self) -> int:
        """How many items there are."""
        return self.counts.size


def load_all(folder: str | os.PathLike[str] | None = None) -> list[Dataset]:
    """The data sets for the experiments.

    `folder` is searched for the paper's three data sets; a file replaces all of them. The default
    is the folder in the environment variable DPGAP_DATA. If this is not set, all data are
    synthetic.
    """
    if folder is None:
        folder = os.environ.get(FOLDER_VARIABLE) or None
    if folder is None:
        return [load(name, None) for name in PUBLISHED]
    path = Path(folder)
    if path.is_file():
        return [read_counts(path).dataset(path.name.split(".")[0], f"whole file {path.name}", OWN)]
    if not path.is_dir():
        raise FileNotFoundError(f"data must be a folder or a file, and there is none at {path}")
    return [load(name, path) for name in PUBLISHED]


def load(name: str, folder: Path | None) -> Dataset:
    """One of the paper's data sets, from a folder; without a folder, synthetic."""
    records, items = PUBLISHED[name]
    if folder is None:
        # The most frequent item is in half of all records, and the rarest in a single one.
        depth = np.log(np.arange(1, items + 1)) / np.log(items)
        curve = (records / 2) ** (1 - depth**4)
        counts = ItemCounts(np.arange(items), np.rint(curve).astype(np.int64), records)
        source = "synthetic stand-in with the published size; not the real data"
        return counts.dataset(name, source, MADE_UP)
    names = {f"{name.lower()}{ending}" for ending in (".dat", ".dat.gz", ".csv", ".parquet")}
    files = [path for path in folder.iterdir() if path.name.lower().replace("_", "-") in names]
    if files:
        first = min(files)
        counts = read_counts(first)
        is_published = counts.records in (None, records) and counts.items.size == items
        doubt = "" if is_published else "; not of the published size"
        return counts.dataset(name, f"whole file {first.name}{doubt}")
    try:
        counts, source = _completed(name, folder)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"no {name} in {folder}: expected {name}.dat or {name.lower()}.dat, gzipped or not"
        ) from None
    return counts.dataset(name, source)


def _completed(name: str, folder: Path) -> tuple[ItemCounts, str]:
    """Exact counts of the whole data if known; else the counts of the first records, scaled up."""
    part_file, part_records, exact_file, smallest = _PARTS[name]
    part = read_counts(folder / part_file)
    records, published = PUBLISHED[name]
    if exact_file is None:
        return part, f"partial: {part_records:,} of the {records:,} records, as they are"
    exact = read_counts(folder / exact_file)
    items = np.union1d(exact.items, part.items)
    exact_counts = np.zeros(items.size, dtype=np.int64)
    exact_counts[np.searchsorted(items, exact.items)] = exact.counts
    estimates = np.zeros(items.size, dtype=np.int64)
    estimates[np.searchsorted(items, part.items)] = np.rint(part.counts * records / part_records)
    counts = np.ones(published, dtype=np.int64)
    counts[: items.size] = np.maximum(exact_counts, np.minimum(estimates, smallest - 1))
    source = (
        f"whole-data counts from {smallest:,} up; below, completed from the first "
        f"{part_records:,} records, and 1 for each item not seen in them"
    )
    return ItemCounts(np.arange(published), counts, records), source


_PARTS = {
    "BMS-POS": ("bms-pos-partial-275k.dat.gz", 275_000, None, 0),
    "Kosarak": ("kosarak-first100k.dat.gz", 100_000, "kosarak-item-counts-ge991.csv", 991),
    "T40I10D100K": ("T40I10D100K-partial10k.dat.gz", 10_000, "T40I10D100K-item-counts.csv", 1_000),
}
"""By name: a file of the first records, their number, a file of counts, and where these begin."""

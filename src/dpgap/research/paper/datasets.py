"""The paper's three data sets, by name: read from files, or made.

A folder may hold the whole files as published (`kosarak.dat`, gzipped or not). It may instead hold
parts of them, known by name; what is missing is then completed, and the data set says so. Without
a folder T40I10D100K is made by the Quest generator, and the other two are stand-ins: curves through
a few published counts, with the published sizes. Any other file can take their place.

The queries are the items' counts, in one order that is shuffled once, as the authors' code does.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpgap.exact.reals import Integers
from dpgap.research.paper.files import Counted, read_counts
from dpgap.research.paper.quest import make_t40i10

FOLDER_VARIABLE = "DPGAP_DATA"
PUBLISHED = {
    "BMS-POS": (515_597, 1_657),
    "Kosarak": (990_002, 41_270),
    "T40I10D100K": (100_000, 942),
}
"""Records and items of each data set, as the paper states them."""


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Counts of items, in the order in which they are asked about, and where they come from."""

    name: str
    counts: Integers
    records: int | None
    source: str

    @property
    def items(self) -> int:
        """How many items there are."""
        return self.counts.size


def load_all(folder: str | os.PathLike[str] | None = None) -> list[Dataset]:
    """The data sets to experiment on.

    `folder` is searched for the paper's three; a file instead takes the place of all of them.
    Without one, the folder that the environment variable DPGAP_DATA names is searched. If that is
    not set either, everything is made.
    """
    given = folder if folder is not None else os.environ.get(FOLDER_VARIABLE) or None
    if given is None:
        return [load(name, None) for name in PUBLISHED]
    path = Path(given)
    if path.is_file():
        counted = read_counts(path)
        return [_dataset(path.name.split(".")[0], counted, f"whole file {path.name}")]
    if not path.is_dir():
        raise FileNotFoundError(f"data must be a folder or a file, and there is none at {path}")
    return [load(name, path) for name in PUBLISHED]


def load(name: str, folder: Path | None) -> Dataset:
    """One of the paper's data sets, from a folder or, without one, made."""
    if name not in PUBLISHED:
        raise ValueError(f"name must be one of {', '.join(PUBLISHED)}, not {name!r}")
    if folder is None:
        return _make(name)
    whole = _whole_file(name, folder)
    if whole is not None:
        counted = read_counts(whole)
        is_published = PUBLISHED[name] == (
            counted.records or PUBLISHED[name][0],
            counted.items.size,
        )
        doubt = "" if is_published else "; not of the published size"
        return _dataset(name, counted, f"whole file {whole.name}{doubt}")
    try:
        return _COMPLETED[name](folder)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"no {name} in {folder}: expected {name}.dat or {name.lower()}.dat, gzipped or not"
        ) from None


def _whole_file(name: str, folder: Path) -> Path | None:
    wanted = {f"{name.lower()}{ending}" for ending in (".dat", ".dat.gz", ".csv", ".parquet")}
    found = sorted(
        each for each in folder.iterdir() if each.name.lower().replace("_", "-") in wanted
    )
    return found[0] if found else None


def _dataset(name: str, counted: Counted, source: str) -> Dataset:
    counts = counted.counts.copy()
    np.random.default_rng(0).shuffle(counts)
    return Dataset(name, counts, counted.records, source)


def _bms_pos(folder: Path) -> Dataset:
    counted = read_counts(folder / "bms-pos-partial-275k.dat.gz")
    return _dataset("BMS-POS", counted, "partial: 275,000 of the 515,597 records, as they are")


def _kosarak(folder: Path) -> Dataset:
    """Counts of 991 and more are those of the whole file; the tail is ten times the part's."""
    top = read_counts(folder / "kosarak-item-counts-ge991.csv")
    part = read_counts(folder / "kosarak-first100k.dat.gz")
    records, items = PUBLISHED["Kosarak"]
    rest = ~np.isin(part.items, top.items)
    tail = np.minimum(np.rint(part.counts[rest] * records / 100_000), 990).astype(np.int64)
    unseen = np.ones(items - top.items.size - tail.size, dtype=np.int64)
    counts = np.concatenate([top.counts, tail, unseen])
    return _dataset(
        "Kosarak",
        Counted(np.arange(items), counts, records),
        "whole-data counts from 991 up; below, completed from the first 100,000 records, "
        "and 1 for each item not seen in them",
    )


def _t40(folder: Path) -> Dataset:
    """Exact counts where they are known; else ten times the part's, between the bounds known."""
    known = read_counts(folder / "T40I10D100K-item-counts.csv")
    part = read_counts(folder / "T40I10D100K-partial10k.dat.gz")
    guess = dict(zip(part.items.tolist(), (10 * part.counts).tolist(), strict=True))
    items = sorted({*known.items.tolist(), *guess})
    bound = dict(zip(known.items.tolist(), known.counts.tolist(), strict=True))
    counts = [
        bound[item]
        if bound.get(item, 0) >= 1_000
        else max(bound.get(item, 0), min(guess.get(item, 0), 999))
        for item in items
    ]
    return _dataset(
        "T40I10D100K",
        Counted(np.array(items), np.array(counts, dtype=np.int64), PUBLISHED["T40I10D100K"][0]),
        "whole-data counts from 1,000 up; below, completed from the first 10,000 records",
    )


_COMPLETED: dict[str, Callable[[Path], Dataset]] = {
    "BMS-POS": _bms_pos,
    "Kosarak": _kosarak,
    "T40I10D100K": _t40,
}

_CURVES = {
    "BMS-POS": ((1, 307_600), (2, 119_600), (5, 76_200), (10, 48_000), (20, 32_800), (50, 13_300),
                (100, 7_200), (200, 3_000), (400, 660), (800, 100), (1_200, 9), (1_657, 1)),
    "Kosarak": ((1, 601_374), (2, 450_031), (3, 364_065), (5, 88_598), (10, 65_412), (20, 23_270),
                (50, 10_616), (100, 6_468), (200, 4_149), (400, 2_494), (800, 1_583),
                (1_200, 1_037), (5_000, 300), (20_000, 20), (41_270, 1)),
}  # fmt: skip
"""Ranks and counts that a stand-in's curve runs through, straight between them in logarithms."""


def _make(name: str) -> Dataset:
    records, items = PUBLISHED[name]
    if name == "T40I10D100K":
        _, bought = make_t40i10(records, seed=1994)
        counted = Counted(*np.unique(bought, return_counts=True), records)
        return _dataset(name, counted, "made by the Quest generator, seed 1994")
    ranks, counts = np.array(_CURVES[name], dtype=np.float64).T
    curve = np.exp(np.interp(np.log(np.arange(1, items + 1)), np.log(ranks), np.log(counts)))
    whole = np.rint(curve).astype(np.int64)
    counted = Counted(np.arange(items), whole, records)
    return _dataset(name, counted, "synthetic stand-in with the published size; not the real data")

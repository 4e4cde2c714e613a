"""The rows of a release: as values, as a data frame and as CSV.

Columns have the names of the fields of `Row`, in data frames, CSV and documents alike.
"""

import csv
import importlib
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, overload

from dpgap.printable import in_a_cell
from dpgap.question import one_of
from dpgap.releases.plain import plain

Columns = Mapping[str, Sequence[Any]]


class Row(NamedTuple):
    """A row of a release, as it is shown. A number that the release does not have is None."""

    rank: int | None
    """The place in the order shown, from 1; None if the order says nothing."""
    item: Any
    """The label of the answer; without labels, its index among all answers."""
    estimate: float | None = None
    low: float | None = None
    """The lower end of the 95 % interval."""
    high: float | None = None
    """The upper end of the 95 % interval."""
    gap: float | None = None
    """By how much the estimate is above that of the next row. Without estimates, the gap that the
    selection released."""
    give_or_take: float | None = None
    """The most that the gap is off: for all gaps at once, with 95 % confidence."""
    p: float | None = None
    """The p-value of "it does not belong"."""


class RowSequence(ABC):
    """A release that is a sequence of its rows, in the order in which they are shown."""

    __slots__ = ()

    @abstractmethod
    def _rows(self) -> tuple[Row, ...]:
        """All rows."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, place: int | slice) -> Row | tuple[Row, ...]:
        """One row, or several."""
        return self._rows()[place]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows())


def columns_of(rows: Sequence[Row], names: Sequence[str]) -> dict[str, list[Any]]:
    """These fields of all rows, column by column."""
    return {name: [getattr(row, name) for row in rows] for name in names}


LIBRARIES = ("pandas", "polars", "pyarrow")


def frame_of(columns: Columns, library: str | None) -> Any:
    """A data frame of this library; by default pandas if it is installed, else Polars."""
    if library is not None:
        return _frame(columns, one_of("library", library, LIBRARIES))
    for installed in ("pandas", "polars"):
        with suppress(ModuleNotFoundError):
            return _frame(columns, installed)
    raise ModuleNotFoundError("to_frame() needs pandas or polars: pip install pandas")


def _frame(columns: Columns, library: str) -> Any:
    module = importlib.import_module(library)
    if library == "pyarrow":
        return module.table({name: list(cells) for name, cells in columns.items()})
    return module.DataFrame(columns)


def csv_of(columns: Columns, facts: Mapping[str, Any]) -> str:
    """The rows as CSV; every row ends with the same facts. No name is taken for a formula."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*columns, *facts])
    end = list(map(in_a_cell, facts.values()))
    for row in zip(*columns.values(), strict=True):
        cells = [in_a_cell(plain(cell)) for cell in row]
        writer.writerow(cells + end)
    return text.getvalue()

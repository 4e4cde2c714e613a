"""Neighbouring tables: one of them has one unit more, with any rows and any text.

Some items are far ahead of the others, so that the same ones win on both sides. The numbers are
chosen at edges: the first item has 127 units and the next unit makes it 128, which needs a wider
type; it is 64 ahead of the second, and floats between them lose a binary place at 65; of a wide
range 20 items are present, and one more makes the rest fit into 65,536.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

from twins.odd_values import FLOATS, MARK, TEXTS, TWISTS, WHOLE, odd_value

LEADERS = (127, 63, 44, 30)
"""How many units the first items have. The others have at most `FEW`, so that 15 lies between."""
FEW = 6
THRESHOLD = 15

NUMBER_OF_UNITS = 140
MOST_LETTERS = 10**7
"""How long all texts of a unit may be together that has many rows."""
FIRST_UNIT = 77_000_000
"""Units that are numbers are from here on, so that no message may show these digits."""

RANGES = {"small": range(24), "many": range(1100), "wide": range(65_557), "huge": range(10**12)}
PRESENT = {"small": 15, "many": 1090, "wide": 20, "huge": 20}


GROUPS = ("ch", "de", "žluť", "7")
"""The public groups of wide tables."""
_LANDS = (*GROUPS, "ch", "elsewhere", None)
_DATES = ("01.02.2024", "31.02.2024", "29.02.2023", "00.00.0000", "1.2.2024", "01.02.2024\n")
_PAID = (0.1, 0.29, 2.5, 1.005, -3.0, 40.0, 0.004, 7.0, math.nan, None)


class Raw(NamedTuple):
    """A line of a file, as it stands there."""

    line: str


Row = tuple[Any, ...] | Raw
"""Unit and item; in a wide table also a group and an amount."""


@dataclass(frozen=True)
class Twins:
    """Two tables, as rows of unit and item, and the public domain."""

    kinds: tuple[str, ...]
    """What each column is: "text", "whole", "float", "zoned" (a time) or "huge" (of 128 bits)."""
    domain_kind: str
    labels: Sequence[Any]
    rows: list[Row]
    more: list[Row]
    """What the twin has beside them."""
    place: float = 0
    """Where it has them: 0 is in front of all rows, 1 behind."""
    by_row: bool = False
    """Whether every row is its own unit."""
    malformed: bool = False
    """Whether what the twin has more is no record at all."""
    look: int = 0
    """How the table is written down, where a reader knows several ways."""

    @property
    def twin(self) -> list[Row]:
        """The rows with those of the one unit more."""
        at = round(self.place * len(self.rows))
        return self.rows[:at] + self.more + self.rows[at:]


def make_twins(
    rng: Random,
    kinds: Sequence[tuple[str, str]],
    domain_kinds: Sequence[str],
    odd_lines: Any = None,
    longest: int = 10**6,
) -> Twins:
    """Twins for a reader of columns of these kinds. `odd_lines` makes lines for a file."""
    domain_kind = rng.choice(domain_kinds)
    unit, item = kind = rng.choice(kinds)
    labels, present = _domain(rng, domain_kind, item)
    rows = _rows(rng, unit, item, present)
    by_row = rng.random() < 0.15
    malformed = False
    more: list[Row]
    if odd_lines is not None and rng.random() < 0.03:
        rows += bulk(unit)
    if odd_lines is not None and unit == "text" and rng.random() < 0.5:
        line, malformed = odd_lines(rng, [*present[:3], *present[-3:]])
        more = [Raw(line)]
    else:
        many = 1 if by_row else rng.choice([0, 1, 1, 2, 5, 30, 1500])
        longest = min(longest, 10**6 // many**2) if many else longest
        who = _new_unit(rng, unit, longest)
        several = [_item(rng, item, labels, present, longest) for _ in range(min(many, 30))]
        more = [(who, rng.choice(several)) for _ in range(many)]
    return Twins(
        kinds=kind,
        domain_kind=domain_kind,
        labels=labels,
        rows=rows,
        more=more,
        place=rng.choice([0, 0, rng.random(), 1]),
        by_row=by_row,
        malformed=malformed,
        look=rng.randrange(12),
    )


def widen(rng: Random, twins: Twins, amounts: Sequence[str]) -> Twins:
    """The same twins with a group and an amount in each row; the new unit does its worst there."""
    kind = rng.choice(amounts)
    many = rng.choice([1, 1, 1, 10_000]) if len(twins.more) in range(1, 31) else 1
    longest = max((len(str(each)) for row in twins.more for each in row), default=1)
    many = min(many, MOST_LETTERS // longest)
    more: list[Row] = [
        (*row[:2], _odd_land(rng), _odd_amount(rng, kind))
        for row in twins.more
        for _ in range(1 if twins.by_row else max(1, many // len(twins.more)))
    ]
    rows: list[Row] = [(*row[:2], *_told(row, kind)) for row in twins.rows]
    return replace(twins, kinds=(*twins.kinds, "text", kind), rows=rows, more=more)


def _told(row: Row, kind: str) -> tuple[Any, Any]:
    """A group and an amount that hang on unit and item alone."""
    number = zlib.crc32(repr(row).encode())
    paid = _PAID[number // 7 % len(_PAID)]
    return _LANDS[number % len(_LANDS)], _amount(paid, kind)


def _amount(paid: float | None, kind: str) -> Any:
    if kind == "float" or paid is None:
        return paid
    return str(paid) if kind == "text" else None if math.isnan(paid) else int(paid)


def _odd_land(rng: Random) -> Any:
    return rng.choice([*_LANDS, *_LANDS, *_DATES, *TEXTS, *(twist("ch") for twist in TWISTS)])


def _odd_amount(rng: Random, kind: str) -> Any:
    if rng.random() < 0.3:
        return _amount(rng.choice([40.0, 1e9, -1e9, 0.5, 25.0]), kind)
    if kind == "huge":
        return odd_value(rng, kind, [])
    odd = {
        "float": FLOATS,
        "whole": WHOLE,
        "text": [*TEXTS, "1e+300", "-2.5e1", "nan", "+.5", "5."],
    }
    return rng.choice([*odd[kind], None])


def bulk(unit: str) -> list[Row]:
    """Rows without an item that make a file longer than what is read at once, some 9 MB."""
    if unit != "text":
        return [(_unit(unit, number), None) for number in range(100_000)]
    return [(f"{MARK} {number} {'x' * 3000}", None) for number in range(3000)]


def _domain(rng: Random, kind: str, item: str) -> tuple[Sequence[Any], list[Any]]:
    """The labels, and those that are present, in the order of how many units they have."""
    if kind in RANGES:
        labels: Sequence[Any] = RANGES[kind]
        present = rng.sample(range(len(labels)), PRESENT[kind])
        return labels, [_as(item, labels[at]) for at in present]
    if item != "text":
        labels = rng.sample(range(-50, 50), 16)
        return labels, [_as(item, label) for label in labels[:12]]
    words = ["fig", "pea", "oat", "rye", "kale", "crème", "7", "žluť", "ﬁg", "plum", "nut", "oca"]
    twisted = [rng.choice(TWISTS)(rng.choice(words)) for _ in range(4)]
    labels = list(dict.fromkeys(words + twisted))
    return labels, words[:-2] if rng.random() < 0.5 else labels[:-2]


def _as(kind: str, number: int) -> Any:
    return {"text": str, "float": float}.get(kind, int)(number)


def _unit(kind: str, number: int) -> Any:
    if kind == "text":
        return f"{'ann éa x'.split()[number % 3]} {MARK} {number}"
    return _as(kind, FIRST_UNIT + number)


def _rows(rng: Random, unit: str, item: str, present: list[Any]) -> list[Row]:
    """Rows in any order: some twice, some without unit or item, some of no item of the domain."""
    rows: list[Row] = []
    for place, what in enumerate(present):
        many = LEADERS[place] if place < len(LEADERS) else 1 + place % FEW
        rows += [(_unit(unit, who), what) for who in rng.sample(range(NUMBER_OF_UNITS), many)]
    rows += rng.sample(rows, 20)
    is_word = isinstance(present[0], str) and not present[0].isdecimal()
    elsewhere = f"elsewhere {MARK}" if is_word else _as(item, -FIRST_UNIT)
    rows += [(_unit(unit, 1), elsewhere), (_unit(unit, 2), None), (None, present[0]), (None, None)]
    rng.shuffle(rows)
    return rows


def _new_unit(rng: Random, kind: str, longest: int) -> Any:
    """A unit that is not there yet, or none."""
    if rng.random() < 0.05:
        return None
    known = {_unit(kind, number) for number in range(NUMBER_OF_UNITS)}
    while True:
        if kind == "text" and rng.random() < 0.3:
            return f"new {MARK}"
        who = odd_value(rng, kind, sorted(known), longest)
        if who not in known:
            return who


def _item(rng: Random, kind: str, labels: Sequence[Any], present: list[Any], longest: int) -> Any:
    """An item that is absent, or present, or in no domain, or none."""
    chance = rng.random()
    if chance < 0.35:
        return _as_item(kind, labels[rng.randrange(len(labels))])
    if chance < 0.55:
        return present[0] if rng.random() < 0.5 else rng.choice(present)
    if chance < 0.6:
        return None
    known = [_as_item(kind, label) for label in labels[:20]]
    return odd_value(rng, kind, known + present[:20], longest)


def _as_item(kind: str, label: Any) -> Any:
    return label if isinstance(label, str) else _as(kind, label)

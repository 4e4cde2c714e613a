"""What every release is: its promise, its rows, its document, and what selected answers prove.

Nothing here has ever seen a private number. Each release carries its guarantee in plain words.
"""

import html
import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from dpgap.estimates.certificates import Evidence, belonging
from dpgap.exact.parameters import (
    approximately,
    confidence_level,
    readable,
    readable_up,
    with_power,
)
from dpgap.exact.reals import Floats, Integers
from dpgap.releases.numbers import exact_value
from dpgap.releases.plain import plain
from dpgap.releases.printable import printable, visible
from dpgap.releases.provenance import MechanismUsed, Provenance
from dpgap.releases.words import attempted, sentences

NAMES = ("item", "label", "group")
"""The columns of names, which anybody may have chosen."""


class Promise(NamedTuple):
    """What a release promises, and on what condition."""

    epsilon: Fraction
    sensitivity: Fraction
    monotonic: bool
    reach: int | None = None
    """The most answers that one person can change; None where it does not matter."""
    delta: Fraction = Fraction(0)
    """The chance that an item shows which one person alone has; 0 where items are known."""

    def __str__(self) -> str:
        direction = ", all of them in the same direction" if self.monotonic else ""
        which = "each answer"
        if self.reach is not None:
            which = f"at most {self.reach:,} answers, each"
            if self.reach == 1:
                which = "at most one answer, and that"
        kind, delta, but = "Pure differential privacy", "no δ", ""
        public = "How many answers there are, their labels and all parameters are public."
        if self.delta:
            kind, delta = "Differential privacy", f"δ = {with_power(few_digits_up(self.delta))}"
            but = ", but for a chance of at most δ that an item shows which that person alone has"
            public = "All parameters are public; which items there are is not."
        return (
            f"{kind} with ε = {readable_up(self.epsilon)} and {delta}: if one person's data were "
            "added or taken away, nothing shown here would become more than "
            f"{factor(self.epsilon)} times as likely or unlikely{but}. This holds provided that "
            f"one person changes {which} by at most {readable(self.sensitivity)}{direction}; "
            f"that is for you to see to. {public}"
        )


def few_digits_up(number: Fraction, digits: int = 3) -> str:
    """A number, or a little more than it, in a few digits."""
    few = Context(prec=digits, rounding=ROUND_CEILING, traps=[])
    up = few.divide(Decimal(number.numerator), Decimal(number.denominator))
    return approximately(Fraction(up), digits)


def factor(epsilon: Fraction) -> str:
    """How much likelier ε allows anything to become, or a little more; never less.

    >>> [factor(Fraction(each)) for each in ("5", "1", "1/10", "1/1000", "1/10000000")]
    ['149', '2.72', '1.11', '1.0011', '1 + 1.1·10⁻⁷']
    """
    if epsilon >= 700:
        return f"e^{readable_up(epsilon)}"
    if epsilon < Fraction(1, 10**6):  # then e^ε − 1 is less than ε + ε²
        return f"1 + {with_power(few_digits_up(epsilon + epsilon**2, 2))}"
    up = Context(prec=40, rounding=ROUND_CEILING, Emin=-999, Emax=999, clamp=0, traps=[])
    exact = up.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    times = Fraction(up.next_plus(up.exp(exact)))  # `exp` rounds to the nearest
    if times >= 2:
        return with_power(few_digits_up(times))
    return f"{up.normalize(up.add(Decimal(1), Decimal(few_digits_up(times - 1, 2)))):f}"


def _refuse_attribute(release: object, name: str, value: object = None) -> NoReturn:
    raise FrozenInstanceError(f"cannot change {name!r} of a release")


def _repr(release: Any) -> str:
    named = [each.name for each in fields(release) if each.repr]
    return f"{type(release).__name__}({', '.join(_field(release, name) for name in named)})"


def _field(release: Any, name: str) -> str:
    value = getattr(release, name)
    try:
        return f"{name}={value!r}"
    except ValueError:
        return f"{name}=<{type(value).__name__} with too many digits>"


class Table(ABC):
    """Something with rows: prints as text, shows as HTML in a notebook, becomes a data frame."""

    __slots__ = ()

    promise: Promise

    def __init_subclass__(cls) -> None:
        """Let nothing be attached to a release: OpenDP tries to attach the answers.

        What dataclasses say of an attribute that is no field is a TypeError where there are slots.
        Their `repr` fails where a number has more digits than Python writes.
        """
        if is_dataclass(cls):
            cls.__repr__ = _repr
        if "__setattr__" in vars(cls):
            cls.__setattr__ = cls.__delattr__ = _refuse_attribute  # type: ignore[method-assign]

    @property
    def guarantee(self) -> str:
        """What ε promises, in plain words."""
        return str(self.promise)

    @property
    def remark(self) -> str:
        """What there is to say of how it was found, in plain words; it may be nothing."""
        return ""

    @abstractmethod
    def columns(self) -> dict[str, Sequence[Any]]:
        """The rows, column by column."""

    def to_frame(self) -> Any:
        """The rows as a data frame: pandas if it is installed, else Polars."""
        for library in ("pandas", "polars"):
            try:
                return importlib.import_module(library).DataFrame(self.columns())
            except ModuleNotFoundError:
                continue
        raise ModuleNotFoundError("to_frame() needs pandas or polars: pip install pandas")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values that JSON can hold; exact numbers are text such as "7/10"."""
        values: dict[str, Any] = plain(self)
        return values | {"guarantee": self.guarantee}

    @property
    def findings(self) -> tuple[str, ...]:
        """What may be believed, in plain sentences, the most important first."""
        return ()

    def cells(self, separator: str = "") -> dict[str, list[str]]:
        """The rows as they are shown, column by column; columns of no numbers are left out.

        `separator` stands between thousands.
        """
        columns = self.columns()
        digits = digits_of(columns)
        return {
            name: [_shown(cell, name, f"{separator}.{digits}f") for cell in cells]
            for name, cells in columns.items()
            if name in NAMES or any(cell is not None for cell in cells) or not cells
        }

    def __str__(self) -> str:
        found = sentences("findings", lambda: self.findings)
        parts = ("\n".join(found), attempted("rows", self._lines, ""), "\n".join(self._words()))
        return "\n\n".join(filter(None, parts))

    def _lines(self) -> str:
        """The rows as text."""
        columns = self.cells()
        head, *body = [list(columns), *zip(*columns.values(), strict=True)]
        rows = [head, *body] if body else []
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.rjust, row, widths)).rstrip() for row in rows)

    def _words(self) -> Iterator[str]:
        """What is said below the rows."""
        said = (
            attempted("remark", lambda: self.remark, ""),
            attempted("guarantee", lambda: self.guarantee, ""),
        )
        return filter(None, said)

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{html.escape(words)}</p>" for words in self._words())
        return attempted("rows", self.rows_in_html, "") + said

    def rows_in_html(self) -> str:
        """The rows as a table of HTML, in which names are only text."""
        columns = self.cells()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in zip(*columns.values(), strict=True)
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def digits_of(columns: Mapping[str, Sequence[Any]]) -> int:
    """How many digits numbers have after the point: none where all of them are whole."""
    shown = (column for name, column in columns.items() if name not in (*NAMES, "p"))
    floats = (cell for column in shown for cell in column if isinstance(cell, float))
    return int(not all(cell.is_integer() for cell in floats))


def _shown(cell: Any, name: str, form: str) -> str:
    """A cell as it is shown; `form` is that of its number. Names are untrusted."""
    if name in NAMES:
        return visible(plain(cell))
    if not isinstance(cell, float | None):
        return printable(str(plain(cell)))
    if cell is None:
        return ""
    if name == "p":
        return p_text(cell)
    return f"{cell:{form}}" if abs(cell) < 1e15 else f"{cell:.6g}"


def p_text(p: float) -> str:
    """A p-value with as many digits as one needs.

    >>> p_text(0.0004), p_text(0.0321), p_text(0.5)
    ('< 0.001', '0.032', '0.50')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def named(indices: Integers, labels: Sequence[Any] | None) -> dict[str, Sequence[Any]]:
    """The column that says which answer a row is about."""
    return {"index": indices.tolist()} if labels is None else {"label": labels}


@dataclass(frozen=True, slots=True, eq=False)
class Release(Table):
    """What every release is besides its rows: when it was made, how, and how to keep it."""

    epsilon: Fraction
    """What is guaranteed for all of it."""
    promise: Promise
    made: Provenance = field(default_factory=Provenance.now, kw_only=True)
    """When, by which version of dpgap, and which entry of a ledger paid."""
    mechanisms: tuple[MechanismUsed, ...] = field(default=(), kw_only=True)
    """What drew the noise, in order, with all parameters."""

    def to_dict(self) -> dict[str, Any]:
        """The release document as plain values: see `to_json`."""
        from dpgap.releases.document import document

        return document(self)

    def to_json(self) -> str:
        """The release document: all that was released, as JSON that `dpgap.read_release` reads.

        Exact numbers are text such as "7/10", and all letters are ASCII.
        """
        from dpgap.releases.json_text import written

        return written(self.to_dict())

    def to_archive(self) -> str:
        """The document as an archive keeps it: what was drawn, without what follows from it.

        So no sentence, row or interval is made before a release is archived. `dpgap.read_release`
        reads it, and makes them.
        """
        from dpgap.releases.document import drawn
        from dpgap.releases.json_text import written

        return written(drawn(self))

    def _repr_html_(self) -> str:
        from dpgap.releases.page import notebook

        return notebook(self)

    def again(self) -> Self:
        """The same release, shown again: it was paid for before."""
        return replace(self, made=self.made._replace(again=True))

    def paid_by(self, reference: Mapping[str, Any]) -> Self:
        """The same release, with the ledger's entry: "dataset", "entry" and "hash"."""
        return replace(self, made=self.made.paid_by(reference))


@dataclass(frozen=True, slots=True, eq=False)
class Selected(Release):
    """Selected answers, and what proves that they belong.

    `indices` are their places among all answers, `labels` their names, if there are any.
    """

    indices: Integers
    labels: tuple[Any, ...] | None
    evidence: Evidence | None = field(default=None, kw_only=True)
    """Leads over what winners had to beat; None where the noise can be negative."""

    @property
    def line(self) -> Fraction | None:
        """The threshold that answers had to reach; None where the largest were looked for."""
        said = (dict(used.parameters).get("threshold") for used in self.mechanisms)
        texts_of_it = [text for text in said if isinstance(text, str)]
        return exact_value(texts_of_it[0]) if texts_of_it else None

    @property
    def p_values(self) -> Floats | None:
        """For each answer, the p-value of "it is not truly among the top k", or "not truly above".

        It is how often noise alone would give a lead this long to an answer that does not belong;
        not the probability that it is wrong. Each is about one answer: for several at once there is
        `belong`. None without exponential noise; 0 where every answer was selected.
        """
        return None if self.evidence is None else self.evidence.p_values(self.indices.size)

    @property
    def set_p_value(self) -> float | None:
        """The p-value of "this is not the true top set"; for a top k only."""
        p_values = self.p_values
        return None if p_values is None or self.line is not None else float(p_values.max())

    def belong(self, level: float = 0.95) -> NDArray[np.bool_]:
        """Which answers surely belong: all of them do at once, with confidence `level`."""
        level, p_values = confidence_level(level), self.p_values
        if p_values is None:
            return np.zeros(self.indices.size, dtype=bool)
        return p_values <= 1 - level if self.is_proved_as_a_set else belonging(p_values, level)

    @property
    def is_proved_as_a_set(self) -> bool:
        """Whether one p-value is about all of them, so that they belong together or not at all."""
        return self.evidence is not None and self.evidence.is_of_a_set

    @property
    def nobody_lost(self) -> bool:
        """Whether everything there was has been selected, so that all of it belongs."""
        return self.evidence is not None and not self.evidence.leads and self.line is None

    @property
    def findings(self) -> tuple[str, ...]:
        from dpgap.releases.findings import findings

        return findings(self)

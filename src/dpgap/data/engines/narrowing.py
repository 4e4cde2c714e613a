"""Which rows and counts are of public items and groups, if the types of both go together.

Refusals look at types alone, never at a row.
"""

from collections.abc import Callable
from functools import partial

import narwhals as nw
from narwhals.dtypes import DType

from dpgap.data.addresses import Lazy
from dpgap.data.domain import Domain, Stated, whole
from dpgap.data.engines.base import Engine
from dpgap.data.query import keep_items, keep_known, keep_listed, keep_range, keep_texts
from dpgap.data.tracebacks import UNREADABLE, quietly

TWO_TABLES = f"{UNREADABLE} (where domain is a table too, it must be of the same connection)"


def narrow_counts(engine: Engine, counted: Lazy, domain: Stated) -> Callable[[], Lazy]:
    """The query for the counts of a domain's items, 0 for absent ones, if their types go together.

    Absent items of a range have no row.
    """
    kind = quietly(lambda: counted.collect_schema()["item"], UNREADABLE)
    if domain is None:
        return partial(counted.select, "item", "units")
    if isinstance(domain, nw.LazyFrame):
        return partial(keep_items, *_known(engine, domain, kind), counted, kind)
    if isinstance(domain.labels, range):
        _require_range(domain.labels, kind)
        return partial(keep_range, counted, kind, domain.labels)
    _require_list(domain, kind)
    return partial(_keep_list, engine, domain, counted, kind)


def narrow_rows(engine: Engine, rows: Lazy, domain: Stated) -> Callable[[], Lazy]:
    """The query for the rows of a domain's items; those of a list are called by their position."""
    kind = quietly(lambda: rows.collect_schema()["item"], UNREADABLE)
    if domain is None:
        return lambda: rows
    if isinstance(domain, nw.LazyFrame):
        return partial(keep_known, *_known(engine, domain, kind), rows, kind)
    if isinstance(domain.labels, range):
        _require_range(domain.labels, kind)
        return partial(keep_range, rows, kind, domain.labels)
    _require_list(domain, kind)
    return lambda: keep_listed(rows, "item", kind, _listed(engine, domain, kind))


def narrow_groups(engine: Engine, rows: Lazy, groups: Domain | None) -> Callable[[Lazy], Lazy]:
    """How rows are narrowed to those of public groups, which are called by their position."""
    if groups is None:
        return lambda narrowed: narrowed
    kind = quietly(lambda: rows.collect_schema()["group"], UNREADABLE)
    _require_list(groups, kind, "groups", "group")
    return lambda narrowed: keep_listed(narrowed, "group", kind, _listed(engine, groups, kind))


def _known(engine: Engine, domain: Lazy, kind: DType) -> tuple[Lazy, DType]:
    """The items of a table in the engine, and their type."""
    own = quietly(lambda: domain.collect_schema()["item"], TWO_TABLES)
    _require_column(own, kind)
    require_exact_text(engine, domain, "domain")
    return engine.plain(domain), own


def _listed(engine: Engine, domain: Domain, kind: DType) -> Lazy:
    """Listed items with their positions: as numbers where the column has such, else as texts."""
    if not kind.is_integer():
        return engine.list_items([_in_utf_8(text) for text in domain.texts])
    numbers = [whole(label) for label in domain.labels]
    return engine.list_items([number if _fits(number) else None for number in numbers])


def _fits(number: int | None) -> bool:
    return number is not None and abs(number) < 1 << 63


def require_exact_text(engine: Engine, column: Lazy, name: str) -> None:
    """Refuse a column whose collation takes different texts for equal.

    Which of them an item is called would then hang on whose row comes first.
    """
    kind = quietly(lambda: column.collect_schema()["item"], UNREADABLE)
    if kind == nw.String and quietly(lambda: engine.merges(column), TWO_TABLES):
        raise ValueError(
            f"{name} must tell different texts apart, and its collation does not: cast it to text "
            'that is compared by its bytes (COLLATE "C"; in Spark COLLATE UTF8_BINARY)'
        )


def _require_range(labels: range, kind: DType) -> None:
    if kind == nw.Boolean:
        raise ValueError("domain must be a list for an item column of true and false")
    if kind == nw.String and max(abs(labels[0]), abs(labels[-1])) >= 10**18:
        raise ValueError("domain must lie within ±10^18 where the item column is text")


def _require_list(domain: Domain, kind: DType, name: str = "domain", role: str = "item") -> None:
    if kind.is_numeric():
        domain.require_numbers(name, role)
    if kind == nw.Boolean and not {"true", "false"} & {*domain.texts}:
        raise ValueError(f"{name} must hold true and false, like the {role} column")
    if kind.is_float() and any("." in text for text in domain.texts):
        raise ValueError(f"{name} must be whole numbers: cast the {role} column to text for others")


def _require_column(own: DType, kind: DType) -> None:
    if kind.is_float() and own == nw.String:
        raise ValueError("domain must be whole numbers: cast the item column to text for others")
    if not (own == nw.String or own.is_integer() or own == kind == nw.Boolean) or (
        kind == nw.Boolean and own.is_integer()
    ):
        raise ValueError("domain must be a column of text or whole numbers, like the item column")


def _keep_list(engine: Engine, domain: Domain, counted: Lazy, kind: DType) -> Lazy:
    """The counts of listed items, compared by their text; each is called by its position."""
    texts = [_in_utf_8(text) for text in domain.texts]
    known = engine.list_items(texts).rename({"item": "text", "position": "item"})
    return keep_texts(known, counted, kind)


def _in_utf_8(text: str) -> str | None:
    """Text that an engine can hold; other text can be no item of its tables."""
    return None if any("\ud800" <= letter <= "\udfff" for letter in text) else text

"""What a budget is for: a table, its unit, its neighbours and its columns, all of them public.

Whoever opens a budget may state them. A request that contradicts them is refused before anything
is charged, and so is one that is not private. What a request does not say contradicts nothing: a
frame in memory has no address, and a bare array states nothing at all.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import SplitResult, parse_qs, parse_qsl, quote, urlencode, urlsplit

from dpgap.budget.account import RefusedRequest
from dpgap.budget.entries import canonical, hash_of

NEIGHBOURS = ("add-or-remove", "replace")

ANY = "any"
"""The family of a column that does not state its type; it contradicts none."""

_PORTS = {"postgresql": "5432", "mysql": "3306"}
_IN_FILES = ("duckdb", "sqlite")
_MEND = "use the budget of what is asked, or state the table anew with `dpgap ledger bind`"


def stated_facts(
    table: str | None,
    unit: str | None,
    neighbours: str | None,
    columns: Iterable[tuple[str, str]] | None,
) -> dict[str, Any] | None:
    """What is stated of a table, as an entry holds it; None if nothing is.

    >>> stated_facts("sales", "customer", None, [("customer", "integer")])["columns"]
    [['customer', 'integer']]
    """
    listed = sorted([name, kind] for name, kind in columns or ()) or None
    if table is None and unit is None and neighbours is None and listed is None:
        return None
    if neighbours is not None and neighbours not in NEIGHBOURS:
        raise ValueError(f"neighbours must be one of {', '.join(NEIGHBOURS)}, not {neighbours!r}")
    for name, value in (("table", table), ("unit", unit)):
        if value is not None and not (isinstance(value, str) and value):
            raise ValueError(f"{name} must be a name, not {value!r}")
    return {
        "table": None if table is None else _place(table),
        "unit": unit,
        "neighbours": neighbours or (None if table is None else NEIGHBOURS[0]),
        "columns": listed,
    }


def _place(table: str) -> str:
    """The table as it is compared: an address, the real path of a file that is there, or a name."""
    if "://" in table:
        if "@" in urlsplit(table).netloc or "password" in urlsplit(table).query.lower():
            raise ValueError(
                "table must be an address without a user and a password, such as "
                "postgresql://host/shop?schema=public&table=sales"
            )
        return table
    return os.path.realpath(table) if os.path.exists(table) else table


def table_address(url: SplitResult, options: dict[str, str], names: dict[str, str]) -> str:
    """Where a table in a database is, without a user, a password and what else is for connecting.

    `names` are of the table and its schema, and `options` what the URL says beside them.

    >>> from urllib.parse import urlsplit
    >>> url = urlsplit("postgres://ann:secret@DB.example.org:5432/shop?sslmode=require")
    >>> table_address(url, {"sslmode": "require"}, {"schema": "public", "table": "sales"})
    'postgresql://db.example.org/shop?schema=public&table=sales'
    """
    kind = "postgresql" if url.scheme == "postgres" else url.scheme
    if kind in _IN_FILES:
        place = os.path.realpath(url.netloc + url.path)
    else:
        host = url.hostname or options.get("host", "")
        port = str(url.port or options.get("port", _PORTS.get(kind, "")))
        colon = "" if port == _PORTS.get(kind, "") else f":{port}"
        database = url.path.strip("/").partition("/")[0] or options.get("dbname", "")
        place = f"{quote(host, safe='')}{colon}/{database}"
    return f"{kind}://{place}?{urlencode(sorted(filter(all, names.items())))}"


def is_one_table(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two budgets are for the same units of the same table, as far as both say.

    Whoever states no unit may mean any. A frame has no address, so it is no table to compare.

    >>> sales = {"table": "postgres://DB/shop?table=sales", "unit": "customer"}
    >>> is_one_table(sales, {"table": "postgresql://db:5432/shop?table=sales", "unit": None})
    True
    """
    if not (one and other and one.get("table") and other.get("table")):
        return False
    units = {one.get("unit"), other.get("unit")} - {None}
    return len(units) < 2 and _spelling(one["table"]) == _spelling(other["table"])


def _spelling(table: str) -> str:
    """The table, with every way to spell its address made one."""
    if "://" not in table:
        return _place(table)
    try:
        url = urlsplit(table)
        options = dict(parse_qsl(url.query))
        names = {name: options.pop(name, "") for name in ("schema", "table")}
        return table_address(url, options, names)
    except ValueError:  # it is no address, such as one with a port that is no number
        return table


def fingerprint(facts: Mapping[str, Any]) -> str | None:
    """A short hash of the columns, for people to compare."""
    columns = facts.get("columns")
    return hash_of(canonical(columns))[:16] if columns else None


def refuse_if_not_private(facts: Mapping[str, Any] | None) -> None:
    """A budget pays for private releases only."""
    if facts is not None and facts.get("private") is False:
        raise RefusedRequest(
            "this release would not be private, as its items are read from the table itself, so "
            "no budget can pay for it: state a public domain, or ask without a ledger"
        )


def refuse_contradiction(
    dataset: str, stated: Mapping[str, Any] | None, asked: Mapping[str, Any] | None
) -> None:
    """Raise an error if what is asked is not what the budget is for."""
    if stated is None or asked is None:
        return
    for name in ("table", "unit", "neighbours"):
        said, wanted = stated.get(name), asked.get(name)
        agree = _is_same_table if name == "table" else str.__eq__
        if said is not None and wanted is not None and not agree(said, wanted):
            raise RefusedRequest(
                f"the budget of data set {dataset!r} is for the {name} {said!r}, and this "
                f"asks with {wanted!r}: {_MEND}"
            )
    _refuse_other_columns(dataset, stated.get("columns"), asked.get("columns"))


def _is_same_table(stated: str, asked: str) -> bool:
    if stated == asked:
        return True
    is_name = "/" not in stated
    if "://" in asked:
        return is_name and parse_qs(urlsplit(asked).query).get("table") == [stated]
    return is_name and os.path.basename(asked) == stated


def _refuse_other_columns(dataset: str, stated: Any, asked: Any) -> None:
    if not stated or not asked:
        return
    families, own = dict(stated), dict(asked)
    untold = {name for name in families.keys() & own.keys() if ANY in (families[name], own[name])}
    said, wanted = (
        {each for each in told.items() if each[0] not in untold} for told in (families, own)
    )
    if said == wanted:
        return
    raise RefusedRequest(
        f"the budget of data set {dataset!r} is for a table with other columns: it states "
        f"{_listed(said - wanted)}, and this asks a table with {_listed(wanted - said)} instead: "
        f"{_MEND}"
    )


def _listed(columns: set[tuple[str, str]]) -> str:
    """A few columns with the families of their types."""
    few = [f"{name} ({kind})" for name, kind in sorted(columns)]
    rest = f" and {len(few) - 4} more" if len(few) > 5 else ""
    return ", ".join(few[: 4 if rest else 5]) + rest if few else "nothing more"

"""Homes for tables: every engine, each with what is needed to put rows into it."""

import uuid
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pyarrow.parquet
import pytest

from dpgap.budget.ledger import Ledger, LedgerAccount
from engine_tables import Load, arrow
from servers import ON_SERVERS

collect_ignore = ["conftest.py"]  # two of them cannot both be looked through for examples


@pytest.fixture
def load(request: pytest.FixtureRequest, tmp_path: Path) -> Load:
    """How to put rows into the engine that a test is asked to look at."""
    home = request.param
    if home in ON_SERVERS:
        server = request.getfixturevalue({"postgres": "database", "spark": "spark"}[home])

    def loaded(who: str, what: str, rows: list[Any]) -> Any:
        if home == "spark":
            return server.createDataFrame(rows, f"who {who}, what {what}")
        table, name = arrow(who, what, rows), f"sold_{uuid.uuid4().hex}"
        if home == "postgres":
            return server.create_table(name, table)
        if home == "duckdb":
            return duckdb.connect().from_arrow(table)
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
        if home == "ibis":
            return ibis.duckdb.connect().read_parquet(tmp_path / f"{name}.parquet")
        return tmp_path / f"{name}.parquet"

    return loaded


@pytest.fixture
def account(tmp_path: Path) -> LedgerAccount:
    """A budget in a SQLite file."""
    return Ledger(f"sqlite:///{tmp_path}/budget.db").create("sales", 10**6)

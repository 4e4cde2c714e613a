"""What how-to pages say of a PostgreSQL ledger, run on a real server."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpgap.budget.cost import Cost
from dpgap.budget.ledger import Ledger, LedgerError
from pages import ROOT, agree, blocks

HALF = Fraction(1, 2)


@pytest.fixture
def databases(postgres: Any) -> Iterator[list[str]]:
    """The addresses of two empty databases."""
    names = [f"ledger_{uuid.uuid4().hex}" for _ in range(2)]
    for name in names:
        postgres.psql(f"CREATE DATABASE {name};")
    yield [str(postgres.get_uri(database=name)) for name in names]
    for name in names:
        postgres.psql(f"DROP DATABASE {name} WITH (FORCE);")


def _run_page(name: str, server: Any, folder: Path, **variables: str) -> None:
    """Run the commands of a how-to page that its own test leaves out, and see what they print."""
    path = f"{Path(sys.executable).parent}:{server.bin_path}:{os.environ['PATH']}"
    (block,) = (it for it in blocks(ROOT / "docs" / "how-to" / name, "console") if it.is_marked)
    for command, shown in block.steps:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=os.environ | {"PATH": path, **variables},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stderr}"
        assert not shown or agree(shown, done.stdout), f"$ {command}\n{done.stdout}"


def test_a_ledger_is_backed_up_and_restored(
    databases: list[str], postgres: Any, tmp_path: Path
) -> None:
    ledger, restored = map(Ledger, databases)
    account = ledger.create("sales", 2)
    account.reserve(Cost.pure(HALF), "top 1").settle(Cost.pure(HALF), "a document")
    _run_page("backup.md", postgres, tmp_path, LEDGER=databases[0], RESTORED=databases[1])
    assert restored.entries("sales") == ledger.entries("sales")
    assert restored.verify(head=account.head) == []
    assert restored.account("sales").document(1) == "a document"
    restored.account("sales").reserve(Cost.pure(HALF), "it goes on").settle(Cost.pure(HALF))
    assert restored.verify() == []


def test_a_role_whose_rights_are_taken_away_charges_nothing_more(
    databases: list[str], postgres: Any, tmp_path: Path
) -> None:
    ledger = Ledger(databases[0])
    ledger.create("sales", 2)
    address = ledger._store.engine.url.set(username="ann", password="secret")
    tables = "dpgap_entries, dpgap_documents, dpgap_layout"
    for statement in (
        "CREATE ROLE ann LOGIN PASSWORD 'secret'",
        f"GRANT SELECT, INSERT ON {tables} TO ann",
    ):
        with ledger._store.engine.begin() as connection:
            connection.exec_driver_sql(statement)
    hers = Ledger(address.render_as_string(hide_password=False)).account("sales")
    try:
        hers.reserve(Cost.pure(HALF), "she may")
        _run_page("rights.md", postgres, tmp_path, LEDGER=databases[0])
        with pytest.raises(LedgerError, match="nothing is released or changed without it"):
            hers.reserve(Cost.pure(HALF), "she may not")
    finally:
        with ledger._store.engine.begin() as connection:
            connection.exec_driver_sql("DROP OWNED BY ann")
            connection.exec_driver_sql("DROP ROLE ann")
    assert len(ledger.entries("sales")) == 2

"""Where a ledger is: every way to write it down means one file, private, never made by reading."""

import os
import stat
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql

from dpgap.budget.cost import Cost
from dpgap.budget.ledger import Ledger, LedgerError

WAYS: dict[str, Callable[[Path], Any]] = {
    "a path": lambda file: file,
    "a name": str,
    "a URL": lambda file: f"sqlite:///{file}",
}
EACH_WAY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@EACH_WAY
def test_every_way_to_write_a_file_makes_it_private(
    way: Callable[[Path], Any], folder: Path
) -> None:
    before = os.umask(0)
    try:
        Ledger(way(folder / "budget.db")).create("sales", 1)
    finally:
        os.umask(before)
    assert [file.name for file in folder.iterdir()] == ["budget.db"]
    assert stat.S_IMODE((folder / "budget.db").stat().st_mode) == 0o600
    assert Ledger(folder / "budget.db").account("sales").remaining == 1


@EACH_WAY
def test_reading_a_missing_ledger_makes_no_file(way: Callable[[Path], Any], folder: Path) -> None:
    ledger = Ledger(way(folder / "budget.db"))
    for read in (ledger.datasets, ledger.verify, lambda: ledger.account("sales")):
        with pytest.raises(LedgerError, match="there is no ledger"):
            read()
    assert list(folder.iterdir()) == []


def test_a_file_that_goes_away_after_the_look_for_it_is_not_made_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(folder / "budget.db")
    monkeypatch.setattr(Path, "exists", lambda _: True)
    with pytest.raises(LedgerError, match="cannot be opened"):
        ledger.datasets()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("way", ["budget.db", "sqlite:///budget.db"])
def test_a_ledger_does_not_move_with_the_working_folder(
    way: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder)
    ledger = Ledger(way)
    account = ledger.create("sales", 1)
    monkeypatch.chdir(folder / "elsewhere")
    account.reserve(Cost.pure(Fraction(1, 4)), "a release").settle(Cost.pure(Fraction(1, 4)))
    assert ledger.account("sales").remaining == Fraction(3, 4)
    assert list((folder / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("name", ["per%63ent.db", "a#b.db", "q?.db", "s p.db", "é.db"])
def test_odd_letters_in_a_path_are_part_of_it(name: str, folder: Path) -> None:
    Ledger(folder / name).create("sales", 1)
    assert [file.name for file in folder.iterdir()] == [name]
    assert Ledger(folder / name).account("sales").remaining == 1


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///x?mode=ro",
        "sqlite:///x?timeout=1",
        "sqlite:///x?vfs=memdb",
        "sqlite:///x?immutable=1",
        "sqlite:///:memory:",
        "sqlite:///file:/x?uri=true",
    ],
)
def test_addresses_that_mean_no_file_of_this_machine_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="ledger must"):
        Ledger(url)


def test_a_file_whose_name_looks_like_a_uri_is_not_taken_for_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    Ledger("sqlite:///./file:budget.db").create("sales", 1)
    with pytest.raises(ValueError, match="must be a path after three slashes"):
        Ledger("sqlite:///file:budget.db")
    assert Ledger("sqlite:///./file:budget.db").account("sales").remaining == 1


def _server_setting(ledger: Ledger, name: str) -> str:
    with ledger._store.engine.connect() as connection:
        return str(connection.execute(sql.text(f"SHOW {name}")).scalar_one())


def test_options_of_a_server_are_used_beside_ours(postgres: Any) -> None:
    postgres.psql("CREATE SCHEMA budgets;")
    ledger = Ledger(f"{postgres.get_uri()}&options=-csearch_path%3Dbudgets")
    ledger.create("sales in a schema", 1)
    assert postgres.psql("SELECT count(*) FROM budgets.dpgap_entries;").split()[2] == "1"
    assert _server_setting(ledger, "lock_timeout") == "1min"


@pytest.mark.parametrize("by", ["URL", "environment"])
def test_a_user_s_own_time_to_wait_counts(
    by: str, postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "URL":
        ledger = Ledger(f"{postgres.get_uri()}&options=-c%20lock_timeout%3D3s&connect_timeout=5")
    else:
        monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=3s")
        ledger = Ledger(postgres.get_uri())
    assert _server_setting(ledger, "lock_timeout") == "3s"

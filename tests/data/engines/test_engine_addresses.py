"""Tables in databases by their address: the same commands, reports and ledger as for files."""

import gc
import json
import warnings
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

import dpgap
from dpgap.budget.ledger import Ledger
from dpgap.cli.main import app
from dpgap.data.engines.ibis import Ibis
from servers import connection_to

SIZES = {"fig": 400, "pea": 300, "oat": 200, "rye": 100}


@pytest.fixture(scope="session")
def address(postgres: Any) -> str:
    """The address of a table `shop.sales`, with a public table `shop.products` beside it."""
    postgres.psql(
        "CREATE SCHEMA shop; CREATE TABLE shop.sales (customer bigint, product text);"
        "CREATE TABLE shop.products (id text, secret_price int);"
        + "".join(
            f"INSERT INTO shop.sales SELECT i, '{name}' FROM generate_series(1, {size}) t(i);"
            f"INSERT INTO shop.products VALUES ('{name}', 1);"
            for name, size in SIZES.items()
        )
        + "INSERT INTO shop.products VALUES ('yam', 1);"
        "INSERT INTO shop.sales SELECT i, 'secret' FROM generate_series(1, 900) t(i);"
    )
    return f"{postgres.get_uri()}&table=sales&schema=shop"


ASK = ["--unit", "customer", "--item", "product"]


def _run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.stderr
    assert "secret" not in result.stdout + result.stderr
    return result.stdout


def _refused(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.startswith("dpgap: ")
    assert "Traceback" not in result.stderr
    assert "secret" not in result.stderr
    return result.stderr


@pytest.mark.parametrize("domain", ["items.txt", "products:id"])
def test_the_command_line_takes_an_address_like_a_file(
    address: str, domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("items.txt").write_text("\n".join([*SIZES, "yam"]))
    ledger = Ledger("sqlite:///budget.db")
    account = ledger.create("sales", 10**6)
    paid = ["--ledger", "sqlite:///budget.db", "--dataset", "sales"]
    ask = [address, *ASK, "--domain", domain, "-k", "2", *paid]
    said = json.loads(
        _run("top-k", *ask, "--epsilon", "2000", "--json", "--html", "page.html", "--csv", "a.csv")
    )
    assert [row["item"] for row in said["items"]] == ["fig", "pea"]
    assert abs(said["items"][0]["estimate"] - 400) < 9
    page = Path("page.html").read_text()
    assert "fig" in page
    assert "postgresql" not in page + json.dumps(said) + Path("a.csv").read_text()
    assert account.spent == 2000
    shown = _run("above", *ask, "--threshold", "150", "--epsilon", "9000", "--plain")
    assert "oat" in shown or "pea" in shown
    assert account.reserved == 0
    assert ledger.verify("sales") == []


def test_a_file_of_duckdb_is_an_address_too(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "shop.db")) as connection:
        connection.execute(
            "CREATE TABLE sales AS SELECT i AS who, i % 3 AS what FROM range(9) t(i)"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Ibis
        table = f"duckdb://{tmp_path}/shop.db?table=sales"
        best = dpgap.top_k(table, unit="who", item="what", domain="0..4", k=3, epsilon=9000)
    assert set(best.labels or ()) == {0, 1, 2}


@pytest.mark.parametrize(
    ("url", "domain", "problem"),
    [
        ("postgresql://me:secret@localhost/shop", "0..9", "must name a table in its address"),
        ("postgresql://me:secret@localhost/shop?table=", "0..9", "must name a table"),
        ("postgresql://me:secret@127.0.0.1:1/shop?table=sales", "0..9", "could not be reached"),
        ("postgresql://me:secret@127.0.0.1:port/shop?table=sales", "0..9", "could not be reached"),
        ("postgresql://me:secret℀@localhost/shop?table=sales", "0..9", "could not be reached"),
        ("postgresql://me:secret@[::1/shop?table=sales", "0..9", "could not be reached"),
        (
            "mysql://me:secret@localhost/shop?table=sales",
            "0..9",
            "must be in PostgreSQL, DuckDB or",
        ),
        ("nothing://me:secret@localhost/shop", "0..9", "must be in PostgreSQL, DuckDB"),
        ("{address}_secret", "0..9", "there is no such table in the database"),
        ("{address}", "products:nothing", "there is no column 'nothing'"),
        ("{address}", "nothing:id", "there is no file 'nothing:id'"),
        ("{address}", "9..0", "must not be empty"),
        ("{address}", "0..1000000000000000000", "a domain in text is"),
    ],
)
def test_bad_addresses_and_domains_end_with_a_message_and_charge_nothing(
    address: str, url: str, domain: str, problem: str, tmp_path: Path
) -> None:
    account = Ledger(f"sqlite:///{tmp_path}/budget.db").create("sales", 1)
    paid = ["--ledger", f"sqlite:///{tmp_path}/budget.db", "--dataset", "sales"]
    ask = [url.format(address=address), *ASK, "--domain", domain, "-k", "1", "--epsilon", "1"]
    assert problem in _refused("top-k", *ask, *paid)
    assert account.balance.number == 0


def test_columns_that_are_not_there_are_named(address: str) -> None:
    ask = ["--domain", "0..9", "-k", "1", "--epsilon", "1"]
    assert "no column 'nobody' in the table; it has " in _refused(
        "top-k", address, "--unit", "nobody", "--item", "product", *ask
    )


def test_a_database_that_stops_after_the_charge_ends_with_a_message(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Ledger(f"sqlite:///{tmp_path}/budget.db").create("sales", 1)
    paid = ["--ledger", f"sqlite:///{tmp_path}/budget.db", "--dataset", "sales"]

    def stopped(engine: Ibis, *_: Any) -> Any:
        engine._database.con.close()
        raise RuntimeError("secret")

    monkeypatch.setattr(Ibis, "_unmask", stopped)
    ask = [address, *ASK, "--domain", "products:id", "-k", "1", "--epsilon", "1"]
    assert "nothing was released" in _refused("top-k", *ask, *paid)
    assert (account.reserved, account.remaining) == (1, 0)


def test_a_connection_that_an_address_opened_is_closed(postgres: Any, address: str) -> None:
    def sessions() -> int:
        with psycopg.connect(postgres.get_uri()) as other:
            found = other.execute("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle'")
            return int((found.fetchone() or (-1,))[0])

    ask: dict[str, Any] = {"unit": "customer", "item": "product", "domain": list(SIZES)}
    before = sessions()
    dpgap.top_k(address, **ask, k=1, epsilon=1)
    assert sessions() == before
    answers = dpgap.counts(address, **ask)
    assert sessions() == before + 1
    del answers
    gc.collect()
    assert sessions() == before
    with pytest.raises(ValueError, match="no column"):
        dpgap.counts(address, **ask | {"unit": "nobody"})
    gc.collect()
    assert sessions() == before


UNFAITHFUL = "table must be in a database that takes text as it is written"


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "WIN1252"])
def test_an_encoding_that_cannot_tell_every_text_is_refused(postgres: Any, encoding: str) -> None:
    name = f"in_{encoding.lower()}"
    made = f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    url = postgres.get_uri().replace("/postgres?", f"/{name}?")
    with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
        connection.execute(made)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE sold AS SELECT 1 AS who, 'fig' AS what")
    for option in ("", "&client_encoding=UTF8"):
        with pytest.raises(ValueError, match=UNFAITHFUL):
            dpgap.counts(f"{url}&table=sold{option}", unit="who", item="what", domain=["fig"])


@pytest.mark.parametrize("setting", ["standard_conforming_strings=off", "client_encoding=LATIN1"])
def test_a_session_that_takes_text_otherwise_is_refused(
    postgres: Any, address: str, setting: str
) -> None:
    """With strings of the old kind the first literal here ends late, and the second is SQL."""
    ask: dict[str, Any] = {"unit": "customer", "item": "product", "domain": list(SIZES)}
    ask["where"] = r"product = '\' or product = ' OR true --'"
    assert sum(dpgap.counts(address, **ask).expanded()) == 0
    with pytest.raises(ValueError, match=UNFAITHFUL):
        dpgap.counts(f"{address}&options=-c%20{setting.replace('=', '%3D')}", **ask)
    with connection_to(postgres) as database:
        table = database.table("sales", database="shop")
        assert sum(dpgap.counts(table, **ask).expanded()) == 0
        database.raw_sql(f"SET {setting}").close()
        with pytest.raises(ValueError, match=UNFAITHFUL):
            dpgap.counts(table, **ask)

"""A desk for tests that only look, and one for each that changes something."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from desks import Running, running, write_file

collect_ignore = ["conftest.py"]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Running]:
    """A desk with a SQLite ledger, which in the end has not said where it is."""
    with running(write_file(tmp_path)) as found:
        yield found
    assert str(tmp_path).encode() not in "\n".join(found.lines).encode() + b"\n".join(found.seen)


@pytest.fixture
def url(postgres: Any) -> Iterator[str]:
    """A ledger of its own in PostgreSQL."""
    name = f"desk_{os.urandom(6).hex()}"
    postgres.psql(f"CREATE DATABASE {name};")
    host = postgres.get_uri()
    yield host.replace("/postgres?", f"/{name}?")
    postgres.psql(f"DROP DATABASE {name} WITH (FORCE);")

"""Ledgers to test with: a SQLite file and a real PostgreSQL server, each empty."""

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

collect_ignore = ["conftest.py"]  # two of them cannot both be looked through for examples


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: thousands of commits need no disk to be right."""
    shared = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """Where a test keeps its ledger."""
    if request.param == "sqlite":
        yield f"sqlite:///{folder}/budget.db"
        return
    server = request.getfixturevalue("postgres")
    name = f"ledger_{uuid.uuid4().hex}"
    server.psql(f"CREATE DATABASE {name};")
    yield str(server.get_uri(database=name))
    server.psql(f"DROP DATABASE {name} WITH (FORCE);")

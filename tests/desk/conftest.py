"""A desk for tests that only look, and one for each that changes something."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from desks import Running, assert_nothing_private, running, write_file

collect_ignore = ["conftest.py"]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Running]:
    """A desk with a SQLite ledger. At the end nothing that it said held a private value."""
    with running(write_file(tmp_path)) as found:
        yield found
    said = "\n".join(found.lines).encode() + b"\n".join(found.seen)
    assert_nothing_private(said)
    assert str(tmp_path).encode() not in said

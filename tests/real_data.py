"""Real data, where they are at hand: in the folder that DPGAP_DATA names, or beside the project."""

import os
from pathlib import Path

import pytest

_FOLDER = Path(os.environ.get("DPGAP_DATA") or Path(__file__).parents[2] / "shared" / "data")


def real_file(name: str) -> Path:
    """A file of real data, or a skip that says what is missing."""
    path = _FOLDER / name
    if not path.is_file():
        pytest.skip(f"no {name}: DPGAP_DATA names no folder that has it")
    return path

"""The pictures in the documentation are those that their programs draw."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DRAWN = {
    "choosing_picture.py": ["choosing.svg"],
    "release_picture.py": ["release.json", "release.svg"],
}


@pytest.mark.parametrize("program", DRAWN)
def test_a_picture_is_what_its_program_draws(program: str, tmp_path: Path) -> None:
    *given, drawn = DRAWN[program]
    inputs = [str(ROOT / "docs" / name) for name in given]
    command = [sys.executable, str(ROOT / "benchmarks" / program), *inputs, str(tmp_path / drawn)]
    subprocess.run(command, check=True)
    assert (tmp_path / drawn).read_text("utf-8") == (ROOT / "docs" / drawn).read_text("utf-8")

"""The pictures in the documentation are those that their programs draw."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXPLAINED = ("privacy", "gaps", "certificates", "joint", "hull", "exact")
DRAWN = {
    "choosing": ["choosing_picture.py"],
    "release": ["release_picture.py", str(ROOT / "docs" / "release.json")],
    **{f"explain-{name}": ["explaining_pictures.py", name] for name in EXPLAINED},
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_what_its_program_draws(name: str, tmp_path: Path) -> None:
    program, *given = DRAWN[name]
    drawn = tmp_path / "drawn.svg"
    command = [sys.executable, str(ROOT / "benchmarks" / program), *given, str(drawn)]
    subprocess.run(command, check=True)
    assert drawn.read_text("utf-8") == (ROOT / "docs" / f"{name}.svg").read_text("utf-8")

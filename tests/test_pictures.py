"""The pictures in the documentation are those that their programs draw, and pages name them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pages import PAGES, ROOT, name_of

DOCUMENT = str(ROOT / "docs" / "release.json")
EXPLAINED = ("privacy", "gaps", "certificates", "joint", "hull", "exact", "alignment")
DRAWN = {
    "choosing": ["choosing_picture.py", "{}"],
    "release": ["release_picture.py", DOCUMENT, "{}"],
    "release-narrow": ["release_picture.py", DOCUMENT, "{}", "narrow"],
    **{f"explain-{name}": ["explaining_pictures.py", name, "{}"] for name in EXPLAINED},
}
"""The program of each picture, and what it is given; braces stand for where it draws."""


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_what_its_program_draws(name: str, tmp_path: Path) -> None:
    program, *given = DRAWN[name]
    drawn = tmp_path / "drawn.svg"
    words = [word.format(drawn) for word in given]
    subprocess.run([sys.executable, str(ROOT / "benchmarks" / program), *words], check=True)
    assert drawn.read_text("utf-8") == (ROOT / "docs" / f"{name}.svg").read_text("utf-8")


@pytest.mark.parametrize("page", [it for it in PAGES if it.parent.name != ROOT.name], ids=name_of)
def test_a_page_names_the_program_that_draws_its_picture(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\.svg\)", text):
        program = DRAWN[path][0] if path in DRAWN else "dpgap reproduce"
        assert program in text, path

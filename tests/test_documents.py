"""Pages lead to what they name: files, headings and tests."""

import re
from pathlib import Path

import pytest

from pages import PAGES, ROOT, name_of

BLANK = re.compile(r"^[-*| ]*(?:\*\*[^*]+\*\* +)?[A-Z]{4,}[ \t]*\|?$", re.MULTILINE)
"""A line that is one word in capitals, as one writes where something is still missing."""


def _anchors(page: Path) -> set[str]:
    """The names that headings get in a link."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_no_page_has_a_word_that_was_to_be_filled_in(page: Path) -> None:
    assert BLANK.findall(page.read_text(encoding="utf-8")) == []


def test_a_word_that_was_to_be_filled_in_is_found() -> None:
    left = "MEASURED\n- NUMBERS\n| TIMES |\n- **Sound ones.** COUNTS\n"
    assert BLANK.findall(f"It says REJECTED.\n{left}JSON and CSV\n") == left.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+)…?)?`", text):
        assert (ROOT / path).is_file(), path
        assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8") or not name, name

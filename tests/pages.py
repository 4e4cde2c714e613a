"""The pages of the documentation, and the blocks of code in them.

A block runs as it stands unless a comment right before it says why not:

    <!-- not run: needs a PostgreSQL of yours -->
    <!-- run by make long: takes minutes -->
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>.*?) -->\n\n?)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S
)
_STEP = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code, and what the comment before it says."""

    language: str
    text: str
    mark: str

    @property
    def is_marked(self) -> bool:
        """Whether something is said of how it runs."""
        return self.mark.startswith(("not run", "run by make long"))

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Each command of a console block, and the output that is shown below it, if any."""
        return [(command, shown.strip()) for command, shown in _STEP.findall(self.text)]


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """The blocks of a page, all or those of a language."""
    found = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    every = (Block(each["language"], each["text"], each["mark"] or "") for each in found)
    return [block for block in every if language in (None, block.language)]


def name_of(page: Path) -> str:
    """A page's path within the project."""
    return str(page.relative_to(ROOT))


def commands(page: Path, *, long: bool = False) -> Iterator[tuple[str, str]]:
    """What is to be run of a page's console blocks, with the output shown; or by `make long`."""
    for block in blocks(page, "console"):
        if block.mark.startswith("run by make long") if long else not block.is_marked:
            yield from block.steps


def agree(shown: str, said: str) -> bool:
    """Whether an output is the one that is shown, up to numbers and spaces.

    Numbers are noise, and how wide a table is follows from them. `…` stands for anything.
    """
    pattern = ".*".join(map(re.escape, _plain(shown).split("…")))
    return (
        re.fullmatch(pattern.replace(r"\ .*", ".*").replace(r".*\ ", ".*"), _plain(said))
        is not None
    )


def _plain(text: str) -> str:
    text = re.sub(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?", "#", text)
    return " ".join(re.sub("[─━]+", "─", text).split())

"""What a terminal shows: a release with its table, budget and guarantee; and tables that fit.

No number and no word is ever cut. Where a table is too wide, columns of text are wrapped between
words; where that is not enough, every row becomes a block of lines.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from dpgap.exact.parameters import readable
from dpgap.releases.by_group import ReleasesByGroup
from dpgap.releases.cutting import cut_in_words
from dpgap.releases.findings import is_mostly_noise, own_findings
from dpgap.releases.printable import printable, visible
from dpgap.releases.provenance import AGAIN
from dpgap.releases.questions import TableRelease
from dpgap.releases.release import NAMES, Release
from dpgap.releases.rows import HEADINGS, cells_of
from dpgap.releases.titles import question_of, title_of
from dpgap.releases.words import attempted, sentences

_BETWEEN = 3
"""How many letters a column takes besides its own; the last one takes one less."""
_LONG = 24
"""Words that are longer than this may be folded."""


class Column(NamedTuple):
    """A column of a table; only one that `wraps` may have less than the width of its cells."""

    name: str
    cells: Sequence[str | Text]
    wraps: bool = False


def shown(release: Release, remaining: Fraction | None, whose: str = "of this run") -> str:
    """The release as this terminal shows it.

    `whose` says of what `remaining` is left; how much may be unknown by now.
    """
    console = Console(highlight=False)
    question = question_of(release)
    is_private = question is None or question.origin.is_private
    with console.capture() as captured:
        if release.made.again:
            console.print(Text(f"{AGAIN} Ask for fresh noise to pay anew.", style="bold"))
        console.print(Text(title_of(release), style="bold"))
        if isinstance(release, ReleasesByGroup):
            _print_sentences(cut_in_words(release), console)
            for group, answer in release.items():
                console.print(Text(f"\n{visible(group)}:", style="bold"))
                _print_answer(answer, own_findings(answer), console)
            _print_sentences(release.general_findings, console)
        else:
            _print_answer(release, sentences("findings", lambda: release.findings), console)
        console.print(
            Text.assemble(
                ("ε spent then " if release.made.again else "ε spent ", "dim"),
                readable(getattr(release, "spent", release.epsilon)),
                ("   ε left ", "dim"),
                f"{'unknown' if remaining is None else readable(remaining)} {printable(whose)}",
            )
        )
        style = "" if is_private else "bold red"
        if remark := attempted("remark", lambda: release.remark, ""):
            console.print(Text(remark))
        if guarantee := attempted("guarantee", lambda: printable(release.guarantee), ""):
            console.print(Text(guarantee, style=style))
        table = None if question is None else question.origin.table
        console.print(Text(release.made.words(table), style="dim"))
    return captured.get().removesuffix("\n")


def _print_sentences(sentences: Sequence[str], console: Console) -> None:
    for sentence in sentences:
        console.print(Text(printable(sentence)))


def _print_answer(release: Release, findings: Sequence[str], console: Console) -> None:
    """What may be believed, then the table."""
    _print_sentences(findings, console)
    columns = _columns(release)
    if columns and columns[0].cells:
        console.print(fitted(columns, console))


def _columns(release: Release) -> list[Column]:
    """Names are wrapped; numbers of a release that is mostly noise are dim. P-values are left out.

    Only a release of an array, which has fewer columns, shows them.
    """
    columns = cells_of(release)
    is_noise = is_mostly_noise(release)
    if isinstance(release, TableRelease):
        columns.pop(HEADINGS["p"], None)
    found = []
    for name, cells in columns.items():
        is_name = name in NAMES
        style = "dim" if is_noise else "bold" if is_name else ""
        found.append(Column(name, [Text(cell, style) for cell in cells], wraps=is_name))
    return found


def fitted(columns: Sequence[Column], console: Console) -> Table:
    """A table that this console shows without cutting anything."""
    least, most = [], []
    for name, cells, wraps in columns:
        head, *body = (_letters(str(text)) for text in (name, *cells))
        most.append(max(whole for _, whole in (head, *body)))
        least.append(
            max([head[0], *(min(word, _LONG) if wraps else whole for word, whole in body)])
        )
    room = console.width - (_BETWEEN * len(columns) - 1) - sum(least)
    if room < 0:
        return _as_blocks(columns)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column, width in zip(columns, _widths(columns, least, most, room), strict=True):
        justify: JustifyMethod = "left" if column.wraps else "right"
        table.add_column(Text(column.name), justify=justify, width=width, overflow="fold")
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def _widths(
    columns: Sequence[Column], least: Sequence[int], most: Sequence[int], room: int
) -> list[int]:
    """How wide columns are: `room` more than the least. Text gets it first, then headings."""
    widths = list(least)
    for wraps in (True, False):
        own = [at for at, column in enumerate(columns) if column.wraps is wraps]
        wishes = sum(most[at] - least[at] for at in own)
        given = min(wishes, room)
        for at in own:
            widths[at] += (most[at] - least[at]) * given // max(wishes, 1)
        room -= given
    return widths


def _letters(text: str) -> tuple[int, int]:
    """How wide the longest word is, and how wide all of it."""
    return max(map(cell_len, text.split()), default=0), cell_len(text)


def _as_blocks(columns: Sequence[Column]) -> Table:
    """Every row as lines of a column's name and its value, if it has one."""
    blocks = Table.grid(padding=(0, 2))
    blocks.add_column(no_wrap=True)
    blocks.add_column(overflow="fold")
    for row in zip(*(column.cells for column in columns), strict=True):
        for column, cell in zip(columns, row, strict=True):
            if cell:
                blocks.add_row(
                    Text(column.name, "dim"), Text(cell) if isinstance(cell, str) else cell
                )
        blocks.add_row()
    return blocks

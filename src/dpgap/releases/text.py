"""A release as rows and as text: what data frames, documents and the terminal show of it."""

import csv
import io
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from dpgap.budget.account import readable_text
from dpgap.exact.parameters import readable
from dpgap.printable import in_a_cell, printable, visible
from dpgap.releases.findings import (
    cut_in_words,
    findings,
    general_findings,
    is_mostly_noise,
    is_private,
    own_findings,
)
from dpgap.releases.plain import attempted, number, plain, written
from dpgap.releases.release import (
    AGAIN,
    HEADINGS,
    NAMES,
    Release,
    ReleasesByGroup,
    TableRelease,
    question_of,
    title_of,
)

# --------------------------------------------------------------------------------------------------
# The rows of a release, as CSV, beside its document, and as text that is safe to show.
#
# Names of items come from a table that anybody may have filled. In a terminal and on a page they
# must not move the cursor, reverse the text or become markup; in a spreadsheet they must not become
# formulas; JSON is plain ASCII.


_NO_END, _AT_MOST = "–", "≤ "
"""What is shown in place of a lower end that there is not, and before the upper end beside it."""


def cells_of(release: Release) -> dict[str, list[str]]:
    """The rows as people read them, column by column; columns of no numbers are left out."""
    shown: dict[str, list[str]] = attempted("rows", partial(release.cells, ","), {})
    low, high = shown.get(HEADINGS["low"], []), HEADINGS["high"]
    for place in (place for place, cell in enumerate(low) if not cell):
        low[place], shown[high][place] = _NO_END, _AT_MOST + shown[high][place]
    return shown


def to_json(release: Release, remaining: Fraction | None) -> str:
    """The release document, and beside it what was spent and what an account has left.

    What remains is null where it is unknown.
    """
    left = None if remaining is None else readable_text(remaining)
    spent = getattr(release, "spent", release.epsilon)
    beside = {
        "epsilon_spent": number(spent),
        "epsilon_remaining": None if remaining is None else number(remaining),
        "exact": {"epsilon_spent": readable_text(spent), "epsilon_remaining": left},
    }
    return written(release.to_dict() | beside)


def to_csv(release: Release) -> str:
    """The rows as CSV in which no name is taken for a formula.

    Every row ends with the question, the ε and the time (UTC), so that a file says what it is, and
    every program reads it without being told of a heading. ε is the nearest number; a document has
    the exact one. A name that begins like a formula gets an apostrophe in front, as spreadsheets
    themselves do it.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    columns = release.columns()
    rows = zip(*([plain(cell) for cell in column] for column in columns.values()), strict=True)
    question = question_of(release)
    asked = ", ".join(used.name for used in release.mechanisms)
    if question is not None:
        asked = question.purpose + ("" if question.is_private else " (NOT private)")
    facts = (in_a_cell(asked), number(release.epsilon), release.made.time)
    writer.writerow((*columns, "question", "epsilon", "time"))
    for row in rows:
        writer.writerow((*map(in_a_cell, row), *facts))
    return out.getvalue()


# --------------------------------------------------------------------------------------------------
# What a terminal shows: a release with its table, budget and guarantee; and tables that fit.
#
# No number and no word is ever cut. Where a table is too wide, columns of text are wrapped between
# words; where that is not enough, every row becomes a block of lines.


_BETWEEN = 3
"""How many letters a column takes besides its own; the last one takes one less."""
_LONG = 24
"""Words that are longer than this may be folded."""


class Column(NamedTuple):
    """A column of a table; only one that `wraps` may have less than the width of its cells."""

    name: str
    cells: Sequence[str | Text]
    wraps: bool = False


def shown(release: Release, remaining: Fraction | None, whose: str = "", note: str = "") -> str:
    """The release as this terminal shows it.

    `whose` says whose ε is left; how much may be unknown by now. Without it nothing is said of 0.
    A `note` stands below.
    """
    console = Console(highlight=False)
    question = question_of(release)
    with console.capture() as captured:
        if release.made.again:
            console.print(Text(f"{AGAIN} For new noise, pay again: --fresh.", style="bold"))
        console.print(Text(title_of(release), style="bold"))
        if isinstance(release, ReleasesByGroup):
            _print_sentences(cut_in_words(release), console)
            for group, answer in release.items():
                console.print(Text(f"\n{visible(group)}:", style="bold"))
                _print_answer(answer, own_findings(answer), console)
            _print_sentences(general_findings(release), console)
        else:
            _print_answer(release, attempted("findings", partial(findings, release), ()), console)
        left = "unknown" if remaining is None else readable(remaining)
        line: list[str | tuple[str, str]] = [
            ("ε spent then " if release.made.again else "ε spent ", "dim"),
            readable(getattr(release, "spent", release.epsilon)),
        ]
        if whose or remaining:
            line += [("   ε left ", "dim"), f"{left} {printable(whose)}".rstrip()]
        console.print(Text.assemble(*line))
        if note:
            console.print(Text(note))
        style = "" if is_private(release) else "bold red"
        if remark := attempted("remark", lambda: release.remark, ""):
            console.print(Text(remark))
        if guarantee := attempted("guarantee", lambda: printable(release.guarantee), ""):
            console.print(Text(guarantee, style=style))
        table = None if question is None else question.table
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
        texts = [str(text) for text in (name, *cells)]
        words = [max(map(cell_len, text.split()), default=0) for text in texts]
        whole = [cell_len(text) for text in texts]
        most.append(max(whole))
        body = [min(word, _LONG) for word in words] if wraps else whole
        least.append(max([words[0], *body[1:]]))
    room = console.width - (_BETWEEN * len(columns) - 1) - sum(least)
    each_row = zip(*(column.cells for column in columns), strict=True)
    rows = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in each_row]
    if room < 0:
        return _as_blocks([column.name for column in columns], rows)
    widths = list(least)
    for wraps in (True, False):  # text gets the room first, then headings
        own = [at for at, column in enumerate(columns) if column.wraps is wraps]
        wishes = sum(most[at] - least[at] for at in own)
        given = min(wishes, room)
        for at in own:
            widths[at] += (most[at] - least[at]) * given // max(wishes, 1)
        room -= given
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column, width in zip(columns, widths, strict=True):
        justify: JustifyMethod = "left" if column.wraps else "right"
        table.add_column(Text(column.name), justify=justify, width=width, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _as_blocks(names: Sequence[str], rows: Sequence[Sequence[Text]]) -> Table:
    """Every row as lines of a column's name and its value, if it has one."""
    blocks = Table.grid(padding=(0, 2))
    blocks.add_column(no_wrap=True)
    blocks.add_column(overflow="fold")
    for row in rows:
        for name, cell in zip(names, row, strict=True):
            if cell:
                blocks.add_row(Text(name, "dim"), cell)
        blocks.add_row()
    return blocks

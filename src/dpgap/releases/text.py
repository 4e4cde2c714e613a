"""A release as text for the terminal, and its document with what an account has left."""

from collections.abc import Container, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from textwrap import wrap

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpgap.exact.parameters import approximately, readable_down, readable_up
from dpgap.printable import printable, visible
from dpgap.releases.findings import (
    cut_in_words,
    findings,
    general_findings,
    is_mostly_noise,
    is_private,
    own_findings,
)
from dpgap.releases.plain import attempted, number, written
from dpgap.releases.release import (
    NAMES,
    Release,
    ReleasesByGroup,
    title_of,
)

# --------------------------------------------------------------------------------------------------
# A release as text that is safe to show.
#
# Names of items come from a table that anybody may have filled. In a terminal and on a page they
# must not move the cursor, reverse the text or become markup; in a spreadsheet they must not become
# formulas; JSON is plain ASCII.


def readable_text(value: Fraction) -> str:
    """The number for programs: exact, or approximate if it has too many digits to write.

    >>> readable_text(Fraction(7, 10)), readable_text(Fraction(1, 3**10000) + 2)
    ('7/10', 'about 2')
    """
    try:
        return str(value)
    except ValueError:
        return f"about {approximately(value, 17)}"


def to_json(release: Release, remaining: Fraction | None) -> str:
    """The release document, with what was spent and what an account has left.

    "remaining" is null if it is unknown.
    """
    spent = release.cost.pure_epsilon
    left = None if remaining is None else readable_text(remaining)
    beside = {
        "epsilon_spent": number(spent),
        "epsilon_remaining": None if remaining is None else number(remaining),
        "exact": {"epsilon_spent": readable_text(spent), "epsilon_remaining": left},
    }
    return written(release._to_dict() | beside)


# --------------------------------------------------------------------------------------------------
# Text for a terminal: a release with its table, budget and guarantee; and other tables.


Columns = Mapping[str, Sequence[str | Text]]

_NARROWEST = 12
"""The smallest width of a column of names in letters, if its names are that long."""


def print_table(columns: Columns, console: Console, names: Container[str] = ()) -> None:
    """Print a table in which only names and headings are wrapped; no number is ever cut.

    If it is too wide for the console, every row becomes a block of lines.
    """
    rows = list(zip(*columns.values(), strict=True))
    for lines in (str.splitlines, partial(wrap, width=9), str.split):  # of a heading
        table, least = Table(box=SIMPLE_HEAD, pad_edge=False), -1
        for name, cells in columns.items():
            width = max(map(cell_len, (*lines(name), *map(str, cells))))
            if name in names:
                table.add_column(Text(name), overflow="fold")
                width = min(width, _NARROWEST)
            else:
                table.add_column(Text(name), justify="right", width=width)
            least += 3 + width
        if least <= console.width:
            for row in rows:
                table.add_row(*map(Text.assemble, row))
            console.print(table)
            return
    for row in rows:
        for name, cell in zip(columns, row, strict=True):
            console.print(Text.assemble((f"{name}  ", "dim"), cell))
        console.print()


def shown(release: Release, remaining: Fraction | None, whose: str = "", note: str = "") -> str:
    """The release as text for this terminal.

    `whose` says whose ε is left; `remaining` is None if it is unknown by now. Without `whose`, an
    ε left of 0 is not shown. A `note` is printed below.
    """
    console = Console(highlight=False)
    question = release.question
    with console.capture() as captured:
        if release.made.again:
            notice = release.made.notice.replace("fresh=True", "--fresh")
            console.print(Text(notice, style="bold"))
        console.print(Text(title_of(release), style="bold"))
        if isinstance(release, ReleasesByGroup):
            _print_sentences(cut_in_words(release), console)
            for group, answer in release.items():
                console.print(Text(f"\n{visible(group)}:", style="bold"))
                _print_answer(answer, own_findings(answer), console)
            _print_sentences(general_findings(release), console)
        else:
            _print_answer(release, attempted("findings", (), findings, release), console)
        spent = readable_up(release.cost.pure_epsilon)
        line = f"ε spent then {spent}" if release.made.again else f"ε spent {spent}"
        if whose or remaining:
            left = "unknown" if remaining is None else readable_down(remaining)
            line += f"   ε left {left} {printable(whose)}".rstrip()
        remark = attempted("remark", "", getattr, release, "_remark")
        _print_sentences(filter(None, (line, note, remark)), console)
        if guarantee := attempted("guarantee", "", getattr, release, "guarantee"):
            style = "" if is_private(release) else "bold red"
            console.print(Text(printable(guarantee), style=style))
        table = None if question is None else question.table
        console.print(Text(release.made.words(table), style="dim"))
    return captured.get().removesuffix("\n")


def _print_sentences(sentences: Iterable[str], console: Console) -> None:
    for sentence in sentences:
        console.print(Text(printable(sentence)))


def _print_answer(release: Release, findings: Sequence[str], console: Console) -> None:
    """Print the findings, then the table.

    Names are wrapped; numbers of a release that is mostly noise are dim.
    """
    _print_sentences(findings, console)
    cells: dict[str, list[str]] = attempted("rows", {}, release._cells)
    is_noise, columns = is_mostly_noise(release), {}
    for name, texts in cells.items():
        style = "dim" if is_noise else "bold" if name in NAMES else ""
        columns[name] = [Text(text, style) for text in texts]
    if any(columns.values()):
        print_table(columns, console, NAMES)

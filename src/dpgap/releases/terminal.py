"""A release in a terminal: the table, what was spent and what is left, the guarantee."""

from fractions import Fraction

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpgap.releases.printable import printable
from dpgap.releases.questions import TableRelease
from dpgap.releases.results import readable
from dpgap.releases.rows import rows_of, visible


def shown(release: TableRelease, remaining: Fraction | None, whose: str | None) -> str:
    """The release as this terminal shows it.

    `whose` names the data set in a ledger that `remaining` is about; it may be unknown by now.
    """
    console = Console(highlight=False)
    left = "of this run" if whose is None else f"to data set {visible(whose)!r}"
    with console.capture() as captured:
        console.print(_table(release))
        console.print(
            Text.assemble(
                ("ε spent ", "dim"),
                readable(release.spent),
                ("   ε left ", "dim"),
                f"{'unknown' if remaining is None else readable(remaining)} {left}",
            )
        )
        style = "" if release.question.origin.is_private else "bold red"
        console.print(Text(printable(release.guarantee), style=style))
    return captured.get().removesuffix("\n")


def _table(release: TableRelease) -> Table:
    top = release.question.kind == "top-k"
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("rank", justify="right", style="dim")
    table.add_column(Text(visible(release.question.origin.item)), style="bold", overflow="fold")
    table.add_column("estimate", justify="right")
    table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column("gap to next" if top else "above by", justify="right", style="cyan")
    for row in rows_of(release):
        table.add_row(
            str(row.rank),
            Text(visible(row.item)),
            f"{row.estimate:,.1f}",
            f"{row.low:,.1f} … {row.high:,.1f}",
            "" if row.gap is None else f"{row.gap:,.1f}",
        )
    return table

"""`dpgap show`: a release again from its document, free of charge."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpgap.cli.errors import say_error
from dpgap.cli.files import Input, Wanted
from dpgap.cli.options import AsJSON, CSVFile, Force, HTMLFile
from dpgap.cli.streams import say

_STANDARD_INPUT = "-"


def show(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A release document, as --json prints it; - is standard input."
        ),
    ],
    json: AsJSON = False,
    csv: CSVFile = None,
    html: HTMLFile = None,
    force: Force = False,
) -> None:
    """Show a release again from its document. Nothing is counted, drawn or charged."""
    inputs = [] if file == _STANDARD_INPUT else [Input("the document", Path(file))]
    files = Wanted(csv, html, force).files(lambda: inputs)
    from dpgap.cli.delivery import renders
    from dpgap.releases.document import read_release
    from dpgap.releases.text import shown

    release = read_release(_content(file))
    render = renders(release)
    for kind, output in files.items():
        output.write(render[kind]())
    remaining = release.epsilon - getattr(release, "spent", release.epsilon)
    say(release.to_json() if json else shown(release, remaining))
    if (entry := release.made.ledger) is not None:
        say_error(
            f"note: the document says that entry {entry.entry} of data set {entry.dataset!r} paid "
            "for it. That was not looked up: `dpgap ledger archive` shows what the ledger has"
        )


def _content(file: str) -> bytes:
    """The bytes of a file or of standard input; no more than one too many."""
    from dpgap.releases.plain import MOST

    if file != _STANDARD_INPUT:
        with open(file, "rb") as document:
            return document.read(MOST + 1)
    if sys.stdin is None:
        raise ValueError("standard input is closed")
    return sys.stdin.buffer.read(MOST + 1)

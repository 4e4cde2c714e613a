"""Options that several commands have, in one wording."""

from pathlib import Path
from typing import Annotated

import typer

K = Annotated[int, typer.Option("-k", "--k", help="How many items to find.")]
Split = Annotated[
    str | None, typer.Option(help="The share of ε for selecting; else the method's own.")
]
Neighbours = Annotated[
    str, typer.Option(help="What one unit may do: add-or-remove, or replace another.")
]
Adaptive = Annotated[
    bool, typer.Option("--adaptive/--plain", help="Pay less for items far above a threshold.")
]
AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CSVFile = Annotated[Path | None, typer.Option("--csv", help="Also write the rows to this file.")]
HTMLFile = Annotated[Path | None, typer.Option("--html", help="Also write a report page.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]

"""Options that several commands have, in one wording."""

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

"""`python -m dpgap.proof prove` and `… audit`."""

import typer

from dpgap.cli_streams import AnyLetterGroup
from dpgap.proof.commands import audit, prove

app = typer.Typer(
    cls=AnyLetterGroup, help="Proofs and audits of dpgap's mechanisms.", add_completion=False
)
app.command("prove")(prove)
app.command("audit")(audit)

if __name__ == "__main__":
    app()

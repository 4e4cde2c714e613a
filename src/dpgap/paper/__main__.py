"""`python -m dpgap.paper`: the same as `dpgap reproduce`."""

import typer

from dpgap.cli_streams import accept_any_letter
from dpgap.paper.commands import reproduce

if __name__ == "__main__":
    accept_any_letter()
    typer.run(reproduce)

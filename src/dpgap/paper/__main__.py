"""`python -m dpgap.paper`: the same as `dpgap reproduce`."""

import typer

from dpgap.paper.commands import reproduce

if __name__ == "__main__":
    typer.run(reproduce)

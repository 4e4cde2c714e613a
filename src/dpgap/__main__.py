"""`python -m dpgap` is `dpgap`."""

from dpgap.cli.app import app

app(prog_name="dpgap")

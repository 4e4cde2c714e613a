"""`python -m dpgap` is `dpgap`."""

from dpgap.cli import app

app(prog_name="dpgap")

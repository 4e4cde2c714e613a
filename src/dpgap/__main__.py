"""`python -m dpgap` is `dpgap`."""

from dpgap.cli.main import app

app(prog_name="dpgap")

"""What every test may rely on: the made-up shop's table."""

import runpy
from pathlib import Path

SHOP = Path(__file__).parent / "examples"


def pytest_configure(config: object) -> None:
    """Make the table once, before workers start."""
    if not (SHOP / "sales.csv.gz").exists():
        runpy.run_path(str(SHOP / "shop.py"), run_name="__main__")

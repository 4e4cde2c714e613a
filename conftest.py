"""What every test may rely on: the made-up tables of the shop and of its web log."""

import runpy
from pathlib import Path

SHOP = Path(__file__).parent / "examples"


def pytest_configure(config: object) -> None:
    """Make each table once, before workers start."""
    for table, program in (("sales", "shop"), ("weblog", "weblog")):
        if not (SHOP / f"{table}.csv.gz").exists():
            runpy.run_path(str(SHOP / f"{program}.py"), run_name="__main__")

"""From a file to a printed release, start-up included, next to DuckDB alone.

    python benchmarks/end_to_end.py [--json] [--quick] [--against SRC]

Every figure is the best of several fresh processes, in seconds, taken in turn so that whatever
else the machine does falls on all alike. "DuckDB alone" is a bare Python process that makes the
same distinct count and prints nothing. The retail baskets are read from the folder that DPGAP_DATA
names; without it, baskets of the same size are made up. `--quick` leaves out the ten million rows.
`--against` names the `src` folder of another version: each command is run with both in turn, and
the ratio of their medians of five is printed.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from timing import medians, rounds

DATA = Path(os.environ.get("DPGAP_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
ITEMS, BASKETS = 16_470, 88_162
ROWS, UNITS, PRODUCTS = 10_000_000, 2_000_000, 20_000

BASKET_COUNT = """
import duckdb
duckdb.sql('''SELECT item, count(*) FROM (
    SELECT DISTINCT line, unnest(string_split(trim(items), ' ')) AS item FROM (
        SELECT row_number() OVER () AS line, items FROM read_csv({path!r},
            columns = {{'items': 'VARCHAR'}}, delim = e'\\\\x01', quote = '', escape = '',
            header = false, auto_detect = false))) GROUP BY item''').fetchall()
"""
TABLE_COUNT = """
import duckdb
duckdb.sql('''SELECT product, count(DISTINCT customer) FROM read_parquet({path!r})
    WHERE customer IS NOT NULL AND product IS NOT NULL GROUP BY product''').fetchall()
"""


def baskets(folder: Path) -> Path:
    """The retail baskets, or as many made-up ones."""
    if (DATA / "retail.dat.gz").exists():
        return (DATA / "retail.dat.gz").resolve()
    import numpy as np

    rng = np.random.default_rng(1)
    path = folder / "baskets.dat.gz"
    with gzip.open(path, "wt") as file:
        for size in rng.poisson(9.3, BASKETS) + 1:
            items = (ITEMS * rng.random(size) ** 3).astype(int)
            file.write(" ".join(map(str, items)) + " \n")
    return path


def table(folder: Path) -> Path:
    """Ten million sales: two million customers, twenty thousand products, few of them popular."""
    import duckdb

    path = folder / "sales.parquet"
    duckdb.sql(
        f"""COPY (SELECT (hash(row) % {UNITS})::BIGINT AS customer,
            'p' || floor({PRODUCTS} * pow((hash(row + 7) % 1000003) / 1000003.0, 3))::INT AS product
            FROM range({ROWS}) t(row)) TO '{path}'"""
    )
    duckdb.sql(f"COPY (FROM read_parquet('{path}')) TO '{path.with_suffix('.csv')}'")
    (folder / "products.txt").write_text("\n".join(f"p{number}" for number in range(PRODUCTS)))
    return path


def run(command: list[str], source: str | None = None) -> None:
    """A fresh process, with the dpgap of another `src` folder if one is named."""
    environment = os.environ if source is None else os.environ | {"PYTHONPATH": source}
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)


def best_of(commands: dict[str, list[str]], times: int) -> dict[str, float]:
    """The shortest time of each command, all of them run in turn."""
    calls = [partial(run, command) for command in commands.values()]
    taken = rounds(*calls, times=times, warm_up=False)
    return dict(zip(commands, map(min, taken), strict=True))


def ratios(commands: dict[str, list[str]], other: str) -> dict[str, float]:
    """The median time of each command over that with another version; both take turns."""
    own = str(Path(__file__).parents[1] / "src")
    found = {}
    for name, command in commands.items():
        ours, theirs = medians(
            partial(run, command, own), partial(run, command, other), warm_up=False
        )
        found[name] = ours / theirs
    return found


def small(folder: Path) -> dict[str, list[str]]:
    """Commands on the baskets."""
    dpgap = [sys.executable, "-m", "dpgap"]
    ledger = ["--ledger", f"sqlite:///{folder}/budget.db", "--dataset", "sales"]
    make = [*dpgap, "ledger", "create", *ledger, "--epsilon", "1000"]
    subprocess.run(make, stdout=subprocess.DEVNULL, check=True)
    retail = str(baskets(folder))
    domain = ["--domain", f"0..{ITEMS - 1}", "-k", "10", "--epsilon", "1"]
    return {
        "python": [sys.executable, "-c", "pass"],
        "import dpgap": [sys.executable, "-c", "import dpgap"],
        "dpgap --help": [*dpgap, "--help"],
        "baskets, DuckDB alone": [sys.executable, "-c", BASKET_COUNT.format(path=retail)],
        "baskets, dpgap top-k": [*dpgap, "top-k", retail, *domain],
        "baskets, with a ledger": [*dpgap, "top-k", retail, *domain, *ledger],
    }


def large(folder: Path) -> dict[str, list[str]]:
    """Commands on ten million rows, as Parquet and as CSV."""
    sales = str(table(folder))
    columns = ["--unit", "customer", "--item", "product", "--domain", f"{folder}/products.txt"]
    ask = [*columns, "-k", "10", "--epsilon", "1"]
    top_k = [sys.executable, "-m", "dpgap", "top-k"]
    return {
        "10⁷ rows, DuckDB alone": [sys.executable, "-c", TABLE_COUNT.format(path=sales)],
        "10⁷ rows, dpgap top-k": [*top_k, sales, *ask],
        "10⁷ rows of CSV, dpgap top-k": [*top_k, sales.replace(".parquet", ".csv"), *ask],
    }


def limits(figures: dict[str, float]) -> dict[str, tuple[float, float]]:
    """What is promised: the figure and its limit."""
    bare = figures["baskets, DuckDB alone"]
    promised = {
        "import dpgap": (figures["import dpgap"], 0.25),
        "dpgap --help": (figures["dpgap --help"], 0.3),
        "baskets over DuckDB": (figures["baskets, dpgap top-k"] - bare, 0.4),
        "the same with a ledger": (figures["baskets, with a ledger"] - bare, 0.7),
    }
    if "10⁷ rows, dpgap top-k" in figures:
        ratio = figures["10⁷ rows, dpgap top-k"] / figures["10⁷ rows, DuckDB alone"]
        promised["10⁷ rows, times DuckDB"] = (ratio, 1.5)
    return promised


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--against", metavar="SRC")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = {small: 10} if options.quick else {small: 10, large: 4}
        if options.against:
            for commands in parts:
                for what, ratio in ratios(commands(folder), options.against).items():
                    print(f"{what:<30}{ratio:8.3f} times", flush=True)
            return
        figures = {}
        for commands, times in parts.items():
            figures |= best_of(commands(folder), times)
    if options.json:
        print(json.dumps({"seconds": figures, "limits": limits(figures)}, indent=2))
        return
    for what, taken in figures.items():
        print(f"{what:<30}{taken:8.3f} s")
    print()
    for what, (figure, limit) in limits(figures).items():
        print(f"{what:<30}{figure:8.3f}   limit {limit:<6}{'met' if figure <= limit else 'MISSED'}")


if __name__ == "__main__":
    main()

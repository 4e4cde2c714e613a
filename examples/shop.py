"""Make the table that the demo and the tutorials use: who bought what in a made-up shop.

    python examples/shop.py

writes `sales.csv.gz` beside this file, the same one every time. The shop's products are public and
stand in `products.txt`; the first few of them, from bread on, sell best.
"""

import gzip
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
CUSTOMERS = 4_000
BEST_SELLERS = "bread milk eggs butter cheese apples bananas tomatoes potatoes onions".split()


def sales() -> list[str]:
    """One line a sale: a customer and a product, in random order, some of them several times."""
    rng = np.random.default_rng(2020)
    listed = (HERE / "products.txt").read_text(encoding="utf-8").split()
    products = BEST_SELLERS + [name for name in listed if name not in BEST_SELLERS]
    chances = 0.66 / np.arange(1, len(products) + 1) ** 0.53
    bought = rng.random((CUSTOMERS, len(products))) < chances
    customers, items = np.nonzero(bought)
    times = rng.geometric(0.8, customers.size)
    order = rng.permutation(np.repeat(np.arange(customers.size), times))
    return [f"c{customers[sale]:04},{products[items[sale]]}" for sale in order]


def main() -> None:
    """Write the table."""
    lines = sales()
    text = "\n".join(["customer,product", *lines, ""])
    (HERE / "sales.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    customers = {line.partition(",")[0] for line in lines}
    print(f"wrote {HERE.name}/sales.csv.gz: {len(lines):,} sales to {len(customers):,} customers")


if __name__ == "__main__":
    main()

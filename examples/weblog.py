"""Make the table that the tutorial about questions uses: the log of a made-up shop on the web.

    python examples/weblog.py

writes `weblog.csv.gz` beside this file, the same one every time. A row is one visit to a page: who,
from which country, which page, what was searched for before (often nothing), and for how much was
bought there (mostly nothing).
"""

import gzip
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
VISITORS = 6_000
COUNTRIES = ("CH", "DE", "FR", "AT", "IT")
PAGES = tuple(f"/product/{number}" for number in range(1, 41))
TERMS = (
    "red bike", "bike", "helmet", "lock", "bell", "city bike", "light", "saddle", "pump",
    "child seat", "tyre", "winter tyre", "basket", "gloves", "trailer",
)  # fmt: skip


def rows() -> list[str]:
    """The lines of the log, in random order."""
    rng = np.random.default_rng(9)
    country = rng.choice(len(COUNTRIES), VISITORS, p=(0.3, 0.3, 0.2, 0.1, 0.1))
    visits = rng.geometric(0.3, VISITORS)
    visitor = np.repeat(np.arange(VISITORS), visits)
    appeal = 1 / np.arange(1, len(PAGES) + 1) ** 0.9
    page = rng.choice(len(PAGES), visitor.size, p=appeal / appeal.sum())
    page = (page + 3 * country[visitor]) % len(PAGES)  # every country has its own favourites
    asked = 1 / np.arange(1, len(TERMS) + 1)
    term = rng.choice(len(TERMS), visitor.size, p=asked / asked.sum())
    searched = rng.random(visitor.size) < 0.4
    own = rng.random(visitor.size) < 0.02  # what only one visitor ever searched for
    amount = np.where(rng.random(visitor.size) < 0.15, rng.gamma(2.0, 12.0, visitor.size), 0.0)
    lines = []
    for at in rng.permutation(visitor.size).tolist():
        who = int(visitor[at])
        words = f"my order {who}" if own[at] else TERMS[term[at]] if searched[at] else ""
        paid = f"{amount[at]:.2f}" if amount[at] else ""
        lines.append(f"v{who:04},{COUNTRIES[country[who]]},{PAGES[page[at]]},{words},{paid}")
    return lines


def main() -> None:
    """Write the table."""
    lines = rows()
    text = "\n".join(["visitor,country,page,search,amount", *lines, ""])
    (HERE / "weblog.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"weblog.csv.gz: {len(lines):,} visits of {VISITORS:,} visitors")


if __name__ == "__main__":
    main()

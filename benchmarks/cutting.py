"""Cutting: how much of all counts is left where a unit counts for at most so many items.

    python benchmarks/cutting.py FILE.dat FILE.dat.gz …

Each file has a line for every unit, with its items in between spaces. The items that are kept are
drawn at random for each unit, so that the share is the same for every draw.
"""

import gzip
import sys
from pathlib import Path

REACHES = (1, 3, 5, 10)


def main() -> None:
    """Print a line for each file."""
    for name in sys.argv[1:]:
        opened = gzip.open if name.endswith(".gz") else open
        with opened(name, "rt", encoding="utf-8") as lines:
            sizes = [len(set(line.split())) for line in lines]
        kept = (sum(min(size, most) for size in sizes) / sum(sizes) for most in REACHES)
        shares = ", ".join(
            f"{most}: {share:.1%}" for most, share in zip(REACHES, kept, strict=True)
        )
        units = sum(size > 0 for size in sizes)
        print(
            f"{Path(name).name}: {sum(sizes) / units:.2f} items a unit; left by max_items {shares}"
        )


if __name__ == "__main__":
    main()

"""How accurate are the estimates? Squared errors, coverage and selection quality on real counts.

    python benchmarks/accuracy.py                  the k largest, and what is above a threshold
    python benchmarks/accuracy.py --only top-k     one of them; or --only above
    python benchmarks/accuracy.py --json           the same figures for machines

Data come from the folder that DPGAP_DATA names, else from ../shared/data beside the repository.
For the k largest it also says which bars hold (`top_k_accuracy.py`).
"""

import argparse
import gzip
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import above_accuracy
import numpy as np
import top_k_accuracy
from above_accuracy import BATCHES, EPSILON, Integers
from timing import timed

BMS_POS = "bms-pos-partial-275k.dat.gz"


def data_folder() -> Path:
    """Where real data lie, if they are here."""
    named = os.environ.get("DPGAP_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def item_counts(path: Path) -> Integers:
    """How many transactions hold each item, largest first."""
    counts: Counter[str] = Counter()
    with gzip.open(path, "rt") as lines:
        for line in lines:
            counts.update(set(line.split()))
    return np.array(sorted(counts.values(), reverse=True), dtype=np.int64)


def report(figures: dict[str, Any], indent: str = "") -> None:
    """Nested figures as lines of text."""
    for name, value in figures.items():
        if name == "top-k":
            top_k_accuracy.report(value)
        elif not isinstance(value, dict):
            print(f"{indent}{name}: {value}")
        elif any(isinstance(each, dict) for each in value.values()):
            print(f"{indent}{name}")
            report(value, indent + "  ")
        else:
            cells = "  ".join(f"{key} {number:.4f}" for key, number in value.items())
            print(f"{indent}{name:<20}{cells}")


def main() -> int:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--runs", type=int, default=20_000, help="runs a setting (%(default)s)")
    parser.add_argument("--only", choices=("top-k", "above"), help="one question only")
    options = parser.parse_args()
    if options.runs < BATCHES:
        parser.error(f"--runs must be at least {BATCHES}")
    folder = data_folder()
    if not (folder / BMS_POS).exists():
        print(f"no data: set DPGAP_DATA to a folder with {BMS_POS}", file=sys.stderr)
        return 1
    figures: dict[str, Any] = {"epsilon": float(EPSILON), "runs": options.runs}
    seconds = 0.0
    if options.only != "above":
        seconds, figures["top-k"] = timed(lambda: top_k_accuracy.all_figures(folder, options.runs))
    if options.only != "top-k":
        counts = item_counts(folder / BMS_POS)
        took, found = timed(lambda: above_accuracy.all_figures(counts, options.runs))
        seconds, figures = seconds + took, figures | found
    figures["seconds"] = round(seconds, 1)
    print(json.dumps(figures, indent=2, default=str)) if options.json else report(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

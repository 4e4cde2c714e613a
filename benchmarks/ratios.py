"""The ratios of one release of dpgap, in one file: `python benchmarks/ratios.py 0.3.0`.

It writes `benchmarks/ratios/0.3.0.json`, which is committed with the release, so that anyone sees
what became quicker and what slower. Ratios are ours over OpenDP's, measured in turns in one run:
below 1 is better. Ratios outlast a machine; seconds do not, and are left out.
"""

import argparse
import json
from pathlib import Path

import beside_opendp
import release
import small

FOLDER = Path(__file__).parent / "ratios"


def ratios(runs: int) -> dict[str, dict[str, float]]:
    """Time of a selection, time of a measured top 10, and squared error of its estimates."""
    selection = release.top_k_rows(release.SIZES[:3])
    measured = small.rows(runs)
    errors = beside_opendp.rows(runs)
    return {
        "time of NoisyTopK, by number of answers": {
            str(row["n"]): row["dpgap_ms"] / row["opendp_ms"] for row in selection
        },
        "time of measured_top_k among 1,000 answers, with intervals": {
            row["counts"]: row["of_opendp"] for row in measured
        },
        "squared error of the estimates of measured_top_k": {
            f"{row['counts']}, k = {row['k']}": row["squared_errors"][0] / row["squared_errors"][1]
            for row in errors
        },
    }


def main() -> None:
    """Measure, and write or print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", help="the release that is measured, such as 0.3.0")
    parser.add_argument("--runs", type=int, default=300)
    chosen = parser.parse_args()
    measured = {
        name: {case: float(f"{ratio:.2g}") for case, ratio in cases.items()}
        for name, cases in ratios(chosen.runs).items()
    }
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{chosen.version}.json").write_text(json.dumps(measured, indent=2) + "\n")
    print(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()

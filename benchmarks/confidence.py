"""How often numbers that carry a confidence of 95 % hold: the table of docs/confidence.md.

    python benchmarks/confidence.py [--runs 20000]

Every way to get such numbers is run on several kinds of answers, and the worst is shown. What is
counted, and on which answers, is in `tests/confidence.py`; `make long` judges it.
"""

import argparse
import sys
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from confidence import NOMINAL, WAYS, Way
from dpgap.exact.bits import InsecureSeededBits
from seams import bits_are

HEAD = ("what is asked", "by", "number", "monotonic", "general")


def covered(way: Way, runs: int) -> dict[str, float]:
    """For each number, the share that holds, on the answers that are worst for it."""
    worst: dict[str, float] = {}
    for _, number, wrong in way.say(runs, NOMINAL):
        if wrong.size >= runs // 100:  # otherwise next to nothing was said of such answers
            worst[number] = min(worst.get(number, 1.0), 1 - float(wrong.mean()))
    return worst


def rows(ways: list[Way], runs: int) -> list[tuple[str, ...]]:
    """A row for each number; ways that differ by branches or reach are side by side."""
    found = {str(way): covered(way, runs) for way in ways}
    settings = list(dict.fromkeys(way.setting for way in ways))
    asked = ", ".join(filter(None, (ways[0].question, _together(settings))))
    numbers = dict.fromkeys(number for each in found.values() for number in each)

    def cell(number: str, *kinds: bool | None) -> str:
        own = [found[str(way)].get(number) for way in ways if way.monotonic in kinds]
        return " / ".join("–" if share is None else f"{100 * share:.1f}" for share in own)

    columns = ((True, None), (False,))
    return [
        (asked, ways[0].by, number, *(cell(number, *kinds) for kinds in columns))
        for number in numbers
    ]


def _together(settings: list[str]) -> str:
    """Such as 1 / 2 / 3 / 16 branches."""
    if len(settings) == 1:
        return settings[0]
    words = [setting.split() for setting in settings]
    if words[0][0] == "reach":
        return "reach " + " / ".join(word[-1] for word in words)
    if all(word[-1] == "branches" for word in words):
        return " / ".join(word[0] for word in words) + " branches"
    return " / ".join(settings)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    runs = parser.parse_args().runs
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    with bits_are(InsecureSeededBits(1)):
        for _, ways in groupby(WAYS.values(), key=lambda way: (way.question, way.by)):
            for row in rows(list(ways), runs):
                print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()

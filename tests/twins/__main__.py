"""Drive many twins: `PYTHONPATH=tests python -m twins --twins 2000 --reader csv --reader json`.

A line for every reader says how many twins were asked and how many differ. The first differences
are shown with reader, question and seed, which make them again with `--question` and `--seed`.
"""

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from servers import connection_to, postgres_server, spark_session
from twins.checks import examine
from twins.questions import QUESTIONS
from twins.readers import READERS

SHOWN = 10


def main() -> int:
    """Ask, print, and say by the exit code whether anything differed."""
    parser = argparse.ArgumentParser(prog="twins", description=__doc__)
    parser.add_argument(
        "--twins", type=int, default=100, help="for each reader; a tenth on servers"
    )
    parser.add_argument("--reader", choices=list(READERS), action="append")
    parser.add_argument("--question", choices=list(QUESTIONS), action="append")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, default=SHOWN, help="how many differences to print")
    given = parser.parse_args()
    differing = 0
    for name in given.reader or READERS:
        differing += _drive(name, given)
    return 1 if differing else 0


def _drive(name: str, given: argparse.Namespace) -> int:
    differing, refused, start = 0, 0, time.monotonic()
    twins = max(1, given.twins // READERS[name].cost)
    with ExitStack() as stack:
        print(f"{name}: {twins} twins", flush=True)
        server = _server(name, stack)
        known = [each for each in QUESTIONS if READERS[name].columns >= QUESTIONS[each].columns]
        asked = islice(cycle(given.question or known), twins)
        for number, question in enumerate(asked):
            seed = given.seed + number
            with tempfile.TemporaryDirectory() as folder:
                found, is_refused = examine(READERS[name](Path(folder), server), question, seed)
            refused += is_refused
            differing += bool(found)
            if found and differing <= given.show:
                print(f"  --reader {name} --question {question} --seed {seed} --twins 1")
                print(*(f"    {line}" for line in found), sep="\n", flush=True)
            if sys.stdout.isatty():
                print(f"\r{number + 1} asked, {differing} differ", end="\r", flush=True)
    seconds = time.monotonic() - start
    print(
        f"{name}: {twins} twins, {differing} differ, {refused} refused, {seconds:.0f} s", flush=True
    )
    return differing


def _server(name: str, stack: ExitStack) -> Any:
    if name == "spark":
        return stack.enter_context(spark_session())
    if name == "postgres":
        return stack.enter_context(connection_to(stack.enter_context(postgres_server())))
    return None


if __name__ == "__main__":
    sys.exit(main())

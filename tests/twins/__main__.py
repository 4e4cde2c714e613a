"""Drive many twins: `PYTHONPATH=tests python -m twins --twins 2000 --reader csv --reader json`.

A line for every reader says how many twins were asked and how many differ. The first differences
are shown with reader, question and seed, which make them again with `--question` and `--seed`.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle, islice, repeat
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
    parser.add_argument("--jobs", type=int, default=1, help="how many readers at a time")
    given = parser.parse_args()
    names = sorted(given.reader or READERS, key=lambda name: -READERS[name].cost)
    if given.jobs == 1:
        return 1 if sum(_drive(name, given) for name in names) else 0
    with ThreadPoolExecutor(given.jobs) as pool:
        return max(pool.map(_in_a_process, names, repeat(given)))


def _in_a_process(name: str, given: argparse.Namespace) -> int:
    asked = [f"--question={each}" for each in given.question or ()]
    stated = [f"--{each}={getattr(given, each)}" for each in ("twins", "seed", "show")]
    command = [sys.executable, "-m", "twins", f"--reader={name}", *stated, *asked]
    return abs(subprocess.run(command, check=False).returncode)


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

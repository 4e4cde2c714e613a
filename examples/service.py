"""A service that watches 5,000 metrics, is killed in the middle, and goes on with what is left.

    python examples/service.py

shows all of it: the service starts on a new ledger, is killed in its third hour, and is started
again. The service alone, on a budget that `dpgap ledger create` opened, is

    python examples/service.py sqlite:///budget.db

A metric counts the users of one page who saw an error in an hour. It has a public limit of its own.
Each hour has a run of its own, with a small ε. What is logged is what was released: never a count.
"""

import argparse
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime, timedelta

import dpgap

METRICS, HOURS = 5_000, 6
BEGIN = datetime(2026, 11, 16, 20, tzinfo=UTC)
HOURLY = dpgap.AdaptiveSparseVector(threshold=0, k=5, epsilon="1/8", monotonic=True)
"""At least five alerts an hour. A user raises each count by at most one, and lowers none."""
LEVEL = 1 - 0.05 / METRICS
"""With this level all bounds of an hour hold at once, in 95 % of hours."""
LIMITS = [4_000 + 7 * (metric % 700) for metric in range(METRICS)]

log = logging.getLogger("service")


def counts(hour: int) -> list[int]:
    """The private counts of an hour, made up: three metrics are far above their limit."""
    rng = random.Random(hour)
    made = [rng.randrange(limit // 2) for limit in LIMITS]
    for metric in rng.sample(range(METRICS), 3):
        made[metric] = 3 * LIMITS[metric]
    return made


def key_of(hour: int) -> str:
    """A key is used for ever, so it has a date."""
    return f"{BEGIN + timedelta(hours=hour):%Y-%m-%d %H}:00 UTC"


def order(hour: int) -> list[int]:
    """The metrics in a public order, which begins with another metric each hour.

    A run that is exhausted leaves the last ones unasked, and these are others each hour.
    """
    first = 1_009 * hour % METRICS
    return [*range(first, METRICS), *range(first)]


def watch(hour: int, account: object, stop: threading.Event, dies: bool = False) -> None:
    """Ask about all metrics, in the order of the hour."""
    name, made, left = key_of(hour), counts(hour), METRICS
    with HOURLY.start(account=account) as run:
        for metric in order(hour):
            if stop.is_set() or run.exhausted:
                break
            answer = run.ask(made[metric], threshold=LIMITS[metric])
            left -= 1
            if answer.above:
                # Logged at once: the ledger archives answers only when the run is closed.
                # Noise can lift a count above its limit. The bound says if it is surely above.
                least = run.lower_bound(answer, LEVEL)
                sure = "is" if least > LIMITS[metric] else "may be"
                said = "%s: page %d %s above its limit: at least %d users saw an error"
                log.warning(said, name, metric, sure, least)
            if dies and left == METRICS // 2:
                os.kill(os.getpid(), signal.SIGKILL)  # as if the power had failed
        log.info("%s: %d to %d more alerts could be paid", name, *run.answers_left)
    if left:
        log.warning("%s: %d metrics were not asked", name, left)


def serve(url: str, stop: threading.Event, dies_in: int | None = None) -> None:
    """One run an hour, until the hours are over, the budget is closed, or somebody says stop.

    The budget of "errors" must be there: a service that opens its own could open it again.
    """
    budget = dpgap.Ledger(url).account("errors")
    for hour in range(HOURS):
        # With a key an hour is charged once, however often the service starts in it.
        try:
            if not stop.is_set():
                watch(hour, budget.of(key=key_of(hour)), stop, hour == dies_in)
        except dpgap.AlreadyCharged:
            log.info("%s: charged before", key_of(hour))
        except dpgap.BudgetExhausted as error:
            # Nothing was asked. A budget that renews says when: the service waits for that hour.
            log.error("%s: not watched: %s", key_of(hour), error)
            if budget.balance.closed:
                return


def main() -> None:
    """Serve; without an address show what a kill costs."""
    parser = argparse.ArgumentParser(description="Watch made-up metrics for some made-up hours.")
    parser.add_argument("url", nargs="?", help="the ledger, such as sqlite:///budget.db")
    parser.add_argument("--dies-in", type=int, help="the hour in which the service is killed")
    said = parser.parse_args()
    if said.url:
        logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
        logging.captureWarnings(True)  # such as: the ledger could not be written
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        serve(said.url, stop, said.dies_in)
        return
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/budget.db"
        budget = dpgap.Ledger(url).create("errors", epsilon=1)
        for words in (["--dies-in", "2"], []):
            ended = subprocess.run([sys.executable, __file__, url, *words], check=False)
            book = budget.balance
            print(
                f"The service ended with {ended.returncode}. Of ε = 1 it spent "
                f"{float(book.spent):.3f}; {float(book.reserved):.3f} is lost in a run that was "
                f"killed; {float(book.remaining):.3f} is left.\n",
                flush=True,
            )


if __name__ == "__main__":
    main()

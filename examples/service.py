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

import dpgap

METRICS, HOURS = 5_000, 6
HOURLY = dpgap.AdaptiveSparseVector(threshold=0, k=5, epsilon="1/8", monotonic=True)
"""At least five alerts an hour. A user raises each count by at most one, and lowers none."""
LIMITS = [4_000 + 7 * (metric % 700) for metric in range(METRICS)]

log = logging.getLogger("service")


def counts(hour: int) -> list[int]:
    """The private counts of an hour, made up: three metrics are far above their limit."""
    rng = random.Random(hour)
    made = [rng.randrange(limit // 2) for limit in LIMITS]
    for metric in rng.sample(range(METRICS // 2), 3):
        made[metric] = 3 * LIMITS[metric]
    return made


def watch(hour: int, account: object, stop: threading.Event, dies: bool = False) -> None:
    """Ask about all metrics in the order of their numbers, which is public."""
    with HOURLY.start(account=account) as run:
        for metric, (count, limit) in enumerate(zip(counts(hour), LIMITS, strict=True)):
            if stop.is_set() or run.exhausted:
                break
            answer = run.ask(count, threshold=limit)
            if answer.above:
                least = run.lower_bound(answer)
                log.warning("hour %d: page %d has over %.0f errors", hour, metric, least)
            if dies and metric == METRICS // 2:
                os.kill(os.getpid(), signal.SIGKILL)  # as if the power had failed
        log.info("hour %d: %d to %d more alerts could be paid", hour, *run.answers_left)


def serve(url: str, stop: threading.Event, dies_in: int | None = None) -> None:
    """One run an hour, until the hours or the budget are used up, or somebody says stop.

    The budget of "errors" must be there: a service that opens its own could open it again.
    """
    budget = dpgap.Ledger(url).account("errors")
    for hour in range(HOURS):
        # With a key an hour is charged once, however often the service starts in it.
        account = budget.of(key=f"hour {hour}")
        if account.answered(f"hour {hour}") is not None:
            log.info("hour %d: charged before", hour)
        elif not stop.is_set():
            try:
                watch(hour, account, stop, hour == dies_in)
            except dpgap.BudgetExhausted:
                log.error("hour %d: the budget is used up", hour)
                return


def main() -> None:
    """Serve; without an address show what a kill costs."""
    parser = argparse.ArgumentParser(description="Watch made-up metrics for some made-up hours.")
    parser.add_argument("url", nargs="?", help="the ledger, such as sqlite:///budget.db")
    parser.add_argument("--dies-in", type=int, help="the hour in which the service is killed")
    said = parser.parse_args()
    if said.url:
        logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
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

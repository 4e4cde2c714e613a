"""The golden record: `PYTHONPATH=tests python -m golden` says what is not as it was.

It makes every case of `golden.cases` in a process of its own, from this tree, and compares hashes
with `record.json`. Exit code 1 means that some differ. `--write` writes the record anew. `--against
REV` makes it in a worktree of another revision as well, by that revision's own `tests/golden`, and
shows the values that differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden.record import committed, diff, differences, make, write

ROOT = Path(__file__).resolve().parents[2]
FIXED = {
    "COLUMNS": "80",
    "NO_COLOR": "1",
    "POLARS_MAX_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
    "TERM": "dumb",
    "TZ": "UTC",
}


def main() -> int:
    """Compare, and say by the exit code whether anything differs."""
    parser = argparse.ArgumentParser(prog="golden", description=__doc__)
    parser.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="PATTERN",
        help="such as 'csv/*', or '!spark/*' for others",
    )
    parser.add_argument("--quick", action="store_true", help="only what `make test` compares")
    parser.add_argument("--write", action="store_true", help="write the record")
    parser.add_argument("--against", metavar="REV", help="show what differs from a revision")
    parser.add_argument("--values", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.values:
        given.values.write_text(json.dumps(make(given.case, quick=given.quick)), "utf-8")
        return 0
    if given.write and (given.case or given.quick):
        parser.error("--write takes all cases")
    made = made_in(ROOT, given.case, quick=given.quick)
    print(f"{len(made['values'])} cases made, left out: {', '.join(made['missing']) or 'none'}")
    if given.write:
        if made["missing"]:
            sys.exit("The record must have all cases: nothing is written.")
        write(made["values"])
        refused = [name for name, parts in made["values"].items() if "refusal" in parts]
        print(f"{len(refused)} are refusals: {', '.join(refused)}")
        return 0
    if given.against:
        found = list(diff(_made_of(given.against, given)["values"], made["values"]))
    else:
        before, other = committed()
        found = list(differences(made, before))
        for each in other:
            print(f"The record was made with another version: {each}")
    print("\n".join(found) or "Nothing differs.")
    return 1 if found else 0


def made_in(root: Path, chosen: Sequence[str] = (), *, quick: bool = False) -> dict[str, Any]:
    """What a tree makes, in a process that sees no other dpgap."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.json"
        command = [sys.executable, "-m", "golden", f"--values={path}"]
        command += [f"--case={each}" for each in chosen]
        environment = {**os.environ, **FIXED, "PYTHONPATH": f"{root}/src:{root}/tests"}
        command += ["--quick"] if quick else []
        done = subprocess.run(command, cwd=root, env=environment, stderr=subprocess.PIPE)
        if done.returncode:
            sys.exit(done.stderr.decode(errors="replace"))
        made: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return made


def _made_of(revision: str, given: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            if not (tree / "tests" / "golden").is_dir():
                sys.exit(f"{revision} has no golden record: it has no tests/golden")
            return made_in(tree, given.case, quick=given.quick)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


if __name__ == "__main__":
    sys.exit(main())

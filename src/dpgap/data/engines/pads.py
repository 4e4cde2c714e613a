"""Pads in SQL: an engine draws random numbers in a table, and the driver XORs private numbers in.

A statement names a private number only as its XOR with a pad, which no statement names.
"""

from collections.abc import Sequence

from dpgap.data.engines.base import Row


def pads_table(name: str, columns: Sequence[str], size: int, pad: str) -> str:
    """Make a temporary table of `position` and columns of pads; `pad` is an expression for one."""
    pads = ", ".join(f"{pad} AS {column}" for column in columns)
    return (
        f"CREATE TEMP TABLE {name} AS WITH RECURSIVE numbers(position) AS (SELECT 0 UNION ALL "
        f"SELECT position + 1 FROM numbers WHERE position < {size - 1}) "
        f"SELECT position, {pads} FROM numbers"
    )


def unmask(name: str, columns: Sequence[str], masked: Sequence[Row]) -> str:
    """Replace each pad by its XOR with a masked number: OR less AND, in every dialect."""
    rows = ", ".join(f"({', '.join(map(str, row))})" for row in masked)
    changes = ", ".join(
        f"{column} = ({name}.{column} | masked.{column}) - ({name}.{column} & masked.{column})"
        for column in columns
    )
    return (
        f"WITH masked(position, {', '.join(columns)}) AS (VALUES {rows}) "
        f"UPDATE {name} SET {changes} FROM masked WHERE masked.position = {name}.position"
    )

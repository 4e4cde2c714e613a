"""Hybrid Top-K on counts that stay in an engine: a million items, and only winners come back."""

import duckdb
import pytest

import dpgap


@pytest.fixture
def sales():
    """Item i of a million is bought by 1 unit, and items 0, 1 and 2 by 3,000, 2,000 and 1,000."""
    connection = duckdb.connect()
    connection.sql(
        "create table sales as "
        "select range as who, range as what from range(1000000) "
        "union all select 2000000 + range, 0 from range(3000) "
        "union all select 3000000 + range, 1 from range(2000) "
        "union all select 4000000 + range, 2 from range(1000)"
    )
    yield connection.table("sales")
    connection.close()


def test_a_million_counts_in_an_engine_are_cut_at_the_line(sales):
    counts = dpgap.counts(sales, unit="who", item="what", domain=range(1_000_000))
    mechanism = dpgap.HybridTopK(500, 10, 10, monotonic=True)
    release = mechanism.release(counts)
    assert release.labels == (0, 1, 2)
    assert release.spent == 4
    assert release.gaps.tolist() == pytest.approx([1000, 1000, 500], abs=60)
    drawn = mechanism.draw_paid(mechanism.prepare(counts, None))
    assert drawn.private_answers.tolist() == [3001, 2001, 1001]
    nothing = dpgap.HybridTopK(10**6, 10, 10, monotonic=True).release(counts)
    assert (nothing.labels, nothing.spent) == ((), 1)
    counts.close()

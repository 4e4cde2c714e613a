"""How fine a grid may be for counts hangs on the grid alone, never on how large a count is."""

import pytest

import dpgap
from dpgap.data.private_counts import PrivateCounts


def _counts(units: int) -> PrivateCounts:
    import pandas

    table = pandas.DataFrame({"who": range(units), "what": ["fig"] * units})
    return dpgap.counts(table, unit="who", item="what", domain=["fig", "pea"])


@pytest.mark.parametrize("units", [3, 2**20, 2**20 + 1])
@pytest.mark.parametrize(
    "mechanism",
    [
        dpgap.NoisyTopK(1, 4, monotonic=True, grid=2.0**-40),
        dpgap.SparseVector(5, 1, 8, monotonic=True, grid=2.0**-40),
    ],
)
def test_a_grid_too_fine_for_counts_is_refused_whatever_the_counts(
    mechanism: dpgap.NoisyTopK | dpgap.SparseVector, units: int
) -> None:
    with pytest.raises(ValueError, match="grid must be at least 2"):
        mechanism.release(_counts(units))

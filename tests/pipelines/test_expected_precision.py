"""The expected precision of a selection, compared with what happens."""

import numpy as np
import pytest

import dpgap
from dpgap.pipelines.look_first import ExpectedPrecision

RANKS = np.arange(1, 1_001)
CURVES = {
    "steep": (50_000 / RANKS).astype(np.int64),
    "gentle": (3_000 / RANKS**0.5).astype(np.int64),
    "low": (300 / RANKS**0.7).astype(np.int64),
    "flat": np.full(1_000, 200),
}


@pytest.mark.parametrize("name", list(CURVES))
@pytest.mark.parametrize("k", [3, 10, 40])
def test_the_precision_is_near_what_happens_if_the_look_is_right(name: str, k: int) -> None:
    counts = CURVES[name]
    ranks = tuple(sorted({1, k // 4 or 1, k // 2, k, 2 * k, 5 * k, 25 * k if k < 40 else 1_000}))
    looks = counts[np.array(ranks) - 1][None].astype(np.float64)
    shares = np.array([0.02, 0.1, 0.25])
    as_set, ranked = ExpectedPrecision(k, counts.size, ranks).precisions(looks, shares, 0.35 / k)
    mechanisms = [dpgap.JointTopK(k, str(share), monotonic=True) for share in shares]
    one_shot = dpgap.NoisyTopK(k, "0.35", monotonic=True, noise="exponential")
    for mechanism, said in zip([*mechanisms, one_shot], [*as_set[:, 0], ranked[0]], strict=True):
        indices = dpgap.simulate(mechanism, counts, runs=1_000, seed=1).indices
        # Where all are alike every winner is right; the expected precision knows of no ties.
        right = (indices < k).mean() if name != "flat" else k / counts.size
        assert said == pytest.approx(float(right), abs=0.1)


@pytest.mark.parametrize(
    ("k", "n"), [(2, 3), (10, 11), (10, 10**12), (1_000, 2_000), (5_000, 10**9), (3, 2**60)]
)
def test_precisions_are_shares_however_many_answers_there_are(k: int, n: int) -> None:
    ranks = tuple(sorted({1, k, min(5 * k, n)}))
    looks = np.array([np.linspace(9e5, 10, len(ranks)), np.zeros(len(ranks))])
    as_set, ranked = ExpectedPrecision(k, n, ranks).precisions(looks, np.array([0.01, 1.0]), 0.3)
    for shares in (as_set, ranked):
        assert np.isfinite(shares).all()
        assert (shares >= 0).all()
        assert (shares <= 1 + 1e-6).all()


def test_a_far_tail_at_zero_hardly_matters_and_one_that_stays_up_does() -> None:
    looks = np.array([[5_000.0, 5_000.0, 100.0, 1.0], [5_000.0, 5_000.0, 4_700.0, 4_700.0]])
    as_set, ranked = ExpectedPrecision(10, 10**9, (1, 10, 50, 250)).precisions(
        looks, np.array([0.1]), 0.1
    )
    assert as_set[0, 0] > 0.9
    assert as_set[0, 1] < 0.01
    assert ranked[1] > 0.9


def test_the_curve_goes_through_the_looks_and_on_as_before() -> None:
    precision = ExpectedPrecision(10, 1_000, (10, 100))
    looks = np.array([[1_023.0, 31.0]])
    found = precision.counts_at(looks, (1, 10, 100, 1_000))[0]
    assert found == pytest.approx([1_023, 1_023, 31, 0], abs=1e-6)
    middle = precision.counts_at(looks, (31,))[0, 0]
    assert np.log1p(middle) == pytest.approx(np.log(2) * (10 - 5 * np.log10(3.1)))


@pytest.mark.parametrize(("k", "n"), [(2, 3), (5, 17), (10, 1_000), (33, 2_000), (50, 10**6)])
def test_sets_have_the_same_precision_in_long_floats_and_in_logarithms(k: int, n: int) -> None:
    """A class weighs its size times a factor for its first rank and one for its lowest."""
    rng, rates = np.random.default_rng(k), np.array([0.01, 0.2, 0.5])
    precision = ExpectedPrecision(k, n, (1,))
    cells, classes = precision._cells, precision._log_sizes.astype(np.longdouble)
    counts = np.exp(rng.uniform(0, 8, (300, 1))) * np.sort(
        rng.random((300, precision._counts.size))
    )
    counts, lead = counts[:, ::-1], np.exp(rng.uniform(0, 9, 300))
    in_logs = precision._as_set(counts, lead, rates)
    sizes, right = np.exp(classes).reshape(cells, -1), precision._right[:, 1].reshape(cells, -1)
    for rate, found in zip(rates, in_logs, strict=True):
        left_out = np.exp(-counts[:, :cells].astype(np.longdouble) * rate / 2)
        brought_in = np.exp(counts[:, cells:].astype(np.longdouble) * rate / 2)
        own = np.exp(lead.astype(np.longdouble) * rate / 2)
        every = np.einsum("ra,ab,rb->r", left_out, sizes, brought_in)
        of_right = np.einsum("ra,ab,rb->r", left_out, sizes * right, brought_in)
        assert found == pytest.approx(((own + of_right) / (own + every)).astype(float), abs=1e-4)
    assert 0.05 < in_logs.mean() < 0.99

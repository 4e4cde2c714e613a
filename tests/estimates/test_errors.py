"""Half-widths of intervals: quantiles of sums of Laplace noise."""

import math

import numpy as np
import pytest

from dpgap.estimates.errors import laplace_sum_half_width


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_half_widths_are_quantiles_of_sums_of_laplace_noise(level: float):
    terms = ((3.0, 1), (1.0, 4), (0.5, 7))
    rng = np.random.default_rng(6)
    total = sum(rng.laplace(scale=scale, size=(count, 10**6)).sum(0) for scale, count in terms)
    half = laplace_sum_half_width(terms, level)
    spread = 5 * math.sqrt(level * (1 - level) / 10**6)
    assert (np.abs(total) <= half).mean() == pytest.approx(level, abs=spread)
    assert (np.abs(total) <= half * 1.03).mean() > level + spread


def test_a_sum_of_many_draws_has_a_half_width_whatever_the_callers_float_settings() -> None:
    with np.errstate(all="raise"):
        width = laplace_sum_half_width(((1.0, 1000), (0.001, 3)), 0.95)
    assert width == pytest.approx(1.96 * 2000**0.5, rel=1e-3)

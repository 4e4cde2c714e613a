"""Laplace measurements: centred, with intervals that hold, and more noise for more values."""

import math

import numpy as np
import pytest

import dpgap


def test_measurements_are_centred_and_their_intervals_hold():
    mechanism = dpgap.Laplace("1/2")
    release = mechanism.release(np.full(50_000, 100), account=None)
    assert release.values.mean() == pytest.approx(100, abs=6 * math.sqrt(release.variance / 5e4))
    assert release.values.var() == pytest.approx(release.variance, rel=0.1)
    low, high = release.interval(0.9).T
    covered = ((low <= 100) & (high >= 100)).mean()
    assert covered == pytest.approx(0.9, abs=0.01)


def test_measuring_more_values_takes_more_noise_on_each():
    mechanism = dpgap.Laplace(1, sensitivity=3)
    assert mechanism.law(4).scale == 12
    assert mechanism.variance(4) > 15 * mechanism.variance(1)

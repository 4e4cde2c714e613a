"""Tails of whole arrays are the tails of their laws."""

from fractions import Fraction

import numpy as np
import pytest

from dpgap.exact.laws import ExponentialNoise, LaplaceNoise, StaircaseNoise
from dpgap.exact.tails import tail

LAWS = [
    LaplaceNoise(Fraction(7, 3)),
    ExponentialNoise(Fraction(7, 3)),
    StaircaseNoise.best(Fraction(7, 3), Fraction(2)),
    StaircaseNoise(Fraction(1, 2), Fraction(1), Fraction(1)),
]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_tail_of_an_array_is_the_laws_own_tail_at_every_point(law):
    points = np.concatenate([np.arange(-30, 31) / 4, [-200.0, 200.0]])
    own = np.array([law.tail(point) for point in points])
    assert tail(law, points) == pytest.approx(own, rel=1e-12, abs=0)
    assert tail(law, points + 0.01) != pytest.approx(own, rel=1e-4, abs=0)

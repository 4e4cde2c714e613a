"""The tails of the laws of noise, for whole arrays at once, as floats."""

import numpy as np

from dpgap.exact.draws import Floats
from dpgap.exact.laws import ExponentialNoise, LaplaceNoise, Law, StaircaseNoise


def tail(law: Law, distance: Floats) -> Floats:
    """P(noise > distance), for continuous noise.

    >>> from fractions import Fraction
    >>> tail(LaplaceNoise(Fraction(2)), np.array([0.0, -1e9])).tolist()
    [0.5, 1.0]
    """
    scale = float(law.scale)
    if isinstance(law, ExponentialNoise):
        return np.exp(-np.maximum(distance, 0.0) / scale)
    size = np.abs(distance)
    if isinstance(law, LaplaceNoise):
        half = np.exp(-size / scale) / 2
    else:
        assert isinstance(law, StaircaseNoise)
        stair, within = np.divmod(size / float(law.step), 1.0)
        share, near, fall = float(law.share), law.near, law.fall
        inner = near * np.minimum(within / share, 1.0)
        inner += (1 - near) * np.maximum(within - share, 0.0) / max(1 - share, 1e-300)
        half = fall**stair * (1 - inner + fall * inner) / 2
    return np.where(distance >= 0, half, 1 - half)

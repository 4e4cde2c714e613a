"""Float noise for simulation: fast, seeded, not secure, and never part of a release.

Beside plain draws there are the two things that make simulation cheap without changing any law:
drawing noise *given* that it reaches a point, and finding the few hits among very many cells that
are each hit with the same small chance, in time that grows with the hits only.
"""

import numpy as np

from dpgap.exact.draws import Floats, Integers
from dpgap.exact.laws import ExponentialNoise, LaplaceNoise, Law, StaircaseNoise
from dpgap.exact.tails import tail

Rng = np.random.Generator

_MIDDLE = 0.5 - 2.0**-54
"""Half-way between the uniform draws 0, 2^-53, …, 1 − 2^-53; none of them is there."""
_RARE = 1e-3


def generator(seed: np.random.SeedSequence) -> Rng:
    """A fast generator; the same numbers for the same seed."""
    return np.random.Generator(np.random.SFC64(seed))


def draw(law: Law, rng: Rng, *shape: int) -> Floats:
    """Continuous noise from `law`: the logarithm of one uniform draw, which has its sign as well.

    Uniform draws are multiples of 2^-53, so noise ends 36 scales out: one draw in 10^16 is there.
    """
    if isinstance(law, StaircaseNoise):
        size = _stairs(law, rng, *shape)
        return np.where(rng.random(shape) < 0.5, -size, size)
    if not isinstance(law, LaplaceNoise | ExponentialNoise):
        raise TypeError(f"simulation has no float draws for {type(law).__name__}")
    noise: Floats = rng.random(shape)
    if not law.symmetric:
        np.subtract(1.0, noise, out=noise)  # in (0, 1]
        np.log(noise, out=noise)
        noise *= -float(law.scale)
        return noise
    noise -= _MIDDLE
    size = np.abs(noise)
    size *= 2
    np.log(size, out=size)
    size *= float(law.scale)
    np.copysign(size, noise, out=noise)
    return noise


def _stairs(law: StaircaseNoise, rng: Rng, *shape: int) -> Floats:
    step, share = float(law.step), float(law.share)
    stair = np.floor(rng.standard_exponential(shape) * float(law.scale / law.step))
    place = rng.random(shape)
    near = rng.random(shape) < law.near
    return step * (stair + np.where(near, share * place, share + (1 - share) * place))


def has_known_tail(law: Law) -> bool:
    """Whether `beyond` can draw from the law's tail; otherwise every answer is drawn."""
    return isinstance(law, LaplaceNoise | ExponentialNoise)


def beyond(law: Law, rng: Rng, distance: Floats) -> Floats:
    """Noise from `law`, given that it is at least `distance`: by inverting its tail."""
    uniform = 1 - rng.random(distance.shape)  # in (0, 1]
    chance = uniform * tail(law, distance)
    far = np.maximum(distance, 0.0) - float(law.scale) * np.log(uniform)
    if not law.symmetric:
        return far
    with np.errstate(divide="ignore"):
        high = -np.log(2 * np.minimum(chance, 0.5))
        low = np.log(2 * np.minimum(1 - chance, 0.5))
    near = float(law.scale) * np.where(chance <= 0.5, high, low)
    return np.where(distance >= 0, far, np.maximum(near, distance))


def hits(rng: Rng, cells: int, chance: float) -> Integers:
    """Which of `cells` independent cells, each hit with this chance, are hit; in order."""
    if chance <= 0 or cells <= 0:
        return np.empty(0, dtype=np.int64)
    if chance >= 1:
        return np.arange(cells)
    if chance < _RARE:
        count = int(rng.binomial(cells, chance))
        if not count:
            return np.empty(0, dtype=np.int64)
        return np.sort(rng.choice(cells, count, replace=False, shuffle=False))
    places = [np.array([-1], dtype=np.int64)]
    while places[-1][-1] < cells:
        left = cells - int(places[-1][-1])
        some = int(left * chance + 6 * (left * chance) ** 0.5) + 8
        places.append(places[-1][-1] + np.cumsum(rng.geometric(chance, some)))
    found = np.concatenate(places[1:])
    return found[found < cells]

"""Float noise for simulation: fast, seeded, not secure, and never part of a release.

Beside plain draws there are the two things that make simulation cheap without changing any law:
drawing noise *given* that it reaches a point, and finding the few hits among very many cells that
are each hit with the same small chance, in time that grows with the hits only.
"""

from typing import TypeGuard

import numpy as np

from dpgap.exact.laws import Law, MemorylessLaw
from dpgap.exact.reals import Floats, Integers

Rng = np.random.Generator

_RARE = 1e-3


def generator(seed: np.random.SeedSequence) -> Rng:
    """A fast generator; the same numbers for the same seed."""
    return np.random.Generator(np.random.SFC64(seed))


def draw(law: Law, rng: Rng, *shape: int) -> Floats:
    """Noise from `law`."""
    return law.from_uniforms(rng.random((law.words, *shape)))


def has_known_tail(law: Law) -> TypeGuard[MemorylessLaw]:
    """Whether `beyond` can draw from the law's tail; otherwise every answer is drawn."""
    return isinstance(law, MemorylessLaw)


def beyond(law: Law, rng: Rng, distance: Floats) -> Floats:
    """Noise from `law`, given that it is at least `distance`."""
    assert has_known_tail(law)
    return law.beyond(distance, 1 - rng.random(distance.shape))


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

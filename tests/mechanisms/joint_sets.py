"""What tests of joint selection share: every set written out, and the law of classes and leads."""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpgap.mechanisms.joint import Classes

LEADS = 60


def classes_of(answers: Sequence[int], k: int) -> Classes:
    """The classes of the sets of k of these answers."""
    values, sizes = np.unique(np.array(answers), return_counts=True)
    return Classes(values, sizes, k)


def sets_by_class(answers: Sequence[int], k: int) -> list[list[tuple[int, ...]]]:
    """All sets of k answers, sorted into classes by their ranks, as the definition says.

    Equal answers are ranked in the order given.
    """
    ranking = sorted(range(len(answers)), key=lambda i: -answers[i])
    low = sorted({answers[i] for i in ranking[k:]}, reverse=True)
    found: list[list[tuple[int, ...]]] = [[] for _ in range(1 + k * len(low))]
    for each in itertools.combinations(range(len(answers)), k):
        if set(each) == set(ranking[:k]):
            found[0].append(each)
            continue
        kept = next(h for h, i in enumerate(ranking) if i not in each)
        lowest = min(answers[i] for i in each)
        found[1 + kept * len(low) + low.index(lowest)].append(each)
    return found


def law_of_classes(
    margins: Sequence[int], sizes: Sequence[int], scale: float
) -> NDArray[np.float64]:
    """P(class of the winner, ⌊lead⌋), leads below `LEADS`: an integral over the winner's value."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    reach = int(scale * (np.log(float(sum(sizes))) + 45))
    steps = np.arange(min(margins), max(margins) + reach)
    x = (steps[:, None] + (nodes + 1) / 2).ravel()
    weight = np.tile(weights / 2, steps.size)
    counts = np.array([float(size) for size in sizes])

    def log_below(at: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each class, ln P(one set is below)."""
        noise = np.maximum(at - np.array(margins)[:, None], 0) / scale
        with np.errstate(divide="ignore"):
            near, far = np.log(-np.expm1(-noise)), np.log1p(-np.exp(-noise))
        return np.maximum(np.where(noise < 1, near, far), -1e3)  # e^−1000 is 0 as well

    over = x - np.array(margins)[:, None]
    density = np.where(over >= 0, np.exp(-np.maximum(over, 0) / scale) / scale, 0) * weight
    at_least = np.zeros((counts.size, LEADS + 1))
    for lead in range(LEADS + 1):
        logs = log_below(x - lead)
        for place in range(counts.size):
            others = counts - (np.arange(counts.size) == place)
            at_least[place, lead] = counts[place] * (density[place] @ np.exp(others @ logs))
    return at_least[:, :-1] - at_least[:, 1:]

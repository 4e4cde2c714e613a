"""How each shipped mechanism is audited, with every noise. Add new mechanisms here."""

from itertools import product

from dpgap.exact.laws import NOISES, REAL_NOISES
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.measuring import CountHull, Cube
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k import NoisyMax, NoisyTopK
from dpgap.proof.auditing.above_line import above_line
from dpgap.proof.auditing.finding import Design
from dpgap.proof.auditing.first_above import first_above
from dpgap.proof.auditing.measured import one_measured, two_measured
from dpgap.proof.auditing.top_sets import top_set
from dpgap.proof.auditing.winners import winners


def designs() -> list[Design]:
    """All of them."""
    all_designs = [
        one_measured(),
        two_measured(CountHull(1, monotonic=True), "hull, monotonic"),
        two_measured(Cube(1), "cube, general"),
        two_measured(NoisyHistogram(1, reach=2), "geometric, reach 2"),
        top_set(monotonic=False),
        top_set(monotonic=True),
        above_line(monotonic=False),
        above_line(monotonic=True),
    ]
    for noise, monotonic in product(NOISES, (False, True)):
        for kind in (AdaptiveSparseVector, SparseVector):
            all_designs.append(first_above(kind(0, 1, 1, monotonic=monotonic, noise=noise)))
    for noise, monotonic in product(REAL_NOISES, (False, True)):
        all_designs.append(winners(NoisyTopK(2, 1, monotonic=monotonic, noise=noise)))
        all_designs.append(winners(NoisyMax(1, monotonic=monotonic, noise=noise)))
    return all_designs

"""How each shipped mechanism is audited, with every noise. Add new mechanisms here."""

from dpgap.exact.laws import NOISES
from dpgap.mechanisms.measuring.count_hull import CountHull
from dpgap.mechanisms.measuring.cube import Cube
from dpgap.mechanisms.sparse_vector.mechanism import AdaptiveSparseVector, SparseVector
from dpgap.proof.audit.design import Design
from dpgap.proof.audit.first_above import first_above
from dpgap.proof.audit.joint_measured import joint_measured
from dpgap.proof.audit.one_measured import one_measured
from dpgap.proof.audit.top_sets import top_set
from dpgap.proof.audit.winners import largest, top_two


def designs() -> list[Design]:
    """All of them."""
    return [
        one_measured(),
        joint_measured(CountHull(1, monotonic=True), "hull, monotonic"),
        joint_measured(Cube(1), "cube, general"),
        top_set(monotonic=False),
        top_set(monotonic=True),
        *(
            design
            for noise in NOISES
            for monotonic in (False, True)
            for design in (
                first_above(AdaptiveSparseVector, noise, monotonic),
                first_above(SparseVector, noise, monotonic),
                top_two(noise, monotonic),
                largest(noise, monotonic),
            )
        ),
    ]

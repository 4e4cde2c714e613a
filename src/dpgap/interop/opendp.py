"""Every mechanism as an OpenDP measurement, for OpenDP's compositors, filters and odometers.

A *measurement* of OpenDP is a function with a privacy map: for inputs at distance `d_in` in a
metric, the map returns the most privacy loss. Here the function is a mechanism's `release`, on
secure exact noise.

Why the map is right: let the mechanism be made for Δ and ε, and let answers move by at most d.

- The scale of its noise is a constant times Δ/ε. The same mechanism made for d and ε·d/Δ has this
  scale too. So both are the same mechanism, and the proof gives ε·d/Δ. This holds for Laplace,
  exponential, geometric and joint noise. Margins, limits and thresholds differ, but proofs hold for
  all of them. A pipeline that looks, selects and measures adds up its parts of ε.
- Staircase noise has steps of length Δ, so another Δ is another mechanism. But ⌈d/Δ⌉ moves of at
  most Δ lead from one input to the other; if answers are monotonic, all moves have one direction.
  So the loss is at most ⌈d/Δ⌉·ε.

All of this is computed in fractions, and rounded up to a float once. OpenDP allows any number in
its domain, also infinities. Answers beyond ±2^56 steps are clipped to this limit, so no error can
reveal them; clipping moves no two answers farther apart.
"""

import math
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgap._package import how_to_get
from dpgap.budget.cost import Cost
from dpgap.data.private_counts import errors_without_answers
from dpgap.exact.grid import MAX_STEPS, Grid
from dpgap.exact.laws import LAWS, MemorylessLaw
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Cube, Laplace
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k import NoisyMax, NoisyTopK
from dpgap.pipelines.arrays import MeasuredAbove, MeasuredTopK

if TYPE_CHECKING:
    from opendp.mod import Measurement, Metric

_MECHANISMS = (
    *(NoisyTopK, NoisyMax, SparseVector, AdaptiveSparseVector, JointTopK, HybridTopK),
    *(NoisyHistogram, Laplace, CountHull, Cube),
    *(MeasuredTopK, MeasuredAbove),
)
_FARTHEST = MAX_STEPS >> 4
"""The largest answer, in steps: pipelines measure on a grid that is 16 times as fine."""


def measurement(mechanism: Any, input_metric: "Metric | None" = None) -> "Measurement":
    """A mechanism as an OpenDP measurement, whose invocation gives the mechanism's release.

    Inputs are vectors of i64, or of f64 if the mechanism declares a grid. OpenDP's features
    "contrib" and "honest-but-curious" must be enabled: OpenDP cannot check dpgap's claim.

    Parameters
    ----------
    mechanism
        A mechanism of dpgap, a `MeasuredTopK` or a `MeasuredAbove`.
    input_metric
        The distance between neighbours. The default is the L∞ distance, monotonic if the mechanism
        is; for a `NoisyHistogram` it is the L1 distance. All other mechanisms accept the monotonic
        distance; mechanisms that are not monotonic also accept L∞ and L1.

    >>> import dpgap, opendp.prelude as dp
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> top = measurement(dpgap.NoisyTopK(2, epsilon=1000, monotonic=True))
    >>> top([10, 50, 90, 20]).indices.tolist(), top.map(1)
    ([2, 1], 1000.0)
    """
    try:
        dp: Any = import_module("opendp.prelude")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"this needs OpenDP: {how_to_get('opendp')}") from None
    if type(mechanism) not in _MECHANISMS:  # a subclass might change anything
        names = ", ".join(each.__name__ for each in _MECHANISMS)
        raise TypeError(f"mechanism must be one of {names}, not {type(mechanism).__name__}")
    if isinstance(mechanism, CountHull) and not mechanism.monotonic:
        raise ValueError("monotonic must be True for a CountHull")
    if isinstance(mechanism, NoisyHistogram) and mechanism.grid is not None:
        raise ValueError(
            "grid must be left out for a NoisyHistogram: rounding may move every answer by a "
            "step more, and the L1 distance does not say how many move"
        )
    kind, number = ("i64", np.int64) if mechanism.grid is None else ("f64", np.float64)
    atoms = (
        dp.atom_domain(T="i64") if mechanism.grid is None else dp.atom_domain(T="f64", nan=False)
    )
    most = number(_FARTHEST * Grid(mechanism.grid).width)

    @errors_without_answers
    def release(answers: list[Any]) -> Any:
        return mechanism.release(np.clip(np.array(answers, dtype=number), -most, most))

    made: Measurement = dp.m.make_user_measurement(
        input_domain=dp.vector_domain(atoms),
        input_metric=_metric(dp, input_metric, mechanism, kind),
        output_measure=dp.max_divergence(),
        function=release,
        privacy_map=lambda d_in: rounded_up(_loss(mechanism, Fraction(d_in))),
    )
    return made


def _loss(own: Any, distance: Fraction) -> Fraction:
    """The most privacy loss of inputs at this distance."""
    if distance < 0:
        raise ValueError("d_in must not be negative")
    grid = Grid(own.grid)
    # The most steps that neighbours move an answer; for a histogram, all answers together.
    steps = grid.up(own.sensitivity) * getattr(own, "reach", 1)
    multiple = Fraction(grid.up(distance), steps)
    stairs = isinstance(own, NoisyTopK | SparseVector) and not issubclass(
        LAWS[own.noise], MemorylessLaw
    )
    if stairs:
        multiple = Fraction(math.ceil(multiple))
    cost: Cost = own.cost
    return cost.epsilon_times(multiple)


def _metric(dp: Any, given: "Metric | None", own: Any, kind: str) -> "Metric":
    """The metric, if the guarantee holds for it.

    The monotonic distance is either the L∞ distance or infinite, and L1 is at least L∞.
    """
    if isinstance(own, NoisyHistogram):
        allowed = [dp.l1_distance(T=kind)]
    else:
        allowed = [dp.linf_distance(T=kind, monotonic=True)]
        if not getattr(own, "monotonic", False):
            allowed = [dp.linf_distance(T=kind), *allowed, dp.l1_distance(T=kind)]
    chosen: Metric = allowed[0] if given is None else given
    if chosen not in allowed:
        raise ValueError(f"input_metric must be one of {', '.join(map(str, allowed))}, not {given}")
    return chosen


def rounded_up(number: Fraction) -> float:
    """The smallest float that is not less than the number; infinite beyond all floats.

    >>> Fraction(rounded_up(Fraction(1, 10))) >= Fraction(1, 10), rounded_up(Fraction(1, 2))
    (True, 0.5)
    """
    try:
        near = float(number)
    except OverflowError:
        return math.inf
    return near if Fraction(near) >= number else math.nextafter(near, math.inf)

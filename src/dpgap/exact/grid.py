"""Private answers on a grid: whole steps, or an error that shows no answer.

Answers are integers unless a grid (a power of two) is declared. Then real answers are first
rounded to it by ⌊x/γ + ½⌋γ. If two answers differ by d, the rounded ones differ by at most d
rounded up to a multiple of γ (rounding half to even would break this). The error for malformed
answers depends on private data. So it is raised before anything is charged, and it names neither a
value nor a position.
"""

import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpgap.exact.parameters import or_none, power_of_two
from dpgap.exact.reals import Integers, without_float_errors

Labels = Sequence[Any] | None
"""Public names of answers, in their order."""
MAX_STEPS = 1 << 60
"""Answers and thresholds lie within ± this many grid steps, so that sums cannot wrap around."""


class Grid(NamedTuple):
    """Where answers lie: whole numbers, or multiples of the step that was declared.

    >>> Grid(Fraction(1)).steps([0.3, 0.5, -0.5])
    array([0, 1, 0])
    >>> Grid(None).step, Grid(Fraction(1, 8)).up(Fraction(1, 3))
    (Fraction(1, 1), 3)
    """

    declared: Fraction | None

    @property
    def step(self) -> Fraction:
        """The length of a step: 1 where none is declared."""
        return self.declared or Fraction(1)

    @property
    def width(self) -> float:
        """The step as a float. Multiply a number of steps by it to get a length."""
        return float(self.declared or 1)

    @property
    def rounding(self) -> float:
        """How far an answer may be from the grid."""
        return 0.0 if self.declared is None else self.width / 2

    def up(self, length: Fraction) -> int:
        """A length in steps, rounded up: a sensitivity, or a threshold for whole steps."""
        step = self.declared or 1
        return -(-length.numerator * step.denominator // (length.denominator * step.numerator))

    def excess(self, length: Fraction) -> float:
        """The length that rounding up to steps adds."""
        return float(self.up(length) * self.step - length)

    def steps(self, answers: ArrayLike, name: str = "answers") -> Integers:
        """One-dimensional `answers` as whole steps."""
        array = as_array(answers, name)
        if array.ndim != 1:
            raise ValueError(f"{name} must be one-dimensional, not of dimension {array.ndim}")
        if array.size == 0:
            raise ValueError(f"{name} must not be empty")
        if array.dtype.kind not in "iuf":
            kind = array.dtype.type.__name__
            raise TypeError(f"{name} must be integers or floats, not of type {kind}")
        if array.dtype.kind == "f" and self.declared is None:
            raise TypeError(
                f"{name} must be of an integer type unless the mechanism declares a grid: "
                "pass grid=1 to round to whole numbers, or a finer power of two such as grid=2**-10"
            )
        return _rounded_steps(array, self.step, name)

    def steps_of_one(self, answer: Any) -> int:
        """One answer as whole steps. Only its type decides whether it is refused."""
        if isinstance(answer, int) and not isinstance(answer, bool) and self.declared is None:
            step = int.__int__(answer)  # no method of a subclass is called, now or later
            _require_range(step, step, "answer")
            return step
        if not isinstance(answer, int | float | np.generic):
            raise TypeError(f"answer must be one int, or a float, not {type(answer).__name__}")
        return int(self.steps(np.array([answer]), "answer")[0])


read_grid = or_none(power_of_two)
"""Reads the grid that an argument declares: a power of two, or None for whole numbers."""


def as_array(answers: ArrayLike, name: str) -> NDArray[Any]:
    """The answers as an array of the same numbers, with nothing missing."""
    if isinstance(answers, np.ndarray) and hasattr(answers, "mask"):
        raise TypeError(f"{name} must not be masked: fill or drop what is missing first")
    try:
        array: NDArray[Any] | None = np.asarray(answers)
    except Exception:
        array = None
    if array is None:  # here, so that the first error, which may show values, is not chained
        raise TypeError(f"{name} must be a flat sequence of numbers")
    # NumPy rounds the ints of a list that holds floats too.
    if not hasattr(answers, "dtype") and array.dtype.kind == "f" and (np.abs(array) >= 2**53).any():
        raise ValueError(f"{name} must be an array, not a list, where floats reach 2^53")
    return array


@without_float_errors
def _rounded_steps(array: NDArray[Any], grid: Fraction, name: str) -> Integers:
    if array.dtype.kind in "iu" and grid.numerator == 1:  # the integers, or a finer grid
        fine = grid.denominator
        _require_range(int(array.min()) * fine, int(array.max()) * fine, name)
        integers = array.astype(np.int64, copy=False)
        if fine == 1:
            return integers
        return integers * np.int64(fine)
    if array.dtype.kind in "iu":
        coarse = int(grid)
        _require_range(int(array.min()) // coarse, int(array.max()) // coarse + 1, name)
        # Objects are exact: an int64 might wrap around.
        return np.asarray((array.astype(object) + coarse // 2) // coarse, dtype=np.int64)
    if array.dtype.itemsize > 8:
        raise TypeError(f"{name} must be float64 or narrower, not {array.dtype}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite: no NaN, no infinity")
    steps = array.astype(np.float64) / float(grid)  # exact: grid is a power of two
    _require_range(steps.min(), steps.max(), name)
    floors = np.floor(steps)
    # Adding ½ before the floor would round 0.49999999999999994 up; the difference is exact.
    return floors.astype(np.int64) + (steps - floors >= 0.5)


def _require_range(low: float, high: float, name: str) -> None:
    if not (low >= -MAX_STEPS and high <= MAX_STEPS):
        raise ValueError(
            f"{name} must lie within ±2^60 grid steps: rescale them or use a coarser grid"
        )


def require_labels(labels: Labels, count: int, answers: object = None) -> Labels:
    """`labels`, if there are as many as answers; where none are given, the answers' own.

    A pandas Series brings labels with its index, unless that only counts from 0 up.
    """
    if labels is None:
        pandas = sys.modules.get("pandas")
        if pandas is None or not isinstance(answers, pandas.Series):
            return None
        index = answers.index
        if index.equals(pandas.RangeIndex(len(index))):
            return None
        return list(index)
    if isinstance(labels, str | bytes) or not (
        hasattr(labels, "__len__") and hasattr(labels, "__getitem__")
    ):
        raise TypeError("labels must be a sequence with one label for every answer")
    if len(labels) != count:
        raise ValueError(f"labels must have one label for every answer: {count}, not {len(labels)}")
    if isinstance(labels, range | tuple):
        return labels
    return list(labels)

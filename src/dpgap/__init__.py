"""Which answers are the largest, and which are above a line, with the gaps that come free.

>>> import dpgap
>>> top = dpgap.NoisyTopK(k=3, epsilon=1, monotonic=True)
>>> release = top.release([310, 85, 420, 97, 250, 12])
>>> release.indices.size, release.gaps.size
(3, 3)
"""

from dpgap import estimates
from dpgap.budget import BudgetExhausted
from dpgap.mechanisms.classical import classical
from dpgap.mechanisms.count_hull import CountHull
from dpgap.mechanisms.cube import Cube
from dpgap.mechanisms.measurement import Laplace
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k import NoisyMax, NoisyTopK
from dpgap.pipelines import MeasuredAbove, MeasuredTopK, measured_above, measured_top_k
from dpgap.plan import Plan, plan

__version__ = "0.1.0"

__all__ = [
    "AdaptiveSparseVector",
    "BudgetExhausted",
    "CountHull",
    "Cube",
    "Laplace",
    "MeasuredAbove",
    "MeasuredTopK",
    "NoisyMax",
    "NoisyTopK",
    "Plan",
    "SparseVector",
    "classical",
    "estimates",
    "measured_above",
    "measured_top_k",
    "plan",
]

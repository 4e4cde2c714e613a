"""Which answers are the largest, and which are above a line, with the gaps that come free.

>>> import dpgap
>>> top = dpgap.NoisyTopK(k=3, epsilon=1, monotonic=True)
>>> release = top.release([310, 85, 420, 97, 250, 12])
>>> release.indices.size, release.gaps.size
(3, 3)

Names load their modules when they are first used, so that `import dpgap` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpgap import estimates
    from dpgap.budget.account import BudgetExhausted
    from dpgap.budget.ledger import Ledger, LedgerError
    from dpgap.data.counts import counts
    from dpgap.data.domain import DomainWarning
    from dpgap.data.grouped_counts import GroupedAnswers
    from dpgap.mechanisms.classical import classical
    from dpgap.mechanisms.measuring.count_hull import CountHull
    from dpgap.mechanisms.measuring.cube import Cube
    from dpgap.mechanisms.measuring.laplace import Laplace
    from dpgap.mechanisms.sparse_vector.mechanism import AdaptiveSparseVector, SparseVector
    from dpgap.mechanisms.top_k.mechanism import NoisyMax, NoisyTopK
    from dpgap.pipelines.measured import MeasuredAbove, MeasuredTopK, measured_above, measured_top_k
    from dpgap.pipelines.plan import Plan, plan
    from dpgap.pipelines.tables import above, top_k
    from dpgap.research.simulation import simulate

__version__ = "0.1.0"

__all__ = [
    "AdaptiveSparseVector",
    "BudgetExhausted",
    "CountHull",
    "Cube",
    "DomainWarning",
    "GroupedAnswers",
    "Laplace",
    "Ledger",
    "LedgerError",
    "MeasuredAbove",
    "MeasuredTopK",
    "NoisyMax",
    "NoisyTopK",
    "Plan",
    "SparseVector",
    "above",
    "classical",
    "counts",
    "estimates",
    "measured_above",
    "measured_top_k",
    "plan",
    "simulate",
    "top_k",
]

_HOMES = {
    "AdaptiveSparseVector": "dpgap.mechanisms.sparse_vector.mechanism",
    "BudgetExhausted": "dpgap.budget.account",
    "CountHull": "dpgap.mechanisms.measuring.count_hull",
    "Cube": "dpgap.mechanisms.measuring.cube",
    "DomainWarning": "dpgap.data.domain",
    "GroupedAnswers": "dpgap.data.grouped_counts",
    "Laplace": "dpgap.mechanisms.measuring.laplace",
    "Ledger": "dpgap.budget.ledger",
    "LedgerError": "dpgap.budget.ledger",
    "MeasuredAbove": "dpgap.pipelines.measured",
    "MeasuredTopK": "dpgap.pipelines.measured",
    "NoisyMax": "dpgap.mechanisms.top_k.mechanism",
    "NoisyTopK": "dpgap.mechanisms.top_k.mechanism",
    "Plan": "dpgap.pipelines.plan",
    "SparseVector": "dpgap.mechanisms.sparse_vector.mechanism",
    "above": "dpgap.pipelines.tables",
    "classical": "dpgap.mechanisms.classical",
    "counts": "dpgap.data.counts",
    "estimates": "dpgap.estimates",
    "measured_above": "dpgap.pipelines.measured",
    "measured_top_k": "dpgap.pipelines.measured",
    "plan": "dpgap.pipelines.plan",
    "simulate": "dpgap.research.simulation",
    "top_k": "dpgap.pipelines.tables",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpgap' has no attribute {name!r}")
    module = import_module(_HOMES[name])
    value = module if module.__name__ == f"dpgap.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

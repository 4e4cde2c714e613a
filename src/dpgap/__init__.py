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
    from dpgap.budget import BudgetExhausted
    from dpgap.domain import DomainWarning
    from dpgap.grouped_answers import GroupedAnswers
    from dpgap.ledger import Ledger, LedgerError
    from dpgap.mechanisms.classical import classical
    from dpgap.mechanisms.count_hull import CountHull
    from dpgap.mechanisms.cube import Cube
    from dpgap.mechanisms.measurement import Laplace
    from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
    from dpgap.mechanisms.top_k import NoisyMax, NoisyTopK
    from dpgap.pipelines import MeasuredAbove, MeasuredTopK, measured_above, measured_top_k
    from dpgap.planning import Plan, plan
    from dpgap.simulation import simulate
    from dpgap.sources import counts
    from dpgap.tables import above, top_k

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
    "AdaptiveSparseVector": "dpgap.mechanisms.sparse_vector",
    "BudgetExhausted": "dpgap.budget",
    "CountHull": "dpgap.mechanisms.count_hull",
    "Cube": "dpgap.mechanisms.cube",
    "DomainWarning": "dpgap.domain",
    "GroupedAnswers": "dpgap.grouped_answers",
    "Laplace": "dpgap.mechanisms.measurement",
    "Ledger": "dpgap.ledger",
    "LedgerError": "dpgap.ledger",
    "MeasuredAbove": "dpgap.pipelines",
    "MeasuredTopK": "dpgap.pipelines",
    "NoisyMax": "dpgap.mechanisms.top_k",
    "NoisyTopK": "dpgap.mechanisms.top_k",
    "Plan": "dpgap.planning",
    "SparseVector": "dpgap.mechanisms.sparse_vector",
    "above": "dpgap.tables",
    "classical": "dpgap.mechanisms.classical",
    "counts": "dpgap.sources",
    "estimates": "dpgap.estimates",
    "measured_above": "dpgap.pipelines",
    "measured_top_k": "dpgap.pipelines",
    "plan": "dpgap.planning",
    "simulate": "dpgap.simulation",
    "top_k": "dpgap.tables",
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

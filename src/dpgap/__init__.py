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

from dpgap._package import __version__ as __version__
from dpgap._package import how_to_get as how_to_get

if TYPE_CHECKING:
    from dpgap import estimates
    from dpgap.budget.account import BudgetExhausted
    from dpgap.budget.ledger import Ledger, LedgerError
    from dpgap.data.counts import counts
    from dpgap.data.domain import DomainWarning
    from dpgap.data.private_counts import GroupedAnswers
    from dpgap.mechanisms.histogram import NoisyHistogram
    from dpgap.mechanisms.hybrid import HybridTopK
    from dpgap.mechanisms.joint import JointTopK
    from dpgap.mechanisms.measuring import CountHull, Cube, Laplace
    from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector, classical
    from dpgap.mechanisms.top_k import NoisyMax, NoisyTopK
    from dpgap.pipelines.arrays import MeasuredAbove, MeasuredTopK, measured_above, measured_top_k
    from dpgap.pipelines.plan import Plan, plan
    from dpgap.pipelines.session import Session
    from dpgap.pipelines.tables import above, count, top_k, total
    from dpgap.releases.document import read_release
    from dpgap.simulation import simulate


__all__ = [
    "AdaptiveSparseVector",
    "BudgetExhausted",
    "CountHull",
    "Cube",
    "DomainWarning",
    "GroupedAnswers",
    "HybridTopK",
    "JointTopK",
    "Laplace",
    "Ledger",
    "LedgerError",
    "MeasuredAbove",
    "MeasuredTopK",
    "NoisyHistogram",
    "NoisyMax",
    "NoisyTopK",
    "Plan",
    "Session",
    "SparseVector",
    "above",
    "classical",
    "count",
    "counts",
    "estimates",
    "measured_above",
    "measured_top_k",
    "plan",
    "read_release",
    "simulate",
    "top_k",
    "total",
]

_HOMES = {
    "AdaptiveSparseVector": "dpgap.mechanisms.sparse_vector",
    "BudgetExhausted": "dpgap.budget.account",
    "CountHull": "dpgap.mechanisms.measuring",
    "Cube": "dpgap.mechanisms.measuring",
    "DomainWarning": "dpgap.data.domain",
    "GroupedAnswers": "dpgap.data.private_counts",
    "HybridTopK": "dpgap.mechanisms.hybrid",
    "JointTopK": "dpgap.mechanisms.joint",
    "Laplace": "dpgap.mechanisms.measuring",
    "Ledger": "dpgap.budget.ledger",
    "LedgerError": "dpgap.budget.ledger",
    "MeasuredAbove": "dpgap.pipelines.arrays",
    "MeasuredTopK": "dpgap.pipelines.arrays",
    "NoisyHistogram": "dpgap.mechanisms.histogram",
    "NoisyMax": "dpgap.mechanisms.top_k",
    "NoisyTopK": "dpgap.mechanisms.top_k",
    "Plan": "dpgap.pipelines.plan",
    "Session": "dpgap.pipelines.session",
    "SparseVector": "dpgap.mechanisms.sparse_vector",
    "above": "dpgap.pipelines.tables",
    "classical": "dpgap.mechanisms.sparse_vector",
    "count": "dpgap.pipelines.tables",
    "counts": "dpgap.data.counts",
    "estimates": "dpgap.estimates",
    "measured_above": "dpgap.pipelines.arrays",
    "measured_top_k": "dpgap.pipelines.arrays",
    "plan": "dpgap.pipelines.plan",
    "read_release": "dpgap.releases.document",
    "simulate": "dpgap.simulation.batch",
    "top_k": "dpgap.pipelines.tables",
    "total": "dpgap.pipelines.tables",
}

if not TYPE_CHECKING:  # so that a type checker reports a name that is not there

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'dpgap' has no attribute {name!r}")
        module = import_module(_HOMES[name])
        return module if module.__name__ == f"dpgap.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return __all__

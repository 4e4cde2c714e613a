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
    from dpgap import estimates as estimates
    from dpgap.budget.account import BudgetExhausted as BudgetExhausted
    from dpgap.budget.ledger import Ledger as Ledger
    from dpgap.budget.ledger import LedgerError as LedgerError
    from dpgap.data.counts import counts as counts
    from dpgap.data.domain import DomainWarning as DomainWarning
    from dpgap.data.private_counts import GroupedAnswers as GroupedAnswers
    from dpgap.mechanisms.histogram import NoisyHistogram as NoisyHistogram
    from dpgap.mechanisms.hybrid import HybridTopK as HybridTopK
    from dpgap.mechanisms.joint import JointTopK as JointTopK
    from dpgap.mechanisms.measuring import CountHull as CountHull
    from dpgap.mechanisms.measuring import Cube as Cube
    from dpgap.mechanisms.measuring import Laplace as Laplace
    from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector as AdaptiveSparseVector
    from dpgap.mechanisms.sparse_vector import SparseVector as SparseVector
    from dpgap.mechanisms.top_k import NoisyMax as NoisyMax
    from dpgap.mechanisms.top_k import NoisyTopK as NoisyTopK
    from dpgap.pipelines.arrays import MeasuredAbove as MeasuredAbove
    from dpgap.pipelines.arrays import MeasuredTopK as MeasuredTopK
    from dpgap.pipelines.arrays import measured_above as measured_above
    from dpgap.pipelines.arrays import measured_top_k as measured_top_k
    from dpgap.pipelines.plan import Plan as Plan
    from dpgap.pipelines.plan import plan as plan
    from dpgap.pipelines.session import Session as Session
    from dpgap.pipelines.tables import above as above
    from dpgap.pipelines.tables import count as count
    from dpgap.pipelines.tables import top_k as top_k
    from dpgap.pipelines.tables import total as total
    from dpgap.releases.document import read_release as read_release
    from dpgap.simulation import simulate as simulate


_ROOMS = {
    "budget.account": "BudgetExhausted",
    "budget.ledger": "Ledger LedgerError",
    "data.counts": "counts",
    "data.domain": "DomainWarning",
    "data.private_counts": "GroupedAnswers",
    "estimates": "estimates",
    "mechanisms.histogram": "NoisyHistogram",
    "mechanisms.hybrid": "HybridTopK",
    "mechanisms.joint": "JointTopK",
    "mechanisms.measuring": "CountHull Cube Laplace",
    "mechanisms.sparse_vector": "AdaptiveSparseVector SparseVector",
    "mechanisms.top_k": "NoisyMax NoisyTopK",
    "pipelines.arrays": "MeasuredAbove MeasuredTopK measured_above measured_top_k",
    "pipelines.plan": "Plan plan",
    "pipelines.session": "Session",
    "pipelines.tables": "above count top_k total",
    "releases.document": "read_release",
    "simulation.batch": "simulate",
}
_HOMES = {name: f"dpgap.{home}" for home, names in _ROOMS.items() for name in names.split()}

__all__ = sorted(_HOMES)

if not TYPE_CHECKING:  # so that a type checker reports a name that is not there

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'dpgap' has no attribute {name!r}")
        module = import_module(_HOMES[name])
        found = module if module.__name__ == f"dpgap.{name}" else getattr(module, name)
        return globals().setdefault(name, found)  # asked for once


def __dir__() -> list[str]:
    return __all__

"""Which answers are the largest, and which are above a threshold, with gaps at no extra cost.

>>> import dpgap
>>> top = dpgap.NoisyTopK(k=3, epsilon=1, monotonic=True)
>>> release = top.release([310, 85, 420, 97, 250, 12])
>>> release.indices.size, release.gaps.size
(3, 3)

Names load their modules when they are first used (lazy import), so `import dpgap` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpgap._package import __version__ as __version__
from dpgap._package import how_to_get as how_to_get

if TYPE_CHECKING:
    from dpgap import estimates as estimates
    from dpgap.budget.account import AlreadyCharged as AlreadyCharged
    from dpgap.budget.account import BudgetExhausted as BudgetExhausted
    from dpgap.budget.account import UnsettledWarning as UnsettledWarning
    from dpgap.budget.ledger import Ledger as Ledger
    from dpgap.budget.ledger import LedgerError as LedgerError
    from dpgap.data.counts import counts as counts
    from dpgap.data.domain import DomainWarning as DomainWarning
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
    from dpgap.pipelines.tables import PromiseWarning as PromiseWarning
    from dpgap.pipelines.tables import above as above
    from dpgap.pipelines.tables import count as count
    from dpgap.pipelines.tables import top_k as top_k
    from dpgap.pipelines.tables import total as total
    from dpgap.releases.document import read_release as read_release
    from dpgap.simulation.batch import simulate as simulate

_HOMES = {
    "AdaptiveSparseVector": "dpgap.mechanisms.sparse_vector",
    "AlreadyCharged": "dpgap.budget.account",
    "BudgetExhausted": "dpgap.budget.account",
    "CountHull": "dpgap.mechanisms.measuring",
    "Cube": "dpgap.mechanisms.measuring",
    "DomainWarning": "dpgap.data.domain",
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
    "PromiseWarning": "dpgap.pipelines.tables",
    "Session": "dpgap.pipelines.session",
    "SparseVector": "dpgap.mechanisms.sparse_vector",
    "UnsettledWarning": "dpgap.budget.account",
    "above": "dpgap.pipelines.tables",
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
"""The public names and the modules that define them; `estimates` is a module itself."""

if not TYPE_CHECKING:  # so that a type checker reports a name that is not there
    __all__ = sorted(_HOMES)

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'dpgap' has no attribute {name!r}")
        module = import_module(_HOMES[name])
        value = getattr(module, name, module)
        globals()[name] = value  # so that the next use does not come here
        return value

    def __dir__() -> list[str]:
        return __all__

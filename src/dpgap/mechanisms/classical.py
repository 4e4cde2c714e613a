"""The classical mechanisms: the same selections without their gaps, for comparison.

Classical Noisy Top-K and Sparse Vector are the mechanisms with gap, less the gaps. Their noise and
their cost are the same; that is the point of the paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from dpgap._package import public
from dpgap.budget.account import Account
from dpgap.data.private_counts import errors_without_answers
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.releases.release import IndexRelease


@dataclass(frozen=True, slots=True)
class Classical:
    """A mechanism that keeps its gaps to itself."""

    mechanism: NoisyTopK | SparseVector

    @errors_without_answers
    def release(
        self,
        answers: ArrayLike,
        *,
        labels: Sequence[Any] | None = None,
        account: Account | None = None,
    ) -> IndexRelease:
        """Select on secure exact noise."""
        release = self.mechanism.release(answers, labels=labels, account=account)
        return IndexRelease(
            indices=release.indices,
            labels=release.labels,
            epsilon=release.epsilon,
            promise=release.promise,
            made=release.made,
            mechanisms=release.mechanisms,
        )


@public
def classical(mechanism: NoisyTopK | SparseVector) -> Classical:
    """The classical form of a mechanism with gap: indices only, at the same cost.

    Parameters
    ----------
    mechanism
        A `NoisyTopK`, `NoisyMax`, `SparseVector` or `AdaptiveSparseVector`.

    >>> from dpgap import NoisyTopK
    >>> release = classical(NoisyTopK(k=2, epsilon=1000)).release([10, 50, 90, 20])
    >>> release.indices.tolist(), hasattr(release, "gaps")
    ([2, 1], False)
    """
    if not isinstance(mechanism, NoisyTopK | SparseVector):
        raise TypeError(
            "mechanism must be a NoisyTopK, NoisyMax, SparseVector or AdaptiveSparseVector, "
            f"not {type(mechanism).__name__}"
        )
    return Classical(mechanism)

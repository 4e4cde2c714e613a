"""What must agree within a release that was read: lengths, budgets, and the question.

dpgap never makes a release in which they disagree. A document may have been edited, or made up.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from dpgap.releases.by_group import ReleasesByGroup
from dpgap.releases.counted import UnitCount
from dpgap.releases.faults import DocumentError
from dpgap.releases.numbers import exact_value
from dpgap.releases.provenance import MechanismUsed
from dpgap.releases.questions import TableRelease
from dpgap.releases.release import Selected
from dpgap.releases.results import (
    AboveRelease,
    HybridRelease,
    MaxRelease,
    Measured,
    MeasuredValues,
    TopKRelease,
)

_ROUTES_OF: dict[str, tuple[str | None, ...]] = {
    "best": ("joint", "ranked", "histogram", "hybrid", None),
    "joint": ("joint",),
    "ranked": ("ranked",),
    "paper": ("paper", None),
    "histogram": ("histogram",),
}
"""None is for what is above a threshold, and for documents of the first version."""
_MOST_ERRORS = 16
"""How many different errors a release has at most: one for each branch."""


def require_agreement(release: Any) -> None:
    """Refuse a release whose parts contradict each other."""
    if isinstance(release, ReleasesByGroup):
        _require_groups(release)
        return
    _require(release.promise.epsilon == release.epsilon, "epsilon and the promise")
    _require(_epsilon_of(release.mechanisms) == release.epsilon, "epsilon and the mechanisms")
    _require(getattr(release, "spent", release.epsilon) <= release.epsilon, "spent and epsilon")
    is_hybrid = isinstance(release, HybridRelease)
    asked = getattr(release, "question", None)
    promised = release.promise.delta == (0 if asked is None else asked.delta)
    _require(is_hybrid or promised, "a δ and what was asked")
    if isinstance(release, MeasuredValues):
        _require_laws([release.error], release.values.size)
        if isinstance(release, UnitCount):
            _require(release.values.size == 1, "how many units there are and the values")
            _require(release.question.kind == "count", "a count and the question")
            _require(release.question.epsilon == release.epsilon, "epsilon and the question")
        return
    count = release.indices.size
    _require(release.labels is None or len(release.labels) == count, "indices and labels")
    if isinstance(release, Selected):
        _require_evidence(release, count)
    if isinstance(release, TopKRelease | Measured):
        has_none = isinstance(release, Measured) and release.route in ("joint", "histogram")
        lengths = (0,) if has_none else (count,) if is_hybrid else (count, max(count - 1, 0))
        _require(release.gaps.size in lengths, "indices and gaps")
        may_be_empty = isinstance(release, Measured) or is_hybrid
        _require(may_be_empty or count >= 1, "a top-k and its indices")
    if is_hybrid:
        _require(release.line is not None, "what was found and the line")
    if isinstance(release, MaxRelease):
        _require(count == 1, "one winner and the indices")
    if isinstance(release, AboveRelease):
        _require(release.gaps.size == release.branch_of.size == count, "indices and gaps")
        branches = len(release.errors.branch_laws)
        _require(1 <= branches <= _MOST_ERRORS, "branches and their laws")
        _require(not count or release.branch_of.max() <= branches, "branches and their laws")
        _require(release.processed >= count, "indices and how many were processed")
    if isinstance(release, Measured):
        _require_measured(release, count)
    if isinstance(release, TableRelease):
        _require_question(release, count)


def _epsilon_of(mechanisms: Iterable[MechanismUsed]) -> Fraction | None:
    """What mechanisms cost, one after the other; None if one of them does not say."""
    stated = [dict(each.parameters).get("epsilon") for each in mechanisms]
    texts = [each for each in stated if isinstance(each, str)]
    return sum(map(exact_value, texts), Fraction(0)) if len(texts) == len(stated) else None


def _require_evidence(release: Selected, count: int) -> None:
    """The line can be read; leads are one for each, one for all, or none where none lost."""
    line = release.line
    _require(line is None or abs(line) < 1 << 200, "a threshold and what answers can reach")
    if release.evidence is None:
        return
    leads, scales = release.evidence
    _require(len(leads) == len(scales), "leads and their scales")
    lengths = (0, min(count, 1), count) if line is None else (count,)
    _require(len(leads) in lengths, "indices and leads")


def _require_measured(release: Measured, count: int) -> None:
    for column in (release.measurements, release.estimates, release.variances):
        _require(column.size == count, "indices and numbers")
    lengths = (1, count) if count else (0,)
    _require(len(release.errors) in lengths, "numbers and their errors")
    _require(len(set(release.errors)) <= _MOST_ERRORS, "numbers and their errors")
    kept = () if release.measured_by is None else (release.measured_by,)
    _require_laws((*release.errors, *kept), count)
    _require(release.route in _ROUTES_OF.get(release.method, ()), "the method and the route")
    _require((release.lead is not None) == (release.route == "joint"), "the route and the lead")
    steps = tuple(step for step, _ in release.parts)
    ways = ("measure",) if release.route == "histogram" else ("select", "measure")
    wanted = ("look", *ways) if release.looked else ways
    _require(steps == (() if release.route is None else wanted), "the route and its steps")
    spent = sum(part for _, part in release.parts)
    _require(not steps or spent == release.epsilon, "epsilon and what each step took")
    ranks = [rank for rank, _ in release.looked]
    _require(ranks == sorted(set(ranks)), "the ranks that were looked at")


def _require_laws(errors: Any, count: int) -> None:
    """Noise for all values together has a coordinate for each, and perhaps one that all share."""
    for error in set(errors):
        drawn = getattr(getattr(error, "law", None), "dimension", count)
        _require(drawn in (count, count + 1), "numbers and the dimension of their noise")


def _require_groups(release: ReleasesByGroup) -> None:
    """Every group has one answer."""
    is_right = len(release) == len(set(release)) == release.question.origin.groups > 0
    _require(is_right, "the groups and their answers")
    _require(release.promise.epsilon == release.question.epsilon, "epsilon and the promise")
    _require(release.promise.delta == release.question.delta, "δ and the promise")
    _require(release.spent <= release.epsilon, "spent and epsilon")
    used = {each for answer in release.values() for each in answer.mechanisms}
    _require(set(release.mechanisms) == used, "the groups and their mechanisms")
    asked = release.question.epsilon
    for answer in release.values():
        is_shared = answer.epsilon in (asked, asked / release.question.origin.max_groups)
        _require(is_shared, "epsilon and that of the groups")
        require_agreement(answer)


def _require_question(release: TableRelease, count: int) -> None:
    question = release.question
    is_of_one = question.group is not None or question.epsilon == release.epsilon
    _require(is_of_one, "epsilon and the question")
    _require(question.kind != "count", "a table and the question")
    _require(question.kind == "above" or question.k is not None, "a top-k and its k")
    _require(question.method == release.method, "the method and the question")
    _require((question.kind == "above") == (question.threshold is not None), "kind and threshold")
    _require(release.labels is not None or not count, "a table and its labels")


def _require(is_so: bool, what: str) -> None:
    if not is_so:
        raise DocumentError(f"{what} contradict each other")

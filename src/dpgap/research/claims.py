"""The paper's claims beside what was measured, each with a verdict.

Verdicts follow from the numbers by fixed rules: *confirmed* where all points agree, *confirmed in
part* where at least half do, else *not confirmed*; or *too few runs to tell*. Where a number
differs from the paper's, the remark says why; nothing is tuned.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from dpgap.research.experiments import KS, Result

CONFIRMED, PARTLY, NOT = "confirmed", "confirmed in part", "not confirmed"
UNCLEAR = "too few runs to tell"

_LARGEST = max(KS)
_TOO_WIDE = 5.0
_ANY_ADAPTIVE = "adaptive-sparse-vector"
_ADAPTIVE, _PLAIN = f"{_ANY_ADAPTIVE} monotonic", "sparse-vector monotonic"
_LUCK = (
    "Theory assumes that answers were found because they are large. Where counts lie close "
    "together some are found by luck, and their gaps overstate them."
)


class Claim(NamedTuple):
    """What the paper says, what was measured, and whether they agree."""

    figure: int
    statement: str
    measured: str
    verdict: str
    remark: str


Points = Sequence[Result]


class Judged(NamedTuple):
    """What the figures say of a claim."""

    measured: str
    verdict: str
    remark: str = ""


def judge(results: Points) -> list[Claim]:
    """All claims about the figures that there are results for."""
    by_figure: dict[int, list[Result]] = {}
    for each in results:
        by_figure.setdefault(each.figure, []).append(each)
    return [
        Claim(figure, statement, *judged(points))
        for figure, points in sorted(by_figure.items())
        for statement, judged in _JUDGES[figure].items()
    ]


def _of(points: Points, series: str, x: float | None = None) -> list[Result]:
    return [each for each in points if each.series == series and x in (None, each.x)]


def _pairs(points: Points, series: str, other: str) -> list[tuple[float, float]]:
    """The values of two series, point by point."""
    both = zip(_of(points, series), _of(points, other), strict=True)
    return [(one.value, two.value) for one, two in both]


def _span(values: Sequence[float], unit: str = " %", digits: int = 1) -> str:
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def _verdict(agree: Sequence[bool]) -> str:
    if all(agree):
        return CONFIRMED
    return PARTLY if 2 * sum(agree) >= len(agree) else NOT


def _agreement(found: Sequence[Result]) -> str:
    """Whether points lie within 1.5 points or 4 errors of theory, if those are small enough."""
    if max(4 * each.error for each in found) > _TOO_WIDE:
        return UNCLEAR
    return _verdict([_fits(each) for each in found])


def _distance(point: Result) -> float:
    """How far it is from theory."""
    return abs(point.value - (point.theory or 0))


def _fits(point: Result) -> bool:
    return _distance(point) <= max(1.5, 4 * point.error)


def _reduction(series: str, points: Points) -> Judged:
    name = "Top-K" if series.startswith("top-k") else "Sparse Vector"
    below = (
        f"{name} approaches the stated limit from below as k grows; at k = {_LARGEST} it "
        "is not there yet, as the formula says."
    )
    found, largest = _of(points, series), _of(points, series, _LARGEST)
    verdict = _agreement(found)
    return Judged(
        f"{_span([each.value for each in largest])} at k = {_LARGEST}; at every k within "
        f"{max(map(_distance, found)):.1f} points of theory, which is "
        f"{largest[0].theory:.1f} % there",
        verdict,
        {CONFIRMED: below, UNCLEAR: ""}.get(verdict, _LUCK),
    )


def _adaptive_reduction(points: Points) -> Judged:
    found, largest = _of(points, _ADAPTIVE), _of(points, _ADAPTIVE, _LARGEST)
    return Judged(
        f"{_span([each.value for each in largest])} at k = {_LARGEST}; within "
        f"{max(map(_distance, found)):.1f} points of what theory says for the branches taken",
        _agreement(found),
        "Up to 2k answers are selected and all are measured, with noise for as many as there "
        "are. Gaps of answers near the threshold are biased by having been selected.",
    )


def _equal(points: Points) -> Judged:
    top_k, sparse = (_of(points, f"{kind} monotonic") for kind in ("top-k", "sparse-vector"))
    verdict = _agreement([*top_k, *sparse])
    return Judged(
        f"Top-K {_span([each.value for each in top_k])}, theory 45.0 %; "
        f"Sparse Vector {_span([each.value for each in sparse])}, theory 35.8 %; "
        "over all ε and data sets, at k = 10",
        verdict,
        _LUCK if verdict in (PARTLY, NOT) else "",
    )


def _adaptive_equal(points: Points) -> Judged:
    found = [
        it for kind in ("monotonic", "general") for it in _of(points, f"{_ANY_ADAPTIVE} {kind}")
    ]
    outside = [each for each in found if not _fits(each)]
    where = f", at ε = {_span([each.x for each in outside], '')}" if outside else ""
    return Judged(
        f"{len(found) - len(outside)} of {len(found)} points (monotonic and general) lie within "
        f"the tolerance; {len(outside)} outside{where}",
        _agreement(found),
        f"{_LUCK} Theory goes by the branches taken." if outside else "",
    )


_MORE = (
    "More than stated. The authors' own code, run on the paper's data sets, gives 18.6 to 20.5 "
    "more, so it is more than stated there too. Its margin is twice ours, and fewer answers clear "
    "it: that explains about two answers. What explains the rest we do not know. Its truth also "
    "leaves out the item at the threshold's rank. "
)


def _gain(points: Points) -> Judged:
    adaptive = _of(points, f"{_ADAPTIVE}: answers", _LARGEST)
    plain = _of(points, f"{_PLAIN}: answers", _LARGEST)
    larger = _of(points, "sparse-vector with 2k monotonic: answers", _LARGEST)
    more = [a.value - p.value for a, p in zip(adaptive, plain, strict=True)]
    return Judged(
        f"{_span(more, ' more', 1)} at k = {_LARGEST}",
        CONFIRMED if max(more) >= 15 else NOT,
        (_MORE if max(more) > 15 else "")
        + f"A plain Sparse Vector with 2k gives {_span([each.value for each in larger], '', 1)}"
        " answers at the same ε; adaptivity's gain is that k need not be known.",
    )


def _top_branch(points: Points) -> Judged:
    every = f"{_ADAPTIVE}: answers"
    shares = [top / total for top, total in _pairs(points, f"{every} in branch 1", every)]
    return Judged(
        f"{_span([100 * share for share in shares])} of them, over all k and data sets",
        _verdict([share > 0.5 for share in shares]),
    )


def _precision(points: Points) -> Judged:
    found = _pairs(points, f"{_ADAPTIVE}: precision", f"{_PLAIN}: precision")
    differences = [100 * (adaptive - plain) for adaptive, plain in found]
    return Judged(
        f"{_span(differences, ' points', 2)}, adaptive less plain",
        _verdict([abs(difference) < 2 for difference in differences]),
    )


def _f_measure(points: Points) -> Judged:
    found = _pairs(points, f"{_ADAPTIVE}: F-measure", f"{_PLAIN}: F-measure")
    ratios = [adaptive / plain for adaptive, plain in found]
    larger = [each.value for each in _of(points, "sparse-vector with 2k monotonic: F-measure")]
    middle = float(np.median(ratios))
    off = abs(middle - 1.5)
    return Judged(
        f"{_span(ratios, ' times', 2)}, {middle:.2f} in the middle",
        CONFIRMED if off <= 0.15 else PARTLY if off <= 0.3 else NOT,
        "The ratio follows from how many more answers there are at nearly full precision. "
        f"Plain Sparse Vector with 2k reaches an F-measure of {_span(larger, '', 2)} itself.",
    )


def _budget_left(points: Points) -> Judged:
    found = _of(points, f"{_ADAPTIVE}: budget left")
    values = [each.value for each in found]
    high_k = [each.value for each in found if each.x >= 10]
    bounds = [each.theory or 0.0 for each in found]
    near = [abs(value - 40) <= 5 for value in values]
    return Judged(
        f"{_span(values)} over all k and data sets; {_span(high_k)} from k = 10 on",
        _verdict(near),
        "No more can be left than (1 − θ)/2, where every answer takes the top branch: "
        f"{_span(bounds)}. At small k the threshold takes a large share θ, so 40 % is out of "
        "reach there.",
    )


_JUDGES: dict[int, dict[str, Callable[[Points], Judged]]] = {
    1: {
        "Gaps reduce the squared error of Top-K with Measures by up to 50 % (monotonic).": partial(
            _reduction, "top-k monotonic"
        ),
        "Gaps reduce that of Sparse Vector with Measures by up to 50 % (monotonic).": partial(
            _reduction, _PLAIN
        ),
        "For general queries the reduction approaches 20 % (Top-K).": partial(
            _reduction, "top-k general"
        ),
        "For general queries the reduction approaches 20 % (Sparse Vector).": partial(
            _reduction, "sparse-vector general"
        ),
        "Gaps help measurements after Adaptive Sparse Vector as well.": _adaptive_reduction,
    },
    2: {
        "The improvement is stable for different ε, and nearly identical on all data sets.": _equal,
        "Not in the paper: it is as stable after Adaptive Sparse Vector.": _adaptive_equal,
    },
    3: {
        "Adaptive Sparse Vector gives up to 15 more answers on average at the largest k.": _gain,
        "Most answers come from the top branch.": _top_branch,
        "There is very little difference in precision.": _precision,
        "The F-measure is roughly 1.5 times that of Sparse Vector.": _f_measure,
    },
    4: {"Roughly 40 % of the budget is left after k answers.": _budget_left},
}
"""What the paper says, by figure, and what judges it."""

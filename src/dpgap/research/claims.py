"""The paper's claims beside what was measured, each with a verdict.

Verdicts follow from the numbers by fixed rules: *confirmed* if all points agree, *confirmed in
part* if at least half do, else *not confirmed*; *more than stated*; or *too few runs to tell*. If a
number differs from the paper's, the remark says why; nothing is tuned.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from dpgap.research.experiments import KS, Result

CONFIRMED, PARTLY, NOT = "confirmed", "confirmed in part", "not confirmed"
MORE = "more than stated"
UNCLEAR = "too few runs to tell"

_LARGEST = max(KS)
_TOO_WIDE = 5.0
_ADAPTIVE, _PLAIN = "adaptive-sparse-vector monotonic", "sparse-vector monotonic"
_TOP_K = "top-k monotonic"
_LUCK = (
    "Theory assumes that answers were found because they are large. Where counts lie close "
    "together some are found by luck, and their gaps overstate them."
)
_CLOSER = (
    "A reduction below 0 % is a larger error: counts at these ranks are closer than the noise."
)


class Claim(NamedTuple):
    """A claim of the paper, the measurement, and whether they agree."""

    figure: int
    statement: str
    measured: str
    verdict: str
    remark: str


Points = Sequence[Result]


class Judged(NamedTuple):
    """The judgement of a claim by the figures."""

    measured: str
    verdict: str
    remark: str = ""


def judge(results: Points) -> list[Claim]:
    """All claims about figures that have results."""
    return [
        Claim(figure, statement, *judged(points))
        for figure, judges in _JUDGES.items()
        if (points := [each for each in results if each.figure == figure])
        for statement, judged in judges.items()
    ]


def _of(points: Points, series: str, x: float | None = None) -> list[Result]:
    return [each for each in points if each.series == series and x in (None, each.x)]


def _values(points: Points, series: str, x: float | None = None) -> list[float]:
    return [each.value for each in _of(points, series, x)]


def _pairs(points: Points, of: str, x: float | None = None) -> Iterator[tuple[float, float]]:
    """What was measured after an adaptive and a plain Sparse Vector, point by point."""
    return zip(*(_values(points, f"{each}: {of}", x) for each in (_ADAPTIVE, _PLAIN)), strict=True)


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
    return _verdict([_distance(each) <= max(1.5, 4 * each.error) for each in found])


def _remarks(remark: str, points: Points) -> str:
    """The remark, and what a reduction below 0 means, if there is one."""
    is_worse = min(point.value for point in points) < 0
    return f"{remark} {_CLOSER}".strip() if is_worse else remark


def _distance(point: Result) -> float:
    """How far it is from theory."""
    return abs(point.value - (point.theory or 0))


def _reduction(series: str, points: Points) -> Judged:
    name = "Top-K" if series.startswith("top-k") else "Sparse Vector"
    below = (
        f"{name} approaches the stated limit from below as k grows; at k = {_LARGEST} it "
        "is not there yet, as the formula says."
    )
    found = _of(points, series)
    verdict = _agreement(found)
    return Judged(
        f"{_span(_values(points, series, _LARGEST))} at k = {_LARGEST}; at every k within "
        f"{max(map(_distance, found)):.1f} points of theory, which is "
        f"{_of(points, series, _LARGEST)[0].theory:.1f} % there",
        verdict,
        _remarks({CONFIRMED: below, UNCLEAR: ""}.get(verdict, _LUCK), found),
    )


def _adaptive_reduction(points: Points) -> Judged:
    found = _of(points, _ADAPTIVE)
    return Judged(
        f"{_span(_values(points, _ADAPTIVE, _LARGEST))} at k = {_LARGEST}; within "
        f"{max(map(_distance, found)):.1f} points of what theory says for the branches taken",
        _agreement(found),
        _remarks(
            "Up to 2k answers are selected and all are measured, with noise for as many as there "
            "are. Gaps of answers near the threshold are biased by having been selected.",
            found,
        ),
    )


def _equal(points: Points) -> Judged:
    found = [*_of(points, _TOP_K), *_of(points, _PLAIN)]
    verdict = _agreement(found)
    return Judged(
        f"Top-K {_span(_values(points, _TOP_K))}, theory 45.0 %; "
        f"Sparse Vector {_span(_values(points, _PLAIN))}, theory 35.8 %; "
        "over all ε and data sets, at k = 10",
        verdict,
        _remarks(_LUCK if verdict in (PARTLY, NOT) else "", found),
    )


_WHY_MORE = (
    "The authors' own code, run on the paper's data sets, gives 18.6 to 20.5 "
    "more, so it is more than stated there too. Its margin is twice ours, and fewer answers clear "
    "it: that explains about two answers. What explains the rest we do not know. Its truth also "
    "leaves out the item at the threshold's rank. "
)


def _gain(points: Points) -> Judged:
    more = [adaptive - plain for adaptive, plain in _pairs(points, "answers", _LARGEST)]
    larger = _values(points, "sparse-vector with 2k monotonic: answers", _LARGEST)
    verdict = CONFIRMED if max(more) >= 15 else NOT
    if round(max(more)) > 15:
        verdict = MORE
    return Judged(
        f"{_span(more, ' more', 1)} at k = {_LARGEST}",
        verdict,
        (_WHY_MORE if verdict == MORE else "")
        + f"A plain Sparse Vector with 2k gives {_span(larger, '', 1)}"
        " answers at the same ε; adaptivity's gain is that k need not be known.",
    )


def _top_branch(points: Points) -> Judged:
    every = _values(points, f"{_ADAPTIVE}: answers")
    top = _values(points, f"{_ADAPTIVE}: answers in branch 1")
    shares = [100 * own / total for own, total in zip(top, every, strict=True)]
    return Judged(
        f"{_span(shares)} of them, over all k and data sets",
        _verdict([share > 50 for share in shares]),
    )


def _precision(points: Points) -> Judged:
    both = _pairs(points, "precision")
    differences = [100 * (adaptive - plain) for adaptive, plain in both]
    return Judged(
        f"{_span(differences, ' points', 2)}, adaptive less plain",
        _verdict([abs(difference) < 2 for difference in differences]),
    )


def _f_measure(points: Points) -> Judged:
    ratios = [adaptive / plain for adaptive, plain in _pairs(points, "F-measure")]
    larger = _values(points, "sparse-vector with 2k monotonic: F-measure")
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
    return Judged(
        f"{_span(values)} over all k and data sets; {_span(high_k)} from k = 10 on",
        _verdict([abs(value - 40) <= 5 for value in values]),
        "No more can be left than (1 − θ)/2, where every answer takes the top branch: "
        f"{_span(bounds)}. At small k the threshold takes a large share θ, so 40 % is out of "
        "reach there.",
    )


_LIMITS = {
    "Gaps reduce the squared error of Top-K with Measures by up to 50 % (monotonic).": _TOP_K,
    "Gaps reduce that of Sparse Vector with Measures by up to 50 % (monotonic).": _PLAIN,
    "For general queries the reduction approaches 20 % (Top-K).": "top-k general",
    "For general queries the reduction approaches 20 % (Sparse Vector).": "sparse-vector general",
}
_JUDGES: dict[int, dict[str, Callable[[Points], Judged]]] = {
    1: {
        **{statement: partial(_reduction, series) for statement, series in _LIMITS.items()},
        "Gaps help measurements after Adaptive Sparse Vector as well.": _adaptive_reduction,
    },
    2: {
        "The improvement is stable for different ε, and nearly identical on all data sets.": _equal,
    },
    3: {
        "Adaptive Sparse Vector gives up to 15 more answers on average at the largest k.": _gain,
        "Most answers come from the top branch.": _top_branch,
        "There is very little difference in precision.": _precision,
        "The F-measure is roughly 1.5 times that of Sparse Vector.": _f_measure,
    },
    4: {"Roughly 40 % of the budget is left after k answers.": _budget_left},
}
"""The claims of the paper, by figure, and the functions that judge them."""

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

CONFIRMED = "confirmed"
PARTLY = "confirmed in part"
NOT = "not confirmed"
MORE = "more than stated"
UNCLEAR = "too few runs to tell"

_LARGEST = max(KS)
_TOO_WIDE = 5.0
_ADAPTIVE = "adaptive-sparse-vector monotonic"
_PLAIN = "sparse-vector monotonic"
_WITH_2K = "sparse-vector with 2k monotonic"
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


class Judgement(NamedTuple):
    """What the figures say about a claim."""

    measured: str
    verdict: str
    remark: str = ""


def judge(results: Points) -> list[Claim]:
    """All claims about figures that have results."""
    claims = []
    for figure, judges in _JUDGES.items():
        points = [point for point in results if point.figure == figure]
        if not points:
            continue
        for statement, judge_points in judges.items():
            judgement = judge_points(points)
            claims.append(
                Claim(
                    figure=figure,
                    statement=statement,
                    measured=judgement.measured,
                    verdict=judgement.verdict,
                    remark=judgement.remark,
                )
            )
    return claims


def _of(points: Points, series: str, x: float | None = None) -> list[Result]:
    return [point for point in points if point.series == series and x in (None, point.x)]


def _values(points: Points, series: str, x: float | None = None) -> list[float]:
    return [point.value for point in _of(points, series, x)]


def _pairs(points: Points, quantity: str, x: float | None = None) -> Iterator[tuple[float, float]]:
    """What was measured after an adaptive and a plain Sparse Vector, point by point."""
    adaptive = _values(points, f"{_ADAPTIVE}: {quantity}", x)
    plain = _values(points, f"{_PLAIN}: {quantity}", x)
    return zip(adaptive, plain, strict=True)


def _span(values: Sequence[float], unit: str = " %", digits: int = 1) -> str:
    low = f"{min(values):.{digits}f}"
    high = f"{max(values):.{digits}f}"
    if low == high:
        return f"{low}{unit}"
    return f"{low} to {high}{unit}"


def _verdict(agree: Sequence[bool]) -> str:
    if all(agree):
        return CONFIRMED
    if 2 * sum(agree) >= len(agree):
        return PARTLY
    return NOT


def _agreement(points: Points) -> str:
    """Whether points lie within 1.5 points or 4 errors of theory, if those are small enough."""
    if max(4 * point.error for point in points) > _TOO_WIDE:
        return UNCLEAR
    return _verdict([_distance(point) <= max(1.5, 4 * point.error) for point in points])


def _remarks(remark: str, points: Points) -> str:
    """The remark, and what a reduction below 0 means, if there is one."""
    if min(point.value for point in points) >= 0:
        return remark
    return f"{remark} {_CLOSER}".strip()


def _distance(point: Result) -> float:
    """How far it is from theory."""
    return abs(point.value - (point.theory or 0))


def _reduction(series: str, points: Points) -> Judgement:
    name = "Top-K" if series.startswith("top-k") else "Sparse Vector"
    below = (
        f"{name} approaches the stated limit from below as k grows; at k = {_LARGEST} it "
        "is not there yet, as the formula says."
    )
    of_series = _of(points, series)
    at_largest = _of(points, series, _LARGEST)
    verdict = _agreement(of_series)
    remark = {CONFIRMED: below, UNCLEAR: ""}.get(verdict, _LUCK)
    return Judgement(
        f"{_span(_values(points, series, _LARGEST))} at k = {_LARGEST}; at every k within "
        f"{max(map(_distance, of_series)):.1f} points of theory, which is "
        f"{at_largest[0].theory:.1f} % there",
        verdict,
        _remarks(remark, of_series),
    )


def _adaptive_reduction(points: Points) -> Judgement:
    of_series = _of(points, _ADAPTIVE)
    return Judgement(
        f"{_span(_values(points, _ADAPTIVE, _LARGEST))} at k = {_LARGEST}; within "
        f"{max(map(_distance, of_series)):.1f} points of what theory says for the branches taken",
        _agreement(of_series),
        _remarks(
            "Up to 2k answers are selected and all are measured, with noise for as many as there "
            "are. Gaps of answers near the threshold are biased by having been selected.",
            of_series,
        ),
    )


def _equal(points: Points) -> Judgement:
    of_both = _of(points, _TOP_K) + _of(points, _PLAIN)
    verdict = _agreement(of_both)
    remark = _LUCK if verdict in (PARTLY, NOT) else ""
    return Judgement(
        f"Top-K {_span(_values(points, _TOP_K))}, theory 45.0 %; "
        f"Sparse Vector {_span(_values(points, _PLAIN))}, theory 35.8 %; "
        "over all ε and data sets, at k = 10",
        verdict,
        _remarks(remark, of_both),
    )


_WHY_MORE = (
    "The authors' own code, run on the paper's data sets, gives 18.6 to 20.5 "
    "more, so it is more than stated there too. Its margin is twice ours, and fewer answers clear "
    "it: that explains about two answers. What explains the rest we do not know. Its truth also "
    "leaves out the item at the threshold's rank. "
)


def _gain(points: Points) -> Judgement:
    gains = [adaptive - plain for adaptive, plain in _pairs(points, "answers", _LARGEST)]
    with_2k = _values(points, f"{_WITH_2K}: answers", _LARGEST)
    remark = (
        f"A plain Sparse Vector with 2k gives {_span(with_2k, '', 1)}"
        " answers at the same ε; adaptivity's gain is that k need not be known."
    )
    measured = f"{_span(gains, ' more', 1)} at k = {_LARGEST}"
    if round(max(gains)) > 15:
        return Judgement(measured, MORE, _WHY_MORE + remark)
    if max(gains) >= 15:
        return Judgement(measured, CONFIRMED, remark)
    return Judgement(measured, NOT, remark)


def _top_branch(points: Points) -> Judgement:
    totals = _values(points, f"{_ADAPTIVE}: answers")
    in_top_branch = _values(points, f"{_ADAPTIVE}: answers in branch 1")
    shares = [100 * top / total for top, total in zip(in_top_branch, totals, strict=True)]
    return Judgement(
        f"{_span(shares)} of them, over all k and data sets",
        _verdict([share > 50 for share in shares]),
    )


def _precision(points: Points) -> Judgement:
    pairs = _pairs(points, "precision")
    differences = [100 * (adaptive - plain) for adaptive, plain in pairs]
    return Judgement(
        f"{_span(differences, ' points', 2)}, adaptive less plain",
        _verdict([abs(difference) < 2 for difference in differences]),
    )


def _f_measure(points: Points) -> Judgement:
    ratios = [adaptive / plain for adaptive, plain in _pairs(points, "F-measure")]
    with_2k = _values(points, f"{_WITH_2K}: F-measure")
    middle = float(np.median(ratios))
    distance = abs(middle - 1.5)
    verdict = NOT
    if distance <= 0.15:
        verdict = CONFIRMED
    elif distance <= 0.3:
        verdict = PARTLY
    return Judgement(
        f"{_span(ratios, ' times', 2)}, {middle:.2f} in the middle",
        verdict,
        "The ratio follows from how many more answers there are at nearly full precision. "
        f"Plain Sparse Vector with 2k reaches an F-measure of {_span(with_2k, '', 2)} itself.",
    )


def _budget_left(points: Points) -> Judgement:
    of_series = _of(points, f"{_ADAPTIVE}: budget left")
    values = [point.value for point in of_series]
    high_k = [point.value for point in of_series if point.x >= 10]
    bounds = [point.theory or 0.0 for point in of_series]
    return Judgement(
        f"{_span(values)} over all k and data sets; {_span(high_k)} from k = 10 on",
        _verdict([abs(value - 40) <= 5 for value in values]),
        "No more can be left than (1 − θ)/2, where every answer takes the top branch: "
        f"{_span(bounds)}. At small k the threshold takes a large share θ, so 40 % is out of "
        "reach there.",
    )


_reduction_of_top_k = partial(_reduction, _TOP_K)
_reduction_of_plain = partial(_reduction, _PLAIN)
_reduction_of_general_top_k = partial(_reduction, "top-k general")
_reduction_of_general_plain = partial(_reduction, "sparse-vector general")
_JUDGES: dict[int, dict[str, Callable[[Points], Judgement]]] = {
    1: {
        "Gaps reduce the squared error of Top-K with Measures by up to 50 % (monotonic).": (
            _reduction_of_top_k
        ),
        "Gaps reduce that of Sparse Vector with Measures by up to 50 % (monotonic).": (
            _reduction_of_plain
        ),
        "For general queries the reduction approaches 20 % (Top-K).": _reduction_of_general_top_k,
        "For general queries the reduction approaches 20 % (Sparse Vector).": (
            _reduction_of_general_plain
        ),
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

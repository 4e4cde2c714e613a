"""How often numbers that carry a confidence are wrong, on the answers that are worst for them.

Every *way* is one row of the table in docs/confidence.md: what is asked, by which method or noise,
whether answers are monotonic, and with how many branches or what reach. It gives, for each kind of
answers and each number, a share for every run: how much of what was said is wrong.

Noise is that of `dpgap.simulate`, or of releases on seeded bits. Numbers come from the methods of
releases themselves. `benchmarks/confidence.py` prints the table.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import dpgap
from dpgap.data.private_counts import CountsInMemory
from dpgap.estimates.certificates import Evidence, belonging
from dpgap.mechanisms.sparse_vector import evidence_of
from dpgap.pipelines.paper import above_errors
from dpgap.pipelines.tables import answer
from dpgap.question import Question, read_question
from dpgap.releases.release import ItemsAbove, MeasuredItems
from faces import altered_release

Floats = NDArray[np.float64]
Said = Iterator[tuple[str, str, Floats]]
"""The kind of answers, the number, and for every run how much of what was said is wrong."""

NOMINAL = 0.95
EPSILON = "0.7"
K = 5
_TINY = 1e-6  # far below a step, and above what floats err by


@dataclass(frozen=True)
class Way:
    """One way to get numbers with a confidence."""

    question: str
    by: str
    monotonic: bool | None
    setting: str
    """How many branches, or what reach; it may be nothing."""
    say: Callable[[int, float], Said]
    """What is said in so many runs, at a level, and is wrong."""

    def __str__(self) -> str:
        kind = {True: "monotonic", False: "general", None: ""}[self.monotonic]
        return ", ".join(filter(None, (self.question, self.by, kind, self.setting)))


def p_of(wrong: Floats) -> float:
    """The p-value of "at most 5 % is wrong". Numbers of one run depend on each other; runs do not.

    Where wrong ones are many, the spread of the sample is large too: the test is on the safe side.
    """
    if wrong.size == 0 or np.ptp(wrong) == 0:
        return float((1 - NOMINAL) ** wrong.size) if wrong.any() else 1.0
    return float(stats.ttest_1samp(wrong, 1 - NOMINAL, alternative="greater").pvalue)


# Lower bounds and p-values of a Sparse Vector.


def shortfalls(mechanism: dpgap.SparseVector, level: float) -> Floats:
    """For each branch, how far its bounds are below the threshold plus the gap."""
    many = len(mechanism.every_branch)
    release = altered_release(
        mechanism.release([0]),
        indices=np.arange(many),
        gaps=np.zeros(many),
        branch_of=np.arange(1, many + 1),
        evidence=None,
    )
    assert isinstance(release, ItemsAbove)
    return float(mechanism.threshold) - release.lower_bounds(level)


def wrong_bounds(mechanism: dpgap.SparseVector, short: Floats, runs: int) -> Iterator[Floats]:
    """For answers at the worst places: is the bound above the answer? One question in each run.

    A bound that is too high is said only if the gap clears the margin. So the worst answers are
    just large enough for that, in one branch or another. A tenth of the runs looks where.
    """
    demanded = (
        np.array([float(way.margin) for way in mechanism.every_branch]) + mechanism.gap_offsets
    )
    own = float(mechanism.every_branch[0].law.scale) * np.linspace(-1, 2, 7)
    places = np.unique(np.rint(np.concatenate([demanded - short, own])))

    def wrong(places: Floats, runs: int, seed: int) -> Floats:
        thresholds = np.repeat(-places, runs)
        found = dpgap.simulate(
            mechanism, [0], runs=thresholds.size, seed=seed, thresholds=thresholds
        )
        bounds = thresholds[found.run] + found.gaps - short[found.branch_of - 1]
        said = np.zeros(thresholds.size)
        said[found.run] = bounds > _TINY
        return said.reshape(places.size, runs)

    looked = wrong(places, max(runs // 10, 100), 1).mean(axis=1)
    yield from wrong(places[np.argsort(-looked)[:2]], runs, 2)


def _sparse_vector(noise: str, branches: int, monotonic: bool, runs: int, level: float) -> Said:
    mechanism = dpgap.AdaptiveSparseVector(
        0, 10, EPSILON, branches=branches, monotonic=monotonic, noise=noise
    )
    for wrong in wrong_bounds(mechanism, shortfalls(mechanism, level), runs):
        yield "at worst", "lower bound", wrong
    if noise != "exponential":
        return
    for below in (0, round(float(mechanism.every_branch[-1].law.scale))):
        found = dpgap.simulate(mechanism, [-below] * 20, runs=runs, seed=3)
        raw = found.gaps - mechanism.gap_offsets[found.branch_of - 1]
        evidence = evidence_of(mechanism.every_branch, found.branch_of, raw)
        assert evidence is not None
        p_values = evidence.p_values(raw.size)
        kind = "on the line" if below == 0 else "below it"
        yield kind, "p-value", (p_values <= 1 - level).astype(np.float64)
        yield kind, "belong", _any_claim(found.found, p_values, np.ones(raw.size, bool), level)


def _any_claim(found: Any, p_values: Floats, false: NDArray[np.bool_], level: float) -> Floats:
    """For each run, whether it says of any false answer that it belongs."""
    wrong, starts = np.zeros(found.size), found.cumsum() - found
    for count in np.unique(found[found > 0]).tolist():
        runs = np.flatnonzero(found == count)
        rows = starts[runs][:, None] + np.arange(count)
        wrong[runs] = (belonging(p_values[rows], level) & false[rows]).any(axis=1)
    return wrong


# Winners of a Top-K: what their leads prove.


def _counts(kind: str, k: int = K) -> NDArray[np.int64]:
    if kind == "flat":
        return np.full(k + 25, 300)
    if kind == "close":
        return 300 - 3 * np.arange(k + 25)
    if kind == "tied":
        return np.concatenate([np.full(k - 1, 340), np.full(4, 300), np.full(20, 290)])
    return np.concatenate([50_000 - 5_000 * np.arange(k), np.zeros(25, np.int64)])  # clear


_HARD = ("flat", "close", "tied")
_KINDS = (*_HARD, "clear")


def _p_values(leads: Floats, law: Any) -> Floats:
    evidence = Evidence.of(leads.ravel().tolist(), [law] * leads.size)
    assert evidence is not None
    return evidence.p_values(leads.size).reshape(leads.shape)


def _leads(gaps: Floats) -> Floats:
    return np.cumsum(gaps[:, ::-1], axis=1)[:, ::-1]


def _ranked(monotonic: bool, runs: int, level: float) -> Said:
    mechanism = dpgap.NoisyTopK(K, EPSILON, monotonic=monotonic, noise="exponential")
    for kind in _HARD:
        counts = _counts(kind)
        won = dpgap.simulate(mechanism, counts, runs=runs, seed=1)
        p_values = _p_values(_leads(won.gaps), mechanism.law)
        false = counts[won.indices] <= np.sort(counts)[-K - 1]
        yield kind, "p-value", (p_values[false] <= 1 - level).astype(np.float64)
        whole = p_values.max(axis=1)[false.any(axis=1)]
        yield kind, "set’s p-value", (whole <= 1 - level).astype(np.float64)
        wrong = (belonging(p_values, level) & false).any(axis=1)
        yield kind, "belong", wrong.astype(np.float64)


def _joint(monotonic: bool, runs: int, level: float) -> Said:
    mechanism = dpgap.JointTopK(K, EPSILON, monotonic=monotonic)
    for kind in _HARD:
        counts = _counts(kind)
        won = dpgap.simulate(mechanism, counts, runs=runs, seed=2)
        false = counts[won.indices].min(axis=1) <= np.sort(counts)[-K - 1]
        p_values = _p_values(won.leads[false], mechanism.law)
        yield kind, "set’s p-value", (p_values <= 1 - level).astype(np.float64)


def _hybrid(monotonic: bool, runs: int, level: float) -> Said:
    """False is whoever is not above the line, or has as many others as were found before it."""
    mechanism = dpgap.HybridTopK(300, K, EPSILON, monotonic=monotonic)
    for kind in _HARD:
        counts = _counts(kind)
        won = dpgap.simulate(mechanism, counts, runs=runs, seed=4)
        starts = won.found.cumsum() - won.found
        leads = np.zeros(won.gaps.size)
        for count in np.unique(won.found[won.found > 0]).tolist():
            rows = starts[won.found == count][:, None] + np.arange(count)
            leads[rows] = _leads(won.gaps[rows])
        p_values, own = _p_values(leads, mechanism.law), counts[won.indices]
        others = (counts >= own[:, None]).sum(axis=1) - 1
        false = (own <= 300) | (others >= won.found[won.run])
        yield kind, "p-value", (p_values[false] <= 1 - level).astype(np.float64)
        yield kind, "belong", _any_claim(won.found, p_values, false, level)


# Intervals, differences and groups of measured answers.


def _measured(
    release: MeasuredItems, values: Floats, off: Floats, estimates: Floats, level: float
) -> Iterator[tuple[str, Floats]]:
    """What releases like this one say of runs with these measurements, which are `off` by so much.

    One row a run. The release is the real one; its numbers are replaced.
    """
    flat = replace(release, indices=np.arange(values.size), measurements=values.ravel())
    if release.detail.centres == "measurements":
        low, high = flat.interval(level).T
        true = (values - off).ravel()
        missed = (true < low - _TINY) | (true > high + _TINY)
        yield "interval", missed.reshape(values.shape).mean(axis=1)
    half = float(release._ends_of_all(level)[0, 1] - release.measurements[0])
    yield "all intervals", (np.abs(off) > half + _TINY).any(axis=1).astype(np.float64)
    if values.shape[1] > 1:
        pairs = release._half_width_of_pairs(level)
        yield "all differences", (np.ptp(off, axis=1) > pairs + _TINY).astype(np.float64)
        few = slice(max(len(values) // 10, 100))  # one by one
        rows = zip(values[few], (values - off)[few], estimates[few], strict=True)
        wrong = [
            dict(_by_rank(replace(release, measurements=value, estimates=estimate), true, level))
            for value, true, estimate in rows
        ]
        for name in wrong[0]:
            yield name, np.array([each[name] for each in wrong])


def _by_rank(release: MeasuredItems, true: Floats, level: float) -> Iterator[tuple[str, float]]:
    """What is said by rank: leads, give or take, and groups whose answers are all larger."""
    ranked, estimates = true[release._order], release.estimates[release._order]
    off = np.abs(np.diff(ranked) - np.diff(estimates))
    yield "leads", float((off > release._half_widths_of_gaps(level) + _TINY).any())
    parts = [ranked[np.array(group) - 1] for group in release.groups(level)]
    yield "groups", float(any(one.min() < other.max() for one, other in pairwise(parts)))


def _top_k(method: str, monotonic: bool, runs: int, level: float) -> Said:
    pipeline = dpgap.MeasuredTopK(K, EPSILON, method=method, monotonic=monotonic)
    for kind in _KINDS:
        counts = _counts(kind)
        made = dpgap.simulate(pipeline, counts, runs=runs, seed=5)
        routes = getattr(made.selected, "routes", np.zeros(runs, np.int64))
        said: dict[str, list[Floats]] = {}
        for number in np.unique(routes).tolist():
            rows, route = routes == number, pipeline.routes[number]
            release = _released(pipeline, counts)
            error = route.measurement.error(K)
            changed = {"measured_by": error} if method == "paper" else {"errors": (error,)}
            release = altered_release(release, **changed)
            off = (made.measurements - made.truth)[rows]
            own = made.measurements[rows], off, made.estimates[rows]
            for name, wrong in _measured(release, *own, level):
                said.setdefault(name, []).append(wrong)
        for name, parts in said.items():
            yield kind, name, np.concatenate(parts)
        if method == "paper":  # the confidence is that of one answer, before looking who won
            half = release.detail.errors[0].half_width(level)
            missed = np.zeros((runs, counts.size))
            wrong = np.abs(made.estimates - made.truth) > half + _TINY
            np.put_along_axis(missed, made.selected.indices, wrong.astype(np.float64), axis=1)
            yield kind, "interval", _per_question(missed)


def _released(pipeline: Any, answers: Any) -> MeasuredItems:
    release = pipeline.release(answers)
    assert isinstance(release, MeasuredItems)
    return release


def _per_question(wrong: Floats) -> Floats:
    """Of several questions, one column each, the one that is wrong most often.

    The first half of the runs says which; the others are returned.
    """
    half = len(wrong) // 2
    return wrong[half:, int(np.argmax(wrong[:half].mean(axis=0)))]


def _above(method: str, branches: int, monotonic: bool, runs: int, level: float) -> Said:
    pipeline = dpgap.MeasuredAbove(
        0, K, EPSILON, method=method, adaptive=True, branches=branches, monotonic=monotonic
    )
    selection, measurement = pipeline.selection, pipeline.measurement
    dear, cheap = (float(selection.every_branch[at].law.scale) for at in (-1, 0))
    streams = {
        "on the line": np.zeros(4),
        "around it": dear * np.linspace(-2, 2, 4),
        "clear": 30 * cheap + np.arange(4) * dear,
    }
    release = _released(pipeline, [round(100 * cheap)] * 4)
    for kind, stream in streams.items():
        answers = np.rint(stream).astype(np.int64)
        made = dpgap.simulate(pipeline, answers, runs=runs, seed=6)
        selected, off = made.selected, made.measurements - made.truth
        starts = selected.found.cumsum() - selected.found
        said: dict[str, list[Floats]] = {}
        missed = np.zeros((runs, answers.size))
        for count in np.unique(selected.found[selected.found > 0]).tolist():
            own = np.flatnonzero(selected.found == count)
            rows = starts[own][:, None] + np.arange(count)
            error = measurement.error(count)
            changed: dict[str, Any] = {"errors": (error,)}
            if method == "paper":
                changed = {"measured_by": error}
                half = _paper_halves(pipeline, selected.branch_of[rows], level)
                wrong = np.abs(made.estimates - made.truth)[rows] > half + _TINY
                missed[np.repeat(own, count), selected.indices[rows].ravel()] = wrong.ravel()
            changed |= {"indices": np.arange(count), "measurements": np.zeros(count)}
            values = made.measurements[rows], off[rows], made.estimates[rows]
            for name, each in _measured(altered_release(release, **changed), *values, level):
                said.setdefault(name, []).append(each)
        if method == "paper":
            yield kind, "interval", _per_question(missed)
        for name, parts in said.items():
            yield kind, name, np.concatenate(parts)


def _paper_halves(pipeline: dpgap.MeasuredAbove, branches: Any, level: float) -> Floats:
    """Half the width of each interval."""
    assert isinstance(pipeline.measurement, dpgap.Laplace)
    halves = np.zeros(branches.shape)
    for branch in np.unique(branches).tolist():
        same = np.full(branches.shape[1], branch)
        error = above_errors(pipeline.selection, pipeline.measurement, same)[0]
        halves[branches == branch] = error.half_width(level)
    return halves


# What is read off a histogram, on releases themselves.


def _private(counts: NDArray[np.int64], reach: int, unknown: bool = False) -> CountsInMemory:
    many = range(counts.size)
    origin = Question(unit="who", item="what", domain="items", max_items=reach, unknown=unknown)
    return CountsInMemory(
        labels=many,
        positions=np.arange(counts.size),
        counts=counts,
        sensitivity=Fraction(1),
        monotonic=True,
        origin=origin,
        reach=reach,
        unknown=unknown,
    )


_READ_OFF: dict[str, Callable[..., Any]] = {
    "top k": partial(dpgap.top_k, k=K, epsilon=EPSILON, method="histogram"),
    "top k, unknown items": partial(dpgap.top_k, k=K, epsilon=EPSILON, delta="1e-6"),
    "above": partial(dpgap.above, threshold=300, epsilon=EPSILON, method="histogram"),
    "above, at most k": partial(dpgap.above, threshold=290, k=K, epsilon=EPSILON),
}


def _histogram(asked: str, reach: int, runs: int, level: float) -> Said:
    for kind in _KINDS:
        counts = _counts(kind)
        private = _private(counts, reach, "unknown" in asked)
        said: dict[str, list[float]] = {}
        for _ in range(runs // 10):
            release = _READ_OFF[asked](private)
            if not release.indices.size:
                continue
            true = counts[np.array(release.labels)]
            for name, wrong in _read_off(release, true.astype(np.float64), level):
                said.setdefault(name, []).append(wrong)
        for name, parts in said.items():
            yield kind, name, np.array(parts)


def _read_off(release: MeasuredItems, true: Floats, level: float) -> Iterator[tuple[str, float]]:
    """How much of one release is wrong."""
    for name, ends in (
        ("interval", release.interval(level)),
        ("all intervals", release._ends_of_all(level)),
    ):
        missed = (true < ends[:, 0]) | (true > ends[:, 1])
        yield name, float(missed.mean() if name == "interval" else missed.any())
    if true.size > 1:
        pairs = np.array(list(combinations(range(true.size), 2)))
        ends, apart = release._ends_of_pairs(*pairs.T, level), true[pairs[:, 0]] - true[pairs[:, 1]]
        yield "all differences", float(((apart < ends[:, 0]) | (apart > ends[:, 1])).any())
        yield from _by_rank(release, true, level)


# Measurements without a selection, and plans.


def _measurement(make: Callable[[], Any], runs: int, level: float) -> Said:
    """All values of one release; those that are drawn together say one thing each."""
    measurement, true = make(), np.full(K, 300.0)
    made = [measurement.release(true.astype(np.int64)) for _ in range(runs // 10)]
    ends = np.array([each.interval(level) for each in made])
    yield "any", "interval", ((true < ends[..., 0]) | (true > ends[..., 1])).mean(axis=1)


def _count(runs: int, level: float) -> Said:
    answers = _private(np.array([300]), 1)
    wanted = read_question("count", epsilon=EPSILON)
    made = (answer(wanted, answers, None, False) for _ in range(runs // 10))
    ends = np.array([each.interval(level) for each in made])
    yield "any", "interval", ((ends[:, 0] > 300) | (ends[:, 1] < 300)).astype(np.float64)


def _plan(
    method: str, monotonic: bool, select: str, adaptive: bool, runs: int, level: float
) -> Said:
    """Intervals as wide as planned, around what a release would show of clear winners."""
    facts: dict[str, Any] = {"monotonic": monotonic, "method": method}
    expected = dpgap.plan(k=K, epsilon=EPSILON, select=select, adaptive=adaptive, **facts)
    facts["method"] = "paper" if method == "baseline" else method
    if select == "top-k":
        pipeline: Any = dpgap.MeasuredTopK(K, EPSILON, **facts)
        answers = _counts("clear")
    else:
        pipeline = dpgap.MeasuredAbove(0, K, EPSILON, adaptive=adaptive, **facts)
        answers = np.full(K, round(30 * float(pipeline.selection.every_branch[0].law.scale)))
    made = dpgap.simulate(pipeline, answers, runs=runs, seed=7)
    shown = made.estimates if method == "paper" else made.measurements
    wrong = np.abs(shown - made.truth) > _planned(expected, level)
    yield "clear", "plan", wrong.reshape(runs, -1).mean(axis=1)


def _planned(expected: dpgap.Plan, level: float) -> float:
    """Half the width that is planned for 95 %; for another level, nine tenths of it."""
    return expected.rows[0].half_width * (1 if level == NOMINAL else 0.9) + _TINY


def _plan_with_reach(reach: int, runs: int, level: float) -> Said:
    expected = dpgap.plan(k=K, epsilon=EPSILON, method="histogram", max_items=reach)
    counts, few = _counts("clear"), runs // 10
    made = [_READ_OFF["top k"](_private(counts, reach)) for _ in range(few)]
    off = np.array([each.estimates - counts[each.indices] for each in made])
    yield "clear", "plan", (np.abs(off) > _planned(expected, level)).mean(axis=1)


def _ways() -> Iterator[Way]:
    both = (True, False)
    many = (1, 2, 3, 16)
    for noise in ("laplace", "exponential", "staircase"):
        for monotonic in both:
            for branches in many:
                say = partial(_sparse_vector, noise, branches, monotonic)
                yield Way("SparseVector", noise, monotonic, f"{branches} branches", say)
    for method in ("best", "paper"):
        for monotonic in both:
            for branches in many:
                say = partial(_above, method, branches, monotonic)
                yield Way("above, measured", method, monotonic, f"{branches} branches", say)
    proving = {"NoisyTopK": _ranked, "JointTopK": _joint, "HybridTopK": _hybrid}
    for name, prove in proving.items():
        for monotonic in both:
            yield Way(name, "exponential", monotonic, "", partial(prove, monotonic))
    for method in ("best", "joint", "ranked", "paper"):
        for monotonic in both:
            yield Way("top k, measured", method, monotonic, "", partial(_top_k, method, monotonic))
    for asked in _READ_OFF:
        for reach in (1, 4):
            say = partial(_histogram, asked, reach)
            yield Way(asked, "histogram", None, f"reach {reach}", say)
    measuring: dict[str, Callable[[], Any]] = {
        "Laplace": lambda: dpgap.Laplace(EPSILON),
        "CountHull": lambda: dpgap.CountHull(EPSILON, monotonic=True),
        "Cube": lambda: dpgap.Cube(EPSILON),
        "NoisyHistogram, reach 1": lambda: dpgap.NoisyHistogram(EPSILON),
        "NoisyHistogram, reach 4": lambda: dpgap.NoisyHistogram(EPSILON, reach=4),
    }
    for name, make in measuring.items():
        yield Way("values", name, None, "", partial(_measurement, make))
    yield Way("count", "histogram", None, "reach 1", _count)
    for reach in (1, 4):
        say = partial(_plan_with_reach, reach)
        yield Way("plan, top k", "histogram", None, f"reach {reach}", say)
    for method in ("best", "joint", "ranked", "paper", "baseline"):
        for monotonic in both:
            say = partial(_plan, method, monotonic, "top-k", False)
            yield Way("plan, top k", method, monotonic, "", say)
    for method in ("best", "paper"):
        for monotonic in both:
            for adaptive in both:
                say = partial(_plan, method, monotonic, "above", adaptive)
                setting = "adaptive" if adaptive else "not adaptive"
                yield Way("plan, above", method, monotonic, setting, say)


WAYS = {str(way): way for way in _ways()}

"""p-values from leads: their size among false winners, and that nothing but raw leads makes them.

A winner of a Top-K is *false* if k others are at least as large; one found above, if it is not.
Shares of small p-values among them are held to a binomial law at level 1e-6.
"""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import dpgap
from dpgap.estimates.certificates import Evidence, belonging
from dpgap.exact.laws import ExponentialNoise, LaplaceNoise
from dpgap.mechanisms.sparse_vector import evidence_of
from law_tests import LEVEL
from seams import quick_in

Floats = NDArray[np.float64]
SCALE = 20  # in steps


def _counts(kind: str, k: int) -> NDArray[np.int64]:
    """Counts among which winners are often false."""
    beyond = 20
    if kind == "flat":
        return np.full(k + beyond, 300)
    if kind == "close":
        return 300 - 3 * np.arange(k + beyond)
    return np.concatenate([np.full(k - 1, 320), np.full(4, 300), np.full(beyond, 290)])  # tied


def _top_k(kind: str, k: int, runs: int) -> tuple[Floats, NDArray[np.bool_]]:
    """The leads of the winners of every run, and which of these are false."""
    counts = _counts(kind, k)
    mechanism = dpgap.NoisyTopK(k, Fraction(k, SCALE), monotonic=True, noise="exponential")
    won = dpgap.simulate(mechanism, counts, runs=runs, seed=k)
    leads = np.cumsum(won.gaps[:, ::-1], axis=1)[:, ::-1]
    return leads, counts[won.indices] <= np.sort(counts)[-k - 1]


def _p_values(leads: Floats, scale: float = SCALE) -> Floats:
    law = ExponentialNoise(Fraction(scale))
    made = Evidence.of(leads.ravel().tolist(), [law] * leads.size)
    return made.p_values(leads.size).reshape(leads.shape)


def _is_small(p_values: Floats, limit: float) -> bool:
    """Whether shares of p-values up to the limit are no more than that."""
    hits = int((p_values <= limit).sum())
    found = stats.binomtest(hits, p_values.size, limit, alternative="greater").pvalue
    return bool(found > LEVEL)


def _require_size(p_values: Floats, least: int) -> None:
    assert p_values.size >= least
    for limit in (0.05, 0.01):
        assert _is_small(p_values, limit)


def _require_top_k(kind: str, k: int, runs: int) -> None:
    leads, false = _top_k(kind, k, runs)
    p_values = _p_values(leads)
    _require_size(p_values[false], runs // 10)
    is_false = false.any(axis=1)
    _require_size(p_values.max(axis=1)[is_false], runs // 10)
    assert not _is_small(_p_values(leads, 0.9 * SCALE)[false], 0.05)
    wrong = (belonging(p_values, 0.95) & false).any(axis=1)
    assert stats.binomtest(int(wrong.sum()), runs, 0.05, alternative="greater").pvalue > LEVEL


@pytest.mark.parametrize(
    ("kind", "k"),
    quick_in(
        itertools.product(["flat", "close", "tied"], [1, 3, 10, 25]),
        {("flat", 1), ("tied", 3), ("close", 10), ("tied", 25)},
    ),
)
def test_false_winners_of_a_top_k_seldom_have_small_p_values(kind: str, k: int):
    _require_top_k(kind, k, 40_000)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["flat", "close", "tied"])
@pytest.mark.parametrize("k", [1, 3, 10, 25])
def test_false_winners_of_a_top_k_seldom_have_small_p_values_in_a_million_runs(kind: str, k: int):
    _require_top_k(kind, k, 1_000_000)


def _require_joint(kind: str, k: int, runs: int) -> None:
    counts = _counts(kind, k)
    joint = dpgap.JointTopK(k, Fraction(1, SCALE), monotonic=True)
    won = dpgap.simulate(joint, counts, runs=runs, seed=k)
    false = counts[won.indices].min(axis=1) <= np.sort(counts)[-k - 1]
    _require_size(_p_values(won.leads, float(joint.law.scale))[false], runs // 10)
    assert not _is_small(_p_values(won.leads, 0.9 * float(joint.law.scale))[false], 0.05)


@pytest.mark.parametrize(
    ("kind", "k"),
    quick_in(
        itertools.product(["flat", "close", "tied"], [1, 3, 10, 25]),
        {("flat", 1), ("tied", 3), ("close", 10), ("tied", 25)},
    ),
)
def test_false_sets_seldom_have_small_p_values(kind: str, k: int):
    _require_joint(kind, k, 40_000)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["flat", "close", "tied"])
@pytest.mark.parametrize("k", [1, 3, 10, 25])
def test_false_sets_seldom_have_small_p_values_in_a_million_runs(kind: str, k: int):
    _require_joint(kind, k, 1_000_000)


def test_the_p_value_of_a_joint_release_is_that_of_every_member():
    joint = dpgap.JointTopK(2, "0.5", monotonic=True, grid="0.25")
    release = joint.release(np.array([90.0, 88.0, 20.0, 10.0]))
    expected = math.exp(-release.lead / float(joint.law.scale))
    assert release.p_values.tolist() == [release.set_p_value] * 2 == [pytest.approx(expected)] * 2
    assert release._belong().tolist() == [expected <= 0.05] * 2


def test_without_the_correction_several_claims_at_once_would_be_wrong_too_often():
    leads, false = _top_k("flat", 10, 20_000)
    wrong = ((_p_values(leads) <= 0.05) & false).any(axis=1)
    assert wrong.mean() > 0.3


@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_a_single_winner_is_proved_as_often_as_promised(epsilon: str):
    counts = np.zeros(100, dtype=np.int64)
    counts[0] = round(10 / Fraction(epsilon))
    mechanism = dpgap.NoisyMax(epsilon, monotonic=True, noise="exponential")
    won = dpgap.simulate(mechanism, counts, runs=100_000, seed=1)
    p_values = _p_values(won.gaps, float(mechanism.law.scale))[:, 0]
    assert ((p_values <= 0.05) & (won.indices[:, 0] == 0)).mean() >= 0.95


ABOVE: dict[str, dict[str, Any]] = {
    "plain": {},
    "adaptive": {"branches": 2},
    "draining": {"branches": 3, "drain": True},
}


def _mechanism(kind: str, **others: Any) -> dpgap.SparseVector:
    made = dpgap.SparseVector if kind == "plain" else dpgap.AdaptiveSparseVector
    facts = {"monotonic": True, "noise": "exponential"} | ABOVE[kind] | others
    return made(100, 4, "0.4", **facts)


def _above(mechanism: dpgap.SparseVector, runs: int) -> tuple[Any, Floats]:
    """Runs on answers that are all below, in truth, and their raw gaps."""
    stream = np.tile([99, 90, 60, 99, 80], 60)
    found = dpgap.simulate(mechanism, stream, runs=runs, seed=3)
    return found, found.gaps - mechanism.gap_offsets[found.branch_of - 1]


def _require_above(kind: str, runs: int, **others: Any) -> None:
    mechanism = _mechanism(kind, **others)
    found, raw = _above(mechanism, runs)
    made = evidence_of(mechanism.every_branch, found.branch_of, raw)
    _require_size(made.p_values(raw.size), runs)
    if "threshold_share" in others:  # then the last margin is below 0, and p is cautious
        return
    nearer = Evidence(made.leads, tuple(scale * Fraction(9, 10) for scale in made.scales))
    assert not _is_small(nearer.p_values(raw.size), 0.05)


def _claims(found: Any, p_values: Floats, level: float) -> tuple[int, int]:
    """How many runs say of some answer that it is above: by the step-down rule, and without."""
    corrected = alone = 0
    for count in np.unique(found.found[found.found > 0]):
        rows = p_values[found.found[found.run] == count].reshape(-1, count)
        corrected += int(belonging(rows, level).any(axis=1).sum())
        alone += int((rows <= 1 - level).any(axis=1).sum())
    return corrected, alone


@pytest.mark.parametrize("kind", ABOVE)
def test_these_are_above_is_seldom_wrong_of_any_answer_and_would_be_without_correction(kind: str):
    mechanism, runs = _mechanism(kind), 10_000
    found, raw = _above(mechanism, runs)
    p_values = evidence_of(mechanism.every_branch, found.branch_of, raw).p_values(raw.size)
    corrected, alone = _claims(found, p_values, 0.95)
    assert stats.binomtest(corrected, runs, 0.05, alternative="greater").pvalue > LEVEL
    assert stats.binomtest(alone, runs, 0.05, alternative="greater").pvalue < LEVEL


@pytest.mark.parametrize("kind", ABOVE)
def test_answers_below_the_threshold_seldom_have_small_p_values(kind: str):
    _require_above(kind, 10_000)


@pytest.mark.parametrize("kind", ABOVE)
def test_the_same_where_the_threshold_has_more_noise_than_the_answers(kind: str):
    _require_above(kind, 10_000, threshold_share="0.05")


@pytest.mark.long
@pytest.mark.parametrize("kind", ABOVE)
def test_answers_below_seldom_have_small_p_values_in_a_million_runs(kind: str):
    _require_above(kind, 1_000_000)


def test_the_gaps_that_are_shown_would_not_do():
    mechanism = _mechanism("plain", threshold_share="0.1")
    found, _ = _above(mechanism, 10_000)
    shown = evidence_of(mechanism.every_branch, found.branch_of, found.gaps)
    assert not _is_small(shown.p_values(found.gaps.size), 0.05)


def _releases(noise: str = "exponential") -> Iterator[tuple[Any, Any]]:
    answers = np.array([300, 310, 290, 305, 100, 280])
    for grid in (None, "0.25", 8):
        facts = {"monotonic": True, "noise": noise, "grid": grid}
        private = answers if grid is None else answers / 1
        for k in (1, 3, 6):
            top = dpgap.NoisyTopK(k, "0.2", **facts)
            yield top, top.release(private)
        for branches in (1, 3):
            above = dpgap.AdaptiveSparseVector(280, 3, 1, branches=branches, drain=True, **facts)
            yield above, above.release(private)


def test_a_release_keeps_the_raw_leads_and_their_scales():
    for mechanism, release in _releases():
        leads, scales = release.detail.evidence
        if isinstance(mechanism, dpgap.NoisyTopK):
            expected = np.cumsum(release.gaps[::-1])[::-1] if mechanism.k < 6 else []
            assert scales == (mechanism.law.scale,) * len(leads)
        else:
            ways = [mechanism.every_branch[branch - 1] for branch in release.branch_of]
            raw = release.gaps - mechanism.gap_offsets[release.branch_of - 1]
            expected = raw - [max(float(way.margin), 0) for way in ways]
            assert scales == tuple(way.law.scale for way in ways)
        assert np.allclose(leads, expected, rtol=0, atol=1e-9)
        assert len(release.p_values) == release.indices.size


def test_laplace_and_staircase_noise_have_no_p_values_but_where_everything_belongs():
    for noise in ("laplace", "staircase"):
        for mechanism, release in _releases(noise):
            if getattr(mechanism, "k", 0) == 6:
                assert (release.p_values == 0).all()
                continue
            assert release.p_values is release.detail.evidence is None
            assert not release._belong().any()
            (sentence,) = release.findings
            assert sentence.startswith("There are no p-values: Laplace and staircase noise can be")
    assert Evidence.of([1.0], [LaplaceNoise(Fraction(1))]) is None


def test_where_nobody_lost_everything_belongs():
    release = dpgap.NoisyTopK(3, 1, noise="exponential").release([5, 5, 5])
    assert release.p_values.tolist() == [0, 0, 0]
    assert release.set_p_value == 0
    assert release._belong().all()
    assert "all of it belongs" in release.findings[0]


def test_the_smallest_lead_gives_the_p_value_of_the_set_and_above_has_none():
    top = dpgap.NoisyTopK(3, 1, noise="exponential").release([90, 70, 50, 10, 0])
    assert top.set_p_value == top.p_values.max() == pytest.approx(math.exp(-top.gaps[-1] / 6))
    above = dpgap.SparseVector(1, 2, 9, noise="exponential").release([90, 70])
    assert above.set_p_value is None
    largest = dpgap.NoisyMax(1, noise="exponential").release([90, 10])
    assert largest.p_values == [largest.set_p_value]


@pytest.mark.parametrize("method", ["joint", "ranked"])
@pytest.mark.parametrize("grid", [None, "0.5"])
def test_a_measured_release_has_the_p_values_of_its_selection(method: str, grid: str | None):
    pipeline = dpgap.MeasuredTopK(3, 1, monotonic=True, method=method, grid=grid)
    release = pipeline.release(np.array([60, 55, 50, 40, 10]))
    leads = np.full(3, release.lead)
    if method == "ranked":
        leads = np.cumsum(release.gaps[::-1])[::-1]
    expected = np.exp(-leads / float(pipeline.selection.law.scale))
    assert np.allclose(release.p_values, expected, rtol=1e-12)
    assert release.set_p_value == release.p_values.max()


def test_what_a_release_says_belongs_is_seldom_wrong_whatever_its_route():
    runs, wrong, routes = 600, 0, set()
    counts = 300 - 2 * np.arange(30)
    for epsilon in ("0.3", "3"):
        for _ in range(runs // 2):
            release = dpgap.measured_top_k(counts, 5, epsilon, monotonic=True)
            wrong += bool((release._belong() & (release.indices >= 5)).any())
            routes.add(release.detail.route)
    assert routes == {"joint", "ranked"}
    assert stats.binomtest(wrong, runs, 0.05, alternative="greater").pvalue > LEVEL


def test_a_p_value_is_never_above_one_nor_an_error():
    with np.errstate(all="raise"):
        extreme = Evidence((-1e100, 0.0, 1e100), (Fraction(1, 2**190),) * 3)
        assert extreme.p_values(3).tolist() == [1, 1, 0]


def test_one_lead_of_a_set_is_that_of_every_member():
    made = Evidence((30.0,), (Fraction(10),))
    assert made.p_values(4).tolist() == [pytest.approx(math.exp(-3))] * 4


@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_step_down_rule_goes_on_to_the_first_that_fails(size: int):
    limits = 1 - 0.95 ** (1 / np.arange(size, 0, -1))
    assert belonging(limits[::-1] - 1e-12, 0.95).all()
    assert not belonging(limits + np.where(np.arange(size) == 0, 1e-9, 0), 0.95).any()

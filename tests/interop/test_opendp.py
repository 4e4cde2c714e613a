"""Mechanisms as OpenDP measurements, against the real library."""

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import opendp.prelude as dp
import pytest

import dpgap
from dpgap.interop.opendp import measurement, rounded_up

MONOTONIC = "LInfDistance(monotonic, T=i64)"
EITHER = "LInfDistance(T=i64)"
MADE: list[tuple[Any, str]] = [
    (dpgap.NoisyTopK(2, 1, monotonic=True), MONOTONIC),
    (dpgap.NoisyMax(1), EITHER),
    (dpgap.SparseVector(100, 2, 1), EITHER),
    (dpgap.AdaptiveSparseVector(100, 2, 1, monotonic=True), MONOTONIC),
    (dpgap.JointTopK(2, 1), EITHER),
    (dpgap.HybridTopK(30, 2, 1), EITHER),
    (dpgap.NoisyHistogram(1), "L1Distance(i64)"),
    (dpgap.Laplace(1), EITHER),
    (dpgap.CountHull(1, monotonic=True), MONOTONIC),
    (dpgap.Cube(1), EITHER),
    (dpgap.MeasuredTopK(2, 1, monotonic=True), MONOTONIC),
    (dpgap.MeasuredAbove(100, 2, 1), EITHER),
]
FARTHEST = 2**63 - 1


@pytest.fixture(autouse=True)
def _features() -> Iterator[None]:
    dp.enable_features("contrib", "honest-but-curious")
    yield
    dp.disable_features("contrib", "honest-but-curious")


def _is_named(thing: Any) -> str:
    return type(thing).__name__ if not isinstance(thing, str) else "metric"


@pytest.mark.parametrize(("mechanism", "metric"), MADE, ids=_is_named)
def test_every_mechanism_is_a_measurement(mechanism: Any, metric: str) -> None:
    made = measurement(mechanism)
    assert str(made.input_metric) == metric
    assert str(made.output_measure) == "MaxDivergence"
    assert [made.map(d_in) for d_in in (0, 1, 3)] == [0.0, 1.0, 3.0]
    answers = [310, 85, 420, 97]
    assert type(made(answers)) is type(mechanism.release(answers))


def test_no_mechanism_is_left_out() -> None:
    public = {name: getattr(dpgap, name) for name in dpgap.__all__}
    releasing = {name for name, thing in public.items() if hasattr(thing, "release")}
    assert {type(mechanism).__name__ for mechanism, _ in MADE} == releasing


@pytest.mark.parametrize(("mechanism", "_"), MADE, ids=_is_named)
def test_whatever_the_domain_holds_is_answered(mechanism: Any, _: str) -> None:
    """An error that depends on answers would tell of them."""
    assert measurement(mechanism)([FARTHEST, -FARTHEST - 1, 0, 2**60]) is not None


def test_floats_may_be_infinite() -> None:
    made = measurement(dpgap.NoisyTopK(2, 1000, grid="1/4"))
    assert made([math.inf, -math.inf, 3.5]).indices.tolist() == [0, 2]
    assert str(made.input_metric) == "LInfDistance(T=f64)"


@pytest.mark.parametrize("epsilon", ["1/3", "0.1", "2/7", "1e-9", "12345.678"])
@pytest.mark.parametrize("sensitivity", [1, 3, 7])
def test_the_map_is_the_least_float_that_is_not_too_small(epsilon: str, sensitivity: int) -> None:
    made = measurement(dpgap.Cube(epsilon, sensitivity=sensitivity))
    mapped = [made.map(d_in) for d_in in range(20)]
    for d_in, loss in enumerate(mapped):
        exact = Fraction(epsilon) * d_in / sensitivity
        assert Fraction(loss) >= exact
        assert loss == 0 == exact or Fraction(math.nextafter(loss, 0)) < exact
    assert mapped == sorted(mapped)


def test_a_loss_beyond_floats_is_infinite_and_never_less() -> None:
    assert rounded_up(Fraction(10) ** 400) == math.inf
    assert rounded_up(Fraction(1, 10**400)) == math.nextafter(0, 1)
    assert measurement(dpgap.Cube(1)).map(FARTHEST) == float(2**63)


@pytest.mark.parametrize("d_in", [1, 2, 5, 12])
def test_the_map_is_that_of_the_same_noise_made_for_another_sensitivity(d_in: int) -> None:
    """So the proofs of mechanisms are the proofs of the map."""
    epsilon = Fraction(3, 5)
    for kind in (
        lambda **facts: dpgap.NoisyTopK(3, **facts).law,
        lambda **facts: dpgap.NoisyTopK(3, monotonic=True, noise="exponential", **facts).law,
        lambda **facts: dpgap.JointTopK(3, **facts).law,
        lambda **facts: dpgap.HybridTopK(9, 3, **facts).law,
        lambda **facts: dpgap.SparseVector(9, 3, **facts).threshold_law,
        lambda **facts: [way.law for way in dpgap.AdaptiveSparseVector(9, 3, **facts).every_branch],
        lambda **facts: dpgap.NoisyHistogram(reach=2, **facts).law,
        lambda **facts: dpgap.Laplace(**facts).law(4),
        lambda **facts: dpgap.CountHull(monotonic=True, **facts).law(4),
        lambda **facts: dpgap.Cube(**facts).law(4),
    ):
        stated = kind(epsilon=epsilon, sensitivity=5)
        assert stated == kind(epsilon=epsilon * d_in / 5, sensitivity=d_in)


def test_staircase_noise_loses_epsilon_at_every_step() -> None:
    """Its steps are as long as the sensitivity, so half of it costs as much."""
    made = measurement(dpgap.NoisyTopK(2, 1, noise="staircase", sensitivity=4))
    assert [made.map(d_in) for d_in in (0, 1, 4, 5, 8)] == [0.0, 1.0, 1.0, 2.0, 2.0]
    stream = measurement(dpgap.SparseVector(9, 2, 1, noise="staircase"))
    assert stream.map(3) == 3.0


def test_distances_are_rounded_up_to_the_grid() -> None:
    made = measurement(dpgap.Laplace(1, grid="1/4", sensitivity="1/2"))
    assert [made.map(d_in) for d_in in (0.0, 1e-300, 0.25, 0.3, 0.5)] == [0.0, 0.5, 0.5, 1.0, 1.0]


def test_a_reach_is_a_part_of_the_l1_distance() -> None:
    made = measurement(dpgap.NoisyHistogram(1, reach=3, sensitivity=2))
    assert [made.map(d_in) for d_in in (1, 6, 9)] == [rounded_up(Fraction(1, 6)), 1.0, 1.5]


def test_a_negative_distance_is_refused() -> None:
    with pytest.raises(dp.OpenDPException, match="d_in must not be negative"):
        measurement(dpgap.Cube(1)).map(-1)


def test_a_mechanism_that_is_not_monotonic_suits_other_metrics() -> None:
    for metric in (
        dp.linf_distance(T="i64", monotonic=True),
        dp.linf_distance(T="i64"),
        dp.l1_distance(T="i64"),
    ):
        made = measurement(dpgap.NoisyTopK(2, 1), metric)
        assert (made.input_metric, made.map(2)) == (metric, 2.0)


@pytest.mark.parametrize(
    ("mechanism", "metric"),
    [
        (dpgap.NoisyTopK(2, 1, monotonic=True), dp.linf_distance(T="i64")),
        (dpgap.NoisyTopK(2, 1, monotonic=True), dp.l1_distance(T="i64")),
        (dpgap.CountHull(1, monotonic=True), dp.linf_distance(T="i64")),
        (dpgap.NoisyHistogram(1), dp.linf_distance(T="i64")),
        (dpgap.Laplace(1), dp.l2_distance(T="i64")),
        (dpgap.Laplace(1), dp.linf_distance(T="f64")),
        (dpgap.Laplace(1, grid=1), dp.linf_distance(T="i64")),
        (dpgap.Laplace(1), dp.symmetric_distance()),
    ],
)
def test_a_metric_for_which_nothing_is_proved_is_refused(mechanism: Any, metric: Any) -> None:
    with pytest.raises(ValueError, match="input_metric must be one of"):
        measurement(mechanism, metric)


def test_a_top_k_with_gaps_is_refused_by_a_filter_when_over() -> None:
    metric = dp.linf_distance(T="i64", monotonic=True)
    top = measurement(dpgap.NoisyTopK(2, "3/4", monotonic=True))
    exact = measurement(dpgap.Cube(1000), metric)
    odometer = dp.c.make_fully_adaptive_composition(top.input_domain, metric, dp.max_divergence())
    ask = dp.c.make_privacy_filter(odometer, d_in=1, d_out=1.5)([310, 85, 420, 97])
    first = ask(top)
    assert first.gaps.size == 2
    ask(measurement(dpgap.MeasuredTopK(2, "3/4", monotonic=True)))
    with pytest.raises(dp.OpenDPException, match="exceed privacy budget"):
        ask(top)
    with pytest.raises(dp.OpenDPException, match="filter is exhausted"):
        ask(exact)


def test_an_odometer_adds_up_what_was_asked() -> None:
    top = measurement(dpgap.NoisyTopK(2, "0.7"))
    odometer = dp.c.make_fully_adaptive_composition(*top.input_space, dp.max_divergence())
    ask = odometer([310, 85, 420, 97])
    assert ask(top).indices.size == 2
    ask(measurement(dpgap.SparseVector(100, 1, "0.1")))
    assert ask(dp.m.make_noisy_max(*top.input_space, dp.max_divergence(), scale=2.0)) in range(4)
    assert Fraction(9, 5) <= Fraction(ask.privacy_loss(1)) < 1.8 + 1e-9
    assert Fraction(18, 5) <= Fraction(ask.privacy_loss(2)) < 3.6 + 1e-9


def test_an_adaptive_composition_lets_each_question_spend_its_own_part() -> None:
    top = measurement(dpgap.NoisyTopK(2, 1))
    compose = dp.c.make_adaptive_composition(
        *top.input_space, dp.max_divergence(), d_in=1, d_mids=[1.0, 0.5]
    )
    assert compose.map(1) == 1.5
    ask = compose([310, 85, 420, 97])
    assert ask(top).gaps.size == 2
    with pytest.raises(dp.OpenDPException, match=r"insufficient budget for query: 1\.0 > 0\.5"):
        ask(top)


def test_counts_of_opendp_flow_into_a_histogram() -> None:
    count = dp.t.make_count_by_categories(
        *(dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()),
        categories=["fig", "pea"],
        MO="L1Distance<i64>",
        TOA="i64",
    )
    chain = count >> measurement(dpgap.NoisyHistogram(1000))
    assert chain(["fig", "pea", "fig"]).values.tolist()[:2] == [2.0, 1.0]
    assert chain.map(1) == 1000.0


class _Louder(dpgap.NoisyTopK):
    """Who knows what it does."""


@pytest.mark.parametrize(
    ("mechanism", "error", "words"),
    [
        (_Louder(2, 1), TypeError, "mechanism must be one of NoisyTopK, .* not _Louder"),
        (dpgap.plan(k=2, epsilon=1), TypeError, "mechanism must be one of"),
        (dpgap.CountHull(1), ValueError, "monotonic must be True"),
        (dpgap.NoisyHistogram(1, grid="1/2"), ValueError, "grid must be left out"),
    ],
)
def test_what_promises_nothing_is_refused(mechanism: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        measurement(mechanism)


def test_a_release_keeps_nothing_of_the_answers() -> None:
    """OpenDP attaches its arguments to whatever comes out, if that takes attributes."""
    made = measurement(dpgap.NoisyTopK(1, 1))
    release = made([987654321, 1])
    assert not hasattr(release, "__opendp_dict__")
    with pytest.raises(AttributeError, match="cannot change 'answers' of a release"):
        release.answers = [987654321]
    with pytest.raises(AttributeError, match="cannot change 'gaps' of a release"):
        release.gaps = None
    with pytest.raises(AttributeError):
        del release.gaps


def test_an_error_shows_no_answer() -> None:
    made = measurement(dpgap.NoisyTopK(3, 1))
    with pytest.raises(dp.OpenDPException, match="k must be at most the number of answers") as told:
        made([987654321, -987654321])
    assert "987654321" not in str(told.value)
    wanting = measurement(dpgap.NoisyMax(1, grid=1))
    with pytest.raises(dp.OpenDPException, match="must be finite") as told:
        wanting([987654321.5, math.nan])
    assert "987654321" not in str(told.value)
    assert (told.value.__cause__, told.value.__context__) == (None, None)


def test_without_its_features_opendp_refuses() -> None:
    dp.disable_features("honest-but-curious")
    with pytest.raises(dp.OpenDPException, match="honest-but-curious"):
        measurement(dpgap.NoisyMax(1))
    dp.enable_features("honest-but-curious")


def test_without_opendp_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ModuleNotFoundError, match=r"^this needs OpenDP: .*\[opendp\]"):
        measurement(dpgap.NoisyMax(1))

"""The look and the rule: what is looked at, how exactly, and that released numbers alone decide."""

import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpgap
from dpgap.budget.cost import Cost
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.shells import CubeNoise, HullNoise
from dpgap.pipelines.look_first import places_around, ranks_for, terms_for
from dpgap.releases.drawn import Values
from seams import SpyAccount, WatchedBits, as_counts, bits_are

FALLING = (90_000 / np.arange(1, 2_001)).astype(np.int64)
CLOSE = np.full(2_000, 300)


def test_ranks_are_parts_of_k_and_never_beyond_the_last_answer() -> None:
    assert ranks_for(10, 10**6) == (1, 3, 5, 10, 50, 250)
    assert ranks_for(10, 30) == (1, 3, 5, 10, 30)
    assert ranks_for(3, 1_000) == (3, 15, 75)
    assert ranks_for(2, 3) == (2, 3)


@pytest.mark.parametrize("k", [2, 3, 9, 10, 19, 20, 25, 1_000])
@pytest.mark.parametrize("split", [None, "0.37"])
@pytest.mark.parametrize("monotonic", [True, False])
def test_every_route_spends_epsilon_to_the_last_digit(
    k: int, split: str | None, monotonic: bool
) -> None:
    epsilon = Fraction(7, 13)
    pipeline = dpgap.MeasuredTopK(k, epsilon, monotonic=monotonic, split=split)
    looking = pipeline.looking
    assert looking is not None
    assert pipeline.route.epsilon == epsilon
    for route in looking.routes:
        assert looking.measurement.epsilon + route.epsilon == epsilon
        assert route.measurement.epsilon > 0
        if split is not None:
            assert route.selection.epsilon == Fraction(split) * epsilon
    assert looking.measurement.epsilon == terms_for(k).look * epsilon


@pytest.mark.parametrize("counts", [FALLING, CLOSE], ids=["falling", "close"])
@pytest.mark.parametrize("k", [2, 10, 25])
def test_a_release_accounts_for_all_steps_and_shows_its_look(counts: np.ndarray, k: int) -> None:
    account = SpyAccount()
    with bits_are(InsecureSeededBits(k)):  # a look may err, if seldom
        release = dpgap.measured_top_k(counts, k, "0.7", monotonic=True, account=account)
    assert [step for step, _ in release.cost.parts] == ["look", "select", "measure"]
    together = Cost.sum(cost for _, cost in release.cost.parts)
    assert together == release.cost
    assert together.epsilon == Fraction(7, 10) == release.spent
    assert release.cost.fits(release.detail.promise.cost)
    assert account.moves == [("reserve", Fraction(7, 10)), ("settle", Fraction(7, 10))]
    assert tuple(rank for rank, _ in release.detail.looked) == ranks_for(k, counts.size)
    assert release.detail.route == ("joint" if counts is FALLING else "ranked")
    assert (release.lead is None) == (release.detail.route == "ranked")
    assert f"ε went: {float(100 * terms_for(k).look):.3g} % to look ahead, " in str(release)
    verb = "choose" if release.detail.route == "joint" else "rank"
    assert re.search(f"% to {verb} the .* % to measure them", str(release))


def test_everything_is_paid_before_the_look_is_drawn() -> None:
    account = SpyAccount()
    seen: list[int] = []
    with bits_are(WatchedBits(lambda: seen.append(len(account.diary)))):
        dpgap.measured_top_k(FALLING, 10, 1, monotonic=True, account=account)
    assert set(seen) == {1}  # one reservation, whenever anything is drawn
    poor = SpyAccount(total=Fraction(99, 100))
    seen.clear()
    with bits_are(WatchedBits(lambda: seen.append(0))), pytest.raises(dpgap.BudgetExhausted):
        dpgap.measured_top_k(FALLING, 10, 1, monotonic=True, account=poor)
    assert not seen


def test_a_decision_is_a_function_of_the_released_look() -> None:
    pipeline = dpgap.MeasuredTopK(10, "0.1", monotonic=True)
    looking = pipeline.looking
    assert looking is not None
    taken = set()
    for seed in range(60):
        with bits_are(InsecureSeededBits(seed)):
            release = pipeline.release(FALLING // 30)
        looked = np.array([[value for _, value in release.detail.looked]])
        route = looking.routes[int(looking.rule(FALLING.size).decide(looked)[0])]
        assert route.name == release.detail.route
        assert dict(release.cost.parts)["select"] == route.selection.cost
        taken.add(route.name)
    assert taken == {"joint", "ranked"}


def test_many_looks_are_decided_as_each_alone() -> None:
    looking = dpgap.MeasuredTopK(10, "0.4", monotonic=True).looking
    assert looking is not None
    rng = np.random.default_rng(1)
    ranks = np.array(ranks_for(10, 2_000))
    looks = FALLING[ranks - 1] / 30 + rng.normal(0, 200, (300, ranks.size))
    together = looking.rule(2_000).decide(looks)
    alone = [int(looking.rule(2_000).decide(look[None])[0]) for look in looks]
    assert together.tolist() == alone
    assert len(set(alone)) > 2


def test_units_of_the_answers_do_not_matter() -> None:
    ranks = np.array(ranks_for(10, 2_000))
    looks = FALLING[ranks - 1][None] / 40.0
    one = dpgap.MeasuredTopK(10, 1, monotonic=True).looking
    other = dpgap.MeasuredTopK(10, "0.5", monotonic=True, sensitivity=4).looking
    general = dpgap.MeasuredTopK(10, 1).looking
    assert one is not None
    assert other is not None
    assert general is not None
    for size in (0.1, 1, 3, 10):
        assert one.rule(2_000).decide(size * looks) == other.rule(2_000).decide(8 * size * looks)
        assert general.rule(2_000).unit == 2 * one.rule(2_000).unit


def test_answers_below_zero_are_decided_on_like_others() -> None:
    two_levels = np.repeat([5_000, 4_700], [10, 1_000])
    looking = dpgap.MeasuredTopK(10, "0.14", monotonic=True).looking
    assert looking is not None
    ranks = np.array(ranks_for(10, 1_010)) - 1
    for counts, route in ((two_levels, "ranked"), (FALLING[:1_010], "joint")):
        for lower in (0, 10**6):
            looked = looking.measurement.lengths(Values((counts - lower)[ranks]))[None]
            assert looking.routes[int(looking.rule(1_010).decide(looked)[0])].name == route


def test_order_statistics_are_the_same_from_arrays_groups_and_engines() -> None:
    counts = np.concatenate([np.repeat([50, 40, 40, 7], [1, 3, 1, 5]), np.zeros(20, dtype=int)])
    shuffled = np.random.default_rng(1).permutation(counts)
    selection = dpgap.NoisyTopK(3, 1, noise="exponential")
    ranks = (1, 2, 5, 6, 10, 11, 30)
    expected = np.sort(counts)[::-1][np.array(ranks) - 1].tolist()
    rows = [(unit, item) for item, many in enumerate(shuffled.tolist()) for unit in range(many)]
    frame = pd.DataFrame(rows, columns=["who", "what"])
    table = dpgap.counts(frame, unit="who", item="what", domain=range(30))
    for answers in (shuffled, as_counts(shuffled), table):
        assert selection.prepare(answers, None).at_ranks(ranks).tolist() == expected


def test_absent_items_are_looked_at_as_zeros_however_many_they_are() -> None:
    answers = as_counts([500] * 4, 10**12)
    release = dpgap.measured_top_k(answers, 3, 1_000, monotonic=True)
    assert dict(release.detail.looked) == pytest.approx({3: 500, 15: 0, 75: 0}, abs=3)
    assert sorted(release.indices.tolist()) == sorted(set(release.indices.tolist()) & set(range(4)))


@pytest.mark.parametrize(("k", "answers"), [(1, [5, 9, 7]), (3, [5, 9, 7])], ids=["max", "all"])
def test_where_there_is_nothing_to_choose_between_nothing_is_looked_at(
    k: int, answers: list[int]
) -> None:
    release = dpgap.measured_top_k(answers, k, 10, monotonic=True)
    assert release.detail.looked == ()
    assert release.detail.route == "ranked"
    half = Cost.pure(Fraction(5))
    assert release.cost.parts == (("select", half), ("measure", half))


@pytest.mark.parametrize("law", [HullNoise(Fraction(3), 4), CubeNoise(Fraction(3), 3)], ids=repr)
def test_places_around_a_look_have_the_spread_of_its_noise(law: HullNoise | CubeNoise) -> None:
    places = places_around(law, 4_096)
    assert places.shape == (4_096, 3)
    assert np.abs(places.mean(axis=0)).max() < 0.1 * float(law.scale)
    assert places.var(axis=0) == pytest.approx(np.full(3, float(_exact_variance(law))), rel=0.05)


def _exact_variance(law: HullNoise | CubeNoise) -> Fraction:
    """Of one value's continuous noise: (m+2)(m+3)/6 scales squared, or (m+1)(m+2)/3."""
    values = 3
    if isinstance(law, HullNoise):
        return Fraction((values + 2) * (values + 3), 6) * law.scale**2
    return Fraction((values + 1) * (values + 2), 3) * law.scale**2


def test_the_few_places_of_the_rule_are_always_the_same_and_balanced() -> None:
    law = HullNoise(Fraction(20), 7)
    places = places_around(law, 16)
    assert (places == places_around(HullNoise(Fraction(20), 7), 16)).all()
    spread = float(_exact_variance(HullNoise(Fraction(20), 4))) ** 0.5
    assert np.abs(places.mean(axis=0)).max() < spread


@pytest.mark.parametrize("monotonic", [True, False])
def test_the_look_has_the_law_of_its_measurement(monotonic: bool) -> None:
    """The variance of 3,000 seeded looks; a scale that is 1.1 times as large would show."""
    pipeline = dpgap.MeasuredTopK(10, 2, monotonic=monotonic)
    looking = pipeline.looking
    assert looking is not None
    candidates = pipeline.selection.prepare(FALLING, None)
    with bits_are(InsecureSeededBits(1)):
        looks = [pipeline.choose_route(candidates)[1][0] for _ in range(3_000)]
    seen = np.array([looking.measurement.lengths(look) for look in looks])
    off = seen - FALLING[np.array(ranks_for(10, FALLING.size)) - 1]
    of_values = 8 * 9 / 6 if monotonic else 7 * 8 / 3  # the hull of six values, or their cube
    assert (off**2).mean() == pytest.approx(of_values / 0.1**2, rel=0.08)
    assert np.abs(off.mean(axis=0)).max() < 5 * (of_values / 0.1**2 / 3_000) ** 0.5

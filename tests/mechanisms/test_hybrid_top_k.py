"""Hybrid Top-K: the program, the kernels, what is released, what it costs, and what leads prove."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpgap
from dpgap.data.private_counts import CountsInMemory, Found, Groups
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.parameters import altered
from dpgap.exact.reals import RealNoise
from dpgap.mechanisms import top_k as top_k_kernel
from law_tests import LEVEL, homogeneous_p
from seams import SpyAccount, WatchedBits, as_counts, bits_are, quick_in

values_of_answers = st.integers(0, 4) | st.integers(-(2**60), 2**60)
epsilons = st.sampled_from(["1/100", "0.7", "3", "50"])


def select_above(mechanism, answers, runs, bits, **pace):
    return top_k_kernel.select(mechanism, answers, runs, bits, int(mechanism.threshold), **pace)


def select_above_grouped(mechanism, values, sizes, bits):
    return top_k_kernel.select_grouped(mechanism, values, sizes, bits, int(mechanism.threshold))


def _counts(cut):
    return np.count_nonzero(cut.indices >= 0, axis=1)


def _winners(cut, run=0):
    count = int(_counts(cut)[run])
    return tuple(cut.indices[run, :count].tolist()), tuple(cut.leads[run, :count].tolist())


def _program(mechanism, answers, seed):
    bits = InsecureSeededBits(seed)
    words = bits.words(1, len(answers))
    words = np.hstack([words, bits.words(1, 1)])
    return mechanism.run(answers, RealNoise(mechanism.law.reals(words, bits)))


@settings(max_examples=150, deadline=None)
@given(
    answers=st.lists(values_of_answers, max_size=30),
    line=values_of_answers,
    k=st.integers(1, 40),
    epsilon=epsilons,
    monotonic=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_the_kernel_selects_what_the_program_selects(answers, line, k, epsilon, monotonic, seed):
    mechanism = dpgap.HybridTopK(line, k, epsilon, monotonic=monotonic)
    steps = np.array(answers, dtype=np.int64)
    cut = select_above(mechanism, steps, 1, InsecureSeededBits(seed))
    assert _winners(cut) == _program(mechanism, answers, seed)


@pytest.mark.parametrize("line", quick_in([0, 3_000, 30_000], {3_000}))
def test_pruning_never_loses_a_contender(line):
    answers = np.random.default_rng(3).permutation(20_000 // np.arange(1, 3_001))
    mechanism = dpgap.HybridTopK(line, 7, "0.7", monotonic=True)
    for seed in range(2):
        cut = select_above(mechanism, answers, 1, InsecureSeededBits(seed))
        assert _winners(cut) == _program(mechanism, answers.tolist(), seed)


def test_the_fall_back_alone_gives_the_very_same_selections():
    mechanism, answers = dpgap.HybridTopK(4, 3, 1), np.array([5, 5, 4, 4, 3, 0])
    quick = select_above(mechanism, answers, 400, InsecureSeededBits(9))

    def nothing_known(offsets, ends):
        return tuple(np.full(end.shape, far) for end, far in zip(ends, (-1e9, 1e9), strict=True))

    with mock.patch.object(top_k_kernel, "noisy_bounds", nothing_known):
        slow = select_above(mechanism, answers, 400, InsecureSeededBits(9))
    assert {0, 1, 2, 3} == set(_counts(quick).tolist())
    assert (quick.indices == slow.indices).all()
    assert (quick.leads == slow.leads).all()


@settings(max_examples=60, deadline=None)
@given(
    groups=st.dictionaries(st.integers(-4, 4), st.integers(1, 10**12), min_size=1, max_size=6),
    line=st.integers(-4, 90),
    k=st.integers(1, 5),
    seed=st.integers(0, 2**32),
)
def test_floats_and_the_program_on_reals_select_alike_from_groups(groups, line, k, seed):
    values, sizes = np.array(list(groups)), np.array(list(groups.values()))
    mechanism = dpgap.HybridTopK(line, k, 1)
    quick = select_above_grouped(mechanism, values, sizes, InsecureSeededBits(seed))
    original = top_k_kernel.ranked_to_line

    def nothing_certain(low, high, k):
        return *original(low, high, k)[:2], np.array([False])

    with mock.patch.object(top_k_kernel, "ranked_to_line", nothing_certain):
        slow = select_above_grouped(mechanism, values, sizes, InsecureSeededBits(seed))
    assert quick.groups.tolist() == slow.groups.tolist()
    assert quick.leads.tolist() == slow.leads.tolist()


CASES = {
    "cut in the middle": (3, 4, [7, 3, 0], [2, 3, 5]),
    "heavy ties": (3, 2, [2, 1], [6, 9]),
    "fewer answers than k": (4, 0, [1, 0], [1, 1]),
    "the line far below": (2, -50, [3, 0], [2, 4]),
}


@pytest.mark.parametrize("case", quick_in(CASES, {"cut in the middle"}))
def test_grouped_and_plain_selection_agree_in_law(case):
    runs = 5_000
    k, line, values, sizes = CASES[case]
    values, sizes = np.array(values), np.array(sizes)
    starts = np.cumsum(sizes) - sizes

    def grouped(mechanism, bits):
        for _ in range(runs):
            chosen = select_above_grouped(mechanism, values, sizes, bits)
            yield (starts[chosen.groups] + chosen.places).tolist(), chosen.leads.tolist()

    def plain(epsilon, bits):
        mechanism = dpgap.HybridTopK(line, k, epsilon, monotonic=True)
        cut = select_above(mechanism, np.repeat(values, sizes), runs, bits)
        return (_winners(cut, run) for run in range(runs))

    def view(samples):  # how many, the first, and the lead of the last
        rows = ((len(i), i[0] if i else -1, min(g[-1], 6) if g else -1) for i, g in samples)
        return list(rows)

    mechanism = dpgap.HybridTopK(line, k, 2, monotonic=True)
    own = view(grouped(mechanism, InsecureSeededBits(1)))
    assert homogeneous_p(own, view(plain(2, InsecureSeededBits(2)))) > LEVEL
    assert homogeneous_p(own, view(plain(Fraction(10, 7), InsecureSeededBits(3)))) < LEVEL


def test_many_runs_at_once_have_the_law_of_runs_pruned_one_by_one():
    mechanism, answers = dpgap.HybridTopK(2, 2, 2, monotonic=True), np.array([3, 3, 2, 0])
    whole = select_above(mechanism, answers, 6_000, InsecureSeededBits(5))
    pruned = select_above(mechanism, answers, 6_000, InsecureSeededBits(6), small=0, first_chunk=2)

    def outcomes(cut):
        return np.hstack([cut.indices, np.minimum(cut.leads, 5)])

    assert homogeneous_p(outcomes(whole), outcomes(pruned)) > LEVEL


def test_without_answers_only_the_line_competes():
    none = np.empty(0, dtype=np.int64)
    mechanism = dpgap.HybridTopK(5, 2, 1)
    assert not _counts(select_above(mechanism, none, 3, InsecureSeededBits(1))).any()
    assert not select_above_grouped(mechanism, none, none, InsecureSeededBits(1)).groups.size
    assert mechanism.run(
        [], RealNoise(mechanism.law.reals(np.ones((1, 1), dtype=np.uint64), None))
    ) == ((), ())


# What is released, and what it costs.


def test_a_release_is_cut_at_the_line_and_pays_for_what_it_shows():
    mechanism = dpgap.HybridTopK(50, 5, 500, monotonic=True)
    release = mechanism.release([90, 10, 70, 20], labels=["oat", "fig", "pea", "rye"])
    assert release.labels == ("oat", "pea")
    assert release.indices.tolist() == [0, 2]
    assert release.gaps.tolist() == pytest.approx([20, 20], abs=3)
    assert (release.epsilon, release.spent, release.remaining) == (500, 300, 200)
    assert release._line == 50
    assert release.gap_between(1, 3) == release.gaps.sum()
    assert "300 of ε was spent, and 200 is left" in release._remark


def test_the_cost_counts_the_line_where_it_cuts_and_is_never_more_than_epsilon():
    mechanism = dpgap.HybridTopK(50, 4, 1)
    assert [mechanism.spent(r) for r in range(5)] == [Fraction(x, 4) for x in (1, 2, 3, 4, 4)]


def test_where_k_are_found_the_last_gap_is_over_the_best_loser_and_all_of_epsilon_is_spent():
    mechanism = dpgap.HybridTopK(50, 2, 2000, monotonic=True)
    release = mechanism.release([300, 100, 200])
    assert release.indices.tolist() == [0, 2]
    assert release.gaps.tolist() == pytest.approx([100, 100], abs=1)
    assert release.remaining == 0
    assert release._remark == ""


def test_the_account_is_charged_first_and_credited_with_the_rest():
    account = SpyAccount()
    noticed = WatchedBits(lambda: account.diary.append(("bits",)))
    with bits_are(noticed):
        release = dpgap.HybridTopK(50, 4, 4000).release([90, 10], account=account)
    assert [each[0] for each in account.diary] == ["reserve", "bits", "settle"]
    assert account.moves == [("reserve", 4000), ("settle", 2000)]
    assert release.spent == 2000


def test_answers_on_a_grid_are_compared_with_the_line_rounded_up():
    mechanism = dpgap.HybridTopK("0.3", 2, 10**6, grid="1/4", sensitivity="1/4")
    assert mechanism.in_steps().threshold == 2
    release = mechanism.release([0.3, 0.9, 0.1])
    assert release.indices.tolist() == [1]
    assert release.gaps.tolist() == [0.5]


def test_winners_bring_their_private_answers_for_whoever_measures_next():
    mechanism = dpgap.HybridTopK(50, 3, 3000)
    for answers in ([90, 10, 70], as_counts([90, 10, 70])):
        drawn = mechanism.draw_paid(mechanism.prepare(answers, None))
        assert drawn.private_answers.tolist() == [90, 70]
        assert drawn.drawn.indices.tolist() == [0, 2]
        assert "90" not in repr(drawn)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"threshold": "high"}, "threshold must be"),
        ({"threshold": 2**61}, "threshold must lie within"),
        ({"k": 0}, "k must be at least 1"),
        ({"epsilon": -1}, "epsilon must be greater than 0"),
        ({"grid": 3}, "grid must be a power of two"),
    ],
)
def test_bad_parameters_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        dpgap.HybridTopK(**{"threshold": 5, "k": 2, "epsilon": 1} | arguments)


def test_an_array_without_answers_is_refused_before_anything_is_charged():
    account = SpyAccount()
    with pytest.raises(ValueError, match="must not be empty"):
        dpgap.HybridTopK(5, 2, 1).release(np.array([], dtype=np.int64), account=account)
    assert account.diary == []


# Unknown items.


def _unknown(names, counts, kind=CountsInMemory, reach=3):
    """Counts of the items that are present, and of no others."""
    return kind(
        labels=names,
        positions=np.arange(len(names)),
        counts=np.array(counts, dtype=np.int64),
        sensitivity=Fraction(1),
        monotonic=True,
        reach=reach,
        unknown=True,
    )


def test_unknown_items_are_released_by_name_and_not_by_their_place():
    mechanism = dpgap.HybridTopK(50, 3, 3000, monotonic=True)
    release = mechanism.release(_unknown(["fig", "pea", "oat"], [9, 99, 70]))
    assert release.labels == ("pea", "oat")
    assert release.indices.tolist() == [-1, -1]
    assert release.detail.promise.cost.delta == mechanism.delta(3) > 0
    assert "Differential privacy with ε = 3000 and δ = " in release.guarantee
    assert "it shows an item that only this person has" in release.guarantee


def test_no_unknown_item_at_all_looks_like_none_above_the_line():
    mechanism = dpgap.HybridTopK(50, 3, 3000, monotonic=True)
    nothing = mechanism.release(_unknown([], []))
    little = mechanism.release(_unknown(["fig"], [1]))
    assert str(nothing) == str(little)
    assert nothing.spent == little.spent == 1000
    assert dpgap.read_release(nothing.to_json()).detail.promise.cost.delta == mechanism.delta(3)


def test_labels_of_unknown_items_and_a_reach_without_bound_are_refused():
    mechanism = dpgap.HybridTopK(50, 3, 1, monotonic=True)
    with pytest.raises(ValueError, match="labels must be left out"):
        mechanism.release(_unknown(["fig"], [1]), labels=["pea"])
    with pytest.raises(ValueError, match="answers must have a reach"):
        mechanism.release(_unknown(["fig"], [1], reach=None))
    with pytest.raises(ValueError, match="sensitivity must be at least"):
        dpgap.HybridTopK(50, 3, 1, sensitivity="1/2").release(_unknown(["fig"], [1]))


def test_known_items_have_no_delta():
    counts = CountsInMemory(
        ["fig", "pea"], np.array([0]), np.array([90]), sensitivity=Fraction(1), monotonic=True
    )
    release = dpgap.HybridTopK(50, 2, 2000, monotonic=True).release(counts)
    assert (release.labels, release.indices.tolist()) == (("fig",), [0])
    assert release.detail.promise.cost.delta == 0
    assert "no δ" in release.guarantee


def test_a_million_counts_in_groups_take_one_release():
    rng = np.random.default_rng(1)
    counts = rng.zipf(1.3, 10**6).clip(max=10**7)
    groups = as_counts(counts)
    mechanism = dpgap.HybridTopK(10**6, 50, 50, monotonic=True)
    release = mechanism.release(groups)
    assert (counts[release.indices] > 10**6 - 40).all()


# The line for unknown items.


def test_the_line_is_the_least_that_keeps_the_chance_within_delta():
    hybrid = dpgap.HybridTopK(0, 10, 1, monotonic=True)
    lines = [hybrid.line_for("1e-6", reach) for reach in (1, 10, 100)]
    assert lines == [133, 156, 179]
    for line, reach in zip(lines, (1, 10, 100), strict=True):
        at, below = (dpgap.HybridTopK(t, 10, 1, monotonic=True) for t in (line, line - 1))
        assert at.delta(reach) <= Fraction(1, 10**6) < below.delta(reach)


@settings(max_examples=80, deadline=None)
@given(
    k=st.integers(1, 200),
    epsilon=st.fractions(Fraction(1, 100), 20),
    delta=st.fractions(Fraction(1, 10**9), Fraction(99, 100)).filter(lambda x: x > 0)
    | st.sampled_from([Fraction(1, 10**12), Fraction(1, 10**300)]),
    reach=st.integers(1, 10**6),
    sensitivity=st.fractions(Fraction(1, 3), 50),
    monotonic=st.booleans(),
    grid=st.sampled_from([None, Fraction(1, 8), 4]),
)
def test_no_lower_line_on_the_grid_would_do(k, epsilon, delta, reach, sensitivity, monotonic, grid):
    options = {"sensitivity": sensitivity, "monotonic": monotonic, "grid": grid}
    line = dpgap.HybridTopK(0, k, epsilon, **options).line_for(delta, reach)
    step = Fraction(grid or 1)
    assert line % step == 0
    assert dpgap.HybridTopK(line, k, epsilon, **options).delta(reach) <= delta
    assert dpgap.HybridTopK(line - step, k, epsilon, **options).delta(reach) > delta


@pytest.mark.parametrize("distance", [10, 40, 400])
def test_the_chance_is_rounded_up_and_nearly_exact(distance):
    bound = dpgap.HybridTopK(1 + distance, 3, "0.7", monotonic=True).delta(5)
    with localcontext(prec=80):
        exact = 5 * (-Decimal(distance) * 7 / 30).exp() / 2
        over = Decimal(bound.numerator) / Decimal(bound.denominator) / exact
    assert 1 <= over < 1 + Decimal("1e-18")


def test_a_line_below_what_one_unit_has_promises_nothing():
    assert dpgap.HybridTopK(0, 3, 1).delta(1) == 1
    assert dpgap.HybridTopK(1, 3, 1).delta(1) == Fraction(1, 2)
    assert dpgap.HybridTopK(2**59, 3, 1).delta(1) == Fraction(1, 10**400)


@pytest.mark.parametrize("delta", [0, 1, 2, -1])
def test_a_delta_beyond_its_range_is_refused(delta):
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
        dpgap.HybridTopK(0, 10, 1).line_for(delta, 1)


def law_of_passing(line, items, scale):
    """The exact chance that any of so many items that count 1 is above the noisy line."""
    c = math.exp(-(line - 1) / scale)
    return 1 - (1 - (1 - c) ** (items + 1)) / ((items + 1) * c)


@pytest.mark.parametrize(("items", "k"), [(1, 1), (10, 1), (4, 2)])
def test_an_item_of_one_unit_appears_with_the_chance_of_the_law_and_at_most_delta(items, k):
    """Two-sided binomial tests at level 1e-6; a line lower by one is caught at that level."""
    delta, runs = Fraction(1, 100), 200_000
    line = int(dpgap.HybridTopK(0, k, 1, monotonic=True).line_for(delta, items))

    def appeared(at, seed):
        mechanism = dpgap.HybridTopK(at, k, 1, monotonic=True)
        answers = np.full(items, 1)
        return int(
            (_counts(select_above(mechanism, answers, runs, InsecureSeededBits(seed))) > 0).sum()
        )

    chance = law_of_passing(line, items, k)
    seen, seen_lower = appeared(line, 1), appeared(line - 1, 2)
    assert chance <= delta
    assert stats.binomtest(seen, runs, chance).pvalue > LEVEL
    assert stats.binomtest(seen_lower, runs, float(delta), alternative="greater").pvalue < LEVEL


def test_an_item_that_does_not_reach_the_line_changes_nothing_of_what_is_released():
    """What δ rests on: runs in which the item stays below the noisy line are runs without it."""
    mechanism = dpgap.HybridTopK(6, 2, 1, monotonic=True)
    bits = InsecureSeededBits(4)
    below = 0
    for _ in range(2_000):
        words = bits.words(1, 5)  # three known items, the unit's own, and the line
        with_it = mechanism.run([9, 5, 4, 1], RealNoise(mechanism.law.reals(words, bits)))
        own, line = _noisy(mechanism, words, bits)
        if own < line:
            below += 1
            others = mechanism.law.reals(np.delete(words, 3, 1), bits)
            assert with_it == mechanism.run([9, 5, 4], RealNoise(others))
    assert 1_500 < below < 2_000


def _noisy(mechanism, words, bits):
    reals = RealNoise(mechanism.law.reals(words, bits))
    draws = [reals.draw(mechanism.law) for _ in range(5)]
    return draws[3] + 1, draws[4] + 6


# What leads prove.


def _sizes_of_tests(mechanism, answers, line, runs, seed, scale):
    """For winners that do not belong: how often p is at most e^(−t/scale), for some leads t."""
    cut = select_above(mechanism, np.array(answers), runs, InsecureSeededBits(seed))
    values = np.append(np.array(answers), np.iinfo(np.int64).max)  # −1 is no winner
    won = cut.indices >= 0
    left_out = np.full(runs, line)
    for index, answer in enumerate(answers):
        is_out = ~(cut.indices == index).any(axis=1)
        left_out[is_out] = np.maximum(left_out[is_out], answer)
    false = won & (values[cut.indices] <= left_out[:, None])
    leads = cut.leads[false]
    return leads.size, [(t, int((leads >= t).sum()), math.exp(-t / scale)) for t in (2, 5, 9)]


@pytest.mark.parametrize(
    ("answers", "line", "k"),
    [
        ([3, 3, 3, 3, 3, 3], 3, 2),  # tied with each other and with the line
        ([5, 5, 4, 4, 2, 0], 1, 3),  # above the line, but not all among the largest
        ([1, 0, 2, 1], 4, 3),  # below the line
    ],
)
def test_a_winner_that_does_not_belong_has_a_p_value_of_the_right_size(answers, line, k):
    """Conditional on selection: exact where it is tied, at level 1e-6; scale × .9 is caught."""
    mechanism = dpgap.HybridTopK(line, k, k, monotonic=True)
    mechanism = altered(mechanism, law=mechanism.law.scaled(Fraction(3)))
    total, sizes = _sizes_of_tests(mechanism, answers, line, 60_000, 7, 3.0)
    assert total > 20_000
    for _, seen, size in sizes:
        assert stats.binomtest(seen, total, size).pvalue > LEVEL
    wrong = [stats.binomtest(seen, total, math.exp(-t / 2.7)).pvalue for t, seen, _ in sizes]
    assert min(wrong) < LEVEL


def test_p_values_are_those_of_the_released_leads():
    mechanism = dpgap.HybridTopK(50, 4, 4, monotonic=True)
    release = mechanism.release([90, 70, 10])
    leads = release.gaps[::-1].cumsum()[::-1]
    assert release.p_values == pytest.approx(np.exp(-leads / 1.0))
    assert release.set_p_value is None


def test_findings_say_what_the_line_proves():
    sure = dpgap.HybridTopK(50, 3, 300, monotonic=True).release([900, 700, 1], labels=list("abc"))
    assert sure.findings[0] == ("Both are surely above 50 and among the top two.")
    nothing = dpgap.HybridTopK(50, 3, 300, monotonic=True).release([1, 2])
    assert nothing.findings == ("Nothing was found above 50.",)


def test_groups_whose_members_have_no_place_keep_their_names():
    def find(groups, places):
        return Found(np.full(groups.size, -1), tuple("x" * int(g + 1) for g in groups))

    class InEngine(CountsInMemory):
        def groups(self):
            return Groups(np.array([99, 3]), np.array([1, 2]), find)

    release = dpgap.HybridTopK(50, 2, 2000, monotonic=True).release(_unknown(["a"], [1], InEngine))
    assert release.labels == ("x",)

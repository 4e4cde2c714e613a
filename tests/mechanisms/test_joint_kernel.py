"""The kernel of joint selection: what the program would choose on the same noise, and its law."""

import itertools
import random
from collections.abc import Sequence
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_sets import LEADS, classes_of, law_of_classes, sets_by_class

import dpgap
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.laws import ExponentialNoise
from dpgap.exact.reals import Real
from dpgap.mechanisms import joint as joint_kernel
from dpgap.mechanisms.joint import Classes, select_classes
from dpgap.mechanisms.top_k import top_draws
from law_tests import LEVEL, chi_square_p, require_law
from seams import quick_in, words_drawn


class NoiseOfClasses:
    """Noise for every set: of each class the largest of its draws, in an order of their own.

    The first two of a class are made from the words that the kernel reads, the others from more.
    """

    def __init__(self, law, members, words: Sequence[Sequence[int]], seed: int) -> None:
        bits, shuffle = InsecureSeededBits(seed + 1), random.Random(seed)
        draws = {}
        for own, some in zip(words, members, strict=True):
            more = [bits.word() for _ in range(len(some))]
            largest = top_draws(law, len(some), [*own, *more][: len(some)], bits)
            for draw, each in zip(largest, shuffle.sample(some, len(some)), strict=True):
                draws[each] = Real(0, draw)
        self._draws = iter([draws[each] for each in sorted(draws)])

    def draw(self, law) -> Real:
        return next(self._draws)


def _nothing_certain(low, high, k, original=joint_kernel.ranked):
    order, leads, certain = original(low, high, k)
    return order, leads, np.zeros_like(certain)


@settings(max_examples=100, deadline=None)
@given(
    answers=st.lists(st.integers(0, 3) | st.integers(-(2**59), 2**59), min_size=2, max_size=7),
    k=st.integers(1, 6),
    epsilon=st.sampled_from(["1/100", "0.7", "3", "50"]),
    monotonic=st.booleans(),
    seed=st.integers(0, 2**32),
    on_reals=st.booleans(),
)
def test_the_kernel_chooses_what_the_program_chooses(
    answers, k, epsilon, monotonic, seed, on_reals
):
    k = min(k, len(answers) - 1)
    mechanism = dpgap.JointTopK(k, epsilon, monotonic=monotonic)
    classes, members = classes_of(answers, k), sets_by_class(answers, k)
    law = mechanism.half_step_law
    words = InsecureSeededBits(seed).words(2, 1, classes.count)[:, 0].T.tolist()
    chosen, lead = mechanism.run(
        [2 * answer for answer in answers], NoiseOfClasses(law, members, words, seed)
    )
    ranked = _nothing_certain if on_reals else joint_kernel.ranked
    with mock.patch.object(joint_kernel, "ranked", ranked):
        found = select_classes(law, classes, 1, InsecureSeededBits(seed))
    assert chosen in members[found.classes[0]]
    assert found.leads.tolist() == [lead]


TABLES = {
    "shop": ((10**6 / np.arange(1, 3_000)).astype(np.int64), 10, "0.7"),
    "hard": ((10**4 / np.arange(1, 3_000)).astype(np.int64), 10, "0.1"),
    "flat": (np.arange(400) % 90, 12, "0.3"),
    "steps": (np.repeat([700, 690, 20], [6, 9, 800]), 8, "0.05"),
    "apart": (np.arange(300) * 10**6, 5, "1"),
}


@pytest.mark.parametrize("table", TABLES)
def test_leaving_out_what_is_certain_to_lose_changes_nothing(table: str, monkeypatch):
    """The same bits with every class a contender: the same class wins by the same lead."""
    answers, k, epsilon = TABLES[table]
    classes = classes_of(answers.tolist(), k)
    law = dpgap.JointTopK(k, epsilon, monotonic=True).half_step_law
    quick = [select_classes(law, classes, 1, InsecureSeededBits(seed)) for seed in range(4)]
    bounds = joint_kernel._upper_bounds
    monkeypatch.setattr(joint_kernel, "_upper_bounds", lambda *given: bounds(*given) + 1e9)
    for seed, one in enumerate(quick):
        other = select_classes(law, classes, 1, InsecureSeededBits(seed))
        assert (one.classes.tolist(), one.leads.tolist()) == (
            other.classes.tolist(),
            other.leads.tolist(),
        )


def test_no_class_is_looked_at_twice_where_bounds_tie(monkeypatch):
    classes = classes_of(list(range(100)), 4)

    def tied(law, offsets, log_sizes, words):
        return 1e9 - np.arange(offsets.size) % 2

    monkeypatch.setattr(joint_kernel, "_upper_bounds", tied)
    with np.errstate(all="ignore"):
        found, words = joint_kernel._contenders(
            ExponentialNoise(Fraction(2)), classes, InsecureSeededBits(2), 1 << 19
        )
    assert sorted(found.numbers) == list(range(classes.count))
    assert words.shape == (2, 1, classes.count)


def test_blocks_of_classes_one_after_the_other_choose_the_same():
    """Many small blocks draw other bits, so the law is compared: level 1e-6."""
    sampled = Sampled("few", 4_000, small=0, block=2)
    assert sampled.p_value(1.0) > LEVEL
    assert sampled.p_value(1.3) < LEVEL


def test_the_bound_of_a_class_is_above_all_its_values(monkeypatch):
    """On ten thousand words and every size of class, one set or 10^1000 of them."""
    law = ExponentialNoise(Fraction(7))
    for exponent in (0, 1, 5, 40, 300, 1_000):
        words = InsecureSeededBits(exponent).words(2, 10_000)
        sizes = [10**exponent] * words.shape[1]
        contenders = joint_kernel.Contenders(np.arange(len(sizes)), [-3] * len(sizes), sizes)
        with np.errstate(all="ignore"):
            _, high = contenders.bounds(law, words, 0)
            logs = np.full(len(sizes), exponent * np.log(10) + 2.0**-20)
            highest = joint_kernel._upper_bounds(law, np.full(len(sizes), -3), logs, words[0])
        assert (high[: len(sizes)] <= highest).all()
        assert (highest < high[: len(sizes)] + 7 * 0.6).all()


@pytest.mark.parametrize("digits", [0, 1, 6, 19, 20, 40, 400, 1_040])
def test_floats_enclose_the_largest_and_the_second_largest_of_any_number(digits: int):
    size = 10**digits
    law, bits = ExponentialNoise(Fraction(3)), InsecureSeededBits(8)
    words = bits.words(2, 40)
    contenders = joint_kernel.Contenders(np.arange(40), [5] * 40, [size] * 40)
    with np.errstate(all="ignore"):
        low, high = contenders.bounds(law, words, 5)
    for place, own in enumerate(words.T.tolist()):
        for taken, draw in enumerate(top_draws(law, size, own[:size], bits)):
            at = place + 40 * taken
            below, above = draw(1)
            assert low[at] <= below <= above <= high[at]
            assert high[at] - low[at] < 1e-9
            assert above - below < Fraction(1, 10**20)


LAWS = {
    "few": ([3, 2, 2, 0, 0], [1] * 5, 2, "0.8"),
    "ties at the border": ([4, 1], [1, 5], 3, "1"),
    "a trillion absent": ([300, 290, 15, 0], [2, 3, 40, 10**12], 4, "0.72"),
}


class Sampled:
    """How often each class won by each lead, and the p-value of that under its law."""

    def __init__(self, case: str, runs: int, **pace: int) -> None:
        values, sizes, k, epsilon = LAWS[case]
        classes = Classes(np.array(values), np.array(sizes), k)
        law = dpgap.JointTopK(k, epsilon, monotonic=True).half_step_law
        chosen = select_classes(law, classes, runs, InsecureSeededBits(17), **pace)
        self.seen = np.zeros((classes.count, LEADS + 1))
        np.add.at(self.seen, (chosen.classes, np.minimum(chosen.leads, LEADS)), 1)
        self.margins = [classes.margin(at) for at in range(classes.count)]
        self.sizes = [classes.size(at) for at in range(classes.count)]
        self.scale = float(law.scale)

    def p_value(self, factor: float, sizes: Sequence[int] | None = None) -> float:
        chances = law_of_classes(self.margins, sizes or self.sizes, self.scale * factor)
        rest = max(1 - chances.sum(), 0)
        cells = [*self.seen[:, :LEADS].ravel(), self.seen[:, LEADS].sum()]
        return chi_square_p(cells, [*chances.ravel(), rest])


def _require_law_of_classes(case: str, **pace: int) -> None:
    """10⁵ runs follow the law, and not one with a class miscounted by a tenth, or by one."""
    sampled = Sampled(case, 100_000, **pace)
    require_law(sampled.p_value)
    likeliest = int(sampled.seen.sum(axis=1).argmax())
    size = sampled.sizes[likeliest]
    for miscounted in {size + max(1, size // 10), size - max(1, size // 10)} - {0}:
        wrong = [*sampled.sizes[:likeliest], miscounted, *sampled.sizes[likeliest + 1 :]]
        assert sampled.p_value(1.0, wrong) < LEVEL


@pytest.mark.parametrize("case", LAWS)
def test_winners_and_leads_follow_the_exact_law_and_no_class_is_miscounted(case: str):
    _require_law_of_classes(case)


@pytest.mark.long
@pytest.mark.parametrize("case", LAWS)
def test_so_they_do_run_by_run_with_certain_losers_left_out(case: str):
    _require_law_of_classes(case, small=0)


@pytest.mark.parametrize("case", quick_in(LAWS, {"ties at the border"}))
def test_a_few_runs_with_certain_losers_left_out_follow_the_law(case: str):
    sampled = Sampled(case, 4_000, small=0)
    assert sampled.p_value(1.0) > LEVEL
    assert sampled.p_value(1.3) < LEVEL


def test_many_runs_at_once_are_the_runs_one_by_one():
    classes, law = classes_of([4, 1, 3, 3], 2), ExponentialNoise(Fraction(2))
    together = select_classes(law, classes, 1, InsecureSeededBits(8))
    assert together.classes.size == 1
    many = select_classes(law, classes, 300, InsecureSeededBits(8))
    words = InsecureSeededBits(8).words(2, 300, classes.count)
    contenders = joint_kernel.Contenders.of(classes, range(classes.count))
    for run, own in enumerate(np.moveaxis(words, 1, 0)):
        with np.errstate(all="ignore"):
            alone = joint_kernel._rank(law, contenders, own[:, None], InsecureSeededBits(1))
        assert alone.classes[0] == many.classes[run]
        assert alone.leads[0] == many.leads[run]


def test_the_number_of_sets_costs_nothing():
    law = dpgap.JointTopK(10, "0.7", monotonic=True).half_step_law
    values = np.arange(1_200) * 50
    sizes = np.full(1_200, 3)
    sizes[0] = 2**59
    bits = InsecureSeededBits(5)
    classes = Classes(values, sizes, 10)
    select_classes(law, classes, 1, bits)
    assert words_drawn(bits) < 1.1 * classes.count


def test_a_certain_winner_is_found_among_all_sets():
    sets = [set(each) for each in itertools.combinations(range(5), 2)]
    for winner in sets:
        answers = [10**6 if at in winner else 0 for at in range(5)]
        assert set(dpgap.JointTopK(2, 1).release(answers).indices.tolist()) == winner

"""Classes of sets: their sizes and margins, and the members that are drawn from them."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from joint_sets import classes_of, sets_by_class

from dpgap.exact.bits import InsecureSeededBits
from dpgap.mechanisms.joint import TOP_SET, Classes, log_choose
from law_tests import LEVEL, chi_square_p


def _tied_cases(count: int, seed: int) -> list[tuple[list[int], int]]:
    generator = np.random.default_rng(seed)
    cases = []
    for _ in range(count):
        n = int(generator.integers(2, 8))
        answers = generator.integers(-3, generator.choice([-1, 0, 3, 9]), n).tolist()
        cases.append((answers, int(generator.integers(1, n))))
    return cases


def test_sizes_and_margins_are_those_of_all_sets_written_out():
    for answers, k in _tied_cases(3_000, seed=1):
        classes = classes_of(answers, k)
        written = sets_by_class(answers, k)
        assert [classes.size(at) for at in range(classes.count)] == list(map(len, written))
        for at, members in enumerate(written):
            for each in members:
                outside = [answers[i] for i in range(len(answers)) if i not in each]
                assert min(answers[i] for i in each) - max(outside) == classes.margin(at)


def test_every_set_is_counted_once_however_many_there_are():
    sizes = np.array([3, 1, 10**12, 40, 7])
    classes = Classes(np.array([9, 40, 0, 2, 5]), sizes, 100)
    total = sum(classes.size(at) for at in range(classes.count))
    assert total == math.comb(int(sizes.sum()), 100)


def test_a_block_has_the_margins_of_its_classes_and_bounds_their_sizes_closely():
    sizes = np.array([3, 1, 10**12, 40, 7, 70_000, 1, 1])
    classes = Classes(np.array([9, 40, 0, 2, 5, 1, 30, 31]), sizes, 9)
    blocks = list(classes.blocks(10))
    assert len(blocks) > 1
    assert blocks[1].first == 1 + blocks[0].margins.size
    margins = np.concatenate([each.margins for each in blocks])
    logs = np.concatenate([each.log_sizes for each in blocks])
    assert margins.size == classes.count - 1
    for at in range(1, classes.count):
        assert margins[at - 1] == classes.margin(at)
        assert math.log(classes.size(at)) <= logs[at - 1] < math.log(classes.size(at)) + 1


@pytest.mark.parametrize("chosen", [1, 2, 10, 50, 1_000, 70_000])
def test_the_logarithm_of_a_binomial_is_bounded_from_above_and_closely(chosen: int):
    for among in (chosen, chosen + 1, 3 * chosen, 10**5 + chosen, 10**7, 10**15):
        bound = float(log_choose(np.array([among]), np.array([chosen]))[0]) + 2.0**-20
        exact = (
            math.log(math.comb(among, chosen)) if chosen <= 1_000 else _log_choose(among, chosen)
        )
        assert exact <= bound
        assert bound <= exact + 0.02 + chosen**3 / (20 * (among - chosen + 1) ** 2)


def _log_choose(among: int, chosen: int) -> float:
    return math.lgamma(chosen + 1) * -1 + math.fsum(math.log(among - at) for at in range(chosen))


@pytest.mark.parametrize(("answers", "k"), [([5, 3, 3, 3, 1, 1], 3), ([2] * 6, 2)])
def test_members_are_uniform_in_their_class(answers: list[int], k: int):
    classes, bits = classes_of(answers, k), InsecureSeededBits(3)
    for at, members in enumerate(sets_by_class(answers, k)):
        drawn = Counter(
            tuple(sorted((classes.draw_ranks(at, bits) - 1).tolist())) for _ in range(2_000)
        )
        assert set(drawn) == set(members)
        counts = [drawn[each] for each in members]
        assert len(members) == 1 or chi_square_p(counts, [1 / len(members)] * len(counts)) > LEVEL


def test_equal_answers_are_drawn_alike_whatever_their_rank():
    """Group 0 has five members; the sets of one class take two of them."""
    classes, bits = Classes(np.array([1, 7]), np.array([5, 2]), 3), InsecureSeededBits(4)
    pairs = Counter()
    for _ in range(4_000):
        groups, places = classes.draw_members(2, bits)  # those that keep rank 1 and leave out 2
        pairs[tuple(sorted(places[groups == 0].tolist()))] += 1
    assert set(pairs) == set(itertools.combinations(range(5), 2))
    assert chi_square_p(list(pairs.values()), [1 / len(pairs)] * len(pairs)) > LEVEL


def test_a_member_of_a_class_of_c_of_a_trillion_and_a_hundred_takes_distinct_ranks():
    classes = Classes(np.array([4, 0]), np.array([60, 10**12]), 100)
    bits = InsecureSeededBits(5)
    largest = max(range(classes.count), key=classes.size)
    assert classes.size(largest) > 10**1_000
    for _ in range(20):
        groups, places = classes.draw_members(largest, bits)
        assert groups.size == 100
        assert len(set(zip(groups.tolist(), places.tolist(), strict=True))) == 100
        assert (places < np.where(groups == 0, 60, 10**12)).all()


def test_the_top_set_is_a_class_of_its_own():
    classes = classes_of([9, 4, 4, 1], 2)
    assert (classes.size(TOP_SET), classes.margin(TOP_SET)) == (1, 0)
    assert classes.draw_ranks(TOP_SET, InsecureSeededBits(1)).tolist() == [1, 2]


def test_classes_show_nothing_of_the_answers():
    classes = classes_of([987654321, 4, 1], 1)
    assert repr(classes) == "<private: Classes>"
    assert "987" not in repr(next(classes.blocks(1)))

"""The noisy histogram: what it promises, what it refuses, and the line that hides single units."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dpgap
from dpgap.data.private_counts import CountsInMemory
from dpgap.estimates.errors import HistogramError, MeasurementError
from dpgap.exact.bits import InsecureSeededBits
from dpgap.mechanisms.histogram import Cutoff
from dpgap.question import Neighbours, Question
from law_tests import LEVEL
from seams import FailingBits, SpyAccount, WatchedBits, bits_are


def _counts(counts: list[int], size: int = 0, **facts: Any) -> CountsInMemory:
    present = np.array(counts, dtype=np.int64)
    domain = range(max(size, present.size))
    facts = {"sensitivity": Fraction(1), "monotonic": True, "reach": 1, **facts}
    return CountsInMemory(domain, np.arange(present.size), present, **facts)


def _origin(neighbours: Neighbours) -> Question:
    return Question(unit="who", item="what", domain="a list", neighbours=neighbours)


def test_all_values_are_released_with_their_intervals():
    mechanism = dpgap.NoisyHistogram(1, reach=3)
    release = mechanism.release(np.arange(2_000))
    noise = release.values - np.arange(2_000)
    assert release.variance == pytest.approx(mechanism.law.variance)
    assert (noise == np.rint(noise)).all()
    assert 0.7 < noise.std() / release.variance**0.5 < 1.3
    low, high = release.interval(0.95).T
    assert 0.92 < ((low <= np.arange(2_000)) & (np.arange(2_000) <= high)).mean() < 0.99
    assert "changes at most 3 answers, each by at most 1" in release.guarantee
    assert "at most one answer, by at most 1" in dpgap.NoisyHistogram(1).release([1]).guarantee


def test_noise_grows_with_reach_and_sensitivity_in_whole_steps_of_the_grid():
    assert dpgap.NoisyHistogram("1/2", reach=3, sensitivity=2).law.scale == 12
    fine = dpgap.NoisyHistogram(1, reach=2, sensitivity=1, grid="1/8")
    assert (fine.law.scale, fine.law_in_steps.scale) == (2, 16)
    assert fine.release([0.3, 0.9]).values.tolist() == pytest.approx([0, 1], abs=60)
    assert (fine.release(np.full(9, 0.3)).values * 8 % 1 == 0).all()
    up = dpgap.NoisyHistogram(1, sensitivity="1/3", grid="1/8")
    assert up.law.scale == Fraction(3, 8)  # the sensitivity, rounded up to steps


def test_the_largest_are_returned_with_the_line_and_what_values_may_be_off_by():
    mechanism = dpgap.NoisyHistogram(1000)
    answers, names = [5, 90, 7, 70], ["fig", "pea", "oat", "rye"]
    drawn = mechanism.draw_paid(mechanism.prepare(answers, names, Cutoff(2)), Cutoff(2))
    assert drawn.indices.tolist() == [1, 3]
    assert drawn.labels == ("pea", "rye")
    assert drawn.values.tolist() == [90, 70]
    assert drawn.line == 7
    error = mechanism.error_of(drawn)
    assert (error.line, error.law, error.whole_coin) == (7, mechanism.law, drawn.coin)
    above = mechanism.draw_paid(mechanism.prepare(answers, names), Cutoff(line=7))
    assert (above.labels, above.line) == (("pea", "rye", "oat"), 7)
    assert mechanism.error_of(above) == HistogramError(mechanism.law, Fraction(1), 7, 0)
    both = mechanism.draw_paid(mechanism.prepare(answers, names), Cutoff(1, 6))
    assert (both.labels, both.line) == (("pea",), 70)
    fewer = mechanism.draw_paid(mechanism.prepare(answers, names), Cutoff(3, 60))
    assert (fewer.labels, fewer.line) == (("pea", "rye"), 60)
    everything = mechanism.draw_paid(mechanism.prepare(answers, names), Cutoff(4))
    assert everything.line is None
    assert type(mechanism.error_of(everything)) is MeasurementError


def test_a_grid_is_undone_in_values_and_in_the_line():
    mechanism = dpgap.NoisyHistogram(1000, grid="1/4")
    drawn = mechanism.draw_paid(mechanism.prepare([1.25, 8.5, 3.0], None), Cutoff(1))
    values = mechanism.lengths(drawn)
    assert (values.tolist(), drawn.line) == ([8.5], 12)
    assert mechanism.error_of(drawn).ends(values, 0.95, 0.0).tolist() == [[8.5, 8.5]]
    assert mechanism.draw_paid(mechanism.prepare([1.25, 8.5], None), Cutoff(line=8)).line == 8


def test_counts_of_a_table_are_picked_from_by_groups_and_looked_up():
    mechanism = dpgap.NoisyHistogram(1000)
    counts = _counts([3, 500, 3, 80], size=10**12)
    drawn = mechanism.draw_paid(mechanism.prepare(counts, None, Cutoff(2)), Cutoff(2))
    assert drawn.indices.tolist() == [1, 3]
    assert drawn.labels == (1, 3)
    assert drawn.line == 3


@pytest.mark.parametrize(("reach", "line"), [(1, 15), (10, 156), (100, 1775)])
def test_the_lines_for_one_in_a_million_are_known(reach: int, line: int):
    assert dpgap.NoisyHistogram(1, reach=reach).line_for("1e-6") == line


@pytest.mark.parametrize("reach", [1, 4])
def test_a_line_is_the_least_that_keeps_delta(reach: int):
    for delta in ("1e-2", "1e-9", "0.3"):
        mechanism = dpgap.NoisyHistogram("0.7", reach=reach, sensitivity=2)
        line, law = mechanism.line_for(delta), mechanism.law
        assert reach * law.exact_tail(line - 2)(2)[1] <= Fraction(delta)
        assert reach * law.exact_tail(line - 1 - 2)(2)[0] > Fraction(delta)


@pytest.mark.parametrize("reach", [1, 3])
def test_an_item_of_one_unit_shows_with_the_exact_chance_of_at_most_delta(reach: int):
    """Many items, each of one unit: how many show is binomial. A unit has at most its reach."""
    mechanism, items, delta = dpgap.NoisyHistogram(1, reach=reach), 400_000, 0.01
    line, alone = mechanism.line_for("0.01"), np.ones(400_000, dtype=np.int64)

    def seen(line: int) -> int:
        candidates = mechanism.prepare(alone, None, Cutoff(line=line))
        return mechanism.draw_paid(candidates, Cutoff(line=line)).values.size

    def p_value(seen: int, line: int) -> float:
        return float(stats.binomtest(seen, items, float(mechanism.law.tail(line - 1))).pvalue)

    with bits_are(InsecureSeededBits(11)):
        shown, lower = seen(line), seen(line - 1)
    assert p_value(shown, line) > LEVEL
    assert stats.binom.sf(shown - 1, items, delta / reach) > LEVEL
    # Released on ≥ and accounted for >, the line would be one lower: more than δ, and caught.
    assert p_value(lower, line - 1) > LEVEL
    assert stats.binom.sf(lower - 1, items, delta / reach) < LEVEL


def test_items_that_are_only_those_present_need_a_line_for_their_delta():
    mechanism = dpgap.NoisyHistogram(1)
    unknown = _counts([900, 1], unknown=True)
    with pytest.raises(ValueError, match="delta must be given"):
        mechanism.prepare(unknown, None, Cutoff(line=50))
    for line in (None, 14):
        with pytest.raises(ValueError, match="threshold must be at least 15 for this delta"):
            mechanism.prepare(unknown, None, Cutoff(5, line), "1e-6")
    wanted = Cutoff(5, 15)
    drawn = mechanism.draw_paid(mechanism.prepare(unknown, None, wanted, "1e-6"), wanted)
    assert (drawn.indices.tolist(), drawn.line) == ([-1], 15)


def test_a_table_in_which_nobody_is_present_answers_like_any_other():
    mechanism, wanted = dpgap.NoisyHistogram(1), Cutoff(5, 15)
    nobody = mechanism.prepare(_counts([], unknown=True), None, wanted, "1e-6")
    assert mechanism.draw_paid(nobody, wanted).values.size == 0


def test_what_would_return_too_many_empty_items_is_refused_by_public_facts():
    mechanism = dpgap.NoisyHistogram(1)
    for counts in (_counts([7], size=10**12), _counts([5_000] * 40, size=10**12)):
        for wanted in (Cutoff(line=13), Cutoff(), Cutoff(10**7), Cutoff(10**7, -5)):
            with pytest.raises(ValueError, match="threshold must be larger, or k stated"):
                mechanism.prepare(counts, None, wanted)
        mechanism.prepare(counts, None, Cutoff(line=14))
        mechanism.prepare(counts, None, Cutoff(100, 13))


def test_answers_that_contradict_the_claims_are_refused():
    mechanism = dpgap.NoisyHistogram(1, reach=2)
    release, prepare = mechanism.release, lambda counts: mechanism.prepare(counts, None, Cutoff(1))
    for ask in (release, prepare):
        with pytest.raises(ValueError, match="reach must be at least that of the answers, 3"):
            ask(_counts([1, 2], reach=3))
        with pytest.raises(ValueError, match="answers must have a reach"):
            ask(_counts([1, 2], reach=None))
        with pytest.raises(ValueError, match="neighbours must be 'add-or-remove'"):
            ask(_counts([1, 2], origin=_origin(Neighbours.REPLACE)))
        ask(_counts([1, 2], origin=_origin(Neighbours.ADD_OR_REMOVE)))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"epsilon": 0}, "epsilon must be greater than 0"),
        ({"epsilon": 1, "reach": 0}, "reach must be at least 1"),
        ({"epsilon": 1, "sensitivity": -1}, "sensitivity must be greater than 0"),
        ({"epsilon": "1e-20"}, "epsilon is too small"),
        ({"epsilon": 1, "grid": 3}, "grid must be a power of two"),
    ],
)
def test_bad_parameters_are_named(arguments: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        dpgap.NoisyHistogram(**arguments)


def test_bad_questions_are_named_before_anything_is_drawn():
    mechanism = dpgap.NoisyHistogram(1)
    for delta in (0, 1, 2):
        with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
            mechanism.line_for(delta)
    with pytest.raises(ValueError, match="threshold must lie within"):
        mechanism.prepare([1, 2], None, Cutoff(line=10**30))


def test_the_account_is_charged_before_noise_is_drawn_and_keeps_the_charge_if_drawing_fails():
    account = SpyAccount()
    with bits_are(WatchedBits(lambda: account.diary.append(("bits",)))):
        dpgap.NoisyHistogram("1/2").release([3, 4], account=account)
    assert [each[0] for each in account.diary][:2] == ["reserve", "bits"]
    assert account.moves[0] == ("reserve", Fraction(1, 2))
    failing = SpyAccount()
    with bits_are(FailingBits(KeyboardInterrupt)), pytest.raises(KeyboardInterrupt):
        dpgap.NoisyHistogram(1).release([3, 4], account=failing)
    assert ("settle", Fraction(0)) not in failing.moves
    with pytest.raises(dpgap.BudgetExhausted):
        dpgap.NoisyHistogram(2).release([3], account=SpyAccount(Fraction(1)))


def test_what_is_prepared_shows_no_answer():
    prepared = dpgap.NoisyHistogram(1).prepare(_counts([31337]), None)
    assert "31337" not in repr(prepared)

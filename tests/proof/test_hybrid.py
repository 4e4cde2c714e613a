"""The proof of Hybrid Top-K: what it rests on, and what it would refuse."""

import math
from collections import Counter
from fractions import Fraction

import pytest
from faults import with_scales
from scipy.integrate import quad

import dpgap
from dpgap.proof import Violation, prove
from dpgap.proof.cases import cases
from dpgap.proof.checker.hybrid import check_hybrid, density_of_cut, worst_cut
from dpgap.proof.checker.lone_items import (
    chance_to_reach,
    check_lone_items,
    require_delta,
    require_kept_out,
)

KINDS = ("general", "rising", "falling")


def test_every_number_of_answers_up_to_three_is_judged_with_every_k():
    listed = [case for case in cases() if case.name == "HybridTopK" and case.n != "every"]
    judged = Counter((case.variant, case.n, case.k) for case in listed)
    sizes = [(n, k) for n in range(1, 4) for k in range(1, n + 2)]
    own = {("δ of unknown items", n, k): 1 for n, k in sizes if k <= n}
    assert judged == own | {(f"exponential, {kind}", n, k): 1 for kind in KINDS for n, k in sizes}


@pytest.mark.parametrize("released", [0, 1, 2])
def test_what_a_cut_ranking_costs_is_attained(released):
    """e^(Δ/b) is 4 there. Rising losers lower the chance most; both directions are neighbours."""
    ratios = [worst_cut(3, released, each, is_full=False).ratio for each in KINDS]
    assert ratios == [4 ** (2 * released + 1), 4 ** (released + 1), 4**released]


@pytest.mark.parametrize("k", [1, 2])
def test_where_k_are_found_all_of_epsilon_is_attained_or_nearly(k):
    """kΔ/b with monotonic answers; 2kΔ/b with general ones, as the line falls far behind."""
    general, rising, falling = (worst_cut(3, k, each, is_full=True).ratio for each in KINDS)
    assert falling == 4**k
    assert 0.99 * 4**k < rising <= 4**k
    assert 0.9 * 4 ** (2 * k) < general < 4 ** (2 * k)


class FreeLine(dpgap.HybridTopK):
    """Counts what was released without the line."""

    def spent(self, released):
        return self.epsilon * released / self.k


@pytest.mark.parametrize("neighbours", ["rising", "general"])
def test_a_cost_without_the_line_is_refuted_with_numbers(neighbours):
    free = FreeLine(0, 2, 1, monotonic=neighbours != "general")
    proof = check_hybrid(free, 2, neighbours)
    assert (proof.verdict, proof.condition) == ("REFUTED", "density")
    assert "WorstCut(ratio=Fraction(4, 1), winners=()" in proof.reason


@pytest.mark.parametrize("neighbours", KINDS)
@pytest.mark.parametrize("k", [1, 2])
def test_a_twentieth_less_noise_is_refuted(k, neighbours):
    sound = dpgap.HybridTopK(0, k, 1, monotonic=neighbours != "general")
    assert check_hybrid(sound, 3, neighbours).verdict == "CHECKED"
    wrong = check_hybrid(with_scales(sound, Fraction(19, 20)), 3, neighbours)
    assert wrong.condition == "density"


def test_a_program_that_returns_something_else_is_refuted(monkeypatch):
    run = dpgap.HybridTopK.run

    def one_more(self, answers, noise):
        indices, leads = run(self, answers, noise)
        return indices[:1], leads[:1]

    monkeypatch.setattr(dpgap.HybridTopK, "run", one_more)
    assert check_hybrid(dpgap.HybridTopK(0, 2, 1), 2, "general").condition == "output"


@pytest.mark.parametrize(("neighbours", "places"), [("rising", 3), ("general", Fraction(5, 2))])
def test_the_alignment_proves_what_a_cut_ranking_costs_and_no_less(neighbours, places):
    """With k above n the line always cuts: two answers and the line cost 3ε/k, or 5ε/(2k)."""
    mechanism = dpgap.HybridTopK(0, 10, 1, monotonic=neighbours != "general")
    cost = places / Fraction(10)
    assert prove(mechanism, 2, neighbours=neighbours, epsilon=cost).verdict == "PROVED"
    less = prove(mechanism, 2, neighbours=neighbours, epsilon=cost * Fraction(99, 100))
    assert less.condition == "cost"


def test_the_density_of_a_cut_ranking_is_that_of_the_program():
    """Without winners it is the chance that nothing is released: here of two answers, by hand.

    In units of b, the line's noise is E, and answers of 0 and ln 2 stay below it with chances
    1 − e^(−E) and 1 − 2e^(−E). With winners, a lead of 0 in place of one is a factor of x = e^(−E).
    """
    nothing, _ = quad(
        lambda e: math.exp(-e) * (1 - math.exp(-e)) * (1 - 2 * math.exp(-e)), math.log(2), 60
    )
    assert float(density_of_cut((), (0, 1))) == pytest.approx(nothing, rel=1e-9)
    one, _ = quad(lambda e: math.exp(-2 * e) * (1 - 2 * math.exp(-e)), math.log(2), 60)
    assert float(density_of_cut((0,), (1,))) == pytest.approx(one, rel=1e-9)


# δ.


def test_the_chance_to_reach_the_line_is_one_half_of_the_tail():
    law = dpgap.HybridTopK(0, 3, 2, monotonic=True).law
    real = chance_to_reach(law, 5.0, on_grid=False)
    assert real == pytest.approx(float(law.tail(5.0)) / 2, rel=1e-12)
    rho = float(law.tail(1.0))
    on_grid = chance_to_reach(law, 5.0, on_grid=True)
    assert on_grid == pytest.approx(rho**5 / (1 + rho), rel=1e-12)


def test_a_delta_that_forgets_a_half_or_the_reach_is_refuted():
    class Forgets(dpgap.HybridTopK):
        factor = Fraction(1, 2)

        def delta(self, reach):
            return super().delta(1) * self.factor

    class ForgetsReach(Forgets):
        factor = 1

    for kind, reach in ((Forgets, 1), (ForgetsReach, 2)):
        wrong = kind(9, 1, 1, monotonic=True)
        with pytest.raises(Violation, match="items of one unit show with chance"):
            require_delta(wrong, reach)
        assert check_lone_items(wrong, 1, reach=reach).condition == "delta"
    assert check_lone_items(dpgap.HybridTopK(9, 1, 1, monotonic=True), 2, reach=2).verdict == (
        "CHECKED"
    )


def test_leads_over_the_best_loser_alone_would_show_an_item_below_the_line(monkeypatch):
    """Without the line among what leads are over, an item that never shows moves the leads."""

    def over_losers(self, answers, noise):
        noisy = [answer + noise.draw(self.law) for answer in (*answers, self.threshold)]
        ranking = sorted(range(len(noisy)), key=noisy.__getitem__, reverse=True)
        line = len(answers)
        end = min(self.k, ranking.index(line))
        rest = [i for i in ranking[end:] if i != line] or [line]
        return tuple(ranking[:end]), tuple(noisy[i] - noisy[rest[0]] for i in ranking[:end])

    require_kept_out(dpgap.HybridTopK(5, 1, 1), 2)
    monkeypatch.setattr(dpgap.HybridTopK, "run", over_losers)
    with pytest.raises(Violation, match="an item below the noisy line changes"):
        require_kept_out(dpgap.HybridTopK(5, 1, 1), 2)

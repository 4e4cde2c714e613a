"""The proof of Hybrid Top-K: what it rests on, and what it would refuse."""

from collections import Counter
from fractions import Fraction

import pytest
from faults import with_scales

import dpgap
from dpgap.proof import Violation, prove
from dpgap.proof.cases import cases
from dpgap.proof.checker.unknown_items import (
    chance_to_reach,
    check_lone_items,
    require_delta,
    require_kept_out,
)
from dpgap.proof.every.exponential import prove_hybrid

KINDS = ("general", "rising", "falling")


def test_every_number_of_answers_up_to_three_is_judged_with_every_k():
    listed = [case for case in cases() if case.name == "HybridTopK" and case.n != "every"]
    judged = Counter((case.variant, case.n, case.k) for case in listed)
    sizes = [(n, k) for n in range(1, 4) for k in range(1, n + 2)]
    own = {("δ of unknown items", n, k): 1 for n, k in sizes if k <= n}
    assert judged == own | {(f"exponential, {kind}", n, k): 1 for kind in KINDS for n, k in sizes}


class FreeLine(dpgap.HybridTopK):
    """Counts what was released without the line."""

    __slots__ = ()

    def spent(self, released):
        return self.epsilon * released / self.k


def test_a_cost_without_the_line_is_refuted():
    def made(*, k, epsilon=1, **more):
        return FreeLine(0, k, epsilon, **more)

    with pytest.raises(Violation, match="a part for each answer and the threshold"):
        prove_hybrid(made, "general")


@pytest.mark.parametrize(("k", "neighbours"), [*((1, kind) for kind in KINDS), (2, "rising")])
def test_a_twentieth_less_noise_is_refuted(k, neighbours):
    """Where general answers move, the line does not: all of ε takes more answers than two."""
    sound = dpgap.HybridTopK(0, k, 1, monotonic=neighbours != "general")
    assert prove(sound, 2, neighbours=neighbours).verdict == "PROVED"
    wrong = prove(with_scales(sound, Fraction(19, 20)), 2, neighbours=neighbours)
    assert wrong.condition == "cost"


@pytest.mark.parametrize("what", ["fewer", "other leads"])
def test_a_program_that_returns_something_else_is_refuted(what, monkeypatch):
    run = dpgap.HybridTopK.run

    def other(self, answers, noise):
        indices, leads = run(self, answers, noise)
        if what == "fewer":
            return indices[:1], leads[:1]
        return indices, tuple(lead + answers[0] for lead in leads)

    monkeypatch.setattr(dpgap.HybridTopK, "run", other)
    assert prove(dpgap.HybridTopK(0, 2, 1), 2).verdict == (
        "PROVED" if what == "fewer" else "REFUTED"
    )

    def made(*, k, epsilon=1, **more):
        return dpgap.HybridTopK(0, k, epsilon, **more)

    with pytest.raises(Violation):
        prove_hybrid(made, "general")


@pytest.mark.parametrize(("neighbours", "places"), [("rising", 3), ("general", Fraction(5, 2))])
def test_the_alignment_proves_what_a_cut_ranking_costs_and_no_less(neighbours, places):
    """With k above n the line always cuts: two answers and the line cost 3ε/k, or 5ε/(2k)."""
    mechanism = dpgap.HybridTopK(0, 10, 1, monotonic=neighbours != "general")
    cost = places / Fraction(10)
    assert prove(mechanism, 2, neighbours=neighbours, epsilon=cost).verdict == "PROVED"
    less = prove(mechanism, 2, neighbours=neighbours, epsilon=cost * Fraction(99, 100))
    assert less.condition == "cost"


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
        with pytest.raises(Violation, match="items of one unit show with probability"):
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
    with pytest.raises(Violation, match="an item below the noisy threshold changes"):
        require_kept_out(dpgap.HybridTopK(5, 1, 1), 2)

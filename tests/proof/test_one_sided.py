"""The alignment for one-sided noise: what it rests on, and alignments that look like it."""

import random
import re
import typing
from fractions import Fraction
from pathlib import Path

import pytest

import dpgap
from dpgap.mechanisms import top_k
from dpgap.mechanisms.sparse_vector import Run
from dpgap.mechanisms.top_k import STAYING, Extremes, extremes, extremes_undone, shift_of
from dpgap.pipelines.routes import HistogramRoute
from dpgap.pipelines.tables import Answering
from dpgap.proof import ExponentialNoise, Violation, prove, search
from dpgap.proof.every import exponential

UNIT = ExponentialNoise(Fraction(1))


class TopK(dpgap.NoisyTopK):
    """As it ships, for others to spoil."""

    __slots__ = ()

    def extremes(self, answers, falls, noise, winners):
        return extremes(answers, falls, noise, winners)

    def shift(self, place, falls, winners, by):
        return shift_of(place, falls, winners, by)

    def align(self, answers, neighbour, noise, output):
        winners, falls = output[0], self.falls(answers, neighbour)
        by = self.extremes(answers, falls, noise, winners)
        return [self.shift(i, falls, winners, by) for i in range(len(answers))]


class Paper(TopK):
    """The paper's: winners make up for their own change and the best loser's."""

    __slots__ = ()

    def align(self, answers, neighbour, noise, output):
        return dpgap.NoisyTopK(self.k, 1, noise="laplace").align(answers, neighbour, noise, output)

    def unalign(self, answers, neighbour, noise, output):
        return [-by for by in self.align(answers, neighbour, noise, output)]


class ComesDownTooFar(TopK):
    """The naive one: winners come down by as much as the best loser, whatever noise they have."""

    __slots__ = ()

    def extremes(self, answers, falls, noise, winners):
        _, fall, _ = top_k._distances(answers, falls, noise, winners)
        return Extremes(fall, fall, None)


class NobodyPays(TopK):
    """The best loser makes up for its own fall, and no winner comes down for it."""

    __slots__ = ()

    def extremes(self, answers, falls, noise, winners):
        return Extremes(0, 0, top_k._distances(answers, falls, noise, winners)[2])


class RaisesTheOther(TopK):
    """Raises the loser that is best after the fall."""

    __slots__ = ()

    def extremes(self, answers, falls, noise, winners):
        rise, drop, raised = extremes(answers, falls, noise, winners)
        after = [a - fall + value for a, fall, value in zip(answers, falls, noise, strict=True)]
        losers = [i for i in range(len(answers)) if i not in winners]
        return Extremes(rise, drop, raised and max(losers, key=after.__getitem__))


class NeverRaises(TopK):
    """Leaves losers alone."""

    __slots__ = ()

    def shift(self, place, falls, winners, by):
        return shift_of(place, falls, winners, by) if place in winners else 0


class UndoesNothing(TopK):
    __slots__ = ()

    def unalign(self, answers, neighbour, noise, output):
        return [0] * len(noise)


class UndoesWithTheWayThere(TopK):
    """Takes the extremes of shifted noise for those of the noise that was drawn."""

    __slots__ = ()

    def unalign(self, answers, neighbour, noise, output):
        return [-by for by in self.align(answers, neighbour, noise, output)]


class UndoesTheWrongLoser(TopK):
    __slots__ = ()

    def unalign(self, answers, neighbour, noise, output):
        winners, falls = output[0], self.falls(answers, neighbour)
        by = extremes_undone(answers, falls, noise, winners)
        losers = [i for i in range(len(answers)) if i not in winners]
        if by.raised is not None:
            by = by._replace(raised=losers[0])
        return [-shift_of(i, falls, winners, by) for i in range(len(answers))]


WRONG = {
    Paper: "support",
    ComesDownTooFar: "support",
    NobodyPays: "cost",
    RaisesTheOther: "support",
    NeverRaises: "output",
    UndoesNothing: "one-to-one",
    UndoesWithTheWayThere: "one-to-one",
    UndoesTheWrongLoser: "one-to-one",
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_looks_like_the_alignment_is_refuted(kind):
    """One of three wins; where the way there leads back for one winner, two of three do."""
    k = 2 if kind is UndoesWithTheWayThere else 1
    assert prove(TopK(k, 1, noise="exponential"), 3).verdict == "PROVED"
    proof = prove(kind(k, 1, noise="exponential"), 3)
    assert (proof.verdict, proof.condition) == ("REFUTED", WRONG[kind])


@pytest.mark.parametrize("kind", [ComesDownTooFar, NobodyPays, RaisesTheOther, NeverRaises])
def test_it_is_refuted_for_every_n_too(kind, monkeypatch):
    sound = kind(1, 1, noise="exponential")
    monkeypatch.setattr(top_k, "extremes", sound.extremes)
    monkeypatch.setattr(top_k, "shift_of", sound.shift)
    with pytest.raises(Violation):
        exponential.prove_named(UNIT, 3, kind)


def test_without_a_way_back_it_is_cyclic():
    bare = type("Bare", (TopK,), {"__slots__": (), "unalign": property()})
    assert prove(bare(1, 1, noise="exponential"), 3).condition == "acyclic"


@pytest.mark.parametrize("monotonic", [False, True])
def test_many_answers_pass_at_made_up_points(monotonic):
    """Nine answers are beyond a proof that follows whole programs."""
    mechanism = dpgap.NoisyTopK(4, 1, monotonic=monotonic, noise="exponential")
    assert search(mechanism, 9, examples=8) is None


def _cases(count, seed):
    generator = random.Random(seed)
    for _ in range(count):
        n = generator.randint(1, 7)
        k, numbers = generator.randint(1, n), range(generator.choice([2, 5, 40]))
        answers = [generator.choice(numbers) for _ in range(n)]
        falls = [Fraction(generator.randint(0, 4), 4) for _ in range(n)]
        noise = [Fraction(generator.choice(numbers), 3) for _ in range(n)]
        noisy = [answer + value for answer, value in zip(answers, noise, strict=True)]
        order = sorted(range(n), key=noisy.__getitem__, reverse=True)
        yield answers, falls, noise, order, k


def _best(values, losers):
    return max((values[i] for i in losers), default=None)


@pytest.mark.parametrize("cases", [2_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_the_lemmas_hold_at_random_exact_points_and_the_bound_is_attained(cases):
    """Ties included: winners are then *a* top-k set, with the same leads. R is 1 here."""
    dearest = 0
    for answers, falls, noise, order, k in _cases(cases, seed=1):
        winners, losers = order[:k], order[k:]
        by = extremes(answers, falls, noise, winners)
        shifts = [shift_of(i, falls, winners, by) for i in range(len(answers))]
        after = [value + by for value, by in zip(noise, shifts, strict=True)]
        assert min(after) >= 0
        before = [a + value for a, value in zip(answers, noise, strict=True)]
        level = [a - f + value for a, f, value in zip(answers, falls, after, strict=True)]
        assert {before[i] - level[i] for i in winners} == {by.drop}
        if losers:
            assert _best(before, losers) - _best(level, losers) == by.drop
        assert sum(map(abs, shifts)) <= k
        dearest = max(dearest, sum(shifts) / Fraction(k) if losers else 0)
        if len({*before}) == len(before) and len({*level}) == len(level):
            undone = extremes_undone(answers, falls, after, winners)
            assert (undone.rise, undone.drop) == (by.rise, by.drop)
            back = [shift_of(i, falls, winners, undone) for i in range(len(answers))]
            assert back == shifts
    assert dearest == 1


def test_where_a_line_cuts_winners_make_up_for_their_own_fall_alone():
    falls = [Fraction(1, 2), Fraction(1, 3), Fraction(1)]
    assert [shift_of(i, falls, (0, 2), STAYING) for i in range(3)] == [Fraction(1, 2), 0, 1]


def test_two_programs_that_look_alike_on_few_answers_are_told_apart():
    """The restriction and the code are looked at: a place that is singled out is seen."""

    class FifthFallsTwice(dpgap.NoisyTopK):
        __slots__ = ()

        def falls(self, answers, neighbour):
            falls = dpgap.NoisyTopK.falls(self, answers, neighbour)
            return [fall * (2 if i == 4 else 1) for i, fall in enumerate(falls)]

    def made(*, k, epsilon=1, **more):
        return FifthFallsTwice(k, epsilon, noise="exponential", **more)

    with pytest.raises(Violation):
        exponential.prove_one_sided(made, "general")


@pytest.mark.parametrize(("n", "k"), [(2, 1), (3, 1), (3, 2)])
def test_nine_tenths_of_the_noise_are_not_enough(n, k):
    sound = dpgap.NoisyTopK(k, 1, noise="exponential")
    assert prove(sound, n, epsilon=Fraction(9, 10)).condition == "cost"


PAGE = (Path(__file__).parents[2] / "docs" / "every-n.md").read_text(encoding="utf-8")


def test_the_functions_from_run_to_a_release_are_those_that_the_page_names():
    section = PAGE.split("## From `run` to a release")[1].split("\n## ")[0]
    named = re.findall(r"`(\w+)\.build`", section)
    others = {each.__name__: each for each in (Run, HistogramRoute, Answering)}
    assert len(named) == len({*named}) == 11 + len(others)
    assert others.keys() <= {*named}
    assert all(callable(each.build) for each in others.values())
    made_of = set(re.findall(r"\| `(\w+)` \|", section))
    for name in {*named} - others.keys():
        hints = typing.get_type_hints(getattr(dpgap, name).build)
        draw = next(str(hint) for argument, hint in hints.items() if argument != "self")
        assert any(kind in draw for kind in made_of), name


def test_what_stays_by_hand_is_at_most_eight_sentences():
    listed = PAGE.split("## What stays by hand")[1].split("\n## ")[0].strip()
    assert len(re.findall(r"^\d\. ", listed, re.MULTILINE)) == 8
    assert len(re.findall(r"\.(\s|$)", re.sub(r"^\d\. ", "", listed, flags=re.MULTILINE))) <= 8

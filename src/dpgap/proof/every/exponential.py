"""Top-K with one-sided noise, for every n and k: the lemmas of docs/exponential-top-k.md.

Look at n answers of which some win, and at the alignment of `dpgap.mechanisms.top_k`. It is about a
few entries: the winners that have the least noise before and after each makes up for its fall, and
the losers that are best before and after. With any other winner and any other loser these are three
winners and three losers. The shipped functions are run on them (`prove_named`). They may coincide:
then their numbers are equal, which the theorem allows. It shows, for noise of scale R and falls
from 0 to R:

- support: no noise goes below zero;
- output: winners come down together, by as much as the best loser does, and no loser is above that;
  so the program gives the same output (`prove_kept`, on the program that ships);
- cost: each winner costs at most 1, and one of them with the raised loser at most 1; no other loser
  is shifted. So k winners cost at most k, and that is ε;
- one-to-one: `extremes_undone` inverts it, from unknowns that it cannot look through. Both
  maps are whole and linear on each path, so both determinants are ±1, for every n.

`prove_falls` shows that falls are from 0 to R. What is not few among many, `require_restriction`
ties to this. Joint Top-K is the same over half-margins of sets; Hybrid Top-K, where k are found,
with its threshold as one more loser. Where the threshold cuts, r winners and the threshold each
cost at most 1, which is what `spent` says (`prove_cut`).
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from dpgap.exact.parameters import altered
from dpgap.mechanisms import top_k
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.proof.checker import alignment
from dpgap.proof.checker.alignment import Draws, Given, Replayed, Source, collect
from dpgap.proof.checker.numbers import Violation, form_of
from dpgap.proof.checker.proving import DIRECTIONS, GENERAL, Theorem
from dpgap.proof.every import few_answers
from dpgap.proof.every.few_answers import FEW, Make, recording
from dpgap.proof.every.memory import require_uniform


def prove_one_sided(made: Make, kind: str, few: Sequence[tuple[int, int]] = FEW) -> list[Theorem]:
    """The theorems about a ranking; raises a violation if something does not hold."""
    few_answers.require_scales(made)
    sample = made(k=1)
    require_uniform(type(sample))
    few_answers.require_restriction(altered(sample, monotonic=False))
    for answers, moves, noise in _numbers(_MANY):
        neighbour, falls = _moved(answers, moves, 1)
        for winner in range(_MANY):
            won, given = (winner,), (answers, falls, noise)
            _require_by_extremes(sample, (answers, neighbour), given, won, (won, None))
    return [prove_falls(sample, kind), *_prove_of_any(sample, few)]


def prove_joint(made: Make, kind: str) -> list[Theorem]:
    """The theorems about Joint Top-K: half-margins, and Noisy Max over them."""
    sample = made(k=1)
    if sample.rise != farthest_move(kind):
        raise Violation("range", "falls must be taken from the farthest rise of half-margins")
    require_uniform(type(sample))
    over_sets = sample.over_sets
    few_answers.require_restriction(altered(over_sets, monotonic=False))
    _require_joint(made)
    same = [_prove_same(made(k=k), _over_sets, 3) for k in (1, 2)]
    return [*prove_half_margins(made, kind), *same, *_prove_of_any(over_sets, few_answers.ONE_WINS)]


def prove_hybrid(made: Make, kind: str) -> list[Theorem]:
    """The theorems about Hybrid Top-K: a ranking in which the threshold loses, or cuts."""
    few_answers.require_scales(made)
    sample = made(k=1)
    require_uniform(type(sample))
    few_answers.require_restriction(altered(sample.without_line, monotonic=False))
    _require_hybrid(made)
    cut = prove_cut(replace(sample.law, scale=Fraction(1)), top_k.shift_of.__code__)
    same = [_prove_same(made(k=k), _with_threshold, 3) for k in (1, 2)]
    falls = prove_falls(sample.without_line, kind)
    return [falls, cut, *same, *_prove_of_any(sample.without_line, FEW)]


def _prove_of_any(sample: NoisyTopK, few: Sequence[tuple[int, int]]) -> list[Theorem]:
    """The theorems that hold for all answers and moves; proved once for the same code."""
    law = replace(sample.law, scale=Fraction(1))
    shifting = [getattr(top_k, name).__code__ for name in _SHIFTING]
    named = [prove_named(law, losers, *shifting) for losers in (0, 3)]
    run: Any = type(sample).run
    kept = [prove_kept(sample, each, sample.law, run.__code__) for each in few]
    return [*named, *kept]


# --------------------------------------------------------------------------------------------------
# The lemmas.


def prove_falls(sample: NoisyTopK, kind: str) -> Theorem:
    """Each answer falls behind the rise by 0 at least, and by the noise's scale for one winner."""
    judge = recording(None, ties=True)
    answer, rest, others = map(judge.unknown, ("answer", "rest", "others_move"))
    move = judge.between("move", *DIRECTIONS[kind])
    if kind != GENERAL:  # all move the same way
        judge.given(others >= 0 if DIRECTIONS[kind][1] else others <= 0)
    most = sample.law.scale * sample.epsilon / sample.k / sample.sensitivity
    beyond = Violation("range", "an answer can fall behind by less than 0 or too much")

    def on_path() -> None:
        rise = sample.rise(answer + rest, answer + move + rest + others)
        judge.require(rise - move >= 0, beyond)
        judge.require(rise - move <= most, beyond)

    return judge.proved(f"{type(sample).__name__}, how far answers fall behind, {kind}", on_path)


_SHIFTING = ("extremes", "extremes_undone", "_distances", "_settled", "shift_of")


@lru_cache(maxsize=64)
def prove_named(law: Any, losers: int, *_: object) -> Theorem:
    """The alignment of three winners, and of three losers or none, whatever their numbers are.

    Winners 0 and 1 have the least noise before and after each makes up for its fall; losers 3 and 4
    are the best before and after.
    """
    judge = recording(None, ties=True)  # entries may coincide
    places, winners = range(3 + losers), (0, 1, 2)
    answers = [judge.unknown(f"q{i}") for i in places]
    falls = [judge.between(f"fall{i}", 0, 1) for i in places]
    functions = alignment.Functions()

    def unalign(answers: Any, _: Any, noise: Any, winners: Any) -> list[Any]:
        """The inverse: the shipped functions, on what they may see."""
        by = top_k.extremes_undone(answers, falls, noise, winners)
        return [-top_k.shift_of(i, falls, winners, by) for i in places]

    def on_path() -> None:
        draws = Draws(judge, [], [])
        noise = [draws.draw(law) for _ in places]
        noisy = [answer + value for answer, value in zip(answers, noise, strict=True)]
        for i in winners:
            judge.assume(noise[i] >= noise[0])
            judge.assume(noise[i] + falls[i] >= noise[1] + falls[1])
        for i in places[3:]:
            judge.assume(noisy[i] <= noisy[3])
            judge.assume(noisy[i] - falls[i] <= noisy[4] - falls[4])
        judge.begin("align")
        by = top_k.extremes(answers, falls, noise, winners)
        shifts = [top_k.shift_of(i, falls, winners, by) for i in places]
        skeleton = alignment.take_apart(winners)[0]
        made = alignment.Trial(answers, answers, draws, winners, skeleton, [], shifts, [], [])
        alignment.require_supported(draws, shifts)
        after = [value - fall + s for value, fall, s in zip(noisy, falls, shifts, strict=True)]
        # Winners come down alike, as the best loser does, and no loser stays above it.
        apart = Violation("output", "winners and the best loser do not come down together")
        drop = noisy[0] - after[0]
        for i in (1, 2):
            judge.require_zero(noisy[i] - after[i] - drop, apart)
        if losers:
            level = noisy[3] - drop
            for each in after[3:]:
                judge.require(each <= level, apart)
            if after[3] < level:
                judge.require(after[4] >= level, apart)
        # Each winner costs at most 1, one of them with the raised loser; other losers nothing.
        over = Violation("cost", "a winner can cost more than its part")
        for i in winners:
            judge.require_at_most([law], [shifts[i]], 1, over)
        if losers:
            judge.require_at_most([law, law], [shifts[1], shifts[3]], 1, over)
        for shift in shifts[4:]:
            if form_of(shift) != ({}, 0):
                judge.require(False, over)
        back = SimpleNamespace(unalign=unalign)
        made.told.append(alignment.require_undone(back, made, judge))
        functions.add(made)

    return judge.proved(f"one-sided noise, {law.name}, three winning, {losers} losing", on_path)


@lru_cache(maxsize=16)
def prove_cut(law: Any, *_: object) -> Theorem:
    """Where the threshold, entry 2, cuts: it and the winners 0 and 1 stay, and no loser rises.

    Each of these costs at most 1. Shifts depend on no noise, so they are acyclic.
    """
    judge = recording(None, ties=True)
    falls = [judge.between(f"fall{i}", 0, 1) for i in range(4)]

    def on_path() -> None:
        draws = Draws(judge, [], [])
        shifts = [top_k.shift_of(i, falls, (0, 1, 2), top_k.STAYING) for i in range(4)]
        for i, (fall, shift) in enumerate(zip(falls, shifts, strict=True)):
            draws.draw(law)
            moved = Violation("output", "winners or the threshold do not stay, or a loser rises")
            judge.require(shift - fall <= 0, moved)
            if i < 3:
                judge.require(shift - fall >= 0, moved)
            over = Violation("cost", "a draw can cost more than its part")
            judge.require_at_most([law], [shift], 1 if i < 3 else 0, over)
        alignment.require_supported(draws, shifts)

    return judge.proved(f"one-sided noise, {law.name}, the line cuts", on_path)


@lru_cache(maxsize=64)
def prove_kept(sample: NoisyTopK, few: tuple[int, int], *_: object) -> Theorem:
    """The output is the same if winners, and the best loser's level, move by the same amount."""
    winners, losers = few
    program = altered(sample, k=winners)
    judge = recording(None, ties=False)
    places = range(winners + losers)
    answers = [judge.unknown(f"q{i}") for i in places]
    neighbour = [judge.unknown(f"p{i}") for i in places]
    below = [judge.unknown(f"below{i}") for i in places]
    for each in below:
        judge.given(each >= 0)
    moved = judge.unknown("moved")

    def on_path() -> None:
        draws = Draws(judge, [], [])
        said = collect(program.run(Given(answers), Source(draws)))
        noisy = [answer + value for answer, value in zip(answers, draws.values, strict=True)]
        lost = [i for i in places if i not in said[0]]
        level = max(noisy[i] for i in lost) if lost else 0
        best = next((i for i in lost[:-1] if judge.unknown(f"t{i}") < 0), lost[-1] if lost else 0)
        after = [
            noisy[i] + moved if i not in lost else level + moved - (0 if i == best else below[i])
            for i in places
        ]
        shifts = [a - p - value for a, p, value in zip(after, neighbour, draws.values, strict=True)]
        again = Replayed(draws.laws, alignment.moved(draws.values, shifts), [])
        same = collect(program.run(Given(neighbour), Source(again)))
        alignment.require_same_output(said, same, judge)
        one_each = draws.laws == [program.law] * len(places) and len(again.taken) == len(places)
        judge.require(one_each, Violation("draws", "there must be one draw for each answer"))

    name = f"{type(sample).__name__} says the same, {winners} winning, {losers} losing"
    return judge.proved(name, on_path)


def _prove_same(mechanism: Any, other: Callable[..., Any], n: int) -> Theorem:
    """On the same noise the program gives the output of another one."""
    judge = recording(None, ties=False)
    program = mechanism
    if isinstance(mechanism, HybridTopK):
        program = altered(mechanism, threshold=judge.unknown("threshold"))
    answers = [judge.unknown(f"q{i}") for i in range(n)]

    def on_path() -> None:
        draws = Draws(judge, [], [])
        said = collect(program.run(Given(answers), Source(draws)))
        alignment.require_same_output(said, other(program, answers, draws), judge)

    name = type(mechanism).__name__
    return judge.proved(f"{name} is a noisy top-k, {n} answers, k = {mechanism.k}", on_path)


def _over_sets(program: JointTopK, answers: Any, draws: Draws) -> Any:
    """The output of Noisy Max over half-margins."""
    sets = list(itertools.combinations(range(len(answers)), program.k))
    margins = [program.half_margin(answers, each) for each in sets]
    again = Source(Replayed(draws.laws, draws.values, []))
    ((winner,), (lead,)) = program.over_sets.run(margins, again)
    return sets[winner], lead


def _with_threshold(program: HybridTopK, answers: Any, draws: Draws) -> Any:
    """The output of Noisy Top-K with the threshold as an answer, cut at k or at the threshold."""
    again = Source(Replayed(draws.laws, draws.values, []))
    every = altered(program.without_line, k=len(answers) + 1)
    winners, leads = every.run((*answers, program.threshold), again)
    end = min(program.k, winners.index(len(answers)))
    over = (*leads, 0)[end]
    return winners[:end], tuple(lead - over for lead in leads[:end])


# --------------------------------------------------------------------------------------------------
# On known numbers: the alignments of Joint and of Hybrid Top-K are that of Noisy Top-K.


_MANY = 4


def _moved(answers: Any, moves: Any, rise: Any) -> tuple[list[Any], list[Any]]:
    """The neighbour, and how far each answer falls behind the rise."""
    neighbour = [answer + move for answer, move in zip(answers, moves, strict=False)]
    return neighbour, [rise - move for _, move in zip(answers, moves, strict=False)]


def _require_joint(made: Make) -> None:
    for k, (every, moves, noise) in itertools.product((1, 2, 3), _numbers(6)):
        mechanism, answers = made(k=k), every[:_MANY]
        neighbour, _ = _moved(answers, moves, 0)
        sets = list(itertools.combinations(range(_MANY), k))
        before, after = (
            [mechanism.half_margin(side, each) for each in sets] for side in (answers, neighbour)
        )
        falls = [mechanism.rise + old - new for old, new in zip(before, after, strict=True)]
        for winner in range(len(sets)):
            sides, given = (answers, neighbour), (before, falls, noise[: len(sets)])
            _require_by_extremes(mechanism, sides, given, (winner,), (sets[winner], None))


def _require_hybrid(made: Make) -> None:
    for k, (every, moves, noise) in itertools.product((1, 2, 3), _numbers(_MANY + 1)):
        mechanism, answers = made(k=k), every[:_MANY]
        neighbour, falls = _moved(answers, moves, 1)
        given = (*answers, mechanism.threshold), (*falls, 1), noise
        for winners in itertools.combinations(range(_MANY), k):
            sides, few = (answers, neighbour), winners[1:]
            _require_by_extremes(mechanism, sides, given, winners, (winners, None))
            _require_by_extremes(mechanism, sides, given, (*few, _MANY), (few, None))
        parts = [mechanism.spent(r) * k / mechanism.epsilon for r in range(k + 1)]
        if parts != [*range(1, k + 1), k]:
            raise Violation("budget", "there must be a part for each answer and the threshold")


def _numbers(count: int) -> list[tuple[list[Fraction], list[Fraction], list[Fraction]]]:
    return [
        (
            [Fraction(start * (at + 1) % 7) for at in range(count)],
            [Fraction((start + 3 * at) % 5, 4) for at in range(count)],
            [Fraction((start * start + 5 * at) % 11) for at in range(count)],
        )
        for start in range(1, 12)
    ]


def _require_by_extremes(
    mechanism: Any, sides: tuple[Any, Any], given: tuple[Any, ...], shifted: Any, output: Any
) -> None:
    """Raise a violation unless shifts are those of the extremes, and `unalign` undoes them.

    `shifted` are the winners, or where the threshold cut the ranking the winners and the threshold.
    """
    levels, falls, noise = given
    cut = len(shifted) > len(output[0])
    by = top_k.STAYING if cut else top_k.extremes(levels, falls, noise, shifted)
    shifts = [top_k.shift_of(i, falls, shifted, by) for i in range(len(falls))]
    after = [value + shift for value, shift in zip(noise, shifts, strict=True)]
    same = list(mechanism.align(*sides, noise, output)) == shifts
    if not same or list(mechanism.unalign(*sides, after, output)) != [-by for by in shifts]:
        raise Violation("restriction", "an alignment is not that of a noisy top-k")


# --------------------------------------------------------------------------------------------------
# Joint Top-K's utility for every n and k: two answers in a set and two outside show how it moves.
#
# A half-margin is about the smallest answer in the set and the largest outside. On the neighbour
# either may be another one. So two inside and two outside are all that it is about, before and
# after.


def farthest_move(kind: str) -> Fraction:
    """How far half-margins can move, up or down, in units of Δ."""
    return Fraction(1) if kind == GENERAL else Fraction(1, 2)


_FEW = ((1, 1), (1, 2), (2, 1), (2, 2))
"""Inside and outside."""


def prove_half_margins(made: Make, kind: str) -> list[Theorem]:
    """Half-margins move within a range that the noise is large enough for."""
    far = farthest_move(kind)
    for k, epsilon, delta in ((1, 1, 1), (2, 1, 3), (5, Fraction(7, 3), 2)):
        mechanism = made(k=k, epsilon=epsilon, sensitivity=delta)
        if mechanism.law.scale * mechanism.epsilon != 2 * far * delta:
            raise Violation("budget", "the scale of the noise must not depend on k")
    return [prove_range(made(k=few[0]), few, kind, -far, far) for few in _FEW]


def prove_range(
    mechanism: Any, few: tuple[int, int], kind: str, low: Fraction, high: Fraction
) -> Theorem:
    """Half-margins of so many answers in a set, and so many outside, move within this range."""
    inside, outside = few
    judge = recording(None, ties=True)
    answers, _, neighbour = judge.neighbours(inside + outside, DIRECTIONS[kind])
    beyond = Violation("range", f"a half-margin can move beyond {low}Δ or {high}Δ")

    def on_path() -> None:
        before, after = (
            mechanism.half_margin(side, range(inside)) for side in (answers, neighbour)
        )
        judge.require(after - before >= low, beyond)
        judge.require(after - before <= high, beyond)

    name = type(mechanism).__name__
    return judge.proved(f"{name}, half-margins, {inside} in, {outside} out, {kind}", on_path)

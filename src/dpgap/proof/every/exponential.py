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

A half-margin, the utility of Joint Top-K, is about the smallest answer in the set and the largest
outside. On the neighbour either may be another one. So two inside and two outside are all that it
is about, before and after (`prove_half_margins`).
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from dpgap.exact.parameters import altered
from dpgap.mechanisms import top_k
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.proof.checker import alignment, cycles, skeletons
from dpgap.proof.checker.alignment import Draws, NoiseSource, ReadOnly, Replayed
from dpgap.proof.checker.numbers import Affine, Violation, form_of
from dpgap.proof.checker.provers import Theorem
from dpgap.proof.checker.proving import DIRECTIONS, GENERAL
from dpgap.proof.checker.skeletons import collect
from dpgap.proof.every import few_answers
from dpgap.proof.every.few_answers import FEW, KnownNumbers, Make, recording
from dpgap.proof.every.memory import require_uniform

if TYPE_CHECKING:
    from dpgap.proof.checker.recording import Recording


def prove_one_sided(make: Make, kind: str, sizes: Sequence[tuple[int, int]] = FEW) -> list[Theorem]:
    """The theorems about a ranking; raises a violation if something does not hold."""
    few_answers.require_scales(make)
    sample = make(k=1)
    require_uniform(type(sample))
    few_answers.require_restriction(altered(sample, monotonic=False))
    for numbers in _known_numbers(_MANY):
        levels = Levels(numbers.answers, _falls(numbers.moves, 1), numbers.noise)
        for winner in range(_MANY):
            output = ((winner,), None)
            _require_by_extremes(sample, numbers, levels, (winner,), output)
    return [prove_falls(sample, kind), *_prove_of_any(sample, sizes)]


def prove_joint(make: Make, kind: str) -> list[Theorem]:
    """The theorems about Joint Top-K: half-margins, and Noisy Max over them."""
    sample = make(k=1)
    if sample.rise != farthest_move(kind):
        raise Violation("range", "falls must be taken from the farthest rise of half-margins")
    require_uniform(type(sample))
    over_sets = sample.over_sets
    few_answers.require_restriction(altered(over_sets, monotonic=False))
    _require_joint(make)
    theorems = prove_half_margins(make, kind)
    theorems += [_prove_same(make(k=k), _over_sets, 3) for k in (1, 2)]
    return theorems + _prove_of_any(over_sets, few_answers.ONE_WINS)


def prove_hybrid(make: Make, kind: str) -> list[Theorem]:
    """The theorems about Hybrid Top-K: a ranking in which the threshold loses, or cuts."""
    few_answers.require_scales(make)
    sample = make(k=1)
    require_uniform(type(sample))
    few_answers.require_restriction(altered(sample.without_line, monotonic=False))
    _require_hybrid(make)
    law = replace(sample.law, scale=Fraction(1))
    theorems = [prove_falls(sample.without_line, kind), prove_cut(law, top_k.shift_of.__code__)]
    theorems += [_prove_same(make(k=k), _with_threshold, 3) for k in (1, 2)]
    return theorems + _prove_of_any(sample.without_line, FEW)


def _prove_of_any(sample: NoisyTopK, sizes: Sequence[tuple[int, int]]) -> list[Theorem]:
    """The theorems that hold for all answers and moves; proved once for the same code."""
    law = replace(sample.law, scale=Fraction(1))
    code = tuple(getattr(top_k, name).__code__ for name in _SHIFTING)
    theorems = [prove_named(law, losers, code) for losers in (0, 3)]
    run: Any = type(sample).run
    for winners, losers in sizes:
        theorems.append(prove_kept(sample, winners, losers, (sample.law, run.__code__)))
    return theorems


def prove_falls(sample: NoisyTopK, kind: str) -> Theorem:
    """Each answer falls behind the rise by 0 at least, and by the noise's scale for one winner."""
    judge = recording(None, ties=True)
    answer = judge.unknown("answer")
    other_answers = judge.unknown("rest")
    low, high = DIRECTIONS[kind]
    move = judge.between("move", low, high)
    move_of_others = judge.unknown("others_move")
    if kind != GENERAL:  # all move the same way
        judge.assume_everywhere(move_of_others >= 0 if high else move_of_others <= 0)
    limit = sample.law.scale * sample.epsilon / sample.k / sample.sensitivity
    beyond = Violation("range", "an answer can fall behind by less than 0 or too much")

    def on_path() -> None:
        sum_before = answer + other_answers
        rise = sample.rise(sum_before, answer + move + other_answers + move_of_others)
        judge.require(rise - move >= 0, beyond)
        judge.require(rise - move <= limit, beyond)

    return judge.proved(f"{type(sample).__name__}, how far answers fall behind, {kind}", on_path)


_SHIFTING = ("extremes", "extremes_undone", "_distances", "_settled", "shift_of")


@lru_cache(maxsize=64)
def prove_named(law: Any, losers: int, code: tuple[Any, ...] = ()) -> Theorem:
    """The alignment of three winners, and of three losers or none, whatever their numbers are.

    Winners 0 and 1 have the least noise before and after each makes up for its fall; losers 3 and 4
    are the best before and after. `code` is that of the functions, which are looked up again.
    """
    judge = recording(None, ties=True)  # entries may coincide
    entries = range(3 + losers)
    winners = (0, 1, 2)
    answers = [judge.unknown(f"q{i}") for i in entries]
    falls = [judge.between(f"fall{i}", 0, 1) for i in entries]
    functions = cycles.Functions()

    def unalign(answers: Any, _: Any, noise: Any, winners: Any) -> list[Any]:
        """The inverse: the shipped functions, on what they may see."""
        extremes = top_k.extremes_undone(answers, falls, noise, winners)
        return [-top_k.shift_of(i, falls, winners, extremes) for i in entries]

    def on_path() -> None:
        draws = Draws(judge, [], [])
        noise = [draws.draw(law) for _ in entries]
        noisy = [answer + value for answer, value in zip(answers, noise, strict=True)]
        for i in winners:
            judge.assume(noise[i] >= noise[0])
            judge.assume(noise[i] + falls[i] >= noise[1] + falls[1])
        for i in entries[3:]:
            judge.assume(noisy[i] <= noisy[3])
            judge.assume(noisy[i] - falls[i] <= noisy[4] - falls[4])
        judge.begin("align")
        extremes = top_k.extremes(answers, falls, noise, winners)
        shifts = [top_k.shift_of(i, falls, winners, extremes) for i in entries]
        skeleton, _ = skeletons.take_apart(winners)
        path = alignment.Trial(answers, answers, draws, winners, skeleton, [], shifts, [], [])
        alignment.require_supported(draws, shifts)
        after = [noisy[i] - falls[i] + shifts[i] for i in entries]
        _require_down_together(judge, noisy, after)
        _require_parts(judge, law, shifts)
        inverse = SimpleNamespace(unalign=unalign)
        path.calls.append(alignment.require_undone(inverse, path, judge))
        functions.add(path)

    return judge.proved(f"one-sided noise, {law.name}, three winning, {losers} losing", on_path)


def _require_down_together(
    judge: "Recording", noisy: Sequence[Affine], after: Sequence[Affine]
) -> None:
    """Winners come down alike, as the best loser does, and no loser stays above it."""
    apart = Violation("output", "winners and the best loser do not come down together")
    drop = noisy[0] - after[0]
    for i in (1, 2):
        judge.require_zero(noisy[i] - after[i] - drop, apart)
    if len(noisy) > 3:
        level = noisy[3] - drop
        for loser_after in after[3:]:
            judge.require(loser_after <= level, apart)
        if after[3] < level:
            judge.require(after[4] >= level, apart)


def _require_parts(judge: "Recording", law: Any, shifts: Sequence[Any]) -> None:
    """Each winner costs at most 1, one of them with the raised loser; other losers nothing."""
    over = Violation("cost", "a winner can cost more than its part")
    for shift in shifts[:3]:
        judge.require_at_most([law], [shift], 1, over)
    if len(shifts) > 3:
        judge.require_at_most([law, law], [shifts[1], shifts[3]], 1, over)
    for shift in shifts[4:]:
        if form_of(shift) != ({}, 0):
            judge.require(False, over)


@lru_cache(maxsize=16)
def prove_cut(law: Any, code: Any = None) -> Theorem:
    """Where the threshold, entry 2, cuts: it and the winners 0 and 1 stay, and no loser rises.

    Each of these costs at most 1. Shifts depend on no noise, so they are acyclic. `code` is that of
    the function, which is looked up again.
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
            stays = i < 3
            if stays:
                judge.require(shift - fall >= 0, moved)
            over = Violation("cost", "a draw can cost more than its part")
            judge.require_at_most([law], [shift], int(stays), over)
        alignment.require_supported(draws, shifts)

    return judge.proved(f"one-sided noise, {law.name}, the line cuts", on_path)


@lru_cache(maxsize=64)
def prove_kept(sample: NoisyTopK, winners: int, losers: int, code: tuple[Any, ...] = ()) -> Theorem:
    """The output is the same if winners, and the best loser's level, move by the same amount.

    `code` is that of the program, which is looked up again.
    """
    program = altered(sample, k=winners)
    judge = recording(None, ties=False)
    indices = range(winners + losers)
    answers = [judge.unknown(f"q{i}") for i in indices]
    neighbour = [judge.unknown(f"p{i}") for i in indices]
    below = [judge.unknown(f"below{i}") for i in indices]
    for distance in below:
        judge.assume_everywhere(distance >= 0)
    moved = judge.unknown("moved")

    def on_path() -> None:
        draws = Draws(judge, [], [])
        output = collect(program.run(ReadOnly(answers), NoiseSource(draws)))
        noisy = [answer + value for answer, value in zip(answers, draws.values, strict=True)]
        after = [value + moved for value in noisy]
        lost = [i for i in indices if i not in output[0]]
        if lost:
            level = max(noisy[i] for i in lost) + moved
            best = next((i for i in lost[:-1] if judge.unknown(f"t{i}") < 0), lost[-1])
            for i in lost:
                after[i] = level if i == best else level - below[i]
        shifts = [after[i] - neighbour[i] - draws.values[i] for i in indices]
        replayed = Replayed(draws.laws, alignment.moved(draws.values, shifts), [])
        same = collect(program.run(ReadOnly(neighbour), NoiseSource(replayed)))
        alignment.require_same_output(output, same, judge)
        expected_laws = [program.law] * len(indices)
        is_one_each = draws.laws == expected_laws and len(replayed.drawn_laws) == len(indices)
        judge.require(is_one_each, Violation("draws", "there must be one draw for each answer"))

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
        output = collect(program.run(ReadOnly(answers), NoiseSource(draws)))
        alignment.require_same_output(output, other(program, answers, draws), judge)

    name = type(mechanism).__name__
    return judge.proved(f"{name} is a noisy top-k, {n} answers, k = {mechanism.k}", on_path)


def _over_sets(program: JointTopK, answers: Any, draws: Draws) -> Any:
    """The output of Noisy Max over half-margins."""
    sets = list(itertools.combinations(range(len(answers)), program.k))
    margins = [program.half_margin(answers, members) for members in sets]
    replayed = NoiseSource(Replayed(draws.laws, draws.values, []))
    ((winner,), (lead,)) = program.over_sets.run(margins, replayed)
    return sets[winner], lead


def _with_threshold(program: HybridTopK, answers: Any, draws: Draws) -> Any:
    """The output of Noisy Top-K with the threshold as an answer, cut at k or at the threshold."""
    replayed = NoiseSource(Replayed(draws.laws, draws.values, []))
    full_ranking = altered(program.without_line, k=len(answers) + 1)
    winners, leads = full_ranking.run((*answers, program.threshold), replayed)
    end = min(program.k, winners.index(len(answers)))
    lead_of_end = leads[end] if end < len(leads) else 0
    return winners[:end], tuple(lead - lead_of_end for lead in leads[:end])


# On known numbers: the alignments of Joint and of Hybrid Top-K are that of Noisy Top-K.


_MANY = 4


class Levels(NamedTuple):
    """What competes in a ranking: its numbers, how far each falls behind the rise, and noise."""

    values: Sequence[Any]
    falls: Sequence[Any]
    noise: Sequence[Any]


def _falls(moves: Sequence[Fraction], rise: int) -> list[Fraction]:
    """How far each answer falls behind the rise."""
    return [rise - move for move in moves]


def _require_joint(make: Make) -> None:
    for k, numbers in itertools.product((1, 2, 3), _known_numbers(6)):
        mechanism = make(k=k)
        small = numbers.at(range(_MANY), range(6))
        sets = list(itertools.combinations(range(_MANY), k))
        before = [mechanism.half_margin(small.answers, members) for members in sets]
        after = [mechanism.half_margin(small.neighbour, members) for members in sets]
        falls = [mechanism.rise + old - new for old, new in zip(before, after, strict=True)]
        levels = Levels(before, falls, small.noise[: len(sets)])
        for winner, members in enumerate(sets):
            _require_by_extremes(mechanism, small, levels, (winner,), (members, None))


def _require_hybrid(make: Make) -> None:
    for k, numbers in itertools.product((1, 2, 3), _known_numbers(_MANY + 1)):
        mechanism = make(k=k)
        small = numbers.at(range(_MANY), range(_MANY + 1))
        levels = Levels(
            [*small.answers, mechanism.threshold], [*_falls(small.moves, 1), 1], small.noise
        )
        for winners in itertools.combinations(range(_MANY), k):
            _require_by_extremes(mechanism, small, levels, winners, (winners, None))
            fewer = winners[1:]
            _require_by_extremes(mechanism, small, levels, (*fewer, _MANY), (fewer, None))
        parts = [mechanism.spent(count) * k / mechanism.epsilon for count in range(k + 1)]
        if parts != [*range(1, k + 1), k]:
            raise Violation("budget", "there must be a part for each answer and the threshold")


def _known_numbers(count: int) -> list[KnownNumbers]:
    return [_numbers_from(start, count) for start in range(1, 12)]


def _numbers_from(start: int, count: int) -> KnownNumbers:
    return KnownNumbers(
        [Fraction(start * (index + 1) % 7) for index in range(count)],
        [Fraction((start + 3 * index) % 5, 4) for index in range(count)],
        [Fraction((start * start + 5 * index) % 11) for index in range(count)],
    )


def _require_by_extremes(
    mechanism: Any, numbers: KnownNumbers, levels: Levels, shifted: Any, output: Any
) -> None:
    """Raise a violation unless shifts are those of the extremes, and `unalign` undoes them.

    `shifted` are the winners, or where the threshold cut the ranking the winners and the threshold.
    """
    wrong = Violation("restriction", "an alignment is not that of a noisy top-k")
    values, falls, noise = levels
    extremes = top_k.STAYING
    is_cut = len(shifted) > len(output[0])
    if not is_cut:
        extremes = top_k.extremes(values, falls, noise, shifted)
    shifts = [top_k.shift_of(i, falls, shifted, extremes) for i in range(len(falls))]
    if list(mechanism.align(numbers.answers, numbers.neighbour, noise, output)) != shifts:
        raise wrong
    after = [value + shift for value, shift in zip(noise, shifts, strict=True)]
    back = mechanism.unalign(numbers.answers, numbers.neighbour, after, output)
    if list(back) != [-shift for shift in shifts]:
        raise wrong


def farthest_move(kind: str) -> Fraction:
    """How far half-margins can move, up or down, in units of Δ."""
    return Fraction(1) if kind == GENERAL else Fraction(1, 2)


_SIZES = ((1, 1), (1, 2), (2, 1), (2, 2))
"""Inside and outside."""


def prove_half_margins(make: Make, kind: str) -> list[Theorem]:
    """Half-margins move within a range that the noise is large enough for."""
    far = farthest_move(kind)
    for k, epsilon, delta in ((1, 1, 1), (2, 1, 3), (5, Fraction(7, 3), 2)):
        mechanism = make(k=k, epsilon=epsilon, sensitivity=delta)
        if mechanism.law.scale * mechanism.epsilon != 2 * far * delta:
            raise Violation("budget", "the scale of the noise must not depend on k")
    return [
        prove_range(make(k=inside), (inside, outside), kind, -far, far)
        for inside, outside in _SIZES
    ]


def prove_range(
    mechanism: Any, size: tuple[int, int], kind: str, low: Fraction, high: Fraction
) -> Theorem:
    """Half-margins of so many answers in a set, and so many outside, move within this range."""
    inside, outside = size
    judge = recording(None, ties=True)
    answers, _, neighbour = judge.neighbours(inside + outside, DIRECTIONS[kind])
    beyond = Violation("range", f"a half-margin can move beyond {low}Δ or {high}Δ")

    def on_path() -> None:
        before = mechanism.half_margin(answers, range(inside))
        after = mechanism.half_margin(neighbour, range(inside))
        judge.require(after - before >= low, beyond)
        judge.require(after - before <= high, beyond)

    name = type(mechanism).__name__
    return judge.proved(f"{name}, half-margins, {inside} in, {outside} out, {kind}", on_path)

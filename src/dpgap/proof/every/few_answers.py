"""Proofs for every n from a few answers: rankings, measurements and histograms.

A whole program is followed on few answers. The link to any number of answers is checked on known
numbers: a program treats a few answers among many as it treats the few alone.

**Top-K: two winners and two losers.** Look at a violation among n answers. Either two winners come
out in another order, or a loser beats a winner, or a lead changes, or a winner's shift costs too
much. Each is about at most two winners, and about the losers that are best before and after. Where
all answers win there is no loser, and leads are over the last winner. Run the program on these few
alone: it ranks them as it ranked them among all, and shifts them alike (`require_restriction`). So
the violation shows there; and there is none, for all answers, neighbours and noise. A loser is not
shifted. A winner's shift depends on losers' draws only, so losers before winners is an order for
every n: the alignment is acyclic, and |det J| = 1. An output has finitely many discrete parts. Each
winner costs at most ε/k, and there are k.

**Measurements: three values.** Each value has a draw of its own, and perhaps there is one that all
share. What is released of a value depends on the value and on these draws, and its shift on how it
moved and on whether any value rose. So an arbitrary value and one that rose show whether the output
changes. Where all draws have one density, its cost is how far the largest coordinate grows: the
largest after the shifts grew at least as much by itself, so a value that has it shows the cost.
That is three values, or two where no draw is shared: then nothing asks whether any value rose. With
independent draws each of n values costs at most ε/n. Shifts depend on no noise, so they are acyclic
and |det J| = 1. There is no discrete part.

**The noisy histogram: two coordinates, and the sum of the others.** Each answer has a draw of its
own, which makes up for the answer's own change and costs as much as that change is long. One unit
moves all answers together by at most reach·Δ. So all draws together cost at most reach·Δ over the
scale, and that is ε. Two coordinates are followed, with unknown changes and an unknown reach; all
others have moved by an unknown sum. Shifts depend on no noise. All noisy answers are the output
here, so thresholds and ties do not matter: what is computed from them costs nothing more.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpgap.exact.laws import Scalar
from dpgap.exact.parameters import altered
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.measuring import Joint
from dpgap.proof.checker.alignment import Functions, Trial, trial
from dpgap.proof.checker.numbers import Exact, Violation, draws_of, form_of
from dpgap.proof.checker.proving import DIRECTIONS, Theorem
from dpgap.proof.every.memory import require_uniform

if TYPE_CHECKING:
    from dpgap.proof.checker.symbolic import Recording

_MANY = 5
_SIZES = (1, 2, 3, 4, 5, 8)
MOVES = (Fraction(1, 3), Fraction(1), Fraction(-5, 2))

Make = Callable[..., Any]
"""Makes a mechanism from ε, the sensitivity and, where it has them, k or the reach."""


def recording(epsilon: Exact | None, *, ties: bool) -> "Recording":
    """A judge that writes down all questions; without ε, costs are proved elsewhere."""
    from dpgap.proof.checker.symbolic import Recording  # z3 takes its time to load

    return Recording(epsilon, ties=ties)


def _prove_few(
    name: str,
    program: Any,
    n: int,
    kind: str,
    allowed: Exact | None,
    settled: Callable[[Trial], bool],
    *,
    ties: bool = False,
) -> Theorem:
    """The theorem that the program on n answers costs at most `allowed`; raises a violation.

    It calls `run`, `align` and `run` again, as the checker does (`checker.alignment`), and writes
    everything down. `settled` says whether the shifts of a path depend on noise in an order that
    holds for every n.
    """
    judge = recording(allowed, ties=ties)
    answers, _, neighbour = judge.neighbours(n, DIRECTIONS[kind])
    laws: list[Any] = []
    functions = Functions()

    def on_path() -> None:
        made = trial(program, answers, neighbour, judge)
        functions.add(made)
        laws.extend(made.draws.laws if not laws else [])
        uneven = Violation("draws", "how many draws are taken must not depend on noise")
        judge.require(laws == made.draws.laws, uneven)
        cyclic = Violation("acyclic", "shifts depend on noise in a way that may be cyclic")
        judge.require(settled(made), cyclic)

    return judge.proved(f"{name}, {kind}", on_path)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Noise that is known; it remembers which laws it was drawn from."""

    values: Iterator[Scalar]
    laws: list[Any]

    def draw(self, law: Any) -> Scalar:
        """The next value."""
        self.laws.append(law)
        return next(self.values)


def _released(
    mechanism: Any, values: Any, moves: Any, noise: Any
) -> tuple[Any, list[Any], list[Any]]:
    """The output on known noise, the shifts, and the laws that the mechanism drew from."""
    source = Fixed(iter(noise), [])
    said = mechanism.run(values, source)
    neighbour = [value + move for value, move in zip(values, moves, strict=True)]
    shifts = list(mechanism.align(values, neighbour, noise[: len(source.laws)], said))
    return said, shifts, source.laws


def _subsets(most: int, needed: Set[int] = frozenset()) -> Iterator[tuple[int, ...]]:
    """All subsets of at most `most` of five places that include the needed ones."""
    for size in range(1, most + 1):
        for kept in itertools.combinations(range(_MANY), size):
            if needed <= {*kept}:
                yield kept


# --------------------------------------------------------------------------------------------------
# Rankings.


FEW = ((1, 0), (2, 0), (3, 0), (1, 1), (1, 2), (2, 1), (2, 2))
"""Winners and losers."""
ONE_WINS = tuple(each for each in FEW if each[0] == 1)


def prove_ranking(made: Make, kind: str, few: Sequence[tuple[int, int]] = FEW) -> list[Theorem]:
    """The theorems about few answers; raises a violation if something does not hold."""
    require_scales(made)
    return _prove_ranking(made(k=1), kind, few, 1, ties=False)


def prove_known_ranking(
    mechanism: Any, kind: str, ties: bool, share: Exact, losers: int
) -> list[Theorem]:
    """The same for one mechanism, if only a share of its ε is claimed; without losers all win."""
    _require_scale(mechanism)
    few = [each for each in FEW if each[0] <= mechanism.k and bool(each[1]) == bool(losers)]
    return _prove_ranking(mechanism, kind, few, share, ties=ties)


def _prove_ranking(
    sample: Any, kind: str, few: Sequence[tuple[int, int]], share: Exact, *, ties: bool
) -> list[Theorem]:
    require_uniform(type(sample))
    require_restriction(sample)
    law = replace(sample.law, scale=sample.law.scale * sample.epsilon / sample.k)
    theorems = []
    for winners, losers in few:
        program = altered(sample, k=winners, law=law)
        name = f"{type(sample).__name__}, {law.name}, {winners} winning, {losers} losing"
        size = winners + losers
        allowed = winners * share if size < 4 else None  # two winners cost what each costs alone
        order = _losers_come_first
        theorems.append(_prove_few(name, program, size, kind, allowed, order, ties=ties))
    return theorems


def require_scales(made: Make) -> None:
    """Raise a violation unless the scale is right for all k, ε and sensitivities."""
    for k, epsilon, delta in itertools.product(_SIZES, (1, Fraction(7, 3)), (1, 3)):
        _require_scale(made(k=k, epsilon=epsilon, sensitivity=delta))
    on_grid = made(k=3, sensitivity=Fraction(4, 3), grid=Fraction(1, 4))
    _require_scale(on_grid.in_steps())
    if on_grid.law.scaled(Fraction(4)) != on_grid.in_steps().law:
        raise Violation("budget", "noise on a grid must be that of the grid's steps")


def _require_scale(mechanism: Any) -> None:
    """Raise a violation unless the scale of the noise fits each winner's part of ε, ε/k."""
    delta = getattr(mechanism, "sensitivity", 1)
    doubled = 1 if getattr(mechanism, "monotonic", False) else 2
    if mechanism.law.scale * mechanism.epsilon != doubled * mechanism.k * delta:
        raise Violation("budget", "noise must grow with k as each winner's part of ε falls")
    if getattr(mechanism.law, "step", delta) != delta:
        raise Violation("budget", "stairs must be as wide as the sensitivity")


def _losers_come_first(made: Trial) -> bool:
    """Whether losers are not shifted, and winners' shifts depend on losers' draws only."""
    (winners, _), draws = made.output, range(len(made.draws.values))
    losers = {draw for draw in draws if draw not in winners}
    needs = [draws_of(shift) for shift in made.shifts]
    asked: set[int] = set().union(*(about for about, _ in made.questions))
    still = all(form_of(made.shifts[loser]) == ({}, 0) for loser in losers)
    return still and all(need <= losers for need in needs) and asked <= losers


_restricted: set[tuple[Any, ...]] = set()
"""The code for which it was shown."""


def require_restriction(mechanism: Any) -> None:
    """Raise a violation unless few among many are ranked and shifted as they are alone.

    For five answers in every order, and every k.
    """
    kind = type(mechanism)
    code = kind, mechanism.law.signed, kind.run.__code__, kind.align.__code__
    if code in _restricted:
        return
    for order in itertools.permutations(range(_MANY)):
        moves = [Fraction((3 * at + sum(order[: at + 1])) % 5 - 2, 2) for at in order]
        answers = [Fraction(7 * at % 5) for at in range(_MANY)]
        noise = [10 * rank - answer for rank, answer in zip(order, answers, strict=True)]
        for k in range(1, _MANY + 1):
            _require_ranked(altered(mechanism, k=k), (answers, moves, noise))
    _restricted.add(code)


def _require_ranked(mechanism: Any, numbers: Sequence[Sequence[Fraction]]) -> None:
    winners, leads, shifts = _ranked(mechanism, numbers)
    answers, moves, noise = numbers
    losers = [at for at in range(_MANY) if at not in winners]
    before = [answer + value for answer, value in zip(answers, noise, strict=True)]
    after = [value + move for value, move in zip(before, moves, strict=True)]
    deciding = {max(losers, key=side.__getitem__) for side in (before, after) if losers}
    deciding = deciding or {winners[-1]}
    if not mechanism.law.signed:  # the least noise, before and after
        risen = [value - move for value, move in zip(noise, moves, strict=True)]
        deciding |= {min(winners, key=side.__getitem__) for side in (noise, risen)}
    for kept in _subsets(_MANY - 1, deciding):
        fewer = altered(mechanism, k=sum(at in winners for at in kept))
        if not fewer.k:
            continue
        alone = _ranked(fewer, [[side[at] for at in kept] for side in numbers])
        among = (
            tuple(kept.index(winner) for winner in winners if winner in kept),
            [lead for winner, lead in zip(winners, leads, strict=False) if winner in kept],
            [shifts[at] for at in kept],
        )
        if alone != among:
            raise Violation("restriction", "few among many are not treated as they are alone")


def _ranked(mechanism: Any, numbers: Sequence[Sequence[Fraction]]) -> Any:
    answers, moves, noise = numbers
    (winners, leads), shifts, _ = _released(mechanism, answers, moves, noise)
    if hasattr(mechanism, "unalign"):
        neighbour = [answer + move for answer, move in zip(answers, moves, strict=True)]
        shifted = [value + shift for value, shift in zip(noise, shifts, strict=True)]
        back = mechanism.unalign(answers, neighbour, shifted, (winners, None))
        if [-shift for shift in shifts] != list(back):
            raise Violation("one-to-one", "unalign does not lead back")
    return winners, list(leads or ()), shifts


# --------------------------------------------------------------------------------------------------
# Measurements.


def prove_measurement(made: Make, kind: str) -> list[Theorem]:
    """The theorems about few values; raises a violation if something does not hold."""
    sample = made()
    joint = isinstance(sample, Joint)  # as much noise for n values; else n times as much
    for n, epsilon, delta in itertools.product(_SIZES, (1, Fraction(7, 3)), (1, 3)):
        mechanism = made(epsilon=epsilon, sensitivity=delta)
        if mechanism.law(n).scale * mechanism.epsilon != (1 if joint else n) * delta:
            raise Violation("budget", "the scale of the noise does not fit the number of values")
    on_grid = made(sensitivity=Fraction(4, 3), grid=Fraction(1, 4))
    if on_grid.law_in_steps(4).scale * on_grid.epsilon != (1 if joint else 4) * 6:
        raise Violation("budget", "the scale of the noise does not fit the grid")
    kind_of: Any = type(sample)
    require_uniform(kind_of)
    looked_at = ("run", "align", "noise", "law", "cost")
    code = [getattr(kind_of, each).__code__ for each in looked_at if hasattr(kind_of, each)]
    few = _require_few_of_many(kind_of, *code)
    name = kind_of.__name__
    return [
        _prove_few(f"{name}, {n} values", sample, n, kind, sample.epsilon, _is_free_of_noise)
        for n in range(1, few + 1)
    ]


def _is_free_of_noise(made: Trial) -> bool:
    """Whether no shift of this path depends on noise."""
    asked = any(about for about, _ in made.questions)
    return not asked and not any(map(draws_of, made.shifts))


@lru_cache(maxsize=8)
def _require_few_of_many(kind: Any, *_: object) -> int:
    """How many values are few: few of five are released, shifted and charged as they are alone."""
    arguments = {"monotonic": True} if "monotonic" in kind.__slots__ else {}
    mechanism = kind(1, **arguments)
    shared = len(_released(mechanism, [0], [0], [Fraction(1)] * 2)[2]) - 1
    for start, up in itertools.product(range(11), (1, -1)):
        values = [Fraction(start * at % 7) for at in range(_MANY)]
        moves = [up * Fraction((start + 3 * at) % 4, 3) for at in range(_MANY)]
        noise = [Fraction(1 + (start * start + 5 * at) % 11) for at in range(_MANY + shared)]
        _require_measured(mechanism, shared, values, moves, noise)
    return 2 + shared


def _require_measured(mechanism: Any, shared: int, values: Any, moves: Any, noise: Any) -> None:
    made = _released(mechanism, values, moves, noise)
    _, shifts, laws = made
    if laws != [mechanism.law(_MANY)] * len(noise) or len(shifts) != len(noise):
        raise Violation("draws", "there must be one draw and one shift for each value")
    if getattr(laws[0], "dimension", len(noise)) != len(noise):
        raise Violation("draws", "joint noise must have a coordinate for each draw")
    shifted = [value + by for value, by in zip(noise, shifts, strict=True)]
    largest = max(range(len(noise)), key=lambda at: abs(shifted[at]))
    moved = next((at for at, move in enumerate(moves) if move), 0)
    needed = {moved, *([largest - shared] if largest >= shared else [])}
    for kept in _subsets(2 + shared, needed):
        places = _require_alone(mechanism, (values, moves, noise), made, kept, shared)
        if isinstance(mechanism, Joint):
            # Few draws that have the largest shifted one cost no less than all.
            few = [[side[at] for at in places] for side in (noise, shifted)]
            if mechanism.joint_cost(*few) < mechanism.joint_cost(noise, shifted):
                raise Violation("restriction", "few of many values cost less than all")


def _require_alone(
    mechanism: Any, numbers: Sequence[Any], made: Any, kept: Sequence[int], shared: int = 0
) -> list[int]:
    """Raise a violation unless some of many are released and shifted as alone; their draws."""
    places = [*range(shared), *(at + shared for at in kept)]
    values, moves, noise = (
        [side[at] for at in some] for side, some in zip(numbers, (kept, kept, places), strict=True)
    )
    said, shifts, _ = _released(mechanism, values, moves, noise)
    if (list(said), shifts) != ([made[0][at] for at in kept], [made[1][at] for at in places]):
        raise Violation("restriction", "few of many are not treated as they are alone")
    return places


# --------------------------------------------------------------------------------------------------
# Histograms.


def prove_histogram(made: Make) -> list[Theorem]:
    """The theorem about two answers of any number; raises a violation if it does not hold."""
    sample = made()
    require_uniform(type(sample))
    for reach, epsilon, delta in itertools.product((1, 2, 3, 5, 8), (1, Fraction(7, 3)), (1, 3)):
        mechanism = made(reach=reach, epsilon=epsilon, sensitivity=delta)
        law = mechanism.law
        if law.scale * mechanism.epsilon != reach * delta:
            raise Violation("budget", "the scale of the noise does not fit the reach")
        at_one = replace(law, scale=Fraction(1))
        if any(law.cost(move * law.scale) != at_one.cost(move) for move in MOVES):
            raise Violation("budget", "a cost must be inverse to the scale")
    on_grid = made(reach=2, sensitivity=Fraction(4, 3), grid=Fraction(1, 4))
    if on_grid.law_in_steps.scale * on_grid.epsilon != 2 * 6:
        raise Violation("budget", "the scale of the noise does not fit the grid")
    values = [Fraction(7 * at % 5) for at in range(_MANY)]
    moves = [Fraction(3 * at % 5 - 2, 2) for at in range(_MANY)]
    noise = [Fraction(11 * at % 7) for at in range(_MANY)]
    every = _released(sample, values, moves, noise)
    for kept in _subsets(_MANY - 1):
        _require_alone(sample, (values, moves, noise), every, kept)
    return [_prove_histogram(altered(sample, law=replace(sample.law, scale=Fraction(1))))]


def _prove_histogram(program: NoisyHistogram) -> Theorem:
    judge = recording(None, ties=True)
    reach, others = judge.unknown("reach"), judge.unknown("others_size")
    answers, moves, neighbour = judge.neighbours(2, (-1, 1))
    sizes = [judge.unknown(f"size{i}") for i in range(2)]
    for move, size in zip(moves, sizes, strict=True):
        judge.given(size >= move)
        judge.given(size >= -move)
    judge.given(others >= 0)
    judge.given(reach >= 1)
    judge.given(sizes[0] + sizes[1] + others <= reach)

    def on_path() -> None:
        found = trial(program, answers, neighbour, judge)
        if found.draws.laws != [program.law] * 2:
            raise Violation("draws", "there must be one draw for each answer")
        if not _is_free_of_noise(found):
            raise Violation("acyclic", "a shift depends on noise")
        for law, shift, size in zip(found.draws.laws, found.shifts, sizes, strict=True):
            far = Violation("cost", "a draw costs more than its answer moved")
            judge.require_at_most([law], [shift], size, far)
        over = Violation("cost", "all draws together cost more than the reach")
        judge.require_at_most(found.draws.laws, found.shifts, reach - others, over)

    return judge.proved(f"{type(program).__name__}, any reach, two answers of any number", on_path)

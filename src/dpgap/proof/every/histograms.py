"""The noisy histogram for every n and every reach: two coordinates, and the sum of the others.

Each answer has a draw of its own, which makes up for the answer's own change and costs as much as
that change is long. One unit moves all answers together by at most reach·Δ. So all draws together
cost at most reach·Δ over the scale, and that is ε. Two coordinates are followed, with unknown
changes and an unknown reach; all others have moved by an unknown sum.

Shifts depend on no noise, so they are acyclic and |det J| = 1. Nothing is said of a line or of
ties: whatever is read off noisy answers costs nothing more.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.proof.checker.alignment import trial
from dpgap.proof.checker.families import altered
from dpgap.proof.checker.numbers import Violation
from dpgap.proof.every.measurements import is_free_of_noise, released
from dpgap.proof.every.memory import require_uniform
from dpgap.proof.every.theorem import Theorem, recording

_MANY = 5
_REACHES = (1, 2, 3, 5, 8)
_MOVES = (Fraction(1, 3), Fraction(1), Fraction(-5, 2))

Make = Callable[..., NoisyHistogram]
"""Makes a mechanism from ε, the reach and the sensitivity."""


def prove_histogram(made: Make) -> list[Theorem]:
    """The theorem about two answers of any number; raises a violation if it does not hold."""
    sample = made()
    require_uniform(type(sample))
    _require_scales(made)
    _require_few_of_many(sample)
    return [_prove(altered(sample, law=replace(sample.law, scale=Fraction(1))))]


def _prove(program: NoisyHistogram) -> Theorem:
    judge = recording(None, ties=True)
    reach, others = judge.unknown("reach"), judge.unknown("others_size")
    answers = [judge.unknown(f"q{i}") for i in range(2)]
    moves = [judge.between(f"d{i}", -1, 1) for i in range(2)]
    sizes = [judge.unknown(f"size{i}") for i in range(2)]
    for move, size in zip(moves, sizes, strict=True):
        judge.given(size >= move)
        judge.given(size >= -move)
    judge.given(others >= 0)
    judge.given(reach >= 1)
    judge.given(sizes[0] + sizes[1] + others <= reach)
    neighbour = [answer + move for answer, move in zip(answers, moves, strict=True)]

    def on_path() -> None:
        found = trial(program, answers, neighbour, judge)
        if found.draws.laws != [program.law] * 2:
            raise Violation("draws", "there must be one draw for each answer")
        if not is_free_of_noise(found):
            raise Violation("acyclic", "a shift depends on noise")
        for law, shift, size in zip(found.draws.laws, found.shifts, sizes, strict=True):
            far = Violation("cost", "a draw costs more than its answer moved")
            judge.require_at_most([law], [shift], size, far)
        over = Violation("cost", "all draws together cost more than the reach")
        judge.require_at_most(found.draws.laws, found.shifts, reach - others, over)

    return judge.proved(f"{type(program).__name__}, any reach, two answers of any number", on_path)


def _require_scales(made: Make) -> None:
    """Raise a violation unless the scale is the reach, times the sensitivity, over ε."""
    for reach, epsilon, delta in itertools.product(_REACHES, (1, Fraction(7, 3)), (1, 3)):
        mechanism = made(reach=reach, epsilon=epsilon, sensitivity=delta)
        law = mechanism.law
        if law.scale * mechanism.epsilon != reach * delta:
            raise Violation("budget", "the scale of the noise does not fit the reach")
        at_one = replace(law, scale=Fraction(1))
        if any(law.cost(move * law.scale) != at_one.cost(move) for move in _MOVES):
            raise Violation("budget", "a cost must be inverse to the scale")
    on_grid = made(reach=2, sensitivity=Fraction(4, 3), grid=Fraction(1, 4))
    if on_grid.law_in_steps.scale * on_grid.epsilon != 2 * 6:
        raise Violation("budget", "the scale of the noise does not fit the grid")


def _require_few_of_many(mechanism: NoisyHistogram) -> None:
    """Raise a violation unless some of five answers are released and shifted as they are alone."""
    values = [Fraction(7 * at % 5) for at in range(_MANY)]
    moves = [Fraction(3 * at % 5 - 2, 2) for at in range(_MANY)]
    noise = [Fraction(11 * at % 7) for at in range(_MANY)]
    said, shifts, _ = released(mechanism, values, moves, noise)
    for kept in itertools.chain.from_iterable(
        itertools.combinations(range(_MANY), size) for size in range(1, _MANY)
    ):
        few = [[side[at] for at in kept] for side in (values, moves, noise)]
        alone = released(mechanism, *few)
        if (list(alone[0]), alone[1]) != ([said[at] for at in kept], [shifts[at] for at in kept]):
            raise Violation("restriction", "few of many answers are not treated as alone")

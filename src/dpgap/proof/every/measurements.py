"""Measurements for every number of values: three values show every violation.

Each value has a draw of its own, and perhaps there is one that all share. What is released of a
value depends on the value and on these draws, and its shift on how it moved and on whether any
value rose. So an arbitrary value and one that rose show whether the output changes. Where all draws
have one density, its cost is how far the largest coordinate grows: the largest after the shifts
grew at least as much by itself, so a value that has it shows the cost. That is three values, or
two where no draw is shared: then nothing asks whether any value rose.

With independent draws each of n values costs at most ε/n.

Shifts depend on no noise, so they are acyclic and |det J| = 1. There is no discrete part.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpgap.exact.laws import Scalar
from dpgap.mechanisms.measuring import Joint, Measurement
from dpgap.proof.checker.alignment import Trial
from dpgap.proof.checker.numbers import Violation, draws_of
from dpgap.proof.every.memory import require_uniform
from dpgap.proof.every.theorem import Theorem, prove_few

_MANY = 5
_SIZES = (1, 2, 3, 4, 5, 8)

Make = Callable[..., Any]
"""Makes a mechanism from ε and the sensitivity."""


def prove_measurement(made: Make, kind: str) -> list[Theorem]:
    """The theorems about few values; raises a violation if something does not hold."""
    sample = made()
    joint = isinstance(sample, Joint)
    _require_scales(made, joint)
    kind_of: Any = type(sample)
    require_uniform(kind_of)
    looked_at = ("run", "align", "noise", "law", "cost")
    code = [getattr(kind_of, each).__code__ for each in looked_at if hasattr(kind_of, each)]
    few = _require_few_of_many(kind_of, *code)
    name = kind_of.__name__
    return [
        prove_few(f"{name}, {n} values", sample, n, kind, sample.epsilon, is_free_of_noise)
        for n in range(1, few + 1)
    ]


def is_free_of_noise(made: Trial) -> bool:
    """Whether no shift of this path depends on noise."""
    asked = any(about for about, _ in made.questions)
    return not asked and not any(map(draws_of, made.shifts))


def _require_scales(made: Make, joint: bool) -> None:
    """Raise a violation unless noise for n values is n times as large; or as large, if joint."""
    for n, epsilon, delta in itertools.product(_SIZES, (1, Fraction(7, 3)), (1, 3)):
        mechanism: Measurement[Any] = made(epsilon=epsilon, sensitivity=delta)
        if mechanism.law(n).scale * mechanism.epsilon != (1 if joint else n) * delta:
            raise Violation("budget", "the scale of the noise does not fit the number of values")
    on_grid = made(sensitivity=Fraction(4, 3), grid=Fraction(1, 4))
    if on_grid.law_in_steps(4).scale * on_grid.epsilon != (1 if joint else 4) * 6:
        raise Violation("budget", "the scale of the noise does not fit the grid")


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Noise that is known; it remembers how often it was drawn, and from which laws."""

    values: Sequence[Scalar]
    laws: list[Any]

    def draw(self, law: Any) -> Scalar:
        """The next value."""
        self.laws.append(law)
        return self.values[len(self.laws) - 1]


@lru_cache(maxsize=8)
def _require_few_of_many(kind: Any, *_: object) -> int:
    """How many of five values are few: they are released, shifted and charged as they are alone."""
    arguments = {"monotonic": True} if "monotonic" in kind.__slots__ else {}
    mechanism = kind(1, **arguments)
    shared = len(released(mechanism, [0], [0], [Fraction(1)] * 2)[2]) - 1
    for start, up in itertools.product(range(11), (1, -1)):
        values = [Fraction(start * at % 7) for at in range(_MANY)]
        moves = [up * Fraction((start + 3 * at) % 4, 3) for at in range(_MANY)]
        noise = [Fraction(1 + (start * start + 5 * at) % 11) for at in range(_MANY + shared)]
        _require_on_few(mechanism, shared, values, moves, noise)
    return 2 + shared


def _require_on_few(mechanism: Any, shared: int, values: Any, moves: Any, noise: Any) -> None:
    said, shifts, laws = released(mechanism, values, moves, noise)
    if laws != [mechanism.law(_MANY)] * len(noise) or len(shifts) != len(noise):
        raise Violation(
            "draws", "there must be one draw for each value, and one shift for each draw"
        )
    if getattr(laws[0], "dimension", len(noise)) != len(noise):
        raise Violation("draws", "joint noise must have a coordinate for each draw")
    largest = max(range(len(noise)), key=lambda at: abs(noise[at] + shifts[at]))
    moved = next((at for at, move in enumerate(moves) if move), 0)
    needed = {moved, *([largest - shared] if largest >= shared else [])}
    for size in range(1, 3 + shared):
        for kept in itertools.combinations(range(_MANY), size):
            if not needed <= {*kept}:
                continue
            places = [*range(shared), *(at + shared for at in kept)]
            alone = released(
                mechanism,
                [values[at] for at in kept],
                [moves[at] for at in kept],
                [noise[at] for at in places],
            )
            among = [said[at] for at in kept], [shifts[at] for at in places]
            if (list(alone[0]), alone[1]) != among:
                raise Violation("restriction", "few of many values are not treated as alone")
            if isinstance(mechanism, Joint):
                _require_cost_of_few(mechanism, noise, shifts, places)


def _require_cost_of_few(mechanism: Any, noise: Any, shifts: Any, places: Sequence[int]) -> None:
    """Few draws that have the largest shifted one cost no less than all."""
    shifted = [value + by for value, by in zip(noise, shifts, strict=True)]
    few = [[side[at] for at in places] for side in (noise, shifted)]
    if mechanism.cost(*few) < mechanism.cost(noise, shifted):
        raise Violation("restriction", "few of many values cost less than all")


def released(
    mechanism: Any, values: Any, moves: Any, noise: Any
) -> tuple[Any, list[Any], list[Any]]:
    """What the mechanism says on known noise, the shifts, and the laws that it drew from."""
    source = _Fixed(noise, [])
    said = mechanism.run(values, source)
    neighbour = [value + move for value, move in zip(values, moves, strict=True)]
    shifts = list(mechanism.align(values, neighbour, noise[: len(source.laws)], said))
    return said, shifts, source.laws

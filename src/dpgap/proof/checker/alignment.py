"""Randomness alignment as code: the conditions under which an alignment proves privacy.

A mechanism brings `run`, its program, and `align`, which says for neighbouring answers how far to
shift every draw of noise so that the neighbour gives the same output. It is ε-private if (Lemma 1
of the paper, and what we add to it)

- output: on the shifted noise the neighbour gives the same output;
- cost: the shifts cost at most ε, each by its own law's cost (or, where draws are not
  independent, by the `cost` of the mechanism);
- acyclic: in some order of the draws, each shift depends on earlier draws only;
- discrete: the shifts use only the discrete part of the output, so there are countably many;
- draws: how many draws are taken, and from which laws, is determined by the output;
- support: shifted noise can be drawn at all.

`trial` checks these on one path. A path may be one point, or a whole region of answers and noise:
the `Judge` that the caller brings knows which.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn, Protocol

from dpgap.exact.laws import Law, Noise, Scalar
from dpgap.exact.parameters import readable
from dpgap.proof.checker.guard import guarded
from dpgap.proof.checker.numbers import (
    Affine,
    BadProgram,
    Condition,
    Exact,
    Path,
    Violation,
    exact,
    noise_name,
)
from dpgap.proof.checker.output import Skeleton, collect, seal, take_apart
from dpgap.proof.checker.volume import squeeze

_MOST_DRAWS = 10_000
_SECONDS = 10.0


class Mechanism(Protocol):
    """What can be proved."""

    def run(self, answers: Any, noise: Noise) -> Any:
        """The program."""

    def align(self, answers: Any, neighbour: Any, noise: Any, output: Any) -> Any:
        """One shift for every draw, in the order drawn."""


class Judge(Path, Protocol):
    """A path that can also be asked whether something holds everywhere on it."""

    epsilon: Exact
    ties: bool
    """Whether draws that are equal are looked at as well."""

    def assume(self, condition: Condition | bool) -> None:
        """Leave out whatever does not meet the condition."""

    def require(self, condition: Condition | bool, violation: Violation) -> None:
        """Raise the violation where the condition does not hold."""

    def require_zero(self, form: Affine, violation: Violation) -> None:
        """Raise the violation where the form is not zero."""

    def require_cost(self, laws: Sequence[Any], shifts: Sequence[Scalar], extra: Exact) -> None:
        """Raise a violation where shifting the draws costs more than ε less `extra`."""

    def watch_alignment(self, begins: bool) -> None:
        """Say whether the questions that follow are the alignment's."""

    @property
    def alignment_questions(self) -> Sequence[tuple[set[int], bool]]:
        """For each question of the alignment, the draws it is about, and the answer."""


class Draws(NamedTuple):
    """Noise that remembers what was drawn."""

    judge: Judge
    laws: list[Law]
    values: list[Affine]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise BadProgram("the program changes its noise: it may only draw from it")

    def draw(self, law: Law) -> Affine:
        """The next draw, a new unknown."""
        if len(self.values) >= _MOST_DRAWS:
            raise BadProgram(f"run never stops: it drew more than {_MOST_DRAWS:,} times")
        if law.can_tie and not self.judge.ties:
            raise BadProgram(f"{type(law).__name__} can tie: prove it with ties=True")
        value = Affine(self.judge, {len(self.values): 1})
        self.judge.assume(law.supports(value))
        self.laws.append(law)
        self.values.append(value)
        return value


class ShiftedDraws(NamedTuple):
    """The same draws, shifted, for the second run."""

    draws: Draws
    shifts: Sequence[Scalar]
    taken: list[int]

    def draw(self, law: Law) -> Affine:
        """The next draw of the first run, shifted."""
        number = len(self.taken)
        if number >= len(self.draws.values):
            raise Violation("draws", "on the neighbour, the shifted noise makes it draw more often")
        before = self.draws.laws[number]
        if law != before:
            raise Violation(
                "draws", f"on the neighbour, draw {number} comes from {law}, not from {before}"
            )
        self.taken.append(number)
        return Affine.__add__(self.draws.values[number], self.shifts[number])


class Given(tuple[Any, ...]):
    """Answers or noise as a program sees them: to be read, not to be changed."""

    __slots__ = ()

    def __setitem__(self, *_: object) -> NoReturn:
        raise BadProgram("the program changes the answers or the noise that it is given")


@dataclass(slots=True)
class Trial:
    """What one path of a mechanism and its alignment did."""

    draws: Draws
    output: Any
    skeleton: Skeleton
    numbers: list[Affine]
    shifts: list[Scalar]
    questions: list[tuple[set[int], bool]]


def run_and_align(
    mechanism: Mechanism, answers: Sequence[Scalar], neighbour: Sequence[Scalar], judge: Judge
) -> Trial:
    """Run the mechanism and its alignment."""
    draws = Draws(judge, [], [])
    output = _run(mechanism, Given(answers), draws)
    skeleton, numbers = take_apart(output)
    judge.watch_alignment(True)
    shifts = _align(mechanism, Given(answers), Given(neighbour), draws, output)
    judge.watch_alignment(False)
    return Trial(draws, output, skeleton, numbers, shifts, list(judge.alignment_questions))


def trial(
    mechanism: Mechanism,
    answers: Sequence[Scalar],
    neighbour: Sequence[Scalar],
    judge: Judge,
    *,
    general: bool = False,
) -> Trial:
    """Run the mechanism, align, run again on the neighbour; raise the first `Violation`.

    With `general`, what the alignment squeezes volumes by is charged on top: ln(1/|det J|).
    """
    made = run_and_align(mechanism, answers, neighbour, judge)
    draws, shifts = made.draws, made.shifts
    for number, (law, value, shift) in enumerate(
        zip(draws.laws, draws.values, shifts, strict=True)
    ):
        judge.require(
            law.supports(value + shift),
            Violation("support", f"shifting {noise_name(number)} takes it out of its support"),
        )
    extra = squeeze(shifts) if general else 0
    if hasattr(mechanism, "cost"):  # draws of one joint density
        _require_joint_cost(mechanism, made, judge, judge.epsilon - extra)
    else:
        judge.require_cost(draws.laws, shifts, extra)
    again = ShiftedDraws(draws, shifts, [])
    same = _run(mechanism, Given(neighbour), again)
    _require_same(made, same, judge)
    if len(again.taken) < len(draws.values):
        raise Violation("draws", "on the neighbour, the shifted noise makes it draw less often")
    return made


def _require_joint_cost(mechanism: Any, made: Trial, judge: Judge, allowed: Exact) -> None:
    """Draws that are not independent: the mechanism says what moving all of them costs."""
    values = made.draws.values
    with guarded("cost", _SECONDS):
        shifted = Given(value + by for value, by in zip(values, made.shifts, strict=True))
        cost = mechanism.cost(Given(values), shifted)
    most = readable(Fraction(allowed))
    judge.require(cost <= allowed, Violation("cost", f"the shifts can cost more than {most}"))


def _run(mechanism: Mechanism, answers: Given, noise: Any) -> Any:
    with guarded("run", _SECONDS):
        return collect(mechanism.run(answers, noise))


def _align(
    mechanism: Mechanism, answers: Given, neighbour: Given, draws: Draws, output: Any
) -> list[Scalar]:
    with guarded("align", _SECONDS):
        given = mechanism.align(answers, neighbour, Given(draws.values), seal(output))
        shifts = [shift if isinstance(shift, Affine) else exact(shift) for shift in given]
    if len(shifts) != len(draws.values):
        raise BadProgram(
            f"align returned {len(shifts)} shifts for {len(draws.values)} draws: "
            "it must return one for every draw, in the order drawn"
        )
    return shifts


def _require_same(made: Trial, same: Any, judge: Judge) -> None:
    skeleton, numbers = take_apart(same)
    if skeleton != made.skeleton:
        raise Violation("output", f"the neighbour gives {skeleton}, not {made.skeleton}")
    for number, changed in zip(made.numbers, numbers, strict=True):
        judge.require_zero(
            number - changed, Violation("output", f"the neighbour gives {changed}, not {number}")
        )

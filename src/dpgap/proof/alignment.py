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

`trial` runs a mechanism through these on one path. What a path is, one point or a whole region
of answers and noise, is the caller's business.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, NoReturn, Protocol

from dpgap.exact.laws import Law, Noise, Scalar
from dpgap.exact.parameters import readable
from dpgap.proof.numbers import (
    Affine,
    BadProgram,
    Condition,
    Exact,
    Violation,
    exact,
    noise_name,
)
from dpgap.proof.output import Skeleton, collected, sealed, taken_apart
from dpgap.proof.watch import watched

_MOST_DRAWS = 10_000
_SECONDS = 10.0


class Mechanism(Protocol):
    """What can be proved."""

    def run(self, answers: Any, noise: Noise) -> Any:
        """The program."""

    def align(self, answers: Any, neighbour: Any, noise: Any, output: Any) -> Any:
        """One shift for every draw, in the order drawn."""


class Judge(Protocol):
    """A path that can also be asked whether something holds everywhere on it."""

    epsilon: Exact

    def is_negative(self, form: Affine) -> bool:
        """Whether the form is below zero here."""

    def assume(self, condition: Condition | bool) -> None:
        """Leave out whatever does not meet the condition."""

    def require(self, condition: Condition | bool, violation: Violation) -> None:
        """Raise the violation where the condition does not hold."""

    def require_zero(self, form: Affine, violation: Violation) -> None:
        """Raise the violation where the form is not zero."""

    def require_cost(self, laws: Sequence[Any], shifts: Sequence[Scalar], extra: Exact) -> None:
        """Raise a violation where shifting the draws costs more than ε less `extra`."""

    def watch_alignment(self, begins: bool) -> None:
        """From here on, or no longer, questions are those of the alignment."""

    @property
    def alignment_questions(self) -> Sequence[tuple[set[int], bool]]:
        """For each question of the alignment, the draws it is about, and the answer."""


class Draws:
    """Noise that remembers what was drawn."""

    __slots__ = ("_judge", "laws", "values")

    _judge: Judge
    laws: list[Law]
    values: list[Affine]

    def __init__(self, judge: Judge) -> None:
        keep = object.__setattr__
        keep(self, "_judge", judge)
        keep(self, "laws", [])
        keep(self, "values", [])

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise BadProgram("the program changes its noise: it may only draw from it")

    def draw(self, law: Law) -> Affine:
        """The next draw, a new unknown."""
        if len(self.values) >= _MOST_DRAWS:
            raise BadProgram(f"run never stops: it drew more than {_MOST_DRAWS:,} times")
        value = Affine(self._judge, {len(self.values): 1})
        self._judge.assume(law.supports(value))
        self.laws.append(law)
        self.values.append(value)
        return value


class ShiftedDraws:
    """The same draws, shifted, for the second run."""

    __slots__ = ("_laws", "_shifts", "_values", "taken")

    _laws: list[Law]
    _shifts: Sequence[Scalar]
    _values: list[Affine]
    taken: list[int]

    def __init__(self, draws: Draws, shifts: Sequence[Scalar]) -> None:
        keep = object.__setattr__
        keep(self, "_laws", draws.laws)
        keep(self, "_values", draws.values)
        keep(self, "_shifts", shifts)
        keep(self, "taken", [])

    __setattr__ = Draws.__setattr__

    def draw(self, law: Law) -> Affine:
        """The next draw of the first run, shifted."""
        number = len(self.taken)
        if number >= len(self._values):
            raise Violation("draws", "on the neighbour, the shifted noise makes it draw more often")
        if law != self._laws[number]:
            raise Violation(
                "draws",
                f"on the neighbour, draw {number} comes from {law}, not from {self._laws[number]}",
            )
        self.taken.append(number)
        return Affine.__add__(self._values[number], self._shifts[number])


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

    @property
    def laws(self) -> list[Law]:
        """The laws drawn from."""
        return self.draws.laws


def aligned(
    mechanism: Mechanism, answers: Sequence[Scalar], neighbour: Sequence[Scalar], judge: Judge
) -> Trial:
    """Run the mechanism and its alignment."""
    draws = Draws(judge)
    output = _run(mechanism, Given(answers), draws)
    skeleton, numbers = taken_apart(output)
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
    made = aligned(mechanism, answers, neighbour, judge)
    draws, shifts = made.draws, made.shifts
    for number, (law, value, shift) in enumerate(
        zip(draws.laws, draws.values, shifts, strict=True)
    ):
        judge.require(
            law.supports(value + shift),
            Violation("support", f"shifting {noise_name(number)} takes it out of its support"),
        )
    extra = _squeeze(shifts) if general else 0
    if hasattr(mechanism, "cost"):  # draws of one joint density
        _require_joint_cost(mechanism, made, judge, judge.epsilon - extra)
    else:
        judge.require_cost(draws.laws, shifts, extra)
    again = ShiftedDraws(draws, shifts)
    same = _run(mechanism, Given(neighbour), again)
    _require_same(made, same, judge)
    if len(again.taken) < len(draws.values):
        raise Violation("draws", "on the neighbour, the shifted noise makes it draw less often")
    return made


def _require_joint_cost(mechanism: Any, made: Trial, judge: Judge, allowed: Exact) -> None:
    """Draws that are not independent: the mechanism says what moving all of them costs."""
    values = made.draws.values
    with watched("cost", _SECONDS):
        shifted = Given(value + by for value, by in zip(values, made.shifts, strict=True))
        cost = mechanism.cost(Given(values), shifted)
    most = readable(Fraction(allowed))
    judge.require(cost <= allowed, Violation("cost", f"the shifts can cost more than {most}"))


def _run(mechanism: Mechanism, answers: Given, noise: Any) -> Any:
    with watched("run", _SECONDS):
        return collected(mechanism.run(answers, noise))


def _align(
    mechanism: Mechanism, answers: Given, neighbour: Given, draws: Draws, output: Any
) -> list[Scalar]:
    with watched("align", _SECONDS):
        given = mechanism.align(answers, neighbour, Given(draws.values), sealed(output))
        shifts = [shift if isinstance(shift, Affine) else exact(shift) for shift in given]
    if len(shifts) != len(draws.values):
        raise BadProgram(
            f"align returned {len(shifts)} shifts for {len(draws.values)} draws: "
            "it must return one for every draw, in the order drawn"
        )
    return shifts


def _require_same(made: Trial, same: Any, judge: Judge) -> None:
    skeleton, numbers = taken_apart(same)
    if skeleton != made.skeleton:
        raise Violation("output", f"the neighbour gives {skeleton}, not {made.skeleton}")
    for number, changed in zip(made.numbers, numbers, strict=True):
        judge.require_zero(
            number - changed, Violation("output", f"the neighbour gives {changed}, not {number}")
        )


@dataclass(slots=True)
class Dependence:
    """Which draws each shift depends on, over all paths with the same discrete output.

    A shift depends on the draws in it. If it is not the same form on all paths, it also depends
    on every draw that the alignment asked about. Questions about answers alone, asked before any
    about noise, are part of what is given.
    """

    shifts: dict[Any, list[Scalar]] = field(default_factory=dict)
    varying: dict[Any, set[int]] = field(default_factory=dict)
    within: dict[Any, list[set[int]]] = field(default_factory=dict)
    asked: dict[Any, set[int]] = field(default_factory=dict)
    laws: dict[Skeleton, list[Law]] = field(default_factory=dict)

    def add(self, trial: Trial) -> None:
        """Take one more path into account."""
        known = self.laws.setdefault(trial.skeleton, trial.laws)
        if known != trial.laws:
            raise Violation(
                "draws",
                f"the output {trial.skeleton} comes from {len(known)} draws or from "
                f"{len(trial.laws)}, or from other laws: the output must tell which",
            )
        key = (trial.skeleton, _given(trial.questions))
        draws_in = [shift.draws if isinstance(shift, Affine) else set() for shift in trial.shifts]
        first = self.shifts.setdefault(key, trial.shifts)
        within = self.within.setdefault(key, [set() for _ in draws_in])
        varying = self.varying.setdefault(key, set())
        asked = self.asked.setdefault(key, set())
        for number, (shift, before) in enumerate(zip(trial.shifts, first, strict=True)):
            within[number] |= draws_in[number]
            if not _same_form(shift, before):
                varying.add(number)
        for about, _ in trial.questions:
            asked |= about

    def needs(self, key: Any) -> list[set[int]]:
        """For each shift, the draws that it depends on."""
        return [
            inside | (self.asked[key] if number in self.varying[key] else set())
            for number, inside in enumerate(self.within[key])
        ]

    def cycles(self) -> Iterator[tuple[Any, list[int]]]:
        """For each kind of output whose alignment is not acyclic, a cycle."""
        for key in self.shifts:
            cycle = find_cycle(self.needs(key))
            if cycle:
                yield key, cycle

    def is_affine(self, key: Any) -> bool:
        """Whether the alignment is one affine map for this kind of output."""
        return not self.varying[key]


def _given(questions: Sequence[tuple[set[int], bool]]) -> tuple[bool, ...]:
    answers = []
    for about, answer in questions:
        if about:
            break
        answers.append(answer)
    return tuple(answers)


def _same_form(a: Scalar, b: Scalar) -> bool:
    difference = a - b
    if isinstance(difference, Affine):
        return not difference.terms and not difference.constant
    return bool(difference == 0)


def _squeeze(shifts: Sequence[Scalar]) -> Exact:
    """ln(1/|det J|), rounded up."""
    stretch = jacobian(shifts)
    if stretch == 0:
        raise Violation("one-to-one", "the alignment maps different noise to the same: |det J| = 0")
    return log_above(1 / stretch)


def log_above(number: Fraction) -> Fraction:
    """A rational just above ln of the number; 0 for 1.

    >>> float(log_above(Fraction(2)))
    0.6931471805599453
    """
    if number == 1:
        return Fraction(0)
    up = Context(prec=40, rounding=ROUND_CEILING)
    quotient = up.divide(Decimal(number.numerator), Decimal(number.denominator))
    return Fraction(up.next_plus(up.ln(quotient)))


def find_cycle(needs: Sequence[set[int]]) -> list[int]:
    """Draws that depend on each other in a ring, or nothing.

    >>> find_cycle([set(), {0}, {0, 1}]), find_cycle([{1}, {0}]), find_cycle([{0}])
    ([], [0, 1], [0])
    """
    settled: set[int] = set()
    progress = True
    while progress:
        ready = {i for i, need in enumerate(needs) if i not in settled and need <= settled}
        settled |= ready
        progress = bool(ready)
    if len(settled) == len(needs):
        return []
    trail = [min(i for i in range(len(needs)) if i not in settled)]
    while True:
        following = min(need for need in needs[trail[-1]] if need not in settled)
        if following in trail:
            return trail[trail.index(following) :]
        trail.append(following)


def cycle_message(cycle: Sequence[int]) -> str:
    """The cycle in words."""
    ring = " → ".join(noise_name(draw) for draw in [*cycle, cycle[0]])
    return (
        f"the alignment is cyclic: {ring} (each shift depends on the next draw). "
        "No order of the draws lets each shift depend on earlier ones only"
    )


def determinant(rows: Sequence[Sequence[Exact]]) -> Fraction:
    """The determinant, exactly.

    >>> determinant([[0, 1], [1, 0]])
    Fraction(-1, 1)
    """
    matrix = [[Fraction(entry) for entry in row] for row in rows]
    result = Fraction(1)
    for column in range(len(matrix)):
        pivot = next((r for r in range(column, len(matrix)) if matrix[r][column]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != column:
            matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
            result = -result
        result *= matrix[column][column]
        for row in matrix[column + 1 :]:
            factor = row[column] / matrix[column][column]
            for at in range(column, len(matrix)):
                row[at] -= factor * matrix[column][at]
    return result


def jacobian(shifts: Sequence[Scalar]) -> Fraction:
    """|det J| of an affine alignment: how much it stretches volumes."""
    terms = [shift.terms if isinstance(shift, Affine) else {} for shift in shifts]
    size = range(len(shifts))
    return abs(determinant([[int(i == j) + terms[i].get(j, 0) for j in size] for i in size]))

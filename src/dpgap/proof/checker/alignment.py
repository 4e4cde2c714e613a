"""Randomness alignment as code: the conditions under which an alignment proves privacy.

A mechanism has `run`, its program, and `align`. For neighbouring answers, `align` returns how far
to shift every draw of noise so that the neighbour gives the same output. The mechanism is ε-private
if these conditions hold (Lemma 1 of the paper, and our additions):

- output: on the shifted noise the neighbour gives the same output;
- cost: the shifts cost at most ε, each by its own law's cost (or, where draws are not
  independent, by the `joint_cost` of the mechanism);
- acyclic: in some order of the draws, each shift depends on earlier draws only; or one-to-one:
  `unalign` leads back from the shifted noise, and both are whole linear maps on each path;
- discrete: the shifts use only the discrete part of the output, so there are countably many;
- draws: how many draws are taken, and from which laws, is determined by the output;
- support: shifted noise can be drawn at all;
- grid: where noise is on a grid, shifts are whole steps;
- function: `run`, `align` and `unalign` use what they are given, and no more.

`trial` checks these on one path. A path may be one point, or a whole region of answers and noise;
the caller's `Judge` decides conditions on it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from dpgap.exact.laws import Law, Scalar, require_law
from dpgap.exact.parameters import readable
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker import programs
from dpgap.proof.checker.numbers import (
    Affine,
    BadProgram,
    Violation,
    in_symbols,
)
from dpgap.proof.checker.skeletons import MOST_OUTCOMES, Skeleton, collect, seal, take_apart

if TYPE_CHECKING:
    from dpgap.proof.checker.points import Point
    from dpgap.proof.checker.symbolic import Paths


_SECONDS = 10.0


Answers = Sequence[Scalar]
Judge: TypeAlias = "Point | Paths"
"""Answers the questions of a program, and decides conditions where these answers hold."""


def cost_of(laws: Sequence[Any], shifts: Sequence[Scalar]) -> Scalar:
    """The whole cost of the shifts, each by its own law."""
    costs = (law.cost(shift) for law, shift in zip(laws, shifts, strict=True))
    return sum(costs, Fraction(0))


class NoiseSource:
    """Noise as a program sees it: it can only draw."""

    __slots__ = ("draws",)

    def __init__(self, draws: "Draws | Replayed | Any") -> None:
        _DRAWS.write(self, draws)

    def draw(self, law: Law) -> Affine:
        """The next draw."""
        require_law(law)
        draw: Affine = _DRAWS.read(self).draw(law)
        return draw

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise BadProgram("the program changes its noise: it may only draw from it")


_DRAWS = forms.HiddenSlot(NoiseSource, "draws")


def require_sound(law: Any, judge: Judge) -> None:
    """Refuse noise that no proof covers: with impossible sizes, or coarser than the grid."""
    name = type(law).__name__
    scale = getattr(law, "scale", 1)
    if law.can_tie and not judge.ties:
        raise BadProgram(f"{name} can tie: prove it with ties=True, or --ties")
    if law.can_tie and judge.step != 1:
        raise BadProgram(f"{name} draws whole numbers: prove it with grid = 1, in whole steps")
    if not isinstance(scale, Affine) and forms.exact(scale) <= 0:
        raise BadProgram(f"{name} must have a scale above 0")
    if not (getattr(law, "step", 1) > 0 and 0 < getattr(law, "share", 1) <= 1):
        raise BadProgram(f"{name} must have a step above 0, and a share above 0 and at most 1")


class Draws(NamedTuple):
    """Noise that remembers what was drawn."""

    judge: Judge
    laws: list[Law]
    values: list[Affine]

    def draw(self, law: Law) -> Affine:
        """The next draw, a new unknown."""
        if len(self.values) >= MOST_OUTCOMES:
            raise BadProgram(f"run never stops: it drew more than {MOST_OUTCOMES:,} times")
        require_sound(law, self.judge)
        value = forms.affine(self.judge, {len(self.values): 1})
        self.judge.assume(law.supports(value))
        self.laws.append(law)
        self.values.append(value)
        return value


class Replayed(NamedTuple):
    """Noise that is known, for another run: it must be drawn in this order, from these laws."""

    laws: Sequence[Law]
    values: Sequence[Affine]
    drawn_laws: list[Law]

    def draw(self, law: Law) -> Affine:
        """The next of the values."""
        number = len(self.drawn_laws)
        if number >= len(self.values):
            raise Violation("draws", "on the neighbour, the shifted noise makes it draw more often")
        first_law = self.laws[number]
        if law != first_law:
            problem = f"on the neighbour, draw {number} comes from {law}, not from {first_law}"
            raise Violation("draws", problem)
        self.drawn_laws.append(law)
        return self.values[number]

    def require_all_taken(self) -> None:
        """Raise a violation if the run drew less often."""
        if len(self.drawn_laws) < len(self.values):
            raise Violation("draws", "on the neighbour, the shifted noise makes it draw less often")


def moved(values: Sequence[Affine], shifts: Sequence[Scalar]) -> list[Affine]:
    """The draws, each shifted."""
    return [Affine.__add__(value, shift) for value, shift in zip(values, shifts, strict=True)]


def require_supported(draws: Draws, shifts: Sequence[Scalar]) -> None:
    """Raise a violation where a shift takes a draw out of its support."""
    shifted_values = moved(draws.values, shifts)
    for law, value, shifted in zip(draws.laws, draws.values, shifted_values, strict=True):
        message = f"shifting {in_symbols(value)} takes it out of its support"
        draws.judge.require(law.supports(shifted), Violation("support", message))


class ReadOnly(tuple[Any, ...]):
    """Answers or noise as a program sees them: it can only read them."""

    __slots__ = ()

    def _refuse(self, *_: object) -> NoReturn:
        raise BadProgram(
            "the program compares, adds or repeats answers or noise as a whole: take them one by "
            "one"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __add__ = __radd__ = __mul__ = __rmul__ = _refuse

    def __getitem__(self, index: Any) -> Any:
        part = tuple.__getitem__(self, index)
        return ReadOnly(part) if isinstance(index, slice) else part

    def __setitem__(self, *_: object) -> NoReturn:
        raise BadProgram("the program changes the answers or the noise that it is given")


@dataclass(slots=True)
class Trial:
    """The record of one path of a mechanism and its alignment."""

    answers: Answers
    neighbour: Answers
    draws: Draws
    output: Any
    skeleton: Skeleton
    numbers: list[Affine]
    shifts: list[Scalar]
    questions: list[tuple[set[int], bool]]
    calls: "list[MethodCall]"


class MethodCall(NamedTuple):
    """The questions of `run`, `align` or `unalign` on a path, and its result."""

    method: str
    skeleton: Skeleton | None
    """The discrete output that it got as an argument, if any."""
    transcript: list[tuple[Any, bool]]
    result: Any


def run_and_align(mechanism: Any, answers: Answers, neighbour: Answers, judge: Judge) -> Trial:
    """Run the mechanism and its alignment."""
    draws = Draws(judge, [], [])
    judge.begin("run")
    output = _run(mechanism, ReadOnly(answers), draws)
    skeleton, numbers = take_apart(output)
    result = (skeleton, _forms(numbers), draws.laws)
    run_call = MethodCall("run", None, judge.transcript, result)
    judge.begin("align")
    shifts = _shifts(mechanism, "align", answers, neighbour, draws.values, output)
    align_call = MethodCall("align", skeleton, judge.transcript, _forms(shifts))
    return Trial(
        answers=answers,
        neighbour=neighbour,
        draws=draws,
        output=output,
        skeleton=skeleton,
        numbers=numbers,
        shifts=shifts,
        questions=forms.questions_of(judge.transcript),
        calls=[run_call, align_call],
    )


def _forms(numbers: Iterable[Any]) -> list[Any]:
    return [forms.form_of(number) for number in numbers]


def trial(
    mechanism: Any, answers: Answers, neighbour: Answers, judge: Judge, *, anew: Any = None
) -> Trial:
    """Run the mechanism, align, run again on the neighbour; raise the first `Violation`.

    With `anew`, which makes the mechanism once more, `unalign` must undo the alignment.
    """
    path = run_and_align(mechanism, answers, neighbour, judge)
    draws = path.draws
    judge.require_steps(path.shifts)
    require_supported(draws, path.shifts)
    joint_cost = joint_cost_of(mechanism, draws.laws)
    if joint_cost is None:
        judge.require_cost(draws.laws, path.shifts)
    else:
        with programs.guarded("cost", _SECONDS):
            cost = joint_cost(ReadOnly(draws.values), ReadOnly(moved(draws.values, path.shifts)))
        message = f"the shifts can cost more than {readable(Fraction(judge.epsilon))}"
        judge.require(cost <= judge.epsilon, Violation("cost", message))
    _require_same_again(mechanism, path, judge)
    if anew is not None:
        path.calls.append(require_undone(anew(), path, judge))
    return path


def joint_cost_of(mechanism: Any, laws: Sequence[Any]) -> Any:
    """The function for the cost of dependent draws: that of their law, or of the mechanism.

    A joint cost is for one joint density. So all draws must come from it, and all its coordinates
    must be drawn.
    """
    cost = getattr(mechanism, "joint_cost", None)
    joint_law = next((law for law in laws if hasattr(law, "joint_cost")), None)
    if joint_law is not None:
        cost = joint_law.joint_cost
    if cost is None:
        return None
    for law in laws:
        if law != laws[0] or getattr(law, "dimension", len(laws)) != len(laws):
            raise Violation("draws", "draws that are not independent must all be of one joint law")
    return cost


def _require_same_again(mechanism: Any, path: Trial, judge: Judge) -> None:
    """Run on the neighbour and the shifted noise; raise a violation if the output differs.

    The run gets new unknowns; only the judge knows that they are the neighbour and the shifted
    noise. So the run must treat them as the first run treated its numbers.
    """
    laws = path.draws.laws
    draw_count = len(path.draws.values)
    first_names: dict[forms.Unknown, forms.Unknown] = {f"ν{i}": i for i in range(draw_count)}
    shifted = moved(path.draws.values, path.shifts)
    behind: dict[forms.Unknown, Affine] = dict(zip(first_names, shifted, strict=True))
    noise = [forms.affine(judge, {name: 1}) for name in first_names]
    answers = list(path.neighbour)
    for i, (before, after) in enumerate(zip(path.answers, path.neighbour, strict=True)):
        if isinstance(before, Affine) and isinstance(after, Affine):
            (first_name,) = forms.terms_of(before)
            first_names[f"p{i}"] = first_name
            behind[f"p{i}"] = after
            answers[i] = forms.affine(judge, {f"p{i}": 1})
    hidden: set[forms.Unknown] = set(range(draw_count))
    for answer in (*path.answers, *path.neighbour):
        if isinstance(answer, Affine):
            hidden.update(forms.terms_of(answer))
    judge.disguise(behind, hidden)
    judge.begin("run")
    replayed = Replayed(laws, noise, [])
    skeleton, numbers = take_apart(_run(mechanism, ReadOnly(answers), replayed))
    if any(not hidden.isdisjoint(forms.terms_of(number)) for number in numbers):
        raise Violation("function", "run says numbers that it was not given")
    judge.reveal()
    if skeleton != path.skeleton:
        raise Violation("output", f"the neighbour gives {skeleton}, not {path.skeleton}")
    for first, second in zip(path.numbers, numbers, strict=True):
        changed = forms.in_terms(second, behind)
        message = f"the neighbour gives {in_symbols(changed)}, not {in_symbols(first)}"
        judge.require_zero(first - changed, Violation("output", message))
    replayed.require_all_taken()
    has_unknown_answers = len(hidden) > draw_count
    if has_unknown_answers:  # at a single point runs cannot be compared
        renamed_numbers = [forms.renamed(form, first_names) for form in _forms(numbers)]
        transcript = [
            (forms.renamed(form, first_names), answer) for form, answer in judge.transcript
        ]
        result = (skeleton, renamed_numbers, laws)
        path.calls.append(MethodCall("run", None, transcript, result))


def require_same_output(
    output: object, other_output: object, judge: Judge, message: str | None = None
) -> None:
    """Raise a violation where two outputs differ."""
    if message is None:
        message = f"the neighbour gives {in_symbols(other_output)}, not {in_symbols(output)}"
    violation = Violation("output", message)
    skeleton, numbers = take_apart(output)
    other_skeleton, other_numbers = take_apart(other_output)
    judge.require(skeleton == other_skeleton, violation)
    for number, other_number in zip(numbers, other_numbers, strict=True):
        judge.require_zero(number - other_number, violation)


def require_undone(mechanism: Any, path: Trial, judge: Judge) -> MethodCall:
    """Raise a violation unless `unalign` leads from the shifted noise back to what was drawn.

    The mechanism must be new (never run). It gets new unknowns; only the judge knows that they are
    the shifted noise. Both linear parts must be whole, so that both determinants are ±1.
    """
    draws = path.draws.values
    shifted: dict[forms.Unknown, Affine] = {
        f"ν{i}": value for i, value in enumerate(moved(draws, path.shifts))
    }
    judge.disguise(shifted, set(range(len(draws))))
    judge.begin("unalign")
    noise = [forms.affine(judge, {name: 1}) for name in shifted]
    back = _shifts(mechanism, "unalign", path.answers, path.neighbour, noise, path.output)
    judge.reveal()
    call = MethodCall("unalign", path.skeleton, judge.transcript, _forms(back))
    if any(map(forms.draws_of, back)):
        raise Violation("one-to-one", "unalign uses noise that it was not given")
    for terms, _ in _forms(path.shifts + back):
        for name, factor in terms.items():
            is_noise = isinstance(name, int) or name.startswith("ν")
            if is_noise and factor.denominator > 1:
                raise Violation("one-to-one", "an alignment with unalign must shift by whole parts")
    for i, (draw, name, shift) in enumerate(zip(draws, shifted, back, strict=True)):
        message = f"unalign does not lead back to {forms.noise_name(i)}"
        restored = shifted[name] + forms.in_terms(shift, shifted)
        judge.require_zero(restored - draw, Violation("one-to-one", message))
    return call


def _run(mechanism: Any, answers: ReadOnly, noise: Any) -> Any:
    with programs.guarded("run", _SECONDS):
        return collect(mechanism.run(answers, NoiseSource(noise)))


def _shifts(
    mechanism: Any, method: str, answers: Answers, neighbour: Answers, noise: Any, output: object
) -> list[Scalar]:
    """The shifts that `align` or `unalign` returns."""
    with programs.guarded(method, _SECONDS):
        align = getattr(mechanism, method)
        returned = align(ReadOnly(answers), ReadOnly(neighbour), ReadOnly(noise), seal(output))
        if not isinstance(returned, Iterable):
            raise BadProgram(f"{method} must return a list, one shift for each draw")
        shifts = [shift if isinstance(shift, Affine) else forms.exact(shift) for shift in returned]
    if len(shifts) != len(noise):
        problem = f"{method} returned {len(shifts)} shifts for {len(noise)} draws"
        raise BadProgram(f"{problem}: return one for every draw, in the order drawn")
    return shifts

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

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from dpgap.exact.laws import Law, Scalar, require_law
from dpgap.exact.parameters import readable
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker.numbers import (
    Affine,
    BadNoise,
    BadProgram,
    Condition,
    Exact,
    Violation,
    in_symbols,
)

if TYPE_CHECKING:
    from dpgap.proof.checker.symbolic import Paths

_MOST = 10_000
"""The most draws and outcomes; a program with more is refused, because it may never stop."""
_SECONDS = 10.0


Answers = Sequence[Scalar]
Judge: TypeAlias = "Point | Paths"
"""Answers the questions of a program, and decides conditions where these answers hold."""


# --------------------------------------------------------------------------------------------------
# The two parts of an output: the discrete skeleton, and the continuous numbers in it.
#
# An alignment may use only the skeleton. There are countably many skeletons, so there are countably
# many alignments, as Lemma 1 of the paper needs. In place of each continuous number the alignment
# gets a `Sealed` one: every use of it is an error.


@dataclass(frozen=True, slots=True, repr=False)
class Skeleton:
    """An output without its continuous numbers; equal only if all types are equal too."""

    kind: type
    value: Any
    display: Any = field(compare=False)
    """The value without its types, for messages."""

    def __repr__(self) -> str:
        return repr(self.display)


class Sealed:
    """A continuous part of the output, as an alignment sees it: any use of it is an error."""

    __array_ufunc__ = None
    __slots__ = ()

    def _refuse(self, *_: object) -> NoReturn:
        raise self._when_used()

    def _when_used(self) -> Violation:
        return Violation(
            "discrete",
            "the alignment uses a continuous part of the output: it may use the discrete part only "
            "(indices, branches, how many), or there would be uncountably many alignments",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse
    __rtruediv__ = __neg__ = __pos__ = __abs__ = __float__ = __int__ = __round__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __hash__ = __index__ = _refuse
    __floor__ = __ceil__ = __trunc__ = __pow__ = __mod__ = __floordiv__ = _refuse
    __eq__ = __ne__ = __repr__ = __str__ = __format__ = _refuse


def collect(output: Any) -> Any:
    """Run generators in the output to their end; refuse what cannot be compared."""
    if isinstance(output, Iterator):
        return _collect_outcomes(output)
    kind = type(output)
    # Compared values must not define their own equality, or hide something.
    is_plain_tuple = isinstance(output, tuple) and kind.__iter__ is tuple.__iter__
    if kind is list or (is_plain_tuple and not hasattr(output, "__dict__")):
        return _rebuilt(output, [collect(item) for item in output])
    if kind is dict:
        return {collect(key): collect(item) for key, item in output.items()}
    if kind is Condition:
        return bool(output)
    if kind is float and math.isnan(output):
        raise BadProgram("the program returns NaN, which equals nothing, not even itself")
    if kind not in (Affine, int, bool, float, Fraction, str, type(None)):
        problem = f"the program returns a value of type {kind.__name__}"
        if kind.__module__ == "numpy":
            problem = f"the program returns a NumPy {kind.__name__}: write int(…) or list(…)"
        raise BadProgram(f"{problem}: return numbers, strings, None, or tuples, lists and dicts")
    return output


def _collect_outcomes(outcomes: Iterator[Any]) -> tuple[Any, ...]:
    items: list[Any] = []
    while len(items) <= _MOST:
        try:
            items.append(collect(next(outcomes)))
        except StopIteration as end:
            if end.value is not None:
                raise BadProgram("the generator returns a value: yield it instead") from None
            return tuple(items)
    raise BadProgram(f"the program never stops: it gave more than {_MOST:,} outcomes")


def _rebuilt(like: Any, items: list[Any]) -> Any:
    return items if isinstance(like, list) else tuple.__new__(type(like), items)


def seal(output: Any) -> Any:
    """The output as an alignment may see it."""
    if isinstance(output, Affine):
        return Sealed()
    if isinstance(output, tuple | list):
        return _rebuilt(output, [seal(item) for item in output])
    if isinstance(output, dict):
        return {key: seal(item) for key, item in output.items()}
    return output


def take_apart(output: Any) -> tuple[Skeleton, list[Affine]]:
    """The skeleton, and the continuous numbers in the order in which they occur."""
    kind = type(output)
    if kind is Affine:
        return Skeleton(kind, None, "a number"), [output]
    if isinstance(output, tuple | list | dict):
        skeletons = []
        numbers: list[Affine] = []
        for item in output.items() if isinstance(output, dict) else output:
            skeleton, item_numbers = take_apart(item)
            skeletons.append(skeleton)
            numbers += item_numbers
        return Skeleton(kind, tuple(skeletons), tuple(skeletons)), numbers
    return Skeleton(kind, output.hex() if kind is float else output, output), []


def cost_of(laws: Sequence[Any], shifts: Sequence[Scalar]) -> Scalar:
    """The whole cost of the shifts, each by its own law."""
    costs = (law.cost(shift) for law, shift in zip(laws, shifts, strict=True))
    return sum(costs, Fraction(0))


# --------------------------------------------------------------------------------------------------
# One path: `run`, `align`, and `run` again on the neighbour.


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
        if len(self.values) >= _MOST:
            raise BadProgram(f"run never stops: it drew more than {_MOST:,} times")
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
    joint_cost = _joint_cost(mechanism, draws.laws)
    if joint_cost is None:
        judge.require_cost(draws.laws, path.shifts)
    else:
        with forms.guarded("cost", _SECONDS):
            cost = joint_cost(ReadOnly(draws.values), ReadOnly(moved(draws.values, path.shifts)))
        message = f"the shifts can cost more than {readable(Fraction(judge.epsilon))}"
        judge.require(cost <= judge.epsilon, Violation("cost", message))
    _require_same_again(mechanism, path, judge)
    if anew is not None:
        path.calls.append(require_undone(anew(), path, judge))
    return path


def _joint_cost(mechanism: Any, laws: Sequence[Any]) -> Any:
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
    output: Any, other_output: Any, judge: Judge, message: str | None = None
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
    with forms.guarded("run", _SECONDS):
        return collect(mechanism.run(answers, NoiseSource(noise)))


def _shifts(
    mechanism: Any, method: str, answers: Answers, neighbour: Answers, noise: Any, output: Any
) -> list[Scalar]:
    """The shifts that `align` or `unalign` returns."""
    with forms.guarded(method, _SECONDS):
        align = getattr(mechanism, method)
        returned = align(ReadOnly(answers), ReadOnly(neighbour), ReadOnly(noise), seal(output))
        if not isinstance(returned, Iterable):
            raise BadProgram(f"{method} must return a list, one shift for each draw")
        shifts = [shift if isinstance(shift, Affine) else forms.exact(shift) for shift in returned]
    if len(shifts) != len(noise):
        problem = f"{method} returned {len(shifts)} shifts for {len(noise)} draws"
        raise BadProgram(f"{problem}: return one for every draw, in the order drawn")
    return shifts


# --------------------------------------------------------------------------------------------------
# The draws that each shift of an alignment depends on, and whether they form a cycle.
#
# An alignment must be *acyclic*: in some order of the draws, each shift depends on earlier draws
# only. Then it cannot squeeze many draws of noise into few.


@dataclass(slots=True)
class Dependence:
    """Which draws each shift depends on, over all paths with the same discrete output.

    A shift depends on the draws in it. If it is not the same form on all paths, it also depends
    on every draw that the alignment asked about. Questions about answers alone, asked before any
    about noise, are part of what is given.
    """

    kinds: dict[Any, list[Trial]] = field(default_factory=dict)
    laws: dict[Skeleton, list[Law]] = field(default_factory=dict)
    functions: "Functions" = field(default_factory=lambda: Functions())

    def add(self, trial: Trial) -> None:
        """Take one more path into account."""
        self.functions.add(trial)
        laws = trial.draws.laws
        if self.laws.setdefault(trial.skeleton, laws) != laws:
            raise Violation(
                "draws",
                f"the output {trial.skeleton} must tell how many draws there were, and their laws",
            )
        before_noise = itertools.takewhile(lambda question: not question[0], trial.questions)
        key = (trial.skeleton, tuple(answer for _, answer in before_noise))
        self.kinds.setdefault(key, []).append(trial)

    def cycle(self) -> list[int]:
        """A cycle in the first kind of output whose alignment is not acyclic; empty if none."""
        for trials in self.kinds.values():
            cycle = find_cycle(_needs(trials))
            if cycle:
                return cycle
        return []


def _needs(trials: Sequence[Trial]) -> list[set[int]]:
    """For each shift, the draws that it depends on."""
    draws_asked: set[int] = set()
    for trial in trials:
        for draws, _ in trial.questions:
            draws_asked |= draws
    needs = []
    for shifts in zip(*(trial.shifts for trial in trials), strict=True):
        draws = set().union(*map(forms.draws_of, shifts))
        first = forms.form_of(shifts[0])
        if any(forms.form_of(shift) != first for shift in shifts):
            draws |= draws_asked
        needs.append(draws)
    return needs


class Functions:
    """Checks that `run`, `align` and `unalign` use only their arguments.

    Their next question, or their result, must be a function of the discrete output (if they get
    one) and of the answers to their earlier questions. So it cannot depend on stored values.
    """

    def __init__(self) -> None:
        self._trees: dict[Any, dict[Any, Any]] = {}
        """For each method and output a tree: its next question, and a branch for each answer."""

    def add(self, trial: Trial) -> None:
        """Raise a violation if one more path shows something else."""
        for call in trial.calls:
            node = self._trees.setdefault((call.method, call.skeleton), {})
            for form, answer in call.transcript:
                self._require(call.method, node, form)
                node = node.setdefault(answer, {})
            self._require(call.method, node, ("returns", call.result))

    def _require(self, method: str, node: dict[Any, Any], action: Any) -> None:
        if node.setdefault("next", action) != action:
            raise Violation("function", f"{method} uses something else than what it is given")


def find_cycle(needs: Sequence[set[int]]) -> list[int]:
    """Draws that depend on each other in a cycle; empty if there are none.

    >>> find_cycle([set(), {0}, {0, 1}]), find_cycle([{1}, {0}]), find_cycle([{0}])
    ([], [0, 1], [0])
    """
    try:
        TopologicalSorter(dict(enumerate(needs))).prepare()
    except CycleError as error:
        _, ring = error.args  # each is needed by the next, up to the first again
        return list(ring[:0:-1])
    return []


def cycle_message(cycle: Sequence[int]) -> str:
    """The cycle in words."""
    ring = " → ".join(forms.noise_name(draw) for draw in [*cycle, cycle[0]])
    return (
        f"the alignment is cyclic: {ring} (each shift depends on the next draw). "
        "No order of the draws lets each shift depend on earlier ones only"
    )


# --------------------------------------------------------------------------------------------------
# One point at a time: the conditions of a proof on given answers, neighbour and noise.
#
# Everything is exact: answers, noise and costs are fractions, and nothing is judged in floats. The
# program gets its noise as unknowns, whose values are known here. So each shift shows which draws
# it depends on. Each question of the alignment is then answered the other way as well: the shifts
# that change depend on the draws that the question is about.


class Point(forms.PathExplorer):
    """The judge of a single point."""

    most_questions = 1_000_000

    def __init__(self, noise: Sequence[Exact], epsilon: Exact, contrary: int | None = None) -> None:
        """`contrary` says which question of the alignment to answer the other way."""
        super().__init__()
        self._noise = noise
        self.epsilon = epsilon
        self._contrary = contrary
        self.ties = True
        self.step = 1

    def branch(self, form: Affine) -> tuple[bool, Any, Any]:
        """Whether the form is below zero here; nothing else is possible."""
        is_negative = self.value_of(form) < 0
        is_contrary = len(self.transcript) == self._contrary
        return is_negative != is_contrary, None, None

    def value_of(self, number: Scalar) -> Exact:
        """The number at this point."""
        if not isinstance(number, Affine):
            return forms.exact(number)
        if any(draw >= len(self._noise) for draw in forms.draws_of(number)):
            raise BadNoise(f"noise must have a value for every draw, not {len(self._noise)} alone")
        terms = forms.terms_of(number)
        total = (terms[draw] * self._noise[draw] for draw in forms.draws_of(number))
        return sum(total, forms.constant_of(number))

    def assume(self, condition: Condition | bool) -> None:
        """Refuse noise that could not have been drawn."""
        if not condition:
            raise BadNoise("noise must lie in the support of its law")

    def require(self, condition: Condition | bool, violation: Violation) -> None:
        """Raise the violation if the condition does not hold."""
        if not condition:
            raise violation

    def require_steps(self, shifts: Sequence[Scalar]) -> None:
        """Numbers at a point may be any fractions, so a grid is not checked."""

    def require_zero(self, form: Affine, violation: Violation) -> None:
        """Raise the violation if the form is not zero."""
        if self.value_of(form) != 0:
            raise violation

    def require_cost(self, laws: Sequence[Any], shifts: Sequence[Scalar]) -> None:
        """Raise a violation if shifting the draws costs more than ε."""
        total = cost_of(laws, [Fraction(self.value_of(shift)) for shift in shifts])
        if total > self.epsilon:
            allowed = readable(Fraction(self.epsilon))
            raise Violation("cost", f"the shifts cost {readable(total)}, more than {allowed}")


def shifts_at(
    mechanism: Any, answers: Sequence[Exact], neighbour: Sequence[Exact], noise: Sequence[Exact]
) -> tuple[tuple[Fraction, ...], Fraction]:
    """The shifts of an alignment at one point, and what they cost together."""
    point = Point(noise, 0)
    path = run_and_align(mechanism, answers, neighbour, point)
    draws = path.draws
    shifts = tuple(Fraction(point.value_of(shift)) for shift in path.shifts)
    joint_cost = _joint_cost(mechanism, draws.laws)
    if joint_cost is None:
        return shifts, Fraction(cost_of(draws.laws, shifts))
    cost = joint_cost(ReadOnly(draws.values), ReadOnly(moved(draws.values, shifts)))
    return shifts, Fraction(point.value_of(cost))


def check(
    mechanism: Any,
    answers: Sequence[Scalar],
    neighbour: Sequence[Scalar],
    noise: Sequence[Scalar],
    *,
    epsilon: Scalar = None,
) -> None:
    """Check every condition at one point; raise a `Violation` that says which one fails.

    >>> import dpgap
    >>> top = dpgap.NoisyMax(epsilon=1)
    >>> check(top, answers=[5, 3], neighbour=[4, 4], noise=[0, 1])
    """
    allowed = forms.exact(mechanism.epsilon if epsilon is None else epsilon)
    values = [forms.exact(value) for value in noise]
    before = [forms.exact(answer) for answer in answers]
    after = [forms.exact(answer) for answer in neighbour]
    point = Point(values, allowed)
    path = trial(mechanism, before, after, point)
    draw_count = len(path.draws.laws)
    if draw_count < len(values):
        raise BadNoise(f"noise has {len(values)} values, but only {draw_count} were drawn")
    dependence = Dependence()
    dependence.add(path)
    for number, (draws, _) in enumerate(path.questions):
        if draws:
            contrary = Point(values, allowed, contrary=number)
            unknowns = ReadOnly(forms.affine(contrary, {draw: 1}) for draw in range(draw_count))
            sealed = seal(path.output)
            shifts = list(mechanism.align(ReadOnly(before), ReadOnly(after), unknowns, sealed))
            questions = path.questions[: number + 1]
            dependence.add(replace(path, shifts=shifts, questions=questions))
    cycle = dependence.cycle()
    if cycle and not hasattr(mechanism, "unalign"):
        raise Violation("acyclic", cycle_message(cycle))
    if cycle:
        require_undone(deepcopy(mechanism), path, point)

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
from typing import TYPE_CHECKING, Any, NamedTuple

from dpgap.exact.laws import Scalar
from dpgap.exact.parameters import altered
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.measuring import Joint
from dpgap.proof.checker.alignment import Trial, trial
from dpgap.proof.checker.cycles import Functions
from dpgap.proof.checker.numbers import Exact, Violation, draws_of, form_of
from dpgap.proof.checker.provers import Theorem
from dpgap.proof.checker.proving import DIRECTIONS
from dpgap.proof.every.memory import require_uniform

if TYPE_CHECKING:
    from dpgap.proof.checker.recording import Recording


_MANY = 5
_SIZES = (1, 2, 3, 4, 5, 8)
MOVES = (Fraction(1, 3), Fraction(1), Fraction(-5, 2))

Make = Callable[..., Any]
"""Makes a mechanism from ε, the sensitivity and, where it has them, k or the reach."""


def recording(epsilon: Exact | None, *, ties: bool) -> "Recording":
    """A judge that writes down all questions; without ε, costs are proved elsewhere."""
    from dpgap.proof.checker.recording import Recording

    return Recording(epsilon, ties=ties)


def _prove_few(
    name: str,
    program: Any,
    n: int,
    kind: str,
    allowed: Exact | None,
    is_in_order: Callable[[Trial], bool],
    *,
    ties: bool = False,
) -> Theorem:
    """The theorem that the program on n answers costs at most `allowed`; raises a violation.

    It calls `run`, `align` and `run` again, as the checker does (`checker.alignment`), and writes
    everything down. `is_in_order` says whether the shifts of a path depend on noise in an order
    that holds for every n.
    """
    judge = recording(allowed, ties=ties)
    answers, _, neighbour = judge.neighbours(n, DIRECTIONS[kind])
    laws: list[Any] = []
    functions = Functions()

    def on_path() -> None:
        path = trial(program, answers, neighbour, judge)
        functions.add(path)
        if not laws:
            laws.extend(path.draws.laws)
        uneven = Violation("draws", "how many draws are taken must not depend on noise")
        judge.require(laws == path.draws.laws, uneven)
        cyclic = Violation("acyclic", "shifts depend on noise in a way that may be cyclic")
        judge.require(is_in_order(path), cyclic)

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


class KnownNumbers(NamedTuple):
    """Known answers, how far each moves on the neighbour, and known noise."""

    answers: Sequence[Fraction]
    moves: Sequence[Fraction]
    noise: Sequence[Fraction]

    @property
    def neighbour(self) -> list[Fraction]:
        """The answers on the neighbour."""
        return [answer + move for answer, move in zip(self.answers, self.moves, strict=True)]

    def at(self, indices: Sequence[int], draws: Sequence[int]) -> "KnownNumbers":
        """Some of the answers, with some of the draws."""
        return KnownNumbers(
            [self.answers[index] for index in indices],
            [self.moves[index] for index in indices],
            [self.noise[draw] for draw in draws],
        )


class KnownRun(NamedTuple):
    """The output on known numbers, the shifts, and the laws that the mechanism drew from."""

    output: Any
    shifts: list[Any]
    laws: list[Any]


def _run_on(mechanism: Any, numbers: KnownNumbers) -> KnownRun:
    source = Fixed(iter(numbers.noise), [])
    output = mechanism.run(numbers.answers, source)
    noise = numbers.noise[: len(source.laws)]
    shifts = mechanism.align(numbers.answers, numbers.neighbour, noise, output)
    return KnownRun(output, list(shifts), source.laws)


def _subsets(size_limit: int, needed: Set[int] = frozenset()) -> Iterator[tuple[int, ...]]:
    """All subsets of five places that are no larger than this and include the needed ones."""
    for size in range(1, size_limit + 1):
        for subset in itertools.combinations(range(_MANY), size):
            if needed <= set(subset):
                yield subset


FEW = ((1, 0), (2, 0), (3, 0), (1, 1), (1, 2), (2, 1), (2, 2))
"""Winners and losers."""
ONE_WINS = tuple(sizes for sizes in FEW if sizes[0] == 1)


def prove_ranking(make: Make, kind: str, sizes: Sequence[tuple[int, int]] = FEW) -> list[Theorem]:
    """The theorems about few answers; raises a violation if something does not hold."""
    require_scales(make)
    return _prove_ranking(make(k=1), kind, sizes, 1, ties=False)


def prove_known_ranking(
    mechanism: Any, kind: str, ties: bool, share: Exact, losers: int
) -> list[Theorem]:
    """The same for one mechanism, if only a share of its ε is claimed; without losers all win."""
    _require_scale(mechanism)
    sizes = [
        (few_winners, few_losers)
        for few_winners, few_losers in FEW
        if few_winners <= mechanism.k and bool(few_losers) == bool(losers)
    ]
    return _prove_ranking(mechanism, kind, sizes, share, ties=ties)


def _prove_ranking(
    sample: Any, kind: str, sizes: Sequence[tuple[int, int]], share: Exact, *, ties: bool
) -> list[Theorem]:
    require_uniform(type(sample))
    require_restriction(sample)
    law = replace(sample.law, scale=sample.law.scale * sample.epsilon / sample.k)
    theorems = []
    for winners, losers in sizes:
        program = altered(sample, k=winners, law=law)
        name = f"{type(sample).__name__}, {law.name}, {winners} winning, {losers} losing"
        n = winners + losers
        allowed = winners * share if n < 4 else None  # two winners cost what each costs alone
        theorems.append(_prove_few(name, program, n, kind, allowed, _losers_come_first, ties=ties))
    return theorems


def require_scales(make: Make) -> None:
    """Raise a violation unless the scale is right for all k, ε and sensitivities."""
    for k, epsilon, delta in itertools.product(_SIZES, (1, Fraction(7, 3)), (1, 3)):
        _require_scale(make(k=k, epsilon=epsilon, sensitivity=delta))
    on_grid = make(k=3, sensitivity=Fraction(4, 3), grid=Fraction(1, 4))
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


def _losers_come_first(path: Trial) -> bool:
    """Whether losers are not shifted, and winners' shifts depend on losers' draws only."""
    winners, _ = path.output
    losers = {draw for draw in range(len(path.shifts)) if draw not in winners}
    if any(form_of(path.shifts[loser]) != ({}, 0) for loser in losers):
        return False
    needs = [draws_of(shift) for shift in path.shifts]
    needs += [draws for draws, _ in path.questions]
    return all(draws <= losers for draws in needs)


_restricted: set[tuple[Any, ...]] = set()
"""The code for which it was shown."""


def require_restriction(mechanism: Any) -> None:
    """Raise a violation unless few among many are ranked and shifted as they are alone.

    For five answers in every order, and every k.
    """
    kind = type(mechanism)
    methods = [getattr(kind, name, None) for name in ("run", "align", "unalign")]
    code = (kind, mechanism.law.signed, *(getattr(method, "__code__", None) for method in methods))
    if code in _restricted:
        return
    for order in itertools.permutations(range(_MANY)):
        moves = [Fraction((3 * at + sum(order[: at + 1])) % 5 - 2, 2) for at in order]
        answers = [Fraction(7 * at % 5) for at in range(_MANY)]
        noise = [10 * rank - answer for rank, answer in zip(order, answers, strict=True)]
        for k in range(1, _MANY + 1):
            _require_ranked(altered(mechanism, k=k), KnownNumbers(answers, moves, noise))
    _restricted.add(code)


def _require_ranked(mechanism: Any, numbers: KnownNumbers) -> None:
    winners, leads, shifts = _ranked(mechanism, numbers)
    for subset in _subsets(_MANY - 1, _deciding(mechanism, numbers, winners)):
        fewer = altered(mechanism, k=sum(index in winners for index in subset))
        if not fewer.k:
            continue
        among_many = (
            tuple(subset.index(winner) for winner in winners if winner in subset),
            [lead for winner, lead in zip(winners, leads, strict=False) if winner in subset],
            [shifts[index] for index in subset],
        )
        if _ranked(fewer, numbers.at(subset, subset)) != among_many:
            raise Violation("restriction", "few among many are not treated as they are alone")


def _deciding(mechanism: Any, numbers: KnownNumbers, winners: Sequence[int]) -> set[int]:
    """The answers that decide how others are ranked and shifted."""
    noisy = [answer + value for answer, value in zip(numbers.answers, numbers.noise, strict=True)]
    noisy_after = [value + move for value, move in zip(noisy, numbers.moves, strict=True)]
    losers = [index for index in range(_MANY) if index not in winners]
    deciding = {winners[-1]}
    if losers:
        deciding = {max(losers, key=noisy.__getitem__), max(losers, key=noisy_after.__getitem__)}
    if not mechanism.law.signed:  # the least noise, before and after
        risen = [value - move for value, move in zip(numbers.noise, numbers.moves, strict=True)]
        deciding.add(min(winners, key=numbers.noise.__getitem__))
        deciding.add(min(winners, key=risen.__getitem__))
    return deciding


def _ranked(mechanism: Any, numbers: KnownNumbers) -> tuple[Any, list[Any], list[Any]]:
    """The winners, their leads and the shifts; raises a violation if `unalign` does not undo."""
    (winners, leads), shifts, _ = _run_on(mechanism, numbers)
    if hasattr(mechanism, "unalign"):
        shifted = [value + shift for value, shift in zip(numbers.noise, shifts, strict=True)]
        back = mechanism.unalign(numbers.answers, numbers.neighbour, shifted, (winners, None))
        if [-shift for shift in shifts] != list(back):
            raise Violation("one-to-one", "unalign does not lead back")
    return winners, list(leads or ()), shifts


def prove_measurement(make: Make, kind: str) -> list[Theorem]:
    """The theorems about few values; raises a violation if something does not hold."""
    sample = make()
    for n, epsilon, delta in itertools.product(_SIZES, (1, Fraction(7, 3)), (1, 3)):
        mechanism = make(epsilon=epsilon, sensitivity=delta)
        if mechanism.law(n).scale * mechanism.epsilon != _parts_of_epsilon(sample, n) * delta:
            raise Violation("budget", "the scale of the noise does not fit the number of values")
    on_grid = make(sensitivity=Fraction(4, 3), grid=Fraction(1, 4))
    if on_grid.law_in_steps(4).scale * on_grid.epsilon != _parts_of_epsilon(sample, 4) * 6:
        raise Violation("budget", "the scale of the noise does not fit the grid")
    mechanism_kind: Any = type(sample)
    require_uniform(mechanism_kind)
    methods = [
        getattr(mechanism_kind, method, None)
        for method in ("run", "align", "noise", "law", "joint_cost")
    ]
    code = tuple(method.__code__ for method in methods if method is not None)
    value_count = _require_few_of_many(mechanism_kind, code)
    name = mechanism_kind.__name__
    return [
        _prove_few(f"{name}, {n} values", sample, n, kind, sample.epsilon, _is_free_of_noise)
        for n in range(1, value_count + 1)
    ]


def _parts_of_epsilon(mechanism: Any, n: int) -> int:
    """How many values share ε: one joint noise is for all values together."""
    return 1 if isinstance(mechanism, Joint) else n


def _is_free_of_noise(path: Trial) -> bool:
    """Whether no shift of this path depends on noise."""
    if any(draws for draws, _ in path.questions):
        return False
    return not any(map(draws_of, path.shifts))


@lru_cache(maxsize=8)
def _require_few_of_many(kind: Any, code: tuple[Any, ...]) -> int:
    """How many values are few: few of five are released, shifted and charged as they are alone.

    This was shown for the `code` of the kind.
    """
    mechanism = kind(1, monotonic=True) if "monotonic" in kind.__slots__ else kind(1)
    zero = [Fraction(0)]
    draws_of_one = _run_on(mechanism, KnownNumbers(zero, zero, [Fraction(1)] * 2)).laws
    shared = len(draws_of_one) - 1
    for start, up in itertools.product(range(11), (1, -1)):
        values = [Fraction(start * at % 7) for at in range(_MANY)]
        moves = [up * Fraction((start + 3 * at) % 4, 3) for at in range(_MANY)]
        noise = [Fraction(1 + (start * start + 5 * at) % 11) for at in range(_MANY + shared)]
        _require_measured(mechanism, shared, KnownNumbers(values, moves, noise))
    return 2 + shared


def _require_measured(mechanism: Any, shared: int, numbers: KnownNumbers) -> None:
    run = _run_on(mechanism, numbers)
    noise = numbers.noise
    if run.laws != [mechanism.law(_MANY)] * len(noise) or len(run.shifts) != len(noise):
        raise Violation("draws", "there must be one draw and one shift for each value")
    if getattr(run.laws[0], "dimension", len(noise)) != len(noise):
        raise Violation("draws", "joint noise must have a coordinate for each draw")
    shifted = [value + shift for value, shift in zip(noise, run.shifts, strict=True)]
    largest = max(range(len(noise)), key=lambda draw: abs(shifted[draw]))
    needed = {next((index for index, move in enumerate(numbers.moves) if move), 0)}
    if largest >= shared:
        needed.add(largest - shared)
    for subset in _subsets(2 + shared, needed):
        draws = _require_alone(mechanism, numbers, run, subset, shared)
        if isinstance(mechanism, Joint):
            # Few draws that have the largest shifted one cost no less than all.
            few_noise = [noise[draw] for draw in draws]
            few_shifted = [shifted[draw] for draw in draws]
            if mechanism.joint_cost(few_noise, few_shifted) < mechanism.joint_cost(noise, shifted):
                raise Violation("restriction", "few of many values cost less than all")


def _require_alone(
    mechanism: Any, numbers: KnownNumbers, run: KnownRun, subset: Sequence[int], shared: int = 0
) -> list[int]:
    """Raise a violation unless some of many are released and shifted as alone; their draws."""
    draws = list(range(shared)) + [index + shared for index in subset]
    alone = _run_on(mechanism, numbers.at(subset, draws))
    is_same_output = list(alone.output) == [run.output[index] for index in subset]
    if not is_same_output or alone.shifts != [run.shifts[draw] for draw in draws]:
        raise Violation("restriction", "few of many are not treated as they are alone")
    return draws


def prove_histogram(make: Make) -> list[Theorem]:
    """The theorem about two answers of any number; raises a violation if it does not hold."""
    sample = make()
    require_uniform(type(sample))
    for reach, epsilon, delta in itertools.product((1, 2, 3, 5, 8), (1, Fraction(7, 3)), (1, 3)):
        mechanism = make(reach=reach, epsilon=epsilon, sensitivity=delta)
        law = mechanism.law
        if law.scale * mechanism.epsilon != reach * delta:
            raise Violation("budget", "the scale of the noise does not fit the reach")
        at_one = replace(law, scale=Fraction(1))
        if any(law.cost(move * law.scale) != at_one.cost(move) for move in MOVES):
            raise Violation("budget", "a cost must be inverse to the scale")
    on_grid = make(reach=2, sensitivity=Fraction(4, 3), grid=Fraction(1, 4))
    if on_grid.law_in_steps.scale * on_grid.epsilon != 2 * 6:
        raise Violation("budget", "the scale of the noise does not fit the grid")
    values = [Fraction(7 * at % 5) for at in range(_MANY)]
    moves = [Fraction(3 * at % 5 - 2, 2) for at in range(_MANY)]
    noise = [Fraction(11 * at % 7) for at in range(_MANY)]
    numbers = KnownNumbers(values, moves, noise)
    run = _run_on(sample, numbers)
    for subset in _subsets(_MANY - 1):
        _require_alone(sample, numbers, run, subset)
    return [_prove_histogram(altered(sample, law=replace(sample.law, scale=Fraction(1))))]


def _prove_histogram(program: NoisyHistogram) -> Theorem:
    judge = recording(None, ties=True)
    reach = judge.unknown("reach")
    others = judge.unknown("others_size")
    answers, moves, neighbour = judge.neighbours(2, (-1, 1))
    sizes = [judge.unknown(f"size{i}") for i in range(2)]
    for move, size in zip(moves, sizes, strict=True):
        judge.assume_everywhere(size >= move)
        judge.assume_everywhere(size >= -move)
    judge.assume_everywhere(others >= 0)
    judge.assume_everywhere(reach >= 1)
    judge.assume_everywhere(sizes[0] + sizes[1] + others <= reach)

    def on_path() -> None:
        path = trial(program, answers, neighbour, judge)
        if path.draws.laws != [program.law] * 2:
            raise Violation("draws", "there must be one draw for each answer")
        if not _is_free_of_noise(path):
            raise Violation("acyclic", "a shift depends on noise")
        for law, shift, size in zip(path.draws.laws, path.shifts, sizes, strict=True):
            far = Violation("cost", "a draw costs more than its answer moved")
            judge.require_at_most([law], [shift], size, far)
        over = Violation("cost", "all draws together cost more than the reach")
        judge.require_at_most(path.draws.laws, path.shifts, reach - others, over)

    return judge.proved(f"{type(program).__name__}, any reach, two answers of any number", on_path)

"""Mutants: mechanisms that look private and are not, and unusual ones that are private.

Most mutants have been published, or are mistakes that anybody could make. Each claims ε = 1 for
answers of sensitivity 1. It is a mechanism of dpgap with one or two changed lines. It has the
alignment that its author might have had in mind, and the event that exposes it: answers, a
neighbour, and an event that is more than e times as likely on the one as on the other.
The prover must refute every mutant, and the audit must catch it. Nothing here is public.

Noise is Laplace noise of the scale that ships, unless a line says otherwise; it proves Joint and
Hybrid Top-K as well.
"""

import inspect
import math
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain, product
from typing import Any

import numpy as np

from dpgap.exact.bits import Bits
from dpgap.exact.laws import GeometricNoise, LaplaceNoise, Law, Scalar
from dpgap.exact.parameters import altered
from dpgap.exact.reals import Integers
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Laplace
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.proof.auditing.chances import (
    DELTA,
    EPSILON,
    Audit,
    lower_bound,
    lower_chance,
)
from dpgap.proof.auditing.sampling import frequency
from dpgap.proof.checker import proving, unknown_items

MUTANT = "mutant"
ACCEPT = "accept"
Entries = Iterator["CatalogueEntry"]


def catalogue(*kinds: str) -> list["CatalogueEntry"]:
    """The entries of these kinds: by default mutants first, then those that must be accepted."""
    entries: list[CatalogueEntry] = []
    for kind in kinds or (MUTANT, ACCEPT):
        entries += [entry for entry in _entries() if entry.kind == kind]
    return entries


@lru_cache(maxsize=1)
def _entries() -> tuple["CatalogueEntry", ...]:
    groups = _streams(), _rankings(), _sets(), _lined(), _branching(), _measured()
    return tuple(chain.from_iterable(groups))


def edited(kind: Any, **changes: Any) -> Any:
    """A mechanism of dpgap with some changed methods.

    A change is a list of pairs (old text, new text), or a new object for the name. It fails if a
    text does not occur exactly once. So every mutant is a change of the current code.
    """
    methods: dict[str, Any] = {}
    for name, change in changes.items():
        if not isinstance(change, list):
            methods[name] = change
            continue
        shipped = inspect.getattr_static(kind, name)
        function = getattr(shipped, "__func__", shipped)
        source = textwrap.dedent(inspect.getsource(function))
        for old, new in change:
            if source.count(old) != 1:
                raise LookupError(f"{kind.__name__}.{name} must have {old!r} once: change it here")
            source = source.replace(old, new)
        source = f"from __future__ import annotations\n{source}"
        code = compile(source, f"<edited {kind.__name__}.{name}>", "exec")
        exec(code, function.__globals__, methods)
        methods.pop("annotations")
    name = f"Edited{kind.__name__.removeprefix('Edited')}"
    return type(name, (kind,), {"__slots__": (), **methods})


@dataclass(frozen=True, slots=True)
class Event:
    """The event that exposes a mutant: it happens more than e times as often as on a neighbour.

    `happens` tests an output. `chance` computes the event's probability on some answers; it is
    given if sampling would take too long.
    """

    answers: tuple[int, ...]
    neighbour: tuple[int, ...]
    happens: Callable[[Any], bool]
    chance: Callable[[Sequence[int]], float] | None = None
    on_grid: bool = False
    samples: int = 1_000_000
    """How many samples are surely enough, half of them on each side."""
    bounds: str = EPSILON
    """The parameter that it bounds from below; for δ, it cannot happen on the neighbour."""

    def lower_bound(self, mechanism: Any) -> float:
        """A lower bound of the mechanism's ε or δ: exact, or from samples of its program."""
        if self.chance is not None:
            return math.log(self.chance(self.answers) / self.chance(self.neighbour))
        runs = self.samples // 2
        count = partial(
            frequency, mechanism.run, event=self.happens, runs=runs, on_grid=self.on_grid
        )
        hits = count(answers=self.answers)
        if self.bounds == DELTA:
            return lower_chance(hits, runs)
        return lower_bound(hits, count(answers=self.neighbour), runs)


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A mechanism, and how many answers it is judged on.

    It must be refuted if there is an event that exposes it. Otherwise it must be proved, even if it
    looks unusual.
    """

    name: str
    mechanism: Any
    event: Event | None = None
    n: int = 2
    k: int = 1
    how: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the proof."""

    def judge(self) -> proving.Proof:
        """Prove it, or refute it; by its δ if its event bounds δ."""
        if self._is_by_delta:
            return unknown_items.check_lone_items(self.mechanism, self.n, **self.how)
        return proving.prove(self.mechanism, self.n, **self.how)

    def replay(self, example: proving.Counterexample) -> None:
        """Raise the `Violation` that is found at a counterexample's numbers."""
        if self._is_by_delta:
            unknown_items.require_delta(self.mechanism, len(example.answers), **self.how)
        else:
            proving.replay(self.mechanism, example)

    @property
    def _is_by_delta(self) -> bool:
        return self.event is not None and self.event.bounds == DELTA

    @property
    def kind(self) -> str:
        """The verdict that it must get."""
        return ACCEPT if self.event is None else MUTANT

    @property
    def variant(self) -> str:
        """The kind of neighbours on which it is judged."""
        if self._is_by_delta:
            return "δ of unknown items"
        return str(self.how.get("neighbours", "general"))


def audit_mutant(entry: CatalogueEntry) -> Audit:
    """Audit a mutant by its event: on samples of its program, or exactly if it is rare."""
    start = time.perf_counter()
    event = entry.event
    assert event is not None
    is_sampled = event.chance is None
    claimed = entry.mechanism.epsilon
    if event.bounds == DELTA:
        claimed = entry.mechanism.delta(1)
    return Audit(
        name=entry.name,
        kind=entry.kind,
        variant=entry.variant,
        source="program" if is_sampled else "exact",
        claimed=float(claimed),
        lower_bound=event.lower_bound(entry.mechanism),
        samples=event.samples if is_sampled else 0,
        p_value=None,
        seconds=time.perf_counter() - start,
        bounds=event.bounds,
    )


def listed(
    name: str, mechanism: Any, event: Event | None = None, n: int = 2, k: int = 1, **how: Any
) -> CatalogueEntry:
    """An entry; `how` are further arguments of the proof."""
    return CatalogueEntry(name, mechanism, event, n, k, how)


def laplace(scale: int | Fraction) -> LaplaceNoise:
    """Laplace noise of this scale."""
    return LaplaceNoise(Fraction(scale))


TWO = laplace(2)
FOUR = laplace(4)
EIGHT = laplace(8)

_NODES = 24
_REACH = 45


def integrate(function: Callable[[Any], Any], law: LaplaceNoise) -> float:
    """The mean of a function of Laplace noise, whose density is smooth between whole numbers.

    Gauss–Legendre nodes between these; tails are cut off where they are below 1e-19.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    scale = float(law.scale)
    reach = int(_REACH * scale)
    points = (np.arange(-reach, reach)[:, None] + (nodes + 1) / 2).ravel()
    values = np.exp(-np.abs(points) / scale) / (2 * scale) * function(points)
    return float((values.reshape(-1, _NODES) @ weights / 2).sum())


# Sparse Vectors: which answers are above a noisy threshold?


FAR = 1000
"""A threshold that no noise reaches."""
_DRAW = "noise.draw(branch.law)"
_ABOVE = "Outcome(branch.number, gap)"
_BELOW = "Outcome(None, None)"
_OPENING = "self.threshold + noise.draw(self.threshold_law)"
_RISE = "(rise := self.rise(sum(answers), sum(neighbour)))"
_SHIFTS_BELOW = "[0] * self.live(used)"
_SHIFTS_ABOVE = "[*[0] * (branch - 1), move]"

# It says above or below and nothing else.
INDICES_ONLY = edited(SparseVector, step=[(_ABOVE, "Outcome(1, None)")])


def stream(
    kind: Any,
    law: Law | None = None,
    *,
    threshold: int = 0,
    k: int = 1,
    noise: str = "laplace",
    threshold_share: Fraction = Fraction(1, 2),
) -> Any:
    """A Sparse Vector whose threshold takes half of ε, with a margin of 0 and perhaps other noise.

    The threshold's noise has scale 2 then, and that of answers scale 4 for k = 1.
    """
    mechanism = kind(threshold, k, 1, noise=noise, threshold_share=threshold_share)
    branch = mechanism.every_branch[0]
    return altered(mechanism, every_branch=(branch._replace(law=law or branch.law, margin=0),))


def outcomes_are(
    branches: Sequence[int], fits: Callable[[Scalar], Any] = lambda number: True
) -> Callable[[Iterable[Any]], bool]:
    """Whether outcomes have these branches, 0 for below, with numbers that fit where above."""

    def happens(output: Iterable[Any]) -> bool:
        count = 0
        for (branch, number), expected in zip(output, branches, strict=False):
            if int(branch or 0) != expected or (expected and not fits(number)):
                return False
            count += 1
        return count == len(branches)

    return happens


def late(
    below: int,
    above: int,
    *,
    branch: int = 1,
    fits: Callable[[Scalar], Any] = lambda number: True,
    happens: Any = None,
    **options: Any,
) -> Event:
    """An event in a stream: so many answers are below, then so many above, with fitting numbers.

    On the neighbour those below have risen by 1, and those above have fallen by 1.
    """
    if happens is None:
        happens = outcomes_are([0] * below + [branch] * above, fits)
    return Event((0,) * (below + above), (1,) * below + (-1,) * above, happens, **options)


def _low_then_high(output: Iterable[Any], lows: int) -> bool:
    """Whether gaps released below a far threshold are first low, then high."""
    return all(
        not above and bool(gap + FAR >= 0) == (at >= lows) for at, (above, gap) in enumerate(output)
    )


def _below_then_above(answers: Sequence[int], above: int, law: Law) -> float:
    """The chance that the last `above` answers are above a threshold of scale 2, others below."""

    def chance_with(threshold: Any) -> Any:
        chances = [law.tail(threshold - answer) for answer in answers]
        below = [1 - chance for chance in chances[:-above]]
        return np.prod(below + chances[-above:], axis=0)

    return integrate(chance_with, TWO)


def _values_low(answers: Sequence[int]) -> float:
    """All below the threshold, scales 2 and 4; then a value that is above it but not above 0."""
    *below, last = answers

    def chance_with(threshold: Any) -> Any:
        value = (FOUR.tail(threshold - last) - FOUR.tail(-last)) * (threshold <= 0)
        chances = [1 - FOUR.tail(threshold - answer) for answer in below]
        return value * np.prod(chances, axis=0)

    return integrate(chance_with, TWO)


def _streams() -> Entries:
    # It releases the noisy answer itself instead of its gap.
    value = edited(SparseVector, step=[(_ABOVE, "Outcome(branch.number, gap + threshold)")])
    low = late(5, 1, fits=lambda number: number <= 0, samples=20_000_000)
    yield listed("sparse vector releasing the value", stream(value, TWO), low)
    low = late(10, 1, fits=lambda number: number <= 0, chance=_values_low)
    yield listed("sparse vector releasing the value, right scale", stream(value), low)

    # Whoever may be above three times is given noise for once.
    small = stream(INDICES_ONLY, laplace(Fraction(4, 3)), k=3, threshold_share=Fraction(1, 4))
    yield listed("answer noise not scaled by k", small, late(2, 3), n=3, k=3)

    # It trusts the noise of the threshold to hide the answers.
    bare = [(f"+ {_DRAW} ", ""), (_ABOVE, "Outcome(1, None)")]
    none = [(_SHIFTS_BELOW, "[]"), (_SHIFTS_ABOVE, "[]")]
    crossing = Event((0, 1), (1, 0), outcomes_are([0, 1]))
    noiseless = edited(SparseVector, step=bare, align_step=none)
    yield listed("no answer noise", stream(noiseless), crossing)

    # It draws one noise and adds it to every answer.
    shared = [(_OPENING, f"{_OPENING} - noise.draw(self.every_branch[0].law)")]
    once = [("yield from shifts", "*_, last = shifts\n    yield last")]
    one_draw = edited(SparseVector, run=shared, step=bare, align=once)
    yield listed("one draw for all answers", stream(one_draw), crossing)

    # It has no limit.
    endless = edited(INDICES_ONLY, live=[("bool(used <= limit)", "True")])
    yield listed("never stops paying", stream(endless, TWO), late(3, 3))

    # It releases the gap of every answer, above or below.
    all_gaps = edited(SparseVector, step=[(_BELOW, "Outcome(None, gap)")])
    low_gaps = late(6, 6, happens=partial(_low_then_high, lows=6), samples=20_000_000)
    yield listed("gaps below the threshold too", stream(all_gaps, threshold=FAR), low_gaps)

    # It releases, for an answer above, a gap from fresh noise that nobody pays for.
    again = [(_ABOVE, f"Outcome(branch.number, answer + {_DRAW} - threshold)")]
    fresh = edited(SparseVector, step=again, align_step=[("move]", "move, move]")])
    high = late(8, 1, fits=lambda gap: gap >= 0, samples=4_000_000)
    yield listed("gap from fresh uncharged noise", stream(fresh), high)

    two_late = late(20, 2, chance=lambda answers: _below_then_above(answers, 2, FOUR))
    half = SparseVector(0, 2, 1, monotonic=True, threshold_share=Fraction(1, 2), noise="laplace")
    name = "monotonic scale on general answers"
    yield listed(name, half, two_late, n=3, k=2, neighbours="general")

    # It goes on until it has spent more than ε.
    one_more = edited(SparseVector, live=[("used <= limit", "used <= limit + 1")])
    yield listed("stops only when the cost is above ε", stream(one_more), two_late)

    # It takes one-sided noise off the threshold. To raise it by 1, less must be taken off.
    less = [(_OPENING, _OPENING.replace("+", "-"))]
    subtracted = edited(SparseVector, run=less, align=[(f"yield {_RISE}", f"yield -{_RISE}")])
    never = Event((-1,), (0,), outcomes_are([0]))
    yield listed("one-sided noise subtracted", stream(subtracted, noise="exponential"), never, n=1)

    one_sided = SparseVector(0, 2, 1, noise="exponential")
    yield listed("sparse vector with one-sided noise", one_sided, n=3, k=2, ties=True)


# Noisy Max and Top-K: which answer is the largest, and by how much?


def top_k(released: str, *, k: int = 1, **changes: Any) -> Any:
    """A Noisy Top-K that releases the winners, and other values in place of their leads."""
    return edited(NoisyTopK, run=[("tuple(leads)", released)], **changes)(k, 1, noise="laplace")


def _winners_fall(winners: int, losers: int, happens: Callable[[Any], bool]) -> Event:
    """An event in which the first answers win: on the neighbour they fall, and all others rise."""
    return Event((0,) * (winners + losers), (-1,) * winners + (1,) * losers, happens)


def _first_wins(output: Any) -> bool:
    return bool(output[0] == (0,))


def _wins_with(winner: int, fits: Callable[[Any], Any]) -> Callable[[Any], bool]:
    """Whether this answer alone wins, and what is released of it fits."""
    return lambda output: bool(output[0] == (winner,) and fits(output[1]))


def _first_two_win(output: Any) -> bool:
    return set(output[0]) == {0, 1}


def _by_winners(shifts: Callable[[Sequence[Any], Sequence[int]], list[Any]]) -> Any:
    """An alignment made of how far each answer falls, and of who won."""

    def align(self: Any, answers: Any, neighbour: Any, noise: Any, output: Any) -> list[Any]:
        falls = [before - after for before, after in zip(answers, neighbour, strict=True)]
        return shifts(falls, output[0])

    return align


def _rankings() -> Entries:
    # It releases the largest noisy answer itself.
    low = Event((0,) * 5, (1,) * 5, lambda output: output[1] <= 0)
    yield listed("noisy max releasing the value", top_k("noisy[ranking[0]]"), low, n=3)

    first = _winners_fall(1, 4, _first_wins)
    yield listed(
        "noisy max at scale 1/ε",
        altered(NoisyTopK(1, 1, noise="laplace"), law=laplace(1)),
        first,
        n=3,
    )
    first_two = _winners_fall(2, 2, _first_two_win)
    yield listed(
        "top-k at the scale of noisy max",
        altered(NoisyTopK(2, 1, noise="laplace"), law=TWO),
        first_two,
        3,
        2,
    )

    # It names two, at the price of one.
    two_named = altered(top_k("None", k=2), law=TWO)
    first_two = _winners_fall(2, 4, _first_two_win)
    yield listed("noisy max naming the runner-up", two_named, first_two, n=3)

    # It takes the gap from the winner's own true answer, so releases its noise.
    own_gap = top_k("noisy[ranking[0]] - answers[ranking[0]]")
    low = _winners_fall(1, 4, lambda output: _first_wins(output) and output[1] <= 0)
    yield listed("gap from the winner's own true answer", own_gap, low, n=3)

    # It takes the gap from the true answer of the runner-up, and names it.
    next_one = top_k("(ranking[1], noisy[ranking[0]] - answers[ranking[1]])")
    happens = _wins_with(0, lambda released: released[0] == 1 and released[1] <= 0)
    low = Event((0,) * 4, (0, -1, 1, 1), happens)
    yield listed("gap from the runner-up's true answer", next_one, low, n=3)

    happens = _wins_with(2, lambda leads: leads[0] <= 0)
    tied = Event((0,) * 4, (1, 1, -1, -1), happens, on_grid=True)
    yield listed(
        "ties to the lowest index, gap released",
        NoisyTopK(1, 1, noise="laplace"),
        tied,
        n=3,
        ties=True,
    )

    # It releases the runner-up's gap too, at the price of one.
    two_gaps = top_k("tuple(noisy[i] - noisy[j] for i, j in zip(ranking[:2], ranking[1:3]))")
    happens = _wins_with(0, lambda gaps: gaps[1] >= 8)
    high = Event((0, 0, -8, -8), (-1, -1, -7, -7), happens)
    yield listed("noisy max with two gaps", two_gaps, high, n=3)

    half = Fraction(1, 2)
    all_win = NoisyTopK(3, 1, noise="laplace")
    yield listed("top-k of all answers at half the price", all_win, n=3, k=3, epsilon=half)
    # Winners rise by 1 on the neighbour, as much as any loser can, so all order is kept.
    align = _by_winners(
        lambda falls, won: [fall + 1 if i in won else 0 for i, fall in enumerate(falls)]
    )
    for k in (1, 2):  # private even where noise ties and the lower index wins
        indices = top_k("None", k=k, align=align, only_indices=True)
        yield listed("index-only top-k with ties", indices, n=4, k=k, ties=True)


# Joint Top-K: which set of k answers is the top set, and by how much?


def _sets() -> Entries:
    # It takes the margin itself, as if it moved by no more than half of it does.
    margin = edited(JointTopK, half_margin=[("_HALF * (", "(")])
    far = Event((8, 8, 0), (7, 7, 1), lambda output: output[0] == (0, 1) and output[1] >= 24)
    yield listed("joint top-k by the margin, not halved", _joint(margin, 2), far, n=3, k=2)

    # It measures from the last answer kept in place of the first one left out.
    nearest = "min([answers[i] for i in members if answers[i] > max(outside)] or [max(outside)])"
    last_kept = _joint(edited(JointTopK, half_margin=[("max(outside)", nearest)]), 2)
    turned = Event((20, 5, 4), (20, 4, 5), lambda output: output[0] == (0, 1))
    yield listed("joint top-k with the margin to the wrong neighbour", last_kept, turned, n=3, k=2)

    # It counts sets up to the last rank but one: none that takes the lowest answer gets noise.
    ranks = "range(len(answers))"
    fewer = [(f"({ranks},", f"(sorted(sorted({ranks}, key=answers.__getitem__)[1:]),")]
    without_lowest = _joint(edited(JointTopK, run=fewer, _over_sets=fewer), 1)
    first = Event((1, 0, 2), (0, 1, 1), _first_wins)
    name = "joint top-k with sets counted to the last rank but one"
    yield listed(name, without_lowest, first, n=3)

    for k in (1, 2):
        yield listed("joint top-k with laplace noise", _joint(JointTopK, k), n=3, k=k)


def _joint(kind: Any, k: int) -> Any:
    return altered(kind(k, 1), law=TWO)


# Hybrid Top-K: which answers are the largest, as far as they are above a line?


def _hybrid(kind: Any, k: int, scale: int, **options: Any) -> Any:
    return altered(kind(0, k, 1, **options), law=laplace(scale))


def _delta_of_more(self: Any, reach: int) -> Fraction:
    """The δ that this mutant claims: that of a threshold one step higher."""
    further = float(self.threshold - self.sensitivity) + 1
    return reach * Fraction(unknown_items.chance_to_reach(self.law, further, on_grid=True))


def _lined() -> Entries:
    noisy = "[answer + noise.draw(self.law) for answer in (*answers, self.threshold)]"

    # It has one draw for all answers, at a scale without k: what the authors' `hybrid_svt` does.
    draws = "noise.draw(self.law), noise.draw(self.law)"
    shared = "[*(answer + shared for answer in answers), self.threshold + own]"
    run = [(f"noisy = {noisy}", f"shared, own = {draws}\n    noisy = {shared}")]
    # The draw makes up for the change of the first winner, and can for no other.
    align_first = _by_winners(lambda falls, won: [falls[won[0]] if won else 0, 0])
    one_draw = _hybrid(edited(HybridTopK, run=run, align=align_first), 2, 2)
    first = Event((1, 0), (0, 1), lambda output: output[0][:1] == (0,))
    yield listed("hybrid top-k with one draw for all answers", one_draw, first, k=2)

    # It compares with the line as it is.
    run = [(noisy, "[*(answer + noise.draw(self.law) for answer in answers), self.threshold]")]
    # Winners make up for their own change, and nothing else can be done.
    align_winners = _by_winners(
        lambda falls, won: [fall if i in won else 0 for i, fall in enumerate(falls)]
    )
    bare_line = _hybrid(edited(HybridTopK, run=run, align=align_winners), 1, 2)
    nobody = Event((0,) * 6, (1,) * 6, lambda output: output[0] == ())
    yield listed("hybrid top-k with a line without noise", bare_line, nobody)

    # It says after k answers whether the line comes next, at the price of the answers alone.
    run = [("tuple(leads)", "tuple(leads), ranking[end] == len(answers)")]
    three = [
        ("winners, _ =", "winners, _, cut ="),
        ("after, noise, output", "after, noise, output[:2]"),
    ]
    align = [*three, ("== self.k:", "== self.k and not cut:")]
    unalign = [*three, ("< self.k:", "< self.k or cut:")]
    not_paid = edited(HybridTopK, run=run, align=align, unalign=unalign)
    cut = Event((0,) * 6, (0, 1, 1, 1, 1, 1), lambda output: _first_wins(output) and output[2])
    cheap = _hybrid(not_paid, 1, 1, monotonic=True)
    yield listed("hybrid top-k that does not pay for the line", cheap, cut, neighbours="rising")

    # It releases what is at least the line, and accounts for what is greater, on a grid.
    greater = edited(HybridTopK, delta=_delta_of_more)(5, 1, 1, monotonic=True)
    shows = Event((1,), (), lambda output: output[0] != (), on_grid=True, bounds=DELTA)
    name = "hybrid top-k with > for ≥ in the account of its line"
    yield listed(name, greater, shows, n=1, on_grid=True)

    for k in (1, 2, 3):
        yield listed("hybrid top-k with laplace noise", _hybrid(HybridTopK, k, 2 * k), n=2, k=k)


# Adaptive Sparse Vectors: two branches, the first cheaper and harder to clear.


def two_branches(kind: Any = AdaptiveSparseVector, threshold: int = 0) -> Any:
    """One like the paper's with k = 1: ε₀ = ε₂ = ½ and ε₁ = ¼, and a margin of 16 on top."""
    mechanism = kind(threshold, 1, 1, threshold_share=Fraction(1, 2), noise="laplace")
    top, middle = mechanism.every_branch
    return altered(mechanism, every_branch=(top._replace(margin=16), middle))


def with_any_threshold(mechanism: Any, unknown: Callable[[str], Scalar]) -> Any:
    """The mechanism with a threshold that is any number."""
    return altered(mechanism, threshold=unknown("threshold"))


def with_any_margins(stream: SparseVector, unknown: Callable[[str], Scalar]) -> Any:
    """The stream with any threshold, and with margins that are any numbers, of any sign."""
    branches = tuple(
        branch._replace(margin=unknown(f"margin{branch.number}")) for branch in stream.every_branch
    )
    return altered(with_any_threshold(stream, unknown), every_branch=branches)


def _reusing(noise: str, shifts: str) -> Any:
    """The middle branch saves a draw: it uses the top branch's noise in some way."""
    top = f"top = {_DRAW} if branch.number == 1 else {noise}"
    step = [("gap = answer", f"{top}\n        gap = answer"), (f"+ {_DRAW} - t", "+ top - t")]
    shifted = [(_SHIFTS_BELOW, "[0]"), (_SHIFTS_ABOVE, shifts)]
    return two_branches(edited(AdaptiveSparseVector, step=step, align_step=shifted))


def _branching() -> Entries:
    # It tells, with "below", by how much the top branch was missed.
    missed = "missed = gap if branch.number == 1 else missed\n        if gap >="
    leak = edited(
        AdaptiveSparseVector, step=[("if gap >=", missed), (_BELOW, "Outcome(None, missed)")]
    )
    chance = partial(_below_then_above, above=10, law=EIGHT)
    low_gaps = late(10, 10, happens=partial(_low_then_high, lows=10), chance=chance)
    yield listed("adaptive leaking the failed branch", two_branches(leak, FAR), low_gaps)

    top, middle = two_branches().every_branch
    cheap = altered(two_branches(), every_branch=(top, middle._replace(units=1)), limits=(1, 1))
    twice = late(8, 2, branch=2, samples=12_000_000)
    yield listed("adaptive middle branch charged as the top", cheap, twice)

    high = late(8, 1, branch=2, fits=lambda gap: gap >= 5, samples=8_000_000)
    half = _reusing("top / 2", "[branch * move]")
    yield listed("middle branch reusing half the noise", half, high)
    yield listed("middle branch reusing the noise as it is", _reusing("top", "[move]"), n=3)
    adaptive = partial(with_any_margins, AdaptiveSparseVector(0, 1, 1, noise="laplace"))
    yield listed("adaptive with any margins", adaptive, n=3, ties=True)


# Measurements and noisy histograms: too little noise, noise for other neighbours, folded noise.


@dataclass(frozen=True, slots=True)
class FoldedNoise(GeometricNoise):
    """A sign, and the floor of a size: 0 comes from both sides, and is twice as likely."""

    def floors(self, bits: Bits, *shape: int) -> Integers:
        """Laplace noise that is rounded towards 0."""
        floors = LaplaceNoise(self.scale).floors(bits, *shape)
        return np.where(floors < 0, floors + 1, floors)

    def cost(self, shift: Scalar) -> Scalar:
        """From 0 to 1 the law falls by ln 2 as well, which is a little more than this."""
        return abs(shift) / self.scale + Fraction(69, 100)


def hull_releases_zero(answers: Sequence[int]) -> float:
    """The chance that two values are released as exactly 0, on whole steps with scale 1."""
    steps = range(-60, 61)
    chances = {}
    for first, second in product(steps, steps):
        chances[first, second] = math.exp(min(first, second, 0) - max(first, second, 0))
    return chances[answers[0], answers[1]] / sum(chances.values())


def _are_zero(values: Sequence[Scalar]) -> bool:
    return all(bool(value >= 0) and not bool(value >= 1) for value in values)


def _measured() -> Entries:
    # It measures all that an adaptive run found with noise for a single answer.
    too_many = edited(Laplace, noise=[("count * scale", "scale")])
    positive = Event((0, 0), (-1, -1), lambda values: bool(values[0] >= 0) and bool(values[1] >= 0))
    yield listed("measured with noise for fewer answers", too_many(1), positive)

    hull = CountHull(1, monotonic=True)
    zeros = partial(Event, (0, 0), happens=_are_zero, chance=hull_releases_zero)
    name = "count hull on answers that move both ways"
    yield listed(name, hull, zeros((1, -1)), k=2, neighbours="general")
    name = "count hull that ignores the sensitivity"
    yield listed(name, hull, zeros((3, 3)), k=2, neighbours="rising", sensitivity=3)

    histogram = NoisyHistogram(1)
    small = altered(NoisyHistogram(1, reach=2), law=histogram.law)
    yield listed("histogram with noise for a reach of one", small, positive, ties=True)
    folded = altered(histogram, law=FoldedNoise(Fraction(1)))
    zero_alone = Event((0,), (-1,), _are_zero)
    yield listed("histogram whose noise is folded at zero", folded, zero_alone, n=1, ties=True)

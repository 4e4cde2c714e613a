"""The search for the neighbours and the event with the strongest evidence.

All pairs get a few calls. The more suspicious third of them gets more, and so on until two are
left. Events are built on one half of the outputs and judged on the other half, so overfitted events
score no better.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from dpgap.proof.auditing import neighbours
from dpgap.proof.auditing.calling import Calls
from dpgap.proof.auditing.events import OutputEvent, events, excess, promise
from dpgap.proof.auditing.neighbours import Answers, Pair
from dpgap.proof.auditing.outputs import Outputs, joined
from dpgap.proof.auditing.parts import not_looked_at, parts_of
from dpgap.proof.checker.numbers import exact

_CALLS_FOR_A_PAIR = 2_000
_FEWEST = 8
_LOOK = 15
_FAR = 8
_GLANCE = 16
"""How many calls each side of large answers gets first: enough to see a certain leak."""
_FINALISTS = 2
_PLAIN = 2.5


class Suspicion(NamedTuple):
    """An event, the answers on which it is likely, and the neighbour on which it is not."""

    excess: float
    promise: float
    answers: Answers
    neighbour: Answers
    event: OutputEvent
    not_looked_at: int = 0
    """How many numbers and texts of the outputs were not looked at."""


class PairSelection(NamedTuple):
    """Neighbours to try, how many were left out, and the first reason."""

    pairs: Sequence[Pair]
    left_out: int
    reason: str


def search(
    calls: Calls, tried: Sequence[Pair], until: int, epsilon: float, delta: float
) -> Suspicion:
    """The strongest event, after `until` calls; the first and the last round get most calls."""
    share = (until - calls.count) // (_rounds(len(tried)) + 2)
    calls_of_round = 2 * share
    outputs: dict[Pair, list[Outputs]] = {}
    pairs = list(tried)
    while True:
        is_last = len(pairs) <= _FINALISTS
        caution = 1.5  # what is rare should not be given up too early
        if is_last:
            calls_of_round = until - calls.count
            caution = 2.0
        runs = max(2, calls_of_round // len(pairs) // 2)
        suspicions: dict[Pair, Suspicion] = {}
        for pair in pairs:
            sides = calls.on_pair(pair, runs)
            if pair in outputs:
                sides = list(map(joined, outputs[pair], sides))
            outputs[pair] = sides
            suspicions[pair] = _worst(_suspicions(pair, sides, epsilon, delta, calls.bits, caution))
        if is_last:
            return _worst(suspicions.values())
        pairs = _most_suspicious(suspicions)
        calls_of_round = share


def _most_suspicious(suspicions: Mapping[Pair, Suspicion]) -> list[Pair]:
    """The pairs that stay in the search."""
    by_excess, by_promise = _pairs_that_stay(len(suspicions))
    pairs = sorted(suspicions, key=lambda pair: -suspicions[pair].excess)[:by_excess]
    pairs += sorted(suspicions, key=lambda pair: -suspicions[pair].promise)[:by_promise]
    return list(dict.fromkeys(pairs))


def _pairs_that_stay(many: int) -> tuple[int, int]:
    """The numbers of pairs that stay in the search: by their excess, and by their promise."""
    return math.ceil(many / 4), math.ceil(many / 8)


def _rounds(many: int) -> int:
    if many <= _FINALISTS:
        return 1
    return 1 + _rounds(sum(_pairs_that_stay(many)))


def _worst(suspicions: Iterable[Suspicion]) -> Suspicion:
    """The suspicion with the largest excess, if any is large; else that with the most promise."""
    candidates = list(suspicions)
    worst = max(candidates, key=attrgetter("excess"))
    if worst.excess > _PLAIN:
        return worst
    return max(candidates, key=attrgetter("promise"))


def _suspicions(
    pair: Pair, sides: Sequence[Outputs], epsilon: float, delta: float, bits: bool, caution: float
) -> Iterator[Suspicion]:
    """Events in both directions, built on even rows and judged on odd rows."""
    answers, neighbour = pair
    moves = [float(exact(b) - exact(a)) for a, b in zip(answers, neighbour, strict=True)]
    parts = parts_of(sides, bits=bits, moves=moves)
    even_rows = [side.rows(slice(0, None, 2)) for side in sides]
    odd_rows = [side.rows(slice(1, None, 2)) for side in sides]
    runs = odd_rows[0].runs
    omitted = not_looked_at(sides)
    yield Suspicion(-math.inf, -math.inf, answers, neighbour, OutputEvent(()))
    for likely, unlikely in ((0, 1), (1, 0)):
        for event in events(parts, (even_rows[likely], even_rows[unlikely]), delta):
            hits = event.count(odd_rows[likely])
            hits_neighbour = event.count(odd_rows[unlikely])
            yield Suspicion(
                excess(hits, hits_neighbour, runs, epsilon, delta),
                float(promise(hits, hits_neighbour, runs, delta, caution=caution)),
                pair[likely],
                pair[unlikely],
                event,
                omitted,
            )


def neighbours_to_try(
    calls: Calls,
    budget: int,
    *,
    epsilon: float,
    sensitivity: Any,
    monotonic: bool,
    reach: int | None,
) -> PairSelection:
    """Built-in neighbours that the function takes, as many as the calls allow.

    Answers below 0 are left out if the function refuses them, as one that takes counts does.
    """

    def mode(answers: Answers) -> dict[str, Any] | None:
        """The usual value at each path of the output; None if these answers are refused."""
        scaled = tuple(answer * sensitivity for answer in answers)
        if calls.refusal(scaled) is not None:
            return None
        return calls(scaled, _LOOK).modes(0.8 * _LOOK)

    levels = neighbours.decision_levels(mode)
    far = math.ceil(_FAR / epsilon)
    limit = max(_FEWEST, budget // _CALLS_FOR_A_PAIR)
    built_in = neighbours.pairs(levels, sensitivity, monotonic=monotonic, reach=reach, far=far)
    if mode((-1,) * 3) is None:
        built_in = list(dict.fromkeys(map(neighbours.lifted, built_in)))
    usual = accepted(calls, built_in, limit - 1)
    pairs = list(usual.pairs)
    reasons = [usual.reason]
    promises: dict[Pair, float] = {}
    refused: list[Pair] = []
    for pair in neighbours.wide(sensitivity, monotonic=monotonic, reach=reach):
        if _is_refused(calls, pair):
            refused.append(pair)
            continue
        sides = calls.on_pair(pair, _GLANCE)
        worst = _worst(_suspicions(pair, sides, epsilon, 0.0, calls.bits, 1.0))
        promises[pair] = worst.promise
    if promises:
        pairs.append(max(promises, key=promises.__getitem__))
    if refused:
        reasons.append(_reason(calls, refused[0]))
    reason = "; ".join(filter(None, reasons))
    return PairSelection(pairs, usual.left_out + len(refused), reason)


def accepted(calls: Calls, tried: Iterable[Pair], limit: int) -> PairSelection:
    """The first pairs of which the function accepts a side; refusing the other is an output."""
    pairs: list[Pair] = []
    refused: list[Pair] = []
    for pair in tried:
        if len(pairs) >= limit:
            break
        if _is_refused(calls, pair):
            refused.append(pair)
        else:
            pairs.append(pair)
    reason = _reason(calls, refused[0]) if refused else ""
    return PairSelection(pairs, len(refused), reason)


def _is_refused(calls: Calls, pair: Pair) -> bool:
    """Whether the function refuses both sides of a pair."""
    refusals = [calls.refusal(answers) for answers in pair]
    return None not in refusals


def _reason(calls: Calls, refused: Pair) -> str:
    return f"on {list(refused[0])} it raised {calls.refusal(refused[0])!r}"

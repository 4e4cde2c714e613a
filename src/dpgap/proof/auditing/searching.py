"""The search for the neighbours and the event that tell most.

All pairs get a few calls. The more suspicious third of them gets more, and so on until two are
left. Events are made up on one half of the outputs and judged on the other, so that luck is no
merit.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from dpgap.exact.reals import Floats
from dpgap.proof.auditing.calling import Calls
from dpgap.proof.auditing.events import OutputEvent, events, excess, promise
from dpgap.proof.auditing.neighbours import NOT_ONE, Answers, Pair, changes_of_mind, pairs
from dpgap.proof.auditing.outputs import Outputs, joined
from dpgap.proof.auditing.parts import not_looked_at, parts_of

_A_PAIR = 2_000
"""How many calls of the search a pair of neighbours should get, on the whole."""
_FEWEST = 8
_LOOK = 15
_FAR = 8
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
    """How many numbers of the outputs were not."""


class Tried(NamedTuple):
    """Neighbours to try, and how many were left out, for which reason first."""

    pairs: Sequence[Pair]
    left_out: int
    reason: str


def search(
    calls: Calls, tried: Sequence[Pair], until: int, epsilon: float, delta: float
) -> Suspicion:
    """What tells most, after so many calls; the first and the last round get most of them."""
    budget, rounds = until - calls.made, _rounds(len(tried))
    seen: dict[Pair, list[Outputs]] = {}
    left: Sequence[Pair] = tried
    while True:
        is_last = len(left) <= _FINALISTS
        share = budget // (rounds + 2) * (2 if left == tried else 1)
        caution = 1.5  # what is rare should not be given up too early
        if is_last:
            share, caution = until - calls.made, 2.0
        runs = max(2, share // len(left) // 2)
        found: dict[Pair, Suspicion] = {}
        for pair in left:
            fresh = [calls(side, runs) for side in pair]
            known = seen.get(pair)
            seen[pair] = fresh if known is None else list(map(joined, known, fresh))
            found[pair] = _worst(_suspicions(pair, seen[pair], epsilon, delta, calls.bits, caution))
        if is_last:
            return _worst(found.values())
        by_excess, by_promise = _kept(len(left))
        left = [
            *sorted(left, key=lambda pair: -found[pair].excess)[:by_excess],
            *sorted(left, key=lambda pair: -found[pair].promise)[:by_promise],
        ]
        left = list(dict.fromkeys(left))


def _kept(many: int) -> tuple[int, int]:
    """How many pairs go on for their excess, and how many for their promise."""
    return math.ceil(many / 4), math.ceil(many / 8)


def _rounds(many: int) -> int:
    return 1 if many <= _FINALISTS else 1 + _rounds(sum(_kept(many)))


def _worst(suspicions: Iterable[Suspicion]) -> Suspicion:
    """The one with the largest excess, if any is large; or else the one of most promise."""
    listed = list(suspicions)
    worst = max(listed, key=lambda each: each.excess)
    return worst if worst.excess > _PLAIN else max(listed, key=lambda each: each.promise)


def _suspicions(
    pair: Pair, sides: Sequence[Outputs], epsilon: float, delta: float, bits: bool, caution: float
) -> Iterator[Suspicion]:
    """Events in both directions, made up on even rows and judged on odd ones."""
    moves = [after - before for before, after in zip(*pair, strict=True)]
    parts = parts_of(sides, bits=bits, moves=moves)
    made, judged = ([side.rows(slice(start, None, 2)) for side in sides] for start in (0, 1))
    yield Suspicion(-math.inf, -math.inf, *pair, OutputEvent(()))
    runs, unseen = judged[0].runs, not_looked_at(sides)
    for one, other in ((0, 1), (1, 0)):
        for event in events(parts, (made[one], made[other]), delta):
            hits, hits_neighbour = event.count(judged[one]), event.count(judged[other])
            yield Suspicion(
                excess(hits, hits_neighbour, runs, epsilon, delta),
                float(promise(hits, hits_neighbour, runs, delta, caution=caution)),
                pair[one],
                pair[other],
                event,
                unseen,
            )


def neighbours_to_try(
    calls: Calls,
    budget: int,
    *,
    epsilon: float,
    sensitivity: Any,
    monotonic: bool,
    reach: int | None,
) -> Tried:
    """Built-in neighbours that the function takes, as many as the calls allow."""
    at = _Levels(calls, sensitivity)
    least = 0 if monotonic or at.mode((-1,) * 3) is not None else 1
    levels = list(dict.fromkeys([least, *changes_of_mind(at.mode)]))
    far = math.ceil(_FAR / epsilon)
    most = max(_FEWEST, budget // _A_PAIR)
    built_in = pairs(levels, sensitivity, monotonic=monotonic, reach=reach, far=far)
    return taken(calls, built_in, any, most)


def taken(
    calls: Calls, tried: Iterable[Pair], refuses: Callable[[Iterable[bool]], bool], most: int
) -> Tried:
    """The first pairs that the function does not refuse: on `any` of the two sides, or on `all`."""
    kept: list[Pair] = []
    left_out, reason = 0, ""
    for pair in tried:
        if len(kept) >= most:
            break
        why = {side: calls.refusal(side) for side in pair}
        if not refuses(error is not None for error in why.values()):
            kept.append(pair)
            continue
        left_out += 1
        reason = reason or next(
            f"on {list(side)} it said {error!r}" for side, error in why.items() if error is not None
        )
    if not kept:
        raise ValueError(f"the function took none of the answers that were tried: {reason}")
    return Tried(kept, left_out, reason)


class _Levels:
    """What is usually said on answers in units of the sensitivity."""

    def __init__(self, calls: Calls, sensitivity: Any) -> None:
        self._calls, self._sensitivity = calls, sensitivity

    def mode(self, answers: Answers) -> Any:
        """The discrete part that most outputs have, or that there is none; None if refused."""
        scaled = tuple(answer * self._sensitivity for answer in answers)
        if self._calls.refusal(scaled) is not None:
            return None
        said: Floats = self._calls(scaled, _LOOK).discrete
        ((most, times),) = Counter(said.tolist()).most_common(1)
        return most if times > 0.8 * _LOOK else NOT_ONE

"""Programs that set out to pass: each gives data away where a small part of it does not show it."""

import operator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import floor
from typing import NamedTuple

import pytest
import sound_streams
from sound_streams import Above

import dpgap
from dpgap.exact.laws import GeometricNoise
from dpgap.proof import BadProgram, LaplaceNoise, Stepwise, Violation, prove_every
from dpgap.proof.every.few_answers import prove_measurement, prove_ranking
from dpgap.proof.every.streams import prove_known_stream, prove_stream


class RemembersInADefault(Above):
    """From the ten-thousandth step on, says the answer itself."""

    def step(self, used, answer, shared, noise, seen=[]):  # noqa: B006
        seen.append(1)
        outcome, then = Above.step(self, used, answer, shared, noise)
        return (outcome if len(seen) < 10_000 else answer), then


def _counting():
    seen = 0

    class RemembersInAClosure(Above):
        """The same, with a counter that is not in the class at all."""

        def step(self, used, answer, shared, noise):
            nonlocal seen
            seen += 1
            outcome, then = Above.step(self, used, answer, shared, noise)
            return (outcome if seen < 10_000 else answer), then

    return RemembersInAClosure


class RemembersInItself(Above):
    """The same, with a counter of its own."""

    seen = 0

    def step(self, used, answer, shared, noise):
        self.seen += 1
        outcome, then = Above.step(self, used, answer, shared, noise)
        return (outcome if self.seen < 10_000 else answer), then


class RemembersInAList(Above):
    """The same, with a list that its helper fills."""

    def __init__(self):
        self.history = []

    def note(self, answer):
        self.history.append(answer)
        return len(self.history) > 10_000

    def step(self, used, answer, shared, noise):
        outcome, then = Above.step(self, used, answer, shared, noise)
        return (answer if self.note(answer) else outcome), then


class Elsewhere:
    """Where a step could keep something."""

    seen = []  # noqa: RUF012


class RemembersElsewhere(Above):
    """The same, in a class of another name."""

    def step(self, used, answer, shared, noise):
        Elsewhere.seen.append(1)
        outcome, then = Above.step(self, used, answer, shared, noise)
        return (outcome if len(Elsewhere.seen) < 10_000 else answer), then


class Said(NamedTuple):
    """What is said of an answer."""

    above: bool


class SaysByName(Above):
    """As sound as what it is made from, with helpers of its own."""

    margins = (1, Fraction(1, 2))

    def margin(self):
        return floor(self.margins[0])

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared + self.margin())
        return Said(above), used + above

    def align_step(self, used, move, outcome):
        return [move if outcome.above else 0], used + outcome.above


class SeesThatItIsProved(Above):
    """Says the answer itself where answers are plain numbers."""

    def step(self, used, answer, shared, noise):
        if isinstance(answer, int | float):
            return answer, used
        return Above.step(self, used, answer, shared, noise)


class SeesItByTrying(Above):
    """The same, where answers can be made into floats."""

    def step(self, used, answer, shared, noise):
        try:
            return float(answer), used
        except Exception:  # what stands for an answer refuses
            return Above.step(self, used, answer, shared, noise)


class SaysTheLast(Above):
    """When the answers are all gone through, says the last one."""

    def run(self, answers, noise):
        shared = noise.draw(self.shared_law)
        used = 0
        for answer in answers:
            outcome, used = self.step(used, answer, shared, noise)
            yield outcome
            if not self.live(used):
                return
        yield answer


class KnowsHowManyAreLeft(Above):
    """Takes all answers at once, and treats the last of many in another branch."""

    def run(self, answers, noise):
        answers = list(answers)
        shared = noise.draw(self.shared_law)
        used = 0
        for number, answer in enumerate(answers):
            outcome, used = self.step(used, answer, shared, noise)
            yield outcome if number < 100 else answer
            if not self.live(used):
                return


class CountsInAnIterator(Above):
    """Counts rounds where no number shows."""

    def run(self, answers, noise):
        shared = noise.draw(self.shared_law)
        used = 0
        rounds = iter(range(10**9))
        for answer in answers:
            outcome, used = self.step(used, answer, shared, noise)
            yield outcome if next(rounds) < 100 else answer
            if not self.live(used):
                return


class FirstDecidesTheRise(Stepwise):
    """Compares all answers with one draw; the first alone says how far that is shifted."""

    epsilon = 1
    shared_law = LaplaceNoise(Fraction(1))
    capacity = 0
    unit = Fraction(1)

    def step(self, used, answer, shared, noise):
        return answer - shared, used

    def rise(self, before, after):
        return after - before

    def live(self, used):
        return True

    def align_step(self, used, move, outcome):
        return [], used

    def align(self, answers, neighbour, noise, output):
        yield (rise := self.rise(answers[0], neighbour[0]))
        used = 0
        for before, after, outcome in zip(answers, neighbour, output, strict=False):
            shifts, used = self.align_step(used, rise + before - after, outcome)
            yield from shifts


class SumDecidesTheRise(FirstDecidesTheRise):
    """The same, by all answers, which move farther than one."""

    align = Stepwise.align


class CountsAnswersInTheRise(Above):
    """Shifts what is shared only if there are few answers."""

    def align(self, answers, neighbour, noise, output):
        yield (rise := self.rise(sum(answers), sum(neighbour)) if len(answers) < 100 else 0)
        used = 0
        for before, after, outcome in zip(answers, neighbour, output, strict=False):
            shifts, used = self.align_step(used, rise + before - after, outcome)
            yield from shifts


class LeavesOutLateAnswers(Above):
    """Sums up the first hundred answers only."""

    def align(self, answers, neighbour, noise, output):
        yield (rise := self.rise(sum(answers[:100]), sum(neighbour[:100])))
        used = 0
        for before, after, outcome in zip(answers, neighbour, output, strict=False):
            shifts, used = self.align_step(used, rise + before - after, outcome)
            yield from shifts


class MovesByMore(Above):
    """One person can move answers by 3, and the shifts make up for 1."""

    sensitivity = 3

    def rise(self, before, after):
        return 1


class HalfAUnit(Above):
    """Uses half a unit; where half of one is used, says the answer."""

    law = LaplaceNoise(Fraction(16))

    def step(self, used, answer, shared, noise):
        if 0 < used < 1:
            return answer, used
        above = bool(answer + noise.draw(self.law) >= shared)
        return above, used + Fraction(1, 2) * above

    def align_step(self, used, move, outcome):
        if 0 < used < 1:
            return [], used
        return [move if outcome else 0], used + Fraction(1, 2) * outcome


class EarnsUnits(Above):
    """Each answer above earns a unit that is worth less than nothing, without end."""

    capacity = 0
    unit = Fraction(-1)
    shared_law = LaplaceNoise(Fraction(1))
    law = LaplaceNoise(Fraction(2))

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return above, used - above

    def align_step(self, used, move, outcome):
        return [move if outcome else 0], used - outcome

    def live(self, used):
        return used <= self.capacity


class BlocksOfTen(Above):
    """Every ten answers it forgets the units that are used: where it is stands in an iterator."""

    blocks = ((False,) * 9 + (True,)) * 100

    def run(self, answers, noise):
        shared = noise.draw(self.shared_law)
        used = 0
        for answer, new in zip(answers, self.blocks, strict=False):
            outcome, used = self.step(used, answer, shared, noise)
            yield outcome
            if not self.live(used):
                return
            if new:
                used = 0


class BlocksOfAHelper(BlocksOfTen):
    """The same, where another method makes the iterator."""

    def pairs(self, answers):
        return zip(answers, self.blocks, strict=False)

    def run(self, answers, noise):
        shared = noise.draw(self.shared_law)
        used = 0
        for answer, new in self.pairs(answers):
            outcome, used = self.step(used, answer, shared, noise)
            yield outcome
            if not self.live(used):
                return
            if new:
                used = 0


class CountsAndForgets(Above):
    """Counts answers, and has no number at the head of a round."""

    def run(self, answers, noise):
        shared = noise.draw(self.shared_law)
        used = 0
        for number, answer in enumerate(answers):
            outcome, used = self.step(used, answer, shared, noise)
            yield answer if number > 9 else outcome
            del number
            if not self.live(used):
                return


class AlignsByTheNumberOfCalls(Stepwise):
    """Says whether noise is below 1 or 2; `align_step` knows which call needs which shift."""

    epsilon, capacity, unit = Fraction(1, 10), 1, Fraction(1, 20)
    shared_law = LaplaceNoise(Fraction(1000))
    law = LaplaceNoise(Fraction(100))
    calls = []  # noqa: RUF012

    def __init__(self):
        self.calls.clear()

    def rise(self, before, after):
        return 0

    def step(self, used, answer, shared, noise):
        value = noise.draw(self.law)
        if answer < -1:
            return (bool(value >= 0) and bool(value < 2)), used + 1
        if answer < 0:
            if value < 0:
                return False, used + 1
            if value < 1:
                return True, used + 1
            return bool(value < 2), used + 1
        if value < 0:
            return False, used + 1
        return bool(value < 1), used + 1

    def align_step(self, used, move, outcome):
        self.calls.append(outcome)
        return [{15: -1, 25: 1}.get(len(self.calls), 0)], used + 1


class AlignLeavesSomethingBehind(Above):
    """Before its steps, `align` raises a price that `align_step` reads."""

    price = 0

    def align(self, answers, neighbour, noise, output):
        yield (rise := self.rise(sum(answers), sum(neighbour)))
        used, self.price = 0, rise
        for before, after, outcome in zip(answers, neighbour, output, strict=False):
            shifts, used = self.align_step(used, rise + before - after, outcome)
            yield from shifts

    def align_step(self, used, move, outcome):
        return [move + self.price if outcome else 0], used + outcome


class _Log:
    def __init__(self):
        self.seen = []

    def add(self, one):
        self.seen.append(one)
        return len(self.seen)


class RemembersInABoundMethod(Above):
    """Counts in an object of which it holds a method alone."""

    def __init__(self):
        self.add = _Log().add

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return (above if self.add(1) < 10_000 else answer), used + above


class RemembersInAMethodOfAList(RemembersInABoundMethod):
    """The same, with a method of a list."""

    def __init__(self):
        self.grow = [].__iadd__

    def add(self, one):
        return len(self.grow((one,)))


class RemembersInASlot(Above):
    """Counts in a slot."""

    __slots__ = ("seen",)

    def __init__(self):
        self.seen = []

    def step(self, used, answer, shared, noise):
        self.seen.append(1)
        above = bool(answer + noise.draw(self.law) >= shared)
        return (above if len(self.seen) < 10_000 else answer), used + above


LOG = []


def _noted():
    """How often this was called."""
    LOG.append(1)
    return len(LOG)


class _NamedLog(NamedTuple):
    one: int

    def note(self):
        return _noted()

    def __getitem__(self, at):
        return _noted()


@dataclass(frozen=True)
class _FrozenLog:
    def note(self):
        return _noted()


class _NumberLog(int):
    def note(self):
        return _noted()


class _LogWhenMade:
    def __init__(self):
        self.seen = _noted()


class _LogWhenCompared:
    def __lt__(self, other):
        return _noted() < other


class RemembersInANamedTuple(Above):
    """Counts in a method of a value that cannot change itself."""

    log = _NamedLog(1)

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return (above if self.log.note() < 10_000 else answer), used + above


class RemembersInAFrozenValue(RemembersInANamedTuple):
    """The same, of a frozen dataclass."""

    log = _FrozenLog()


class RemembersInANumber(RemembersInANamedTuple):
    """The same, of a number of its own type."""

    log = _NumberLog(1)


class RemembersWhenRead(RemembersInANamedTuple):
    """The same, in a method that every tuple has."""

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return (above if self.log[0] < 10_000 else answer), used + above


class RemembersWhenMade(Above):
    """Counts in what a step makes anew."""

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return (above if _LogWhenMade().seen < 10_000 else answer), used + above


class RemembersWhenCompared(Above):
    """Counts in a method that every class has."""

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return (above if _LogWhenCompared() < 10_000 else answer), used + above


class RemembersInAModule(Above):
    """Counts in a list of another module."""

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return (above if sound_streams.how_often() < 10_000 else answer), used + above


class RemembersInAnAttributeThatIsNotThere(Above):
    """Counts where Python asks for an attribute that the class does not have."""

    def __getattr__(self, name):
        if name != "seen":
            raise AttributeError(name)
        return _noted()

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return (above if self.seen < 10_000 else answer), used + above


class SeesItByOperator(Above):
    """Says the answer where a comparison is a plain truth value."""

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return (answer if operator.is_(answer > 5, True) else above), used + above


def _in_cents(rate, answer):
    return answer * rate if isinstance(answer, float) else answer


class SeesItByAPartialFunction(Above):
    """Floats count a hundred times."""

    cents = staticmethod(partial(_in_cents, 100))

    def step(self, used, answer, shared, noise):
        above = bool(self.cents(answer) + noise.draw(self.law) >= shared)
        return above, used + above


class _Decimals:
    """Counts; it is from a module whose name begins like that of a trusted one."""

    __module__ = "decimals"

    def __lt__(self, other):
        return _noted() < other


class RemembersInDecimals(Above):
    """Counts in a class of somebody's own module."""

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return (above if _Decimals() < 10_000 else answer), used + above


class SeesItByFormat(Above):
    """Says the answer where its class is that of a number."""

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        kind = "{.__class__.__name__}".format(answer)  # noqa: UP032
        return (kind == "float" and answer) or above, used + above


class SeesItByAGetter(Above):
    """The same, by a function that reads attributes."""

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        kind = operator.attrgetter("__class__.__name__")(answer)
        return (kind == "float" and answer) or above, used + above


class SeesItByAGetterOfAnotherName(Above):
    """The same, where the function has another name."""

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return (_reader("__class__.__name__")(answer) == "float" and answer) or above, used + above


class SeesItByTypeOfAnotherName(Above):
    """The same, by `type`."""

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        is_float = _kind(answer) == float  # noqa: E721
        return (is_float and answer) or above, used + above


@dataclass(frozen=True)
class _Zero:
    """Nothing for who asks for a number, and no change for what is multiplied with it."""

    def item(self):
        return 0

    def __rmul__(self, other):
        return other


class MultipliesByNothing(Above):
    """Says the answer, times what calls itself zero."""

    zero = _Zero()

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return (above, answer * self.zero), used + above

    def align_step(self, used, move, outcome):
        return [move if outcome[0] else 0], used + outcome[0]


_reader, _kind = operator.attrgetter, type


class SharesWholeNumbers(Above):
    """What is shared is a whole number, and is moved by a half."""

    sensitivity, epsilon = Fraction(1, 2), Fraction(21, 2)
    shared_law = GeometricNoise(Fraction(1))
    law = LaplaceNoise(Fraction(1, 10))
    capacity, unit = 1, Fraction(10)


class SharesForNothing(Above):
    """To move what is shared costs less than nothing."""

    shared_law = LaplaceNoise(Decimal("-0.001"))


class SaysItByIdentity(Above):
    """What stands for a comparison is not True; in a real run it can be."""

    def step(self, used, answer, shared, noise):
        noise.draw(self.law)
        return ("above" if (answer >= shared) is True else "below"), used

    def align_step(self, used, move, outcome):
        return [0], used


class SumsUpFive(Above):
    """Sums up the first five answers only."""

    def align(self, answers, neighbour, noise, output):
        a, b, c, d, e, *_ = answers
        p, q, r, s, t, *_ = neighbour
        yield (rise := self.rise(sum((a, b, c, d, e)), sum((p, q, r, s, t))))
        used = 0
        for before, after, outcome in zip(answers, neighbour, output, strict=False):
            shifts, used = self.align_step(used, rise + before - after, outcome)
            yield from shifts


STREAMS = [
    *(BlocksOfTen, BlocksOfAHelper, CountsAndForgets, SumsUpFive, SaysItByIdentity),
    *(AlignsByTheNumberOfCalls, AlignLeavesSomethingBehind),
    *(RemembersInABoundMethod, RemembersInAMethodOfAList, RemembersInASlot),
    *(RemembersInANamedTuple, RemembersInAFrozenValue, RemembersInANumber),
    *(RemembersWhenRead, RemembersWhenMade, RemembersWhenCompared, RemembersInAModule),
    RemembersInAnAttributeThatIsNotThere,
    *(SharesWholeNumbers, SharesForNothing),
    *(SeesItByOperator, SeesItByAPartialFunction, RemembersInDecimals),
    *(SeesItByFormat, SeesItByAGetter, SeesItByAGetterOfAnotherName, SeesItByTypeOfAnotherName),
    MultipliesByNothing,
    RemembersInADefault,
    _counting(),
    RemembersInItself,
    RemembersInAList,
    RemembersElsewhere,
    SeesThatItIsProved,
    SeesItByTrying,
    SaysTheLast,
    KnowsHowManyAreLeft,
    CountsInAnIterator,
    FirstDecidesTheRise,
    SumDecidesTheRise,
    CountsAnswersInTheRise,
    LeavesOutLateAnswers,
    MovesByMore,
    HalfAUnit,
    EarnsUnits,
]


@pytest.mark.parametrize("kind", [Above, SaysByName])
def test_what_they_are_made_from_is_proved(kind):
    assert prove_every(kind()).verdict == "PROVED"


@pytest.mark.parametrize("kind", STREAMS)
def test_a_sly_stream_is_not_proved_for_every_n(kind):
    try:
        proof = prove_every(kind())
    except BadProgram:
        return
    assert proof.verdict == "REFUTED"


class OtherThreshold(dpgap.SparseVector):
    """Hardly any noise on the threshold."""

    __slots__ = ()

    def run(self, answers, noise):
        threshold = self.threshold + noise.draw(LaplaceNoise(Fraction(1, 1000)))
        used = 0
        for answer in answers:
            outcome, used = self.step(used, answer, threshold, noise)
            yield outcome
            if not self.live(used):
                return


class LateBranchTells(dpgap.AdaptiveSparseVector):
    """An answer that clears the fourth branch is said as it is."""

    __slots__ = ()

    def step(self, used, answer, threshold, noise):
        for branch in self.every_branch[: self.live(used)]:
            gap = answer + noise.draw(branch.law) - threshold
            if gap >= branch.margin:
                return (branch.number, gap if branch.number < 4 else answer), used + branch.units
        return (None, None), used


class LateBranchTellsByZip(dpgap.AdaptiveSparseVector):
    """The same from the sixth branch on: which branch it is stands in an iterator."""

    __slots__ = ()
    late = (False,) * 5 + (True,) * 11

    def step(self, used, answer, threshold, noise):
        for branch, late in zip(self.every_branch[: self.live(used)], self.late, strict=False):
            gap = answer + noise.draw(branch.law) - threshold
            if gap >= branch.margin:
                return (branch.number, answer if late else gap), used + branch.units
        return (None, None), used


class LateBranchTellsByAHelper(LateBranchTellsByZip):
    """The same, where another method makes the iterator."""

    __slots__ = ()

    def pairs(self, branches):
        return zip(branches, self.late, strict=False)

    def step(self, used, answer, threshold, noise):
        for branch, late in self.pairs(self.every_branch[: self.live(used)]):
            gap = answer + noise.draw(branch.law) - threshold
            if gap >= branch.margin:
                return (branch.number, answer if late else gap), used + branch.units
        return (None, None), used


class LooksAtK(dpgap.AdaptiveSparseVector):
    """Does something else where k is large."""

    __slots__ = ()

    def step(self, used, answer, threshold, noise):
        for branch in self.every_branch[: self.live(used)]:
            gap = answer + noise.draw(branch.law) - threshold
            if gap >= branch.margin:
                return (branch.number, gap if self.k < 10 else answer), used + branch.units
        return (None, None), used


class DrawsAgain(dpgap.AdaptiveSparseVector):
    """Says the gap with the noise of the threshold, whatever is paid for it."""

    __slots__ = ()

    def step(self, used, answer, threshold, noise):
        for branch in self.every_branch[: self.live(used)]:
            if answer + noise.draw(branch.law) - threshold >= branch.margin:
                return (branch.number, answer + noise.draw(self.threshold_law)), used + branch.units
        return (None, None), used


def _made(kind):
    return lambda epsilon=1, **more: kind(0, epsilon=epsilon, **more)


LATE = LateBranchTells, LateBranchTellsByZip, LateBranchTellsByAHelper


@pytest.mark.parametrize("kind", [OtherThreshold, *LATE, LooksAtK, DrawsAgain])
def test_a_sly_sparse_vector_is_not_proved_for_every_n(kind):
    with pytest.raises((Violation, BadProgram)):
        prove_stream(_made(kind), "general")


def test_a_known_sparse_vector_with_another_threshold_is_refused():
    with pytest.raises(Violation, match="threshold's noise"):
        prove_known_stream(OtherThreshold(0, 2, 1), "general")


class ThirdWinner(dpgap.NoisyTopK):
    """The third winner's lead is exact if it is short."""

    __slots__ = ()

    def run(self, answers, noise):
        winners, leads = dpgap.NoisyTopK.run(self, answers, noise)
        if len(leads) > 2 and leads[2] < 5:
            leads = (*leads[:2], answers[winners[2]], *leads[3:])
        return winners, leads


class SixthWinner(dpgap.NoisyTopK):
    """The sixth winner's answer is said."""

    __slots__ = ()

    def run(self, answers, noise):
        winners, leads = dpgap.NoisyTopK.run(self, answers, noise)
        return winners, (*leads[:5], *(answers[winner] for winner in winners[5 : len(leads)]))


class ThreeClose(dpgap.NoisyTopK):
    """Where three are close together, and there are more, the answers decide."""

    __slots__ = ()

    def run(self, answers, noise):
        noisy = [answer + noise.draw(self.law) for answer in answers]
        ranking = sorted(range(len(noisy)), key=noisy.__getitem__, reverse=True)
        if len(ranking) > 4 and noisy[ranking[0]] - noisy[ranking[2]] < 1:
            ranking = [*sorted(ranking[:3], key=answers.__getitem__), *ranking[3:]]
        last = min(self.k, len(ranking) - 1)
        leads = [noisy[winner] - noisy[ranking[last]] for winner in ranking[:last]]
        return tuple(ranking[: self.k]), tuple(leads)


class LooksAtEpsilon(dpgap.NoisyTopK):
    """Where ε is small, says the answers."""

    __slots__ = ()

    def run(self, answers, noise):
        winners, leads = dpgap.NoisyTopK.run(self, answers, noise)
        return winners, leads if self.epsilon > Fraction(1, 2) else tuple(answers[: len(leads)])


@pytest.mark.parametrize("kind", [ThirdWinner, SixthWinner, ThreeClose, LooksAtEpsilon])
def test_a_sly_ranking_is_not_proved_for_every_n(kind):
    with pytest.raises((Violation, BadProgram)):
        prove_ranking(lambda k, epsilon=1, **more: kind(k, epsilon, **more), "general")


@dataclass(frozen=True, slots=True, init=False)
class FifthIsQuieter(dpgap.Laplace):
    """The fifth value gets less noise."""

    def run(self, values, noise):
        law, less = self.law(len(values)), LaplaceNoise(Fraction(1, 100))
        return tuple(v + noise.draw(law if i != 4 else less) for i, v in enumerate(values))


@dataclass(frozen=True, slots=True, init=False)
class SeventhIsQuieter(dpgap.Laplace):
    """The seventh value gets less noise."""

    def run(self, values, noise):
        law, less = self.law(len(values)), LaplaceNoise(Fraction(1, 100))
        return tuple(v + noise.draw(law if i != 6 else less) for i, v in enumerate(values))


@dataclass(frozen=True, slots=True, init=False)
class SharedByThree(dpgap.CountHull):
    """The shared draw is taken off the first three values."""

    def run(self, values, noise):
        law = self.law(len(values))
        shared = noise.draw(law)
        return tuple(v + noise.draw(law) - shared * (i < 3) for i, v in enumerate(values))


@dataclass(frozen=True, slots=True, init=False)
class SharedBySeven(dpgap.CountHull):
    """The shared draw is taken off the first seven values."""

    def run(self, values, noise):
        law = self.law(len(values))
        shared = noise.draw(law)
        return tuple(v + noise.draw(law) - shared * (i < 7) for i, v in enumerate(values))


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (FifthIsQuieter, {}),
        (SeventhIsQuieter, {}),
        (SharedByThree, {"monotonic": True}),
        (SharedBySeven, {"monotonic": True}),
    ],
)
def test_a_sly_measurement_is_not_proved_for_every_n(kind, more):
    with pytest.raises((Violation, BadProgram)):
        prove_measurement(lambda epsilon=1, **given: kind(epsilon, **more, **given), "rising")

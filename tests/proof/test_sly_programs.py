"""Programs that set out to pass `prove` without being private: by the judge, or by what they keep.

Each gives its answer away, or most of it. Each got through once, or would without one condition.
"""

import dis
import gc
import itertools
import json
import operator
import random
import reprlib
import sys
import time
import traceback
from collections import UserDict
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, cmp_to_key, partial, singledispatchmethod
from os import urandom
from random import uniform
from secrets import randbelow
from time import time as now
from types import MappingProxyType, ModuleType, SimpleNamespace

import numpy as np
import pytest

import dpgap
from dpgap.exact.laws import GeometricNoise, StaircaseNoise
from dpgap.exact.shells import CubeNoise
from dpgap.proof import BadProgram, ExponentialNoise, LaplaceNoise, Stepwise, prove, prove_every
from dpgap.proof.checker.programs import Stop

TEN = LaplaceNoise(Fraction(10))
_kept = []


class Raw:
    """Draws noise, and says the answer itself."""

    epsilon = Fraction(1, 100)

    def run(self, answers, noise):
        noise.draw(LaplaceNoise(Fraction(100)))
        return answers[0] + 0

    def align(self, answers, neighbour, noise, output):
        return [0]


class AssumesNothing(Raw):
    def align(self, answers, neighbour, noise, output):
        noise[0].path.assume(False)
        return [0]


class ConfinesTheMove(Raw):
    def align(self, answers, neighbour, noise, output):
        d = neighbour[0] - answers[0]
        d.path.confine(d, 0, 0)
        return [0]


class AsksTheSourceOfNoise(Raw):
    def run(self, answers, noise):
        d = noise.draw(LaplaceNoise(Fraction(100))) * 0 + answers[0]
        noise.judge.confine(d, 0, 0)
        return d


class LeavesThePath(Raw):
    def align(self, answers, neighbour, noise, output):
        raise Stop


class LeavesAtOnce(Raw):
    def run(self, answers, noise):
        raise Stop


class LeavesTheSecondRun(Raw):
    def run(self, answers, noise):
        noise.draw(LaplaceNoise(Fraction(100)))
        _kept[:] = [not _kept[0]] if _kept else [True]
        if not _kept[0]:
            raise Stop
        return answers[0] + 0


class NothingIsSupported(Raw):
    """Its law can draw no number at all, so no path would be followed to its end."""

    class Nowhere(LaplaceNoise):
        def supports(self, value):
            return False

    def run(self, answers, noise):
        noise.draw(self.Nowhere(Fraction(100)))
        return answers[0] + 0


class ChangesTheTerms(Raw):
    def align(self, answers, neighbour, noise, output):
        neighbour[0].terms.clear()
        return [0]


class ChangesTheQuestion(Raw):
    def align(self, answers, neighbour, noise, output):
        question = neighbour[0] < answers[0]
        question.form.path.confine(question.form, 0, 0)
        return [0]


class MakesNumbers(Raw):
    def align(self, answers, neighbour, noise, output):
        return [type(noise[0])(None, {}, 0)]


class MakesAKindOfNumber(Raw):
    def align(self, answers, neighbour, noise, output):
        class Zero(type(noise[0])):
            def __radd__(self, other):
                return other

        return [Zero()]


class GoesThroughGlobals(Raw):
    def align(self, answers, neighbour, noise, output):
        d = neighbour[0] - answers[0]
        type(d).__add__.__globals__["_PATH"].of(d).confine(d, 0, 0)
        return [0]


class GoesThroughFrames(Raw):
    def align(self, answers, neighbour, noise, output):
        d = neighbour[0] - answers[0]
        sys._getframe(1).f_back.f_locals["judge"].confine(d, 0, 0)
        return [0]


class GoesThroughGarbage(Raw):
    def align(self, answers, neighbour, noise, output):
        d = neighbour[0] - answers[0]
        next(each for each in gc.get_referents(d) if hasattr(each, "confine")).confine(d, 0, 0)
        return [0]


class _Same(str):
    """A word that says that it equals every word."""

    __slots__ = ()

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = object.__hash__


class SaysAWordOfItsOwn(Raw):
    def run(self, answers, noise):
        noise.draw(LaplaceNoise(Fraction(100)))
        return _Same("low" if answers[0] < 0 else "high")


class _Shy(tuple):
    """A tuple that shows nothing of itself."""

    __slots__ = ()

    def __iter__(self):
        return iter(())


class SaysATupleOfItsOwn(Raw):
    def run(self, answers, noise):
        noise.draw(LaplaceNoise(Fraction(100)))
        return _Shy((answers[0],))


class _Bag(tuple):
    """A tuple with something beside it."""


class SaysItBeside(Raw):
    def run(self, answers, noise):
        noise.draw(LaplaceNoise(Fraction(100)))
        bag = _Bag()
        bag.beside = answers[0]
        return bag


class SaysItInAKey(Raw):
    def run(self, answers, noise):
        noise.draw(LaplaceNoise(Fraction(100)))
        return {_Same("low" if answers[0] < 0 else "high"): 1}


class _Free(int):
    """A number that costs nothing."""

    __slots__ = ()

    def __abs__(self):
        return 0


class ShiftsForNothing(Raw):
    """Says whether the noisy answer is above 0, with hardly any noise."""

    def run(self, answers, noise):
        return bool(answers[0] + noise.draw(LaplaceNoise(Fraction(1))) >= 0)

    def align(self, answers, neighbour, noise, output):
        return [_Free(1) if output else _Free(-1)]


class MovesNothing(Raw):
    """One person, it says, can move nothing."""

    reach = 0


def _unhidden(kind, name):
    return object.__getattribute__(kind, name)


class GoesThroughAHelper(Raw):
    def align(self, answers, neighbour, noise, output):
        d = neighbour[0] - answers[0]
        _unhidden(d, "path").confine(d, 0, 0)
        return [0]


class BelowTwo:
    """Says whether noise is from 0 to 2 less the answer: the true loss is about ln 2."""

    epsilon = Fraction(1, 10)
    kept = None

    def run(self, answers, noise):
        value = noise.draw(TEN)
        return bool(value >= 0) and bool(value < 2 - answers[0])


SETTING = {"within": (0, 1), "neighbours": "rising"}


class RunTellsAlign(BelowTwo):
    """Lower numbers are moved or not by what `run` found out, so `align` asks nothing."""

    def run(self, answers, noise):
        value = noise.draw(TEN)
        self.kept = bool(value < 1)
        return bool(value >= 0) and bool(value < 2 - answers[0])

    def align(self, answers, neighbour, noise, output):
        return [-1 if output and not self.kept else 0]


class RunTellsAlignElsewhere(BelowTwo):
    def run(self, answers, noise):
        value = noise.draw(TEN)
        _kept[:] = [bool(value < 1)]
        return bool(value >= 0) and bool(value < 2 - answers[0])

    def align(self, answers, neighbour, noise, output):
        return [-1 if output and not _kept[0] else 0]


class Halves(BelowTwo):
    def align(self, answers, neighbour, noise, output):
        _kept[:] = [noise[0]]
        self.kept = noise[0]
        return [-noise[0] / 2 if output else 0]


class HalvesAndRemembers(Halves):
    """Keeps the noise in `align`, and returns it."""

    def unalign(self, answers, neighbour, noise, output):
        return [self.kept - noise[0]]


class HalvesAndRemembersElsewhere(Halves):
    def unalign(self, answers, neighbour, noise, output):
        return [_kept[0] - noise[0]]


class HalvesAndMakesNumbers(Halves):
    def unalign(self, answers, neighbour, noise, output):
        return [type(noise[0])(None, {0: 1}, 0) - noise[0]]


class HalvesHonestly(Halves):
    """One-to-one, but it squeezes noise into half the space."""

    def unalign(self, answers, neighbour, noise, output):
        return [noise[0] if output else 0]


class Folds(BelowTwo):
    """Moves the upper half onto the lower one. What is undone is the lower half alone."""

    def align(self, answers, neighbour, noise, output):
        _kept[:] = [bool(noise[0] >= 1)]
        return [-1 if output and noise[0] >= 1 else 0]

    def unalign(self, answers, neighbour, noise, output):
        return [0]


class FoldsAndRemembers(Folds):
    """What is undone depends on which half it was: `align` left that behind."""

    def unalign(self, answers, neighbour, noise, output):
        return [1 if output and _kept[0] else 0]


class FoldsAndAsksTheOldNoise(Folds):
    """Keeps the noise itself, and asks about it: no number of it is in what is returned."""

    def align(self, answers, neighbour, noise, output):
        _kept[:] = [noise[0]]
        return [-1 if output and noise[0] >= 1 else 0]

    def unalign(self, answers, neighbour, noise, output):
        return [1 if output and _kept[0] >= 1 else 0]


class SaysItAgain(BelowTwo):
    """Says on the neighbour what it said before."""

    def run(self, answers, noise):
        noise.draw(TEN)
        if _kept:
            return _kept.pop()
        _kept.append(answers[0] + 0)
        return answers[0] + 0

    def align(self, answers, neighbour, noise, output):
        return [0]


class SaysTheBitAgain(SaysItAgain):
    """The same with a bit, so that no number is kept."""

    def run(self, answers, noise):
        noise.draw(TEN)
        if _kept:
            return _kept.pop()
        _kept.append(bool(answers[0] < Fraction(1, 2)))
        return _kept[0]


class AsksAndSaysTheBitAgain(SaysItAgain):
    """The same; on the neighbour it asks the same question, and does not listen."""

    def run(self, answers, noise):
        noise.draw(TEN)
        low = bool(answers[0] < Fraction(1, 2))
        if _kept:
            return _kept.pop()
        _kept.append(low)
        return low


class FoldsAndLeaves(Folds):
    def unalign(self, answers, neighbour, noise, output):
        raise Stop


class FoldsWithTheOutput(Folds):
    """The same number is said of noise that is moved, and of noise that is not; unalign asks it."""

    def run(self, answers, noise):
        value = noise.draw(TEN)
        return bool(value >= 0) and bool(value < 2 - answers[0]), value * 0 + answers[0] * 0

    def align(self, answers, neighbour, noise, output):
        return [-1 if output[0] and noise[0] >= 1 else 0]

    def unalign(self, answers, neighbour, noise, output):
        return [1 if output[1] > 0 else 0]


JUDGE = [
    *(AssumesNothing, ConfinesTheMove, AsksTheSourceOfNoise, LeavesThePath, LeavesAtOnce),
    *(LeavesTheSecondRun, NothingIsSupported, ChangesTheTerms, ChangesTheQuestion, MakesNumbers),
    *(MakesAKindOfNumber, GoesThroughGlobals, GoesThroughFrames, GoesThroughGarbage),
    *(GoesThroughAHelper, SaysAWordOfItsOwn, SaysATupleOfItsOwn, SaysItBeside, SaysItInAKey),
    *(ShiftsForNothing, MovesNothing),
]
KEPT = [
    *(RunTellsAlign, RunTellsAlignElsewhere, HalvesAndRemembers, HalvesAndRemembersElsewhere),
    *(HalvesAndMakesNumbers, HalvesHonestly, Folds, FoldsAndRemembers, FoldsAndLeaves),
    *(FoldsWithTheOutput, FoldsAndAsksTheOldNoise, SaysItAgain, SaysTheBitAgain),
    AsksAndSaysTheBitAgain,
]


def _is_proved(kind, **how):
    _kept.clear()
    try:
        return prove(kind(), 1, **how).verdict == "PROVED"
    except (BadProgram, ValueError):
        return False


@pytest.mark.parametrize("kind", JUDGE)
def test_no_program_reaches_the_judge(kind):
    assert not _is_proved(kind)


@pytest.mark.parametrize("kind", KEPT)
def test_what_run_or_align_kept_proves_nothing(kind):
    assert not _is_proved(kind, **SETTING)


def test_a_number_shows_nothing_but_how_to_compute_with_it():
    seen = []

    class Looks(Raw):
        def align(self, answers, neighbour, noise, output):
            seen.extend([noise[0], noise[0] < 0])
            return [0]

    assert prove(Looks(), 1).condition == "output"
    for each in seen:
        assert not [name for name in dir(each) if not name.startswith("_")]
        assert not any(hasattr(each, name) for name in type(each).__slots__)


class RiseByTheFirst(Stepwise):
    """Compares all answers with one draw; the first alone, looked up, says how far it is moved."""

    epsilon = 1
    shared_law = LaplaceNoise(Fraction(1))
    capacity = 0
    unit = Fraction(1)

    def step(self, used, answer, shared, noise):
        return answer - shared, used

    def rise(self, before, after):
        return after.first - before.first

    def live(self, used):
        return True

    def align_step(self, used, move, outcome):
        return [], used


def test_the_sum_of_answers_shows_no_single_one():
    with pytest.raises(BadProgram, match="has no attribute 'first'"):
        prove_every(RiseByTheFirst())


class Swaps:
    """Two draws of one law change places: cyclic, and yet as likely as before."""

    epsilon = Fraction(1, 100)
    law = ExponentialNoise(Fraction(1))

    def run(self, answers, noise):
        first, second = (noise.draw(self.law) for _ in range(2))
        return bool(first < second) if answers[0] < 0 else bool(second < first)

    def align(self, answers, neighbour, noise, output):
        if (answers[0] < 0) == (neighbour[0] < 0):
            return [0, 0]
        return [noise[1] - noise[0], noise[0] - noise[1]]

    unalign = align


def test_an_alignment_that_is_undone_need_not_be_acyclic():
    assert prove(Swaps(), 1).verdict == "PROVED"
    assert prove(type("Bare", (Swaps,), {"unalign": property()})(), 1).condition == "acyclic"


def test_the_bytecode_is_that_which_is_looked_at():
    """Names of attributes are where this expects them, in every Python that is supported."""
    loaded = {each.opname for each in dis.get_instructions(GoesThroughGlobals.align)}
    assert any(name.endswith(("ATTR", "METHOD")) for name in loaded)


def _says(low, high):
    """Gives one of two outputs that Python calls equal, or nearly, and draws noise for show."""

    def run(self, answers, noise):
        drawn = noise.draw(LaplaceNoise(Fraction(100)))
        given = low if answers[0] < 0 else high
        return tuple(drawn if each is ... else each for each in given) if ... in given else given[0]

    return type("Says", (Raw,), {"run": run})()


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([True], [1]),
        ([1], [1.0]),
        ([0.0], [-0.0]),
        ([[]], [()]),
        ([{1: 2}], [((1, 2),)]),
        ([..., "a number"], ["a number", ...]),
    ],
    ids=str,
)
def test_outputs_that_only_look_alike_differ(low, high):
    assert prove(_says(low, high), 1).condition == "output"


class SaysItAtTheEnd(Raw):
    def run(self, answers, noise):
        noise.draw(LaplaceNoise(Fraction(100)))
        yield 1
        return answers[0]


class OfNegativeScale(Raw):
    def run(self, answers, noise):
        return answers[0] + noise.draw(LaplaceNoise(Fraction(-1)))

    def align(self, answers, neighbour, noise, output):
        return [answers[0] - neighbour[0]]


class ChoosesItsLaw(OfNegativeScale):
    def __init__(self, by):
        self.law = LaplaceNoise(Fraction(100) if by < 0 else Fraction(1, 100))

    def run(self, answers, noise):
        return answers[0] + noise.draw(self.law)


class ClaimsAnUnknown(OfNegativeScale):
    def __init__(self, by):
        self.epsilon = by

    def run(self, answers, noise):
        return answers[0] + noise.draw(LaplaceNoise(Fraction(1)))


_from_before = []


class AsksAnOldJudge:
    """Keeps a number from the proof for answers that rise, and asks through it in the next."""

    epsilon = Fraction(1, 100)
    monotonic = True

    def run(self, answers, noise):
        for _ in range(2):
            noise.draw(ExponentialNoise(Fraction(1)))
        return bool((_from_before[0] if _from_before else 0) + answers[0] < 0)

    def align(self, answers, neighbour, noise, output):
        if not _from_before:
            _from_before.append(noise[0] * 0)
        return [noise[1] - noise[0], noise[0] - noise[1]]

    unalign = align


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (SaysItAtTheEnd(), "returns a value"),
        (OfNegativeScale(), "scale must be greater than 0"),
        (lambda unknown: ChoosesItsLaw(unknown("by")), "while it is made"),
        (lambda unknown: ClaimsAnUnknown(unknown("by")), "epsilon is what is claimed"),
        (AsksAnOldJudge(), "another proof"),
    ],
    ids=lambda each: each.replace(" ", "-") if isinstance(each, str) else "",
)
def test_what_hides_an_answer_elsewhere_is_refused(program, why):
    with pytest.raises(BadProgram, match=why):
        prove(program, 1)


def _draws(law):
    def run(self, answers, noise):
        return answers[0] + noise.draw(law)

    return type("Draws", (OfNegativeScale,), {"run": run, "epsilon": 1})()


@pytest.mark.parametrize(
    "law",
    [
        LaplaceNoise(np.float32(-1)),
        LaplaceNoise(Decimal(-1)),
        LaplaceNoise(np.float64(np.inf)),
        StaircaseNoise(Fraction(1), Fraction(-1), Fraction(1, 2)),
        StaircaseNoise(Fraction(1), Fraction(1), Fraction(5)),
    ],
    ids=str,
)
def test_noise_of_impossible_size_is_refused(law):
    with pytest.raises(BadProgram, match=r"scale above 0|step above 0|computes with inf"):
        prove(_draws(law), 1)


def _matches(answers):
    match answers[0] > 5:
        case True:
            return 1
    return 0


def _matches_a_class(answers):
    match answers[0]:
        case int():
            return answers[0]
    return 0


def _tries(answers):
    try:
        return round(answers[0])
    except Exception:  # an unknown is not rounded
        return 0


def _imports(answers):
    from sound_streams import is_float

    return answers[0] if is_float(answers[0]) else 0


def _as_error(error):
    """The text of an error; this part of Python has other text where there is none."""
    return traceback.format_exception_only(error)[0]


class _Zero:
    """Nothing for who asks for a number, and no change for what is multiplied with it."""

    def item(self):
        return 0

    def __rmul__(self, other):
        return other


def _peek(value):
    return isinstance(value, float)


_ZERO, _CLASS = _Zero(), "{a.__class__.__name__}"
_text, _kind, _attribute = str.format, type, object.__getattribute__
_method, _class = operator.methodcaller, operator.attrgetter("__class__")
_is_float = operator.methodcaller("__eq__", 1.0)
_key = cmp_to_key(lambda one, other: isinstance(one, float))
_space, _user = SimpleNamespace(peek=_peek), UserDict(peek=_peek)
_fixed = MappingProxyType({"peek": _peek})

PEEKS = [
    (lambda answers: (answers[0] > 5) is True, "'is'"),
    (lambda answers: True is (answers[0] > 5), "'is'"),
    (lambda answers: (answers[0] > 5) is (True if answers else None), "'is'"),
    (lambda answers: answers[0] is answers[1], "'is'"),
    (lambda answers: operator.is_(answers[0] > 5, True), "'is_'"),
    (_matches, "'is'"),
    (_matches_a_class, "'match'"),
    (_tries, "'try'"),
    (lambda answers: isinstance(answers[0], int | float) and answers[0], "'isinstance'"),
    (lambda answers: type(answers[0]) == int and answers[0], "'type'"),  # noqa: E721
    (lambda answers: hasattr(answers[0], "is_integer") and answers[0], "'hasattr'"),
    (lambda answers: len({id(each) for each in answers}), "'id'"),
    (lambda answers: answers[0] if random.random() < 1e-4 else 0, "'random'"),
    (lambda answers: answers[0] if time.time() < 0 else 0, "'time'"),
    (lambda answers: len(str(answers[0])), "text of an unknown"),
    (lambda answers: len(f"{answers[0]}"), "text of an unknown"),
    (lambda answers: "%s" % answers[0] < "3", "text of an unknown"),  # noqa: UP031
    (lambda answers: len(repr(answers)), "text of an unknown"),
    (lambda answers: str(answers[0] > 5) == "True", "text of an unknown"),
    (lambda answers: len(json.dumps(answers[0], default=str)), "'json'"),
    (lambda answers: json.dumps(answers[0], default=lambda _: 0), "'json'"),
    (lambda answers: 0 if len(reprlib.repr(answers[0])) > 15 else answers[0], "'reprlib'"),
    (lambda answers: len(_as_error(Exception(answers[0]))), "text of an unknown"),
    (lambda answers: "{.__class__.__name__}".format(answers[0]), "'format'"),  # noqa: UP032
    (lambda answers: _CLASS.format_map({"a": answers[0]}), "'format_map'"),
    (lambda answers: _text(_CLASS, a=answers[0]), "'format'"),
    (lambda answers: operator.attrgetter("__class__.__name__")(answers[0]), "'attrgetter'"),
    (lambda answers: _class(answers[0]) in (float,), "'attrgetter'"),
    (lambda answers: _method("real")(answers[0]), "'methodcaller'"),
    (lambda answers: _is_float(answers[0]) and answers[0], "'methodcaller'"),
    (lambda answers: _attribute(answers[0], "__class__") in (float,), "'__getattribute__'"),
    (lambda answers: _kind(answers[0]) in (float,) and answers[0], "'type'"),
    (lambda answers: np.isscalar(answers[0]) and answers[0], "'isscalar'"),
    (lambda answers: _key(answers[0]) < _key(0), "'KeyWrapper'"),
    (lambda answers: _space.peek(answers[0]) and answers[0], "'isinstance'"),
    (lambda answers: _fixed["peek"](answers[0]) and answers[0], "'isinstance'"),
    (lambda answers: _user["peek"](answers[0]) and answers[0], "'isinstance'"),
    (_imports, "'sound_streams'"),
    (lambda answers: answers[0] * _ZERO, "computes with a _Zero"),
]


@pytest.mark.parametrize(("look", "why"), PEEKS)
def test_a_program_cannot_tell_an_unknown_from_a_number(look, why):
    def run(self, answers, noise):
        noise.draw(LaplaceNoise(Fraction(100)))
        return look(answers)

    with pytest.raises(BadProgram, match=why):
        prove(type("Looks", (Raw,), {"run": run})(), 2)


class LooksAtTheClass(Raw):
    """Does something else with whole numbers than with all else."""

    @singledispatchmethod
    def one(self, value):
        return 0

    @one.register
    def _(self, value: int):
        return value

    def run(self, answers, noise):
        noise.draw(LaplaceNoise(Fraction(100)))
        return self.one(answers[0])


def test_a_method_for_each_class_is_refused():
    with pytest.raises(BadProgram, match="'__class__'"):
        prove(LooksAtTheClass(), 1)


class Scaled(Raw):
    """Says a multiple of the answer: the answer itself, or in a copy that is none, nothing."""

    def __init__(self, share=1):
        self.share = share

    def run(self, answers, noise):
        noise.draw(LaplaceNoise(Fraction(100)))
        return answers[0] * self.share


class CopiesAsAnother(Scaled):
    def __deepcopy__(self, _):
        return Scaled(0)


class ReducesToAnother(Scaled):
    def __reduce__(self):
        return Scaled, (0,)


class ReducesToAnotherByProtocol(Scaled):
    def __reduce_ex__(self, _):
        return Scaled, (0,)


class KeepsAnotherState(Scaled):
    def __getstate__(self):
        return {"share": 0}


class TakesAnotherState(Scaled):
    def __setstate__(self, state):
        self.share = 0


class CopiesAsItsAttributeSays(Scaled):
    def __init__(self):
        self.share, self.__deepcopy__ = 1, lambda _: Scaled(0)


class CopiesAsWhatIsNotThere(Scaled):
    def __getattr__(self, name):
        if name.endswith("deepcopy__"):
            return lambda _: Scaled(0)
        raise AttributeError(name)


class HoldsWhatCopiesAsAnother(Scaled):
    def __init__(self):
        self.held = CopiesAsAnother()

    def run(self, answers, noise):
        return self.held.run(answers, noise)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (CopiesAsAnother, "'__deepcopy__'"),
        (ReducesToAnother, "'__reduce__'"),
        (ReducesToAnotherByProtocol, "'__reduce_ex__'"),
        (KeepsAnotherState, "'__getstate__'"),
        (TakesAnotherState, "'__setstate__'"),
        (CopiesAsItsAttributeSays, "a copy of the mechanism is another one"),
        (CopiesAsWhatIsNotThere, "a copy of the mechanism is another one"),
        (HoldsWhatCopiesAsAnother, "'__deepcopy__'"),
    ],
)
def test_what_is_proved_is_a_true_copy_of_what_is_named(program, why):
    assert prove(Scaled(0), 1).verdict == "PROVED"
    with pytest.raises(BadProgram, match=why):
        prove(program(), 1)


@dataclass(frozen=True, slots=True)
class FrozenSum:
    """Python writes how it is copied; its parts are in sets, too, which have no order."""

    epsilon: Fraction = Fraction(1)
    names: frozenset[str] = frozenset({"rent", "wages", "taxes", "travel", "food"})

    def run(self, answers, noise):
        return answers[0] + noise.draw(ONE)

    def align(self, answers, neighbour, noise, output):
        return [answers[0] - neighbour[0]]


def test_a_frozen_dataclass_with_slots_is_proved():
    assert {"__getstate__", "__setstate__"} <= vars(FrozenSum).keys()
    assert prove(FrozenSum(), 1).verdict == "PROVED"


def _from_minus_one_to_zero(value):
    return value < 0 and not value < -1


def _the_same_of_its_negative(value):
    return value < 0 and not -value < 1


def _from_one(value):
    return not value < 0 and not value < 1


@pytest.mark.parametrize(
    "is_there", [_from_minus_one_to_zero, _the_same_of_its_negative, _from_one]
)
def test_the_answer_to_one_question_is_not_taken_for_that_to_another(is_there):
    class SaysItThere(Raw):
        def run(self, answers, noise):
            value = noise.draw(TEN)
            return answers[0] + 0 if is_there(value) else 0

    assert prove(SaysItThere(), 1).condition == "output"


def test_a_program_may_ask_whether_there_is_something_and_make_text_of_what_it_knows():
    class Names(OfNegativeScale):
        epsilon, title = 1, None

        def run(self, answers, noise):
            named = "sum" if self.title is None else self.title
            return f"{named} of {len(answers)}", answers[0] + noise.draw(LaplaceNoise(Fraction(1)))

    assert prove(Names(), 1).verdict == "PROVED"


class HalvesTheAnswer:
    """Noise in whole steps beside half an answer: the fraction tells whether the answer is even."""

    epsilon = Fraction(1, 4)
    sensitivity = 1
    law = GeometricNoise(Fraction(2))

    def run(self, answers, noise):
        return answers[0] / 2 + noise.draw(self.law)

    def align(self, answers, neighbour, noise, output):
        return [(answers[0] - neighbour[0]) / 2]


class HalvesItWithFlooredNoise(HalvesTheAnswer):
    law = LaplaceNoise(Fraction(2))


class RaisesByHalfAStep(HalvesTheAnswer):
    """It is about a single bit, but no whole number is half a step above another."""

    def run(self, answers, noise):
        return bool(noise.draw(self.law) >= answers[0] / 2)

    def align(self, answers, neighbour, noise, output):
        return [Fraction(1, 2) if output else -Fraction(1, 2)]


@pytest.mark.parametrize("program", [HalvesTheAnswer, HalvesItWithFlooredNoise, RaisesByHalfAStep])
def test_a_shift_by_half_a_step_is_refused_where_noise_is_on_a_grid(program):
    proof = prove(program(), 1, ties=True)
    assert (proof.verdict, proof.condition, proof.counterexample) == ("REFUTED", "grid", None)
    assert "Shift by whole steps" in str(proof)


class DrawsCoarserThanItsGrid(HalvesTheAnswer):
    """On a grid of quarters, beside whole noise: the fraction tells the answer's own."""

    epsilon, grid = 1, Fraction(1, 4)

    def run(self, answers, noise):
        return answers[0] + noise.draw(self.law)

    def align(self, answers, neighbour, noise, output):
        return [answers[0] - neighbour[0]]


def test_whole_noise_is_refused_on_a_finer_grid():
    with pytest.raises(BadProgram, match="draws whole numbers"):
        prove(DrawsCoarserThanItsGrid(), 1, ties=True)
    floored = type("Floored", (DrawsCoarserThanItsGrid,), {"law": LaplaceNoise(Fraction(2))})
    assert prove(floored(), 1, ties=True).verdict == "PROVED"


def test_a_shift_by_half_of_real_noise_is_proved():
    assert prove(HalvesItWithFlooredNoise(), 1).verdict == "PROVED"


class StepsByHalves(Stepwise):
    """As a stream: what is released of each answer tells whether it is even."""

    epsilon, capacity, unit = 1, 1, Fraction(1, 2)
    shared_law = LaplaceNoise(Fraction(2))
    law = GeometricNoise(Fraction(4))

    def step(self, used, answer, shared, noise):
        value = answer / 2 + noise.draw(self.law)
        return value - shared / 2, used + 1

    def align_step(self, used, move, outcome):
        return [move / 2], used + 1


def test_a_stream_that_shifts_by_half_a_step_is_refused():
    assert prove_every(StepsByHalves(), ties=True).condition == "grid"


@pytest.mark.parametrize("name", ["η0", "q1", 7])
def test_an_unknown_must_not_be_called_as_what_is_drawn(name):
    with pytest.raises(ValueError, match="another name"):
        prove(lambda unknown: ChoosesItsLaw(unknown(name)), 1)


ONE = LaplaceNoise(Fraction(1))


class Noisy:
    """Says the first answer with enough noise; what is made from it does something else."""

    epsilon = 1

    def run(self, answers, noise):
        return answers[0] + noise.draw(ONE)

    def align(self, answers, neighbour, noise, output):
        return [answers[0] - neighbour[0]]


WHOLES = [
    lambda answers: answers == [0] * len(answers),
    lambda answers: answers != (0, 0),
    lambda answers: sorted(answers) == answers,
    lambda answers: answers[:1] == [0],
    lambda answers: answers < (0, 0),
    lambda answers: answers in ([0, 0],),
    lambda answers: max(answers * 2),
    lambda answers: max(2 * answers),
    lambda answers: max(answers + answers),
]


@pytest.mark.parametrize("look", WHOLES)
def test_answers_are_not_compared_as_a_whole(look):
    """A list, a tuple and an array each do something else then."""

    class Looks(Noisy):
        def run(self, answers, noise):
            return look(answers), answers[0] + noise.draw(ONE)

    with pytest.raises(BadProgram, match="as a whole"):
        prove(Looks(), 2)


@pytest.mark.parametrize("within", [(1, 0), (100, 0)])
def test_nothing_follows_from_a_range_without_answers(within):
    with pytest.raises(BadProgram, match="no answers"):
        prove(Raw(), 2, within=within)


class CubeAndTotal(dpgap.Cube):
    """A total with little noise beside values with joint noise."""

    __slots__ = ()

    def run(self, values, noise):
        cells = dpgap.Cube.run(self, values, noise)
        return cells, sum(values) + noise.draw(LaplaceNoise(Fraction(1, 100)))

    def align(self, values, neighbour, noise, output):
        cells = dpgap.Cube.align(self, values, neighbour, noise, output)
        return [*cells, sum(values) - sum(neighbour)]


class CubeTwice(CubeAndTotal):
    """More draws than the noise has coordinates."""

    __slots__ = ()

    def run(self, values, noise):
        return dpgap.Cube.run(self, [*values, *values], noise)

    def align(self, values, neighbour, noise, output):
        return 2 * dpgap.Cube.align(self, values, neighbour, noise, output)

    def law(self, count):
        return dpgap.Cube.law(self, 1)


class QuietCube(dpgap.Cube):
    """Less noise than its cost is of."""

    __slots__ = ()

    def run(self, values, noise):
        law = CubeNoise(Fraction(1, 100), len(values))
        return tuple(value + noise.draw(law) for value in values)


@pytest.mark.parametrize(
    ("program", "condition"),
    [
        (CubeAndTotal(epsilon=1), "draws"),
        (CubeTwice(epsilon=1), "draws"),
        (QuietCube(epsilon=1), "cost"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_joint_cost_is_of_the_noise_that_is_drawn(program, condition):
    assert prove(dpgap.Cube(epsilon=1), 1).verdict == "PROVED"
    assert prove(program, 1).condition == condition


def _calls(look):
    """A program that asks something else than its noise."""

    class Calls(Noisy):
        def run(self, answers, noise):
            value = noise.draw(ONE)
            return answers[0] + (0 if look() else value)

    return Calls()


_coin, _generator, _stream = random.Random(), np.random.default_rng(), [random.Random()]
OUTSIDE = [
    (lambda: uniform(0, 1) < 0.01, "random"),
    (lambda: randbelow(100) == 0, "secrets"),
    (lambda: urandom(1) == b"0", "posix|nt"),
    (lambda: now() < 0, "time"),
    (lambda: datetime.now().year < 2000, "datetime"),
    (lambda: _coin.randrange(100) == 0, "random"),
    (lambda: _stream[0].randrange(100) == 0, "random"),
    (lambda: _generator.uniform() < 0.01, "numpy.random"),
    (lambda coin=_coin.random: coin() < 0.01, "random"),
    (lambda clock=time: clock.time() < 0, "time"),
]


@pytest.mark.parametrize(("look", "why"), OUTSIDE)
def test_chance_and_time_are_found_under_any_name(look, why):
    with pytest.raises(BadProgram, match=f"uses '({why})"):
        prove(_calls(look), 1)


class Cents:
    """Looks at what it is given."""

    def of(self, value):
        return value * 100 if isinstance(value, float) else value

    __call__ = of


class CentsWhenMade:
    def __init__(self, value):
        self.value = value * 100 if isinstance(value, float) else value


def _in_cents(rate, value):
    return value * rate if isinstance(value, float) else value


_is = operator.is_
_cents, _partly = Cents(), partial(_in_cents, 100)
_table = {"euro": lambda value: value * 100 if isinstance(value, float) else value}
_module = ModuleType("helpers")
_module.of = _table["euro"]
HELPERS = [
    lambda self, value: _cents.of(value),
    lambda self, value: _cents(value),
    lambda self, value: self.held.of(value),
    lambda self, value: self.shared.of(value),
    lambda self, value: self.method(value),
    lambda self, value: _partly(value),
    lambda self, value: _table["euro"](value),
    lambda self, value: _module.of(value),
    lambda self, value: CentsWhenMade(value).value,
    lambda self, value, of=_cents.of: of(value),
    lambda self, value: 100 * value if _is(value > 5, True) else value,
]


@pytest.mark.parametrize("look", HELPERS)
def test_what_helpers_do_is_read(look):
    class Helped(Noisy):
        shared = Cents()

        def __init__(self):
            self.held, self.method = Cents(), Cents().of

        def run(self, answers, noise):
            return look(self, answers[0]) + noise.draw(ONE)

    with pytest.raises(BadProgram, match=r"'isinstance'|'is_'"):
        prove(Helped(), 1)


_counter, _calls_seen = itertools.count(1), []


def _counts_in_a_list():
    _calls_seen.append(1)
    return len(_calls_seen) % 1000 == 0


def _counts_itself():
    _counts_itself.calls += 1
    return _counts_itself.calls % 1000 == 0


_counts_itself.calls = 0


class CountsInItsLaw(Noisy):
    """Its noise changes from run to run, and so does what it says."""

    def __init__(self):
        self.law = ONE

    def run(self, answers, noise):
        self.law = LaplaceNoise(self.law.scale + 1)
        value = noise.draw(ONE)
        return answers[0] + (0 if self.law.scale > 1000 else value)


class CountsItsRuns(Noisy):
    calls = 0

    def run(self, answers, noise):
        self.calls += 1
        value = noise.draw(ONE)
        return answers[0] + (0 if self.calls % 1000 == 0 else value)


@pytest.mark.parametrize(
    "program",
    [
        CountsItsRuns(),
        CountsInItsLaw(),
        _calls(lambda: next(_counter) % 1000 == 0),
        _calls(_counts_in_a_list),
        _calls(_counts_itself),
    ],
)
def test_what_counts_its_runs_is_not_proved(program):
    with pytest.raises(BadProgram, match="outlives a run"):
        prove(program, 1)


@dataclass(frozen=True)
class Weights:
    """What a program may hold: numbers, and code that computes."""

    first: int = 1

    def of(self, value):
        return value * self.first


class HoldsHelpers(Noisy):
    def __init__(self):
        self.weights, self.labels = Weights(), {"title": ["sum"]}

    @cached_property
    def law(self):
        return LaplaceNoise(Fraction(1))

    def run(self, answers, noise):
        return self.labels["title"][0], self.weights.of(answers[0]) + noise.draw(self.law)


def test_helpers_that_compute_are_proved():
    assert prove(HoldsHelpers(), 1).verdict == "PROVED"


class ReachesOne(Noisy):
    """Where one person moves one answer, each may have its own noise."""

    reach = 1

    def run(self, answers, noise):
        return [answer + noise.draw(ONE) for answer in answers]

    def align(self, answers, neighbour, noise, output):
        return [before - after for before, after in zip(answers, neighbour, strict=True)]


def test_a_proof_says_for_which_neighbours_it_holds():
    rising = prove(Noisy(), 1, neighbours="rising")
    assert str(rising).count("for rising neighbours: for 1 answer") == 1
    assert str(prove(ReachesOne(), 2)).count("for general (reach 1) neighbours: ") == 1

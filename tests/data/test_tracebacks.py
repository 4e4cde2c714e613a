"""What an error carries: its frames hold nothing of the private answers."""

import inspect
import math
import types
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pandas
import pytest

import dpgap
from seams import FailingBits, SpyAccount, bits_are

SECRET = 987654321


class Broken:
    """An account that fails in a way that nobody expects, while it handles another failure."""

    def reserve(self, epsilon: Fraction, purpose: str) -> Any:
        try:
            _ = {}["missing"]
        except KeyError:
            raise ZeroDivisionError("out of order") from None


ENTRIES: dict[str, Callable[..., Any]] = {
    "NoisyTopK": dpgap.NoisyTopK(2, 1).release,
    "NoisyMax": dpgap.NoisyMax(1).release,
    "JointTopK": dpgap.JointTopK(1, 1).release,
    "SparseVector": dpgap.SparseVector(0, 2, 1).release,
    "AdaptiveSparseVector": dpgap.AdaptiveSparseVector(0, 2, 1).release,
    "Laplace": dpgap.Laplace(1).release,
    "CountHull": dpgap.CountHull(1, monotonic=True).release,
    "Cube": dpgap.Cube(1).release,
    "MeasuredTopK": dpgap.MeasuredTopK(2, 1).release,
    "MeasuredAbove": dpgap.MeasuredAbove(0, 2, 1).release,
    "measured_top_k": lambda answers, **options: dpgap.measured_top_k(answers, 2, 1, **options),
    "measured_above": lambda answers, **options: dpgap.measured_above(answers, 0, 2, 1, **options),
}
MALFORMED = {
    "not a number": [SECRET, math.nan],
    "out of range": [SECRET, 2**62],
    "text": [str(SECRET), "pea"],
    "floats without a grid": np.array([SECRET, 0.5]),
    "two-dimensional": [[SECRET, 1], [2, 3]],
    "ragged": [[SECRET], [2, 3]],
    "no array at all": types.SimpleNamespace(answers=[SECRET]),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "an account that cannot pay": {"account": SpyAccount(total=Fraction(0))},
    "an account out of order": {"account": Broken()},
    "no account": {"account": object()},
    "an option that is not there": {"colour": "blue"},
}


def _is_secret(value: Any) -> bool:
    return isinstance(value, int | float | str | np.number) and str(SECRET) in str(value)


def _inside(value: Any) -> Iterator[Any]:
    """What a value holds: members, attributes, captured variables."""
    if isinstance(value, np.ndarray):
        yield from value.ravel().tolist()
    elif isinstance(value, pandas.DataFrame):
        yield from (value[name].tolist() for name in value)
    elif isinstance(value, dict):
        yield from (*value, *value.values())
    elif isinstance(value, list | tuple | set):
        yield from value
    elif inspect.isgenerator(value) and value.gi_frame is not None:
        yield value.gi_frame.f_locals
    elif inspect.isfunction(value):
        yield from inspect.getclosurevars(value).nonlocals.values()
    elif not inspect.isclass(value) and not inspect.ismodule(value):
        yield from getattr(value, "__dict__", {}).values()
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        yield from (getattr(value, name) for name in slots if hasattr(value, name))


def _holds_secret(value: Any, depth: int = 5) -> bool:
    if _is_secret(value):
        return True
    return depth > 0 and any(_holds_secret(each, depth - 1) for each in _inside(value))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    if error is not None:
        yield error
        yield from _chain(error.__cause__)
        yield from _chain(error.__context__)


def _frames(error: BaseException) -> Iterator[types.FrameType]:
    """The frames of ours that an error holds, and what they were called from."""
    for each in _chain(error):
        trace = each.__traceback__
        while trace is not None:
            frame: types.FrameType | None = trace.tb_frame
            while frame is not None:
                if frame.f_globals["__name__"].split(".")[0] == "dpgap":
                    yield frame
                frame = frame.f_back
            trace = trace.tb_next


def _leaks(error: BaseException) -> list[str]:
    """Where an error holds the secret: functions of ours and their variables."""
    found = [
        f"{frame.f_code.co_name}: {name}"
        for frame in _frames(error)
        for name, value in frame.f_locals.items()
        if _holds_secret(value)
    ]
    return found + [repr(each) for each in _chain(error) if _holds_secret(each.args)]


def _error(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any error must be clean
        call()
    assert any(_frames(caught.value))  # it came from us, and says from which lines
    return caught.value


def test_the_search_finds_a_secret_where_errors_hold_one():
    mechanism = dpgap.NoisyTopK(2, 1)
    error = _error(lambda: mechanism.prepare([SECRET, math.nan], None))
    assert _leaks(error)


@pytest.mark.parametrize("kind", MALFORMED)
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_refusal_of_malformed_answers_holds_none_of_them(entry: str, kind: str):
    error = _error(lambda: ENTRIES[entry](MALFORMED[kind]))
    assert isinstance(error, ValueError | TypeError)
    assert _leaks(error) == []


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_what_goes_wrong_on_the_way_holds_no_answers(entry: str, kind: str):
    error = _error(lambda: ENTRIES[entry]([SECRET, 5, 3], **OPTIONS[kind]))
    assert _leaks(error) == []


def _counted(**options: Any) -> Any:
    sold = pandas.DataFrame({"who": [*range(9), SECRET], "what": ["fig"] * 9 + ["pea"]})
    return dpgap.counts(sold, unit="who", item="what", domain=["fig", "pea"], **options)


REFUSED: dict[str, Callable[[], Any]] = {
    "k too large": lambda: dpgap.NoisyTopK(5, 1).release([SECRET, 3]),
    "all are the top set": lambda: dpgap.JointTopK(2, 1).release([SECRET, 3]),
    "too few labels": lambda: dpgap.NoisyTopK(1, 1).release([SECRET, 3], labels=["fig"]),
    "a hull of what is not monotonic": lambda: dpgap.CountHull(1).release([SECRET, 3]),
    "a most that is none": lambda: dpgap.SparseVector(0, 1, 1).release([SECRET], max_answers=0),
    "no room to measure": lambda: dpgap.measured_top_k([SECRET * 10**9, 3], 1, 1),
    "wrong facts": lambda: dpgap.NoisyTopK(1, 1, sensitivity="0.5").release(_counted()),
    "wrong facts of a stream": lambda: dpgap.SparseVector(0, 1, 1, monotonic=True).release(
        _counted(neighbours="replace")
    ),
    "a column that is not there": lambda: dpgap.counts(
        pandas.DataFrame({"who": [SECRET]}), unit="who", item="what", domain=["fig"]
    ),
    "simulating what is private": lambda: dpgap.simulate(dpgap.NoisyMax(1), _counted()),
    "simulating what is malformed": lambda: dpgap.simulate(dpgap.NoisyMax(1), [SECRET, math.nan]),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refusal_holds_no_answers(kind: str):
    assert _leaks(_error(REFUSED[kind])) == []


@pytest.mark.parametrize("ask", [dpgap.top_k, dpgap.above])
@pytest.mark.parametrize(
    "options",
    [
        {"account": SpyAccount(total=Fraction(0))},
        {"k": 0},
        {"item": "colour"},
        {"domain": []},
        {"method": "worst"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_refusal_to_ask_a_table_holds_none_of_it(ask: Callable[..., Any], options: dict):
    sold = pandas.DataFrame({"who": [*range(9), SECRET], "what": ["fig"] * 9 + ["pea"]})
    stated = {"unit": "who", "item": "what", "domain": ["fig", "pea"], "k": 1, "epsilon": 1}
    stated |= {"threshold": 5} if ask is dpgap.above else {}
    assert _leaks(_error(lambda: ask(sold, **(stated | options)))) == []


def _exhausted() -> Any:
    run = dpgap.SparseVector(0, 1, 1000).start()
    run.ask(10**9)
    return run


def _closed() -> Any:
    run = dpgap.SparseVector(0, 1, 1000).start()
    run.close()
    return run


@pytest.mark.parametrize(
    ("run", "answer", "kind"),
    [
        (_exhausted(), SECRET, dpgap.BudgetExhausted),
        (_closed(), SECRET, RuntimeError),
        (dpgap.SparseVector(0, 1, 1).start(), str(SECRET), TypeError),
        (dpgap.SparseVector(0, 1, 1).start(), [SECRET], TypeError),
        (dpgap.SparseVector(0, 1, 1).start(), SECRET + 0.5, TypeError),
        (dpgap.SparseVector(0, 1, 1).start(), SECRET * 10**12, ValueError),
        (dpgap.SparseVector(0, 1, 1, grid=1).start(), complex(SECRET), TypeError),
    ],
    ids=["exhausted", "closed", "text", "a list", "a float", "out of range", "complex"],
)
def test_a_refusal_to_answer_a_question_does_not_hold_it(run, answer, kind: type[Exception]):
    error = _error(lambda: run.ask(answer))
    assert isinstance(error, kind)
    assert _leaks(error) == []


def test_a_refusal_of_a_threshold_does_not_hold_the_question():
    run = dpgap.SparseVector(0, 1, 1).start()
    error = _error(lambda: run.ask(SECRET, threshold="a line"))
    assert "threshold must" in str(error)
    assert _leaks(error) == []


def test_a_run_that_breaks_does_not_hold_the_question():
    run = dpgap.SparseVector(0, 1, 1).start()
    with bits_are(FailingBits(ZeroDivisionError)):
        assert _leaks(_error(lambda: run.ask(SECRET))) == []


def test_errors_of_the_caller_keep_their_variables():
    def failing() -> None:
        mine = "my own"
        raise LookupError(mine)

    kept = []
    try:
        failing()
    except LookupError as own:
        error = _error(lambda: dpgap.NoisyMax(1).release([SECRET, math.nan]))
        kept = [error.__context__ is own, own.__traceback__.tb_next.tb_frame.f_locals]
    assert kept == [True, {"mine": "my own"}]


def test_what_empties_frames_keeps_names_and_signatures():
    parameters = inspect.signature(dpgap.NoisyTopK.release).parameters
    assert [*parameters] == ["self", "answers", "labels", "account"]
    assert dpgap.SparseVector.release.__qualname__ == "SparseVector.release"
    assert dpgap.measured_top_k.__doc__.startswith("The k largest")

"""Every mechanism states its parameters and releases in one way, which pays before it draws."""

import ast
import inspect
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpgap
from dpgap.exact.bits import InsecureSeededBits, Words
from dpgap.exact.parameters import Rational, altered
from dpgap.mechanisms.mechanism import Mechanism
from dpgap.releases.detail import MechanismUsed
from seams import SpyAccount, WatchedBits, bits_are

SOURCE = Path(dpgap.__file__).parent
MECHANISMS = (
    dpgap.NoisyTopK(1, 1),
    dpgap.NoisyMax(1),
    dpgap.JointTopK(1, 1),
    dpgap.HybridTopK(3, 1, 1),
    dpgap.SparseVector(3, 1, 1),
    dpgap.AdaptiveSparseVector(3, 1, 1),
    dpgap.Laplace(1),
    dpgap.Cube(1),
    dpgap.CountHull(1, monotonic=True),
    dpgap.NoisyHistogram(1),
    dpgap.MeasuredTopK(1, 1),
    dpgap.MeasuredAbove(3, 1, 1),
)


def _callers(name: str) -> Iterator[str]:
    """The modules with a call of a function of `budget/account.py`, once for each call."""
    for path in sorted(SOURCE.rglob("*.py")):
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        taken = (each for each in nodes if isinstance(each, ast.ImportFrom))
        from_account = (each for each in taken if each.module == "dpgap.budget.account")
        is_there = any(alias.name == name for each in from_account for alias in each.names)
        if is_there or path.name == "account.py":
            calls = (each.func for each in nodes if isinstance(each, ast.Call))
            found = sum(getattr(each, "id", None) == name for each in calls)
            yield from [path.relative_to(SOURCE).as_posix()] * found


def test_releases_are_paid_in_two_places() -> None:
    assert [*_callers("pay")] == ["mechanisms/mechanism.py", "pipelines/tables.py"]
    assert [*_callers("reserved")] == ["budget/account.py", "mechanisms/sparse_vector.py"]


def test_no_mechanism_or_pipeline_assembles_itself() -> None:
    for room in ("mechanisms", "pipelines", "data", "releases", "budget"):
        for path in (SOURCE / room).rglob("*.py"):
            assert "object.__setattr__" not in path.read_text(encoding="utf-8"), path


class _FirstSaysNothing(InsecureSeededBits):
    """The first words are 0, so that their draws may be as large as you like."""

    __slots__ = ("asked",)

    def words(self, *shape: int) -> Words:
        words = super().words(*shape).copy()
        if not hasattr(self, "asked"):
            words[...] = 0
        self.asked = True
        return words


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: type(each).__name__)
def test_the_callers_settings_of_numpy_play_no_part_in_a_draw(mechanism: Any) -> None:
    with bits_are(_FirstSaysNothing(1)), np.errstate(all="raise"):
        assert mechanism.release([5, 9, 3, 9]).epsilon == mechanism.epsilon


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: type(each).__name__)
def test_bits_are_asked_for_after_the_charge_and_not_without(mechanism: Any) -> None:
    assert isinstance(mechanism, Mechanism)
    account, poor = SpyAccount(), SpyAccount(total=Fraction(0))
    with bits_are(WatchedBits(lambda: account.diary.append(("bits",)))):
        mechanism.release([1, 9, 2], account=account)
        drawn = [each[0] for each in account.diary]
        assert (drawn[0], drawn[-1], {*drawn[1:-1]}) == ("reserve", "settle", {"bits"})
        with pytest.raises(dpgap.BudgetExhausted):
            mechanism.release([1, 9, 2], account=poor)
    assert len(account.diary) == len(drawn)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: type(each).__name__)
def test_a_parameter_accepts_text_and_says_so(mechanism: Any) -> None:
    accepted = inspect.signature(type(mechanism)).parameters
    assert accepted["epsilon"].annotation == Rational
    positional = [each for each in accepted.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert all(each.default is each.empty for each in positional)
    given = {each.name: 3 for each in positional} | {"epsilon": "2/3"}
    assert type(mechanism)(**given).epsilon == Fraction(2, 3)
    with pytest.raises(ValueError, match="epsilon must be greater than 0"):
        type(mechanism)(**given | {"epsilon": 0})


def test_what_is_remembered_of_a_mechanism_is_not_taken_for_that_of_another() -> None:
    first = dpgap.CountHull(1, monotonic=True)
    assert first.law_in_steps(2) is first.law_in_steps(2)
    assert first.error(2) is first.error(2)
    same, other = dpgap.CountHull(1, monotonic=True), altered(first, epsilon=Fraction(1, 2))
    assert same.law_in_steps(2) == first.law_in_steps(2)
    assert other.law_in_steps(2).scale == 2 * first.law_in_steps(2).scale
    assert first.law_in_steps(3) != first.law_in_steps(2)
    assert MechanismUsed.of(other) != MechanismUsed.of(first) == MechanismUsed.of(same)

"""Runs in progress: what they spend, when they end, and who may go on with them."""

import copy
import math
import os
import pickle
import signal
from fractions import Fraction
from typing import NoReturn

import numpy as np
import pytest
from scipy import stats

import dpgap
from dpgap.budget.account import UnsettledWarning
from dpgap.exact.bits import InsecureSeededBits
from dpgap.mechanisms.sparse_vector import Answer
from law_tests import LEVEL
from seams import FailingBits, SpyAccount, WatchedBits, bits_are


def test_a_run_counts_what_it_spends_and_ends_when_nothing_is_left():
    mechanism = dpgap.AdaptiveSparseVector(0, 2, 1, monotonic=True)
    with mechanism.start() as run:
        assert run.spent == mechanism.threshold_share
        below = run.ask(-(10**6))
        assert (below.above, below.gap, below.branch, below.charge) == (False, None, None, 0)
        assert run.spent == mechanism.threshold_share
        answers = [run.ask(10**6) for _ in range(3)]
        assert all(answer.above and answer.branch == 1 for answer in answers)
        assert run.spent == mechanism.threshold_share + sum(a.charge for a in answers)
        assert run.remaining == mechanism.unit
        assert run.exhausted
        with pytest.raises(dpgap.BudgetExhausted, match="start a new one"):
            run.ask(3)


def test_a_run_cannot_be_copied_or_pickled():
    run = dpgap.SparseVector(0, 1, 1).start()
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            duplicate(run)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_run_refuses_to_be_asked_in_a_forked_child():
    run = dpgap.SparseVector(0, 1, 1).start()
    child = os.fork()
    if child == 0:
        try:
            run.ask(1)
        except RuntimeError as error:
            os._exit(17 if "forked" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17


def test_a_closed_run_stays_closed():
    run = dpgap.SparseVector(0, 1, 1).start()
    run.close()
    with pytest.raises(RuntimeError, match="closed"):
        run.ask(1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_cannot_settle_its_parents_run():
    account = SpyAccount()
    with dpgap.SparseVector(0, 1, 1).start(account=account) as run:
        child = os.fork()
        if child == 0:
            run.close()
            os._exit(len(account.moves) - 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [kind for kind, _ in account.moves] == ["reserve", "settle"]


def test_a_run_interrupted_while_it_keeps_its_books_is_over_and_not_credited(monkeypatch):
    account = SpyAccount()
    run = dpgap.SparseVector(0, 2, 1, monotonic=True).start(account=account)

    def interrupt(self: object, used: int) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dpgap.SparseVector, "live", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run.ask(10**6)
    with pytest.raises(RuntimeError, match="closed"):
        run.ask(1)
    run.close()
    assert account.moves == [("reserve", 1)]


class UnreachableAccount(SpyAccount):
    def settle(self, epsilon: Fraction) -> NoReturn:
        raise OSError("out of reach")


def test_answers_are_handed_out_with_a_warning_when_the_account_fails_at_the_end():
    mechanism = dpgap.SparseVector(0, 2, 1)

    def asked() -> bool:
        with mechanism.start(account=UnreachableAccount()) as run:
            return run.ask(10**6).above

    with pytest.warns(UnsettledWarning, match="all that was reserved for it stays charged"):
        assert asked()
    run = mechanism.start(account=UnreachableAccount())
    with pytest.warns(UnsettledWarning):
        run.close()
    run.close()


@pytest.mark.parametrize("inside", ["ask", "close"])
def test_a_signal_handler_can_neither_ask_nor_close_a_run_that_is_being_asked(inside: str):
    """The answer that was under way is handed out, and the run goes on."""
    account, refused = SpyAccount(), []
    run = dpgap.SparseVector(0, 2, 1).start(account=account)

    def handler(*_: object) -> None:
        try:
            run.ask(5) if inside == "ask" else run.close()
        except RuntimeError as error:
            refused.append(str(error))

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with bits_are(WatchedBits(lambda: os.kill(os.getpid(), signal.SIGUSR1))):
            assert run.ask(10**6).above
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert refused
    assert all("signal handler" in each for each in refused)
    assert run.ask(10**6).above
    run.close()
    assert [kind for kind, _ in account.moves] == ["reserve", "settle"]


def test_an_answer_that_is_more_than_a_number_runs_nothing_of_its_own():
    run = dpgap.SparseVector(0, 2, 1).start()

    class Asking(int):
        def _again(self, *_: object) -> Answer:
            return run.ask(5)

        __int__ = __index__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __neg__ = _again
        __ge__ = __le__ = __gt__ = __lt__ = __floordiv__ = _again

    assert run.ask(Asking(10**6)).above
    assert run.spent == dpgap.SparseVector(0, 2, 1).spent(1)


def test_an_error_in_one_thread_ends_the_run_for_all_of_them():
    account = SpyAccount()
    run = dpgap.SparseVector(0, 2, 1).start(account=account)
    run.__exit__(ValueError, ValueError("one thread's trouble"), None)
    with pytest.raises(RuntimeError, match="closed"):
        run.ask(1)
    run.close()
    assert account.moves == [("reserve", 1)]


def test_an_interrupted_run_does_not_go_on():
    run = dpgap.SparseVector(0, 1, 1).start()
    with bits_are(FailingBits(KeyboardInterrupt)), pytest.raises(KeyboardInterrupt):
        run.ask(1)
    with pytest.raises(RuntimeError, match="closed"):
        run.ask(1)


@pytest.mark.parametrize("grid", [None, "0.25"])
def test_an_answer_above_has_the_p_value_of_its_raw_gap(grid: str | None):
    facts = {"monotonic": True, "noise": "exponential", "grid": grid, "threshold_share": "0.1"}
    mechanism = dpgap.AdaptiveSparseVector(100, 9, 2, branches=3, drain=True, **facts)
    seen = set()
    with mechanism.start() as run:
        assert run.ask(-(10**6)).p_value is None
        while not run.exhausted:
            answer = run.ask(120 + 10 * len(seen))
            if not answer.above:
                continue
            way = mechanism.ways[answer.branch - 1]
            lead = answer.gap - mechanism.gap_offsets[answer.branch - 1] - max(way.margin, 0)
            expected = min(1, math.exp(-lead / float(way.law.scale)))
            assert answer.p_value == pytest.approx(expected)
            assert answer.to_dict()["p_value"] == answer.p_value
            seen.add(answer.branch)
    assert seen


def test_an_answer_has_no_p_value_where_noise_can_be_negative():
    for noise in ("laplace", "staircase"):
        with dpgap.SparseVector(0, 1, 1, noise=noise).start() as run:
            assert run.ask(10**6).p_value is None


def test_answers_that_are_below_in_truth_seldom_have_small_p_values():
    mechanism = dpgap.AdaptiveSparseVector(
        100, 2_000, 400, monotonic=True, noise="exponential", threshold_share="0.0001"
    )
    with bits_are(InsecureSeededBits(5)):
        p_values, shown = _asked_below(mechanism)
    assert p_values.size > 2_000
    assert _are_small(p_values, 0.05) > LEVEL
    assert _are_small(p_values, 0.01) > LEVEL
    assert _are_small(shown, 0.05) < LEVEL


def _are_small(p_values: np.ndarray, limit: float) -> float:
    """The p-value of there being no more of these up to the limit than there may be."""
    hits = int((p_values <= limit).sum())
    return float(stats.binomtest(hits, p_values.size, limit, alternative="greater").pvalue)


def _asked_below(mechanism: dpgap.SparseVector) -> tuple[np.ndarray, np.ndarray]:
    """p-values of answers at the threshold, which are not above it, and those of centred gaps."""
    with mechanism.start() as run:
        answers = []
        while not run.exhausted:
            answers.append(run.ask(100))
    above = [answer for answer in answers if answer.above]
    ways = [mechanism.ways[answer.branch - 1] for answer in above]
    gaps = np.array([answer.gap for answer in above]) - [float(max(way.margin, 0)) for way in ways]
    shown = np.exp(-gaps / [float(way.law.scale) for way in ways])
    return np.array([answer.p_value for answer in above]), shown

"""Runs in progress: what they spend, when they end, and who may go on with them."""

import copy
import os
import pickle

import pytest

import dpgap
from seams import FailingBits, SpyAccount, bits_are


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

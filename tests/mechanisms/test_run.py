"""Runs in progress: what they spend, when they end, and who may go on with them."""

import copy
import gc
import itertools
import math
import os
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import numpy as np
import pytest
from scipy import stats

import dpgap
from dpgap.budget.account import UnsettledWarning
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.reals import GridNoise
from dpgap.mechanisms import sparse_vector
from dpgap.mechanisms.sparse_vector import Answer
from law_tests import LEVEL, sift
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


@pytest.mark.parametrize(("branches", "drain"), [*itertools.product((1, 2, 4), (False, True))])
@pytest.mark.parametrize("at_full_price", [True, False])
def test_as_many_answers_come_as_were_left(branches: int, drain: bool, at_full_price: bool):
    """Without noise an answer at a branch's margin clears that branch, and none before it."""
    for k in (1, 2, 3, 7):
        mechanism = dpgap.AdaptiveSparseVector(0, k, 1, branches=branches, drain=drain)
        with mock.patch.object(GridNoise, "draw", return_value=0), mechanism.start() as run:
            left, used = [], 0
            while not run.exhausted:
                left.append(run.answers_left[0 if at_full_price else 1])
                way = mechanism.every_branch[mechanism.live(used) - 1 if at_full_price else 0]
                assert run.ask(-(10**6)).above is False
                assert run.ask(int(way.margin)).branch == way.number
                used += way.units
            assert left == [*range(len(left), 0, -1)]
            assert run.answers_left == (0, 0)


def test_the_plain_mechanism_has_one_price():
    with dpgap.SparseVector(0, 3, 1).start() as run:
        assert run.answers_left == (3, 3)
        run.ask(10**9)
        assert run.answers_left == (2, 2)
        assert repr(run).endswith(", grid=None): 2 to 2 more answers above>")
    assert run.answers_left == (0, 0)
    assert repr(run).endswith(": no more answers above>")


@contextmanager
def _dropped() -> Iterator[list[str]]:
    """What is said of runs that are dropped in the block."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
        gc.collect()
        said += [str(each.message) for each in caught if each.category is ResourceWarning]


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), np.float32("-inf"), 0.5])
def test_without_a_grid_a_float_is_refused_by_its_type_whatever_it_is(answer: float) -> None:
    with dpgap.SparseVector(0, 1, 1).start() as run:
        before = run.remaining
        with pytest.raises(TypeError, match="pass grid=1"):
            run.ask(answer)
        assert run.remaining == before


def test_a_paid_run_that_is_dropped_warns_and_settles_nothing():
    account = SpyAccount()
    with _dropped() as said:
        run = dpgap.SparseVector(0, 1, 1).start(account=account)
        run.ask(987654)
        del run
    assert len(said) == 1
    assert "its whole ε stays charged" in said[0]
    assert "with mechanism.start(account=account) as run:" in said[0]
    assert "987654" not in said[0]
    assert account.moves == [("reserve", 1)]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_nothing_is_said_of_runs_that_were_closed_or_hold_no_budget():
    mechanism = dpgap.SparseVector(0, 1, 1)
    with _dropped() as said:
        mechanism.start().ask(5)
        mechanism.start(account=SpyAccount()).close()
        with mechanism.start(account=SpyAccount()) as run:
            run.ask(5)
        with suppress(KeyError), mechanism.start(account=SpyAccount()) as run:
            raise KeyError("of the caller")
        with suppress(dpgap.BudgetExhausted):
            mechanism.start(account=SpyAccount(total=Fraction(1, 2)))
        del run
    assert said == []
    run = mechanism.start(account=SpyAccount())
    child = os.fork()
    if child == 0:  # its copy is not the run
        with _dropped() as said:
            del run
        os._exit(len(said))
    run.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_run_that_is_left_when_python_ends_warns_and_raises_nothing():
    program = """
import dpgap
class Account:
    def reserve(self, epsilon, purpose): return self
    def settle(self, epsilon): print("settled")
run = dpgap.SparseVector(0, 1, 1).start(account=Account())
"""
    words = [sys.executable, "-W", "always::ResourceWarning", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "ResourceWarning: a run was never closed" in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.stdout == ""


def test_a_run_that_is_left_warns_before_python_ends_its_warnings():
    program = """
import atexit, warnings
messages = []
warnings.showwarning = lambda message, *_: messages.append(str(message))
atexit.register(lambda: print(*messages))  # it runs after all that is registered later
import dpgap
class Account:
    def reserve(self, epsilon, purpose): return self
run = dpgap.SparseVector(0, 1, 1).start(account=Account())
"""
    words = [sys.executable, "-W", "always::ResourceWarning", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("a run was never closed")


def test_a_run_that_is_dropped_fails_a_users_test_where_warnings_are_errors(tmp_path: Path):
    (tmp_path / "test_dropped.py").write_text(
        """
import dpgap
class Account:
    def reserve(self, epsilon, purpose): return self
    def settle(self, epsilon): pass
def test_dropped(): dpgap.SparseVector(0, 1, 1).start(account=Account()).ask(3)
"""
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "."]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "PytestUnraisableExceptionWarning: Exception ignored in: <function Run." in done.stdout


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
@pytest.mark.parametrize("lines", [None, [8000, "100.5", 400, 90]])
def test_a_ledger_archives_what_a_run_answered_and_the_key_hands_it_out(
    tmp_path: Path, lines: list[Any] | None, noise: str
):
    ledger = dpgap.Ledger(f"sqlite:///{tmp_path}/budget.db")
    account = ledger.create("errors", epsilon=2).of(key="20:00")
    mechanism = dpgap.AdaptiveSparseVector(1000, 5, 1, monotonic=True, noise=noise)
    with mechanism.start(account=account) as run:
        answers = []
        for place, count in enumerate((12, 9041, -3000, 5512)):
            line = {} if lines is None else {"threshold": lines[place]}
            answers.append(run.ask(count, **line))
    above = [answer for answer in answers if answer.above]
    with pytest.raises(dpgap.AlreadyCharged) as before:
        mechanism.start(account=account)
    again = dpgap.read_release(before.value.answered.document)
    assert again.indices.tolist() == [1, 3] == [answers.index(answer) for answer in above]
    assert again.processed == 4
    assert again.gaps.tolist() == [answer.gap for answer in above]
    assert again.branch_of.tolist() == [answer.branch for answer in above]
    assert again.lower_bounds(0.9).tolist() == [run.lower_bound(answer, 0.9) for answer in above]
    stated = None if lines is None else tuple(answer.threshold for answer in above)
    assert again.detail.thresholds == stated
    p_values = [None, None] if again.p_values is None else again.p_values.tolist()
    assert p_values == pytest.approx([answer.p_value for answer in above])
    assert (again.spent, again.epsilon) == (run.spent, 1)
    assert again.made.ledger.entry == before.value.answered.entry
    lines_of_rows = [float(answer.threshold or 1000) for answer in above]
    assert again._columns()["threshold"] == lines_of_rows
    assert str(dpgap.read_release(again.to_json())) == str(again)
    assert ledger.verify() == []


def test_a_run_that_found_nothing_is_archived_and_one_that_failed_is_not(tmp_path: Path):
    budget = dpgap.Ledger(f"sqlite:///{tmp_path}/budget.db").create("errors", epsilon=3)
    mechanism = dpgap.SparseVector(0, 2, 1, noise="exponential")
    with mechanism.start(account=budget):
        pass
    again = dpgap.read_release(budget.document(1))
    assert (again.indices.size, again.processed, again.detail.thresholds) == (0, 0, None)
    assert "Nothing was found above 0." in str(again)
    with mechanism.start(account=budget) as run:
        run.ask(-(10**6), threshold=10**6)
    assert "Nothing was found above the threshold stated" in str(
        dpgap.read_release(budget.document(3))
    )
    with suppress(KeyError), mechanism.start(account=budget) as run:
        run.ask(10**6)
        raise KeyError("of the caller")
    assert len(budget.archive()) == 2
    assert budget.reserved == 1


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


def test_a_question_refuses_a_threshold_that_is_missing():
    limits = {"login": 4000}
    with dpgap.AdaptiveSparseVector(0, 5, 1).start() as run:
        with pytest.raises(TypeError, match=r"threshold must be a number .* not NoneType"):
            run.ask(2000, threshold=limits.get("logn"))
        assert run.ask(2000, threshold=-(10**6)).threshold == -(10**6)
        assert run.ask(10**6).threshold is None


def test_an_answer_of_another_mechanism_has_no_bound_here():
    loose = dpgap.AdaptiveSparseVector(1000, 5, "1/100")
    with loose.start() as run, loose.start() as same:
        answer = run.ask(10**6)
        for other in (replace(loose, threshold=5000), replace(loose, epsilon=10)):
            with other.start() as else_where, pytest.raises(ValueError, match="of this run"):
                else_where.lower_bound(answer)
        assert same.lower_bound(answer) == run.lower_bound(answer) < 10**6
    assert "made_by" not in repr(answer) + str(answer.to_dict())


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


def test_threads_that_ask_together_are_answered_one_after_another():
    account = SpyAccount()

    def asked(_: int) -> bool:
        with suppress(dpgap.BudgetExhausted):
            return run.ask(10**6).above
        return False

    with dpgap.SparseVector(0, 20, 1).start(account=account) as run, ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(asked, range(400))) == 20
    assert account.moves == [("reserve", 1), ("settle", 1)]


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


# Questions with a threshold of their own.


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
@pytest.mark.parametrize(
    ("grid", "stated", "own"), [(None, "99.5", 40), (None, 7, "-2/3"), ("0.25", "1/3", 100.1)]
)
def test_a_question_with_its_own_threshold_is_one_to_a_mechanism_with_that_threshold(
    grid: str | None, stated: Any, own: Any, noise: str
):
    def asked(line: Any, **said: Any) -> list[tuple[Answer, float | None]]:
        mechanism = dpgap.AdaptiveSparseVector(line, 9, 2, noise=noise, grid=grid)
        with bits_are(InsecureSeededBits(8)), mechanism.start() as run:
            told = [run.ask(answer, **said) for answer in (-99, 95, 104, 150, 130, 160)]
            return [(each, run.lower_bound(each) if each.above else None) for each in told]

    line = Fraction(str(own))
    assert {answer.threshold for answer, _ in asked(own)} == {None}
    same = [(replace(answer, threshold=line), bound) for answer, bound in asked(own)]
    assert asked(stated, threshold=own) == same
    assert {answer.above for answer, _ in same} == {True, False}
    assert same[-1][0].to_dict()["threshold"] == str(line)
    assert f"threshold={line!r}" in repr(same[0][0])


class _TabledNoise:
    """Noise that was drawn before: the threshold's, and a row for each branch."""

    def __init__(self, threshold: int, noise: np.ndarray) -> None:
        self._draws = iter([threshold, *noise.T.ravel().tolist()])

    def freshen(self) -> None:
        pass

    def draw(self, law: object) -> int:
        return next(self._draws)


def test_a_run_with_a_threshold_a_question_says_what_the_kernel_says_on_the_same_noise():
    mechanism = dpgap.SparseVector(5, 20, 40, noise="exponential")
    program = mechanism.in_steps()
    rng = np.random.default_rng(4)
    answers, lines = rng.integers(0, 100, (2, 200))
    sifted = sift(program, answers - lines + 5, 1, InsecureSeededBits(11))
    bits = InsecureSeededBits(11)
    threshold = int(program.threshold_law.floors(bits, 1)[0])
    noise = program.every_branch[0].law.floors(bits, 1, 200)
    tabled = _TabledNoise(threshold, noise)
    with (
        mock.patch.object(sparse_vector, "GridNoise", return_value=tabled),
        mechanism.start() as run,
    ):
        said = []
        while not run.exhausted:
            said.append(run.ask(int(answers[len(said)]), threshold=int(lines[len(said)])))
    assert [at for at, each in enumerate(said) if each.above] == sifted.indices.tolist()
    gaps = [each.gap for each in said if each.above]
    assert gaps == (sifted.gaps + mechanism.gap_offsets[0]).tolist()
    assert len(said) == sifted.processed[0] < 200


@pytest.mark.parametrize("bad", ["five", math.nan, True, 2**61, [5]])
def test_a_threshold_is_refused_before_the_answer_is_looked_at(bad: Any):
    run = dpgap.SparseVector(0, 1, 1).start()
    with pytest.raises((ValueError, TypeError), match="threshold must"):
        run.ask("no number", threshold=bad)
    assert run.ask(-(10**9), threshold=2**60).above is False


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
            way = mechanism.every_branch[answer.branch - 1]
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
    ways = [mechanism.every_branch[answer.branch - 1] for answer in above]
    gaps = np.array([answer.gap for answer in above]) - [float(max(way.margin, 0)) for way in ways]
    shown = np.exp(-gaps / [float(way.law.scale) for way in ways])
    return np.array([answer.p_value for answer in above]), shown

"""Proofs for every n: all that ships is there, two provers agree, and faults are found."""

from dataclasses import replace
from fractions import Fraction

import pytest
import z3
from sound_streams import Above

import dpgap
from dpgap.exact.laws import NOISES
from dpgap.exact.parameters import altered
from dpgap.proof import BadProgram, LaplaceNoise, Violation, prove_every, replay
from dpgap.proof.cases import EVERY, cases
from dpgap.proof.checker import provers, recording
from dpgap.proof.every import few_answers
from dpgap.proof.every.few_answers import prove_measurement
from dpgap.proof.every.folds import require_fold, require_loop
from dpgap.proof.every.streams import prove_known_stream, require_numbers
from dpgap.proof.every.theorems import shipped_for_every_n
from dpgap.proof.mutants import catalogue
from seams import quick_in

SHIPPED = list(shipped_for_every_n())
LISTED = {entry.name: entry for entry in catalogue()}
KINDS = ("general", "rising", "falling")


def test_every_mechanism_noise_and_kind_of_neighbours_is_there():
    streams = {
        (name, f"{noise}, {kind}")
        for name in ("SparseVector", "AdaptiveSparseVector", "NoisyTopK", "NoisyMax")
        for noise in NOISES
        for kind in KINDS
    }
    sets = {("JointTopK", f"exponential, {kind}") for kind in KINDS}
    values = {("Laplace", "general"), ("Cube", "general")}
    values |= {("CountHull", "rising"), ("CountHull", "falling"), ("NoisyHistogram", "every reach")}
    lined = {("HybridTopK", f"exponential, {kind}") for kind in KINDS}
    assert {(each.name, each.variant) for each in SHIPPED} == streams | sets | values | lined


def _is_quick(each):
    """Of a noise that is not Laplace's, rising and falling neighbours are for `make long`."""
    noise, _, neighbours = each.variant.partition(", ")
    return noise not in NOISES or noise == "laplace" or neighbours == "general"


@pytest.mark.parametrize(
    "each",
    quick_in(SHIPPED, [each for each in SHIPPED if _is_quick(each)]),
    ids=lambda each: f"{each.name}, {each.variant}",
)
def test_what_ships_is_proved_for_every_n_and_both_provers_close_all_of_it(each):
    proof = each.judge()
    assert proof.verdict == "PROVED", proof.reason
    assert proof.closed_by == ("cvc5", "z3")


LISTED_FOR_EVERY_N = [case for case in cases() if case.n == EVERY and case.kind != "shipped"]


def test_every_mutant_is_judged_for_every_n_and_all_but_two_of_what_must_be_accepted():
    judged = {case.name for case in LISTED_FOR_EVERY_N}
    few = {f"{kind} top-k with laplace noise" for kind in ("joint", "hybrid")}
    assert LISTED.keys() - judged == few


@pytest.mark.parametrize("case", LISTED_FOR_EVERY_N, ids=lambda case: case.name)
def test_mutants_are_refuted_with_numbers_to_replay_and_the_rest_is_proved(case):
    proof = case.judge()
    if case.kind == "accept":
        assert proof.verdict == "PROVED", proof.reason
        return
    assert proof.verdict == "REFUTED"
    with pytest.raises(Violation):
        LISTED[case.name].replay(proof.counterexample)


def _theorem(*failures, given=()):
    x = z3.Real("x")
    labelled = [(f"claim {i}", failure(x)) for i, failure in enumerate(failures)]
    return recording.theorem("a small one", [hypothesis(x) for hypothesis in given], labelled)


def test_nothing_follows_from_a_contradiction():
    sound = _theorem(lambda x: x < 0, given=[lambda x: x > 1])
    assert provers.close(sound).closed_by == ("z3", "cvc5")
    empty = _theorem(lambda x: x < 0, given=[lambda x: x > 1, lambda x: x < 0])
    with pytest.raises(Violation, match="not closed"):
        provers.close(empty)


PROVED_BY_FEW = {
    (each.name, each.variant): each
    for each in SHIPPED
    if each.variant in ("general", "laplace, general", "every reach", "exponential, general")
}


@pytest.mark.parametrize("each", PROVED_BY_FEW.values(), ids=lambda each: each.name)
def test_hypotheses_that_contradict_each_other_prove_nothing(each, monkeypatch):
    from dpgap.proof.checker.recording import Recording

    def nowhere(self, name, low, high):
        number = self.unknown(name)
        self.confine(number, 1, -1)
        return number

    monkeypatch.setattr(Recording, "between", nowhere)
    try:
        proof = each.judge()
    except BadProgram:  # a question that has no answer
        return
    assert (proof.verdict, proof.condition) == ("REFUTED", "provers")


def test_a_claim_that_can_fail_is_not_closed():
    with pytest.raises(Violation, match="z3: contradicted, cvc5: contradicted"):
        provers.close(_theorem(lambda x: x < 2, given=[lambda x: x > 1]))


@pytest.mark.parametrize(
    ("other", "closed"),
    [(["sat", "unknown"], True), (["sat", "sat"], False), (["unsat", "unsat"], False)],
)
def test_one_prover_is_enough_unless_the_other_contradicts(other, closed, monkeypatch):
    sound = _theorem(lambda x: x < 0, given=[lambda x: x > 1])
    both = {"z3": provers.ask_z3, "other": lambda text: other}
    monkeypatch.setattr(provers, "PROVERS", both)
    if closed:
        assert provers.close(sound).closed_by == ("z3",)
        return
    with pytest.raises(Violation, match="other: contradicted"):
        provers.close(sound)


def test_a_path_that_was_left_out_is_noticed(monkeypatch):
    from dpgap.proof.checker.recording import Recording

    def forgetful(self):
        found = path_condition(self)
        self._covered = self._covered[:1]
        return found

    path_condition = Recording._path_condition
    monkeypatch.setattr(Recording, "_path_condition", forgetful)
    (found,) = prove_known_stream(dpgap.SparseVector(0, 2, 1), "general")
    assert found.labels[-1] == "another path"
    with pytest.raises(Violation, match="contradicted"):
        provers.close(found)


class Counting(dpgap.SparseVector):
    """Does something else from the hundredth answer on."""

    __slots__ = ()

    def run(self, answers, noise):
        threshold = self.threshold + noise.draw(self.threshold_law)
        used = 0
        for number, answer in enumerate(answers):
            outcome, used = self.step(used, answer, threshold, noise)
            yield outcome if number < 100 else answer
            if not self.live(used):
                return


class FreshThreshold(dpgap.SparseVector):
    """Draws the threshold again for every answer."""

    __slots__ = ()

    def run(self, answers, noise):
        used = 0
        for answer in answers:
            threshold = self.threshold + noise.draw(self.threshold_law)
            outcome, used = self.step(used, answer, threshold, noise)
            yield outcome
            if not self.live(used):
                return


class NeverStops(dpgap.SparseVector):
    """Goes on when nothing is left."""

    __slots__ = ()

    def run(self, answers, noise):
        threshold = self.threshold + noise.draw(self.threshold_law)
        used = 0
        for answer in answers:
            outcome, used = self.step(used, answer, threshold, noise)
            yield outcome


class ShiftsFirstOnly(dpgap.SparseVector):
    """Makes up for the first answer alone."""

    __slots__ = ()

    def align(self, answers, neighbour, noise, output):
        yield (rise := self.rise(sum(answers), sum(neighbour)))
        used = 0
        for before, after, outcome in zip(answers, neighbour, output, strict=False):
            shifts, used = self.align_step(used, rise + before - after, outcome)
            yield from shifts
            rise = 0


@pytest.mark.parametrize("kind", [Counting, FreshThreshold, NeverStops, ShiftsFirstOnly])
def test_a_stream_that_is_more_than_its_steps_is_refused(kind):
    require_fold(dpgap.SparseVector(0, 2, 1))
    with pytest.raises(Violation) as found:
        require_fold(kind(0, 2, 1))
    assert found.value.condition == "fold"


def test_a_step_that_treats_late_branches_otherwise_is_refused():
    class Tired(dpgap.AdaptiveSparseVector):
        __slots__ = ()

        def step(self, used, answer, threshold, noise):
            missed = 0
            for branch in self.every_branch[: self.live(used)]:
                gap = answer + noise.draw(branch.law) - threshold
                if gap >= branch.margin + (missed > 5):
                    return (branch.number, gap), used + branch.units
                missed += 1  # noqa: SIM113
            return (None, None), used

    class Drifts(dpgap.AdaptiveSparseVector):
        __slots__ = ()

        def step(self, used, answer, threshold, noise):
            for branch in self.every_branch[: self.live(used)]:
                gap = answer + noise.draw(branch.law) - threshold
                if gap >= branch.margin:
                    return (branch.number, gap), used + branch.units
                answer, threshold = answer + 1, threshold + 1
            return (None, None), used

    require_loop(dpgap.AdaptiveSparseVector(0, 2, 1))
    with pytest.raises(Violation, match="must begin with its loop"):
        require_loop(Tired(0, 2, 1))
    with pytest.raises(Violation, match="does not do the same"):
        require_loop(Drifts(0, 2, 1))


def test_a_budget_that_does_not_add_up_is_refused():
    sound = dpgap.AdaptiveSparseVector(0, 2, 1, branches=3)
    require_numbers(sound)
    for wrong in (
        altered(sound, limits=tuple(limit + 1 for limit in sound.limits)),
        altered(sound, epsilon=Fraction(9, 10)),
        altered(sound, every_branch=sound.every_branch[::-1]),
        altered(
            sound,
            every_branch=tuple(
                branch._replace(law=_less(branch.law)) for branch in sound.every_branch
            ),
        ),
        altered(sound, threshold_law=_less(sound.threshold_law)),
    ):
        with pytest.raises(Violation) as found:
            require_numbers(wrong)
        assert found.value.condition == "budget"


def _less(law):
    return replace(law, scale=law.scale * Fraction(9, 10))


def test_a_ranking_that_looks_at_how_many_there_are_is_refused():
    class ShyOfCrowds(dpgap.NoisyTopK):
        __slots__ = ()

        def run(self, answers, noise):
            winners, leads = dpgap.NoisyTopK.run(self, answers, noise)
            return winners, leads if len(answers) < 5 else (0,) * len(leads)

    with pytest.raises(Violation) as found:
        few_answers.require_restriction(ShyOfCrowds(2, 1))
    assert found.value.condition == "restriction"


def test_a_measurement_whose_noise_is_for_one_value_is_refused():
    class ForOne(dpgap.Laplace):
        __slots__ = ()

        @staticmethod
        def noise(scale, count):
            return LaplaceNoise(scale)

    with pytest.raises(Violation, match="does not fit the number of values"):
        prove_measurement(lambda epsilon=1, **more: ForOne(epsilon, **more), "general")


def test_a_stream_of_ones_own_is_proved_for_every_n():
    proof = prove_every(Above())
    assert proof.verdict == "PROVED"
    assert str(proof).startswith("PROVED for every n: 1 theorem, all closed by cvc5 and z3")


def test_a_stream_of_ones_own_that_pays_too_little_is_refuted_and_says_what_to_try():
    class Cheap(Above):
        law = LaplaceNoise(Fraction(4))

    proof = prove_every(Cheap())
    assert (proof.verdict, proof.condition) == ("REFUTED", "cost")
    assert "What is refuted is the alignment." in str(proof)
    assert "more noise" in str(proof)
    with pytest.raises(Violation):
        replay(Cheap(), proof.counterexample)


def test_what_is_not_written_as_a_step_is_refused_by_name():
    with pytest.raises(TypeError, match="you passed the class: write NoisyMax"):
        prove_every(dpgap.NoisyMax)
    with pytest.raises(TypeError, match="mechanism must have a method 'step'"):
        prove_every(dpgap.NoisyMax(1))

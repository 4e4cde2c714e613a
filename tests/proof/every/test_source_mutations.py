"""One thing changed in the source of what ships: a proof fails, or it is known why none does.

Each comparison, sign, constant and index, one at a time. What breaks ε makes a proof fail. What
only changes what is found, and not what is given away, is caught by tests of the law or the kernel.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from source_mutations import mutations

from dpgap.mechanisms import sparse_vector as sparse_vectors
from dpgap.mechanisms import top_k as top_ks
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Laplace, Measurement
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.proof.every.streams import require_numbers
from dpgap.proof.every.theorems import shipped_for_every_n
from seams import quick_in

KERNEL = "tests/mechanisms/test_sparse_vector.py"
SAYS = f"{KERNEL}::test_the_kernel_says_what_the_program_says"
SPENDS = f"{KERNEL}::test_no_transcript_overspends_and_all_of_epsilon_can_be_spent"

# It finds something else, and gives no more away: the test that fails.
CHOOSES = "tests/mechanisms/test_joint_kernel.py::test_the_kernel_chooses_what_the_program_chooses"
ONE, LAST = "branch.units", "branches[-1].units"
OTHER_LAW = {
    "JointTopK.half_margin: min → max": CHOOSES,
    "JointTopK.half_margin: max → min": CHOOSES,
    "SparseVector.step: gap >= branch.margin → gap > branch.margin": SAYS,
    "SparseVector.live: used <= limit → used < limit": SAYS,
    f"limits_of: {ONE} if drain else {LAST} → {LAST} if drain else {ONE}": SPENDS,
}
LENGTHS = "as many values on both sides, so a strict zip is like any other"
# Nothing that can be observed changes.
SAME = {
    "SparseVector.rise: after <= before → after < before": (
        "where nothing moves, to raise the threshold by Δ or not at all are both alignments"
    ),
    "NoisyTopK.rise: after <= before → after < before": (
        "where nothing moves, all may fall behind by Δ or by nothing: both are alignments"
    ),
    "_settled: fall > rise → fall >= rise": "they are equal with probability zero",
    "NoisyTopK.falls: True → False": LENGTHS,
    "extremes_undone: True → False": LENGTHS,
    "_distances: True → False": LENGTHS,
    "JointTopK._over_sets: True → False": LENGTHS,
    "NoisyHistogram.align: True → False": LENGTHS,
    "Measurement.align: True → False": LENGTHS,
    "CountHull.align: True → False": LENGTHS,
    "CountHull.align: True → False, the 2. time": LENGTHS,
}

TARGETS = [
    *((SparseVector, each) for each in ("run", "step", "align", "rise", "align_step", "live")),
    *((NoisyTopK, each) for each in ("run", "align", "unalign", "falls", "rise")),
    *(
        (top_ks, each)
        for each in ("extremes", "extremes_undone", "_distances", "_settled", "shift_of")
    ),
    *((Measurement, each) for each in ("run", "align")),
    *((CountHull, each) for each in ("run", "align", "noise")),
    *((JointTopK, each) for each in ("run", "half_margin", "align", "unalign", "_over_sets")),
    (Laplace, "noise"),
    *((NoisyHistogram, each) for each in ("run", "align")),
    *((HybridTopK, each) for each in ("run", "align", "unalign", "cost_of")),
    *((sparse_vectors, each) for each in ("threshold_law_of", "branches_of", "limits_of")),
]


def _prove_for_every_n(*names: str) -> None:
    """Raise something unless these are proved, for every n."""
    for each in shipped_for_every_n():
        slow = each.variant.startswith(("staircase", "geometric"))  # they have laplace's shifts
        if each.name in names and not slow:
            theorems, _ = each.judge.args
            assert theorems()


def _require_laws() -> None:
    for branches in (1, 2, 3):
        for more in (
            {},
            {"grid": "1/4", "sensitivity": "4/3"},
            {"epsilon": "7/3"},
            {"epsilon": "1/2"},
        ):
            given = {"epsilon": 1, "drain": branches == 3, "monotonic": branches == 2, **more}
            mechanism = AdaptiveSparseVector(0, 3, branches=branches, **given)
            require_numbers(mechanism.in_steps())


PROOFS: dict[object, Callable[[], None]] = {
    SparseVector: partial(_prove_for_every_n, "AdaptiveSparseVector"),
    NoisyTopK: partial(_prove_for_every_n, "NoisyTopK"),
    top_ks: partial(_prove_for_every_n, "NoisyTopK"),
    Measurement: partial(_prove_for_every_n, "Laplace", "Cube"),
    CountHull: partial(_prove_for_every_n, "CountHull"),
    Laplace: partial(_prove_for_every_n, "Laplace"),
    JointTopK: partial(_prove_for_every_n, "JointTopK"),
    NoisyHistogram: partial(_prove_for_every_n, "NoisyHistogram"),
    HybridTopK: partial(_prove_for_every_n, "HybridTopK"),
    sparse_vectors: _require_laws,
}


def _named(mutation):
    return re.sub(r"^dpgap\.mechanisms\.\w+\.", "", mutation.name)


def test_there_are_many_mutations_and_all_that_are_excused_exist():
    names = [_named(each) for owner, method in TARGETS for each in mutations(owner, method)]
    assert len(names) == 174
    assert {*OTHER_LAW, *SAME} <= {*names}


@pytest.mark.parametrize("part", quick_in(range(4), {0}))
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target[0].__name__}.{target[1]}")
def test_a_mutation_makes_a_proof_fail_or_is_excused(target, part):
    """Every fourth mutation here, and the others in `make long`."""
    survivors, some = set(), list(mutations(*target))[part::4]
    for mutation in some:
        with mutation.applied():
            try:
                PROOFS[target[0]]()
            except Exception:  # a violation, a failed assertion, or a program that fails
                continue
        survivors.add(_named(mutation))
    assert survivors == {_named(each) for each in some} & {*OTHER_LAW, *SAME}


@pytest.mark.parametrize(
    "owner",
    quick_in(PROOFS, {JointTopK, HybridTopK, sparse_vectors}),  # the others: test_every.py
    ids=lambda owner: owner.__name__,
)
def test_without_a_mutation_no_proof_fails(owner):
    """A proof that fails raises."""
    assert PROOFS[owner]() is None


@pytest.mark.parametrize("where", sorted(set(OTHER_LAW.values())))
def test_the_tests_of_laws_and_kernels_that_are_named_exist(where):
    path, name = where.split("::")
    text = (Path(__file__).parents[3] / path).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", text, re.MULTILINE)

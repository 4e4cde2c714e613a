"""Proofs and audits that run on the code of a mechanism: is it private?

- `prove` runs a mechanism and its alignment on unknown numbers, on every path, and returns a
  proof for all answers, neighbours and noise, or a counterexample. It needs `dpgap[proof]`.
- `prove_every` does it for every number of answers, for a stream that is written as one step.
- `check` does the same at one point, in exact fractions. `search` does it at many points from
  Hypothesis.
- `audit` needs no alignment, only a function: it searches for an event with different
  probabilities on neighbours, and computes a lower bound on ε from samples.

Guides are in docs/prove-your-own.md and docs/audit-others.md.

`checker` judges alignments, `every` does so for every number of answers, `auditing` takes samples,
`mutants` has mechanisms that must be refuted. `cases` lists everything there is to prove and to
audit; `audit` audits any function; `addresses` finds the user's own by name.
`mutants` may import `auditing` and `every`, and these `checker`; none the other way. All may import
`mechanisms` and what is below.
"""

from dpgap.exact.laws import ExponentialNoise, GeometricNoise, LaplaceNoise, StaircaseNoise
from dpgap.proof.audit import AuditResult, audit
from dpgap.proof.checker.numbers import BadProgram, Violation
from dpgap.proof.checker.points import check
from dpgap.proof.checker.proving import (
    Counterexample,
    Proof,
    prove,
    replay,
    search,
)
from dpgap.proof.every.stepwise import Stepwise, prove_every

__all__ = [
    "AuditResult",
    "BadProgram",
    "Counterexample",
    "ExponentialNoise",
    "GeometricNoise",
    "LaplaceNoise",
    "Proof",
    "StaircaseNoise",
    "Stepwise",
    "Violation",
    "audit",
    "check",
    "prove",
    "prove_every",
    "replay",
    "search",
]

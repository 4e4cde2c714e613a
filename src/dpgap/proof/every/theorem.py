"""A theorem: hypotheses, and claims that follow from them. Two provers judge it.

It is written as SMT-LIB. The first question is whether the hypotheses can hold at all: from a
contradiction anything would follow. Every other question is whether a claim can fail.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dpgap.proof.checker.numbers import Violation
from dpgap.proof.every.provers import PROVERS

CLOSED, OPEN, CONTRADICTED = "closed", "open", "contradicted"


@dataclass(frozen=True, slots=True)
class Theorem:
    """A theorem as text; `labels` name its claims, in order."""

    name: str
    labels: tuple[str, ...]
    text: str

    @property
    def file_name(self) -> str:
        """The theorem's name, as a file may be called."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.casefold()).strip("-") + ".smt2"

    def judged_by(self, ask: Any) -> str:
        """What a prover makes of it."""
        said = _said(ask, self.text)
        wanted = ["sat", *["unsat"] * len(self.labels)]
        if said == wanted:
            return CLOSED
        if len(said) != len(wanted):
            return OPEN
        pairs = zip(said, wanted, strict=True)
        return CONTRADICTED if any({*pair} == {"sat", "unsat"} for pair in pairs) else OPEN


@lru_cache(maxsize=1024)
def _said(ask: Callable[[str], list[str]], text: str) -> list[str]:
    """What a prover says, asked once: several mechanisms rest on the same lemmas."""
    return ask(text)


def theorem(name: str, hypotheses: Iterable[Any], failures: Sequence[tuple[str, Any]]) -> Theorem:
    """The theorem that none of the failures, z3 terms with a label each, can happen."""
    import z3  # takes its time to load

    given = list(hypotheses)
    constants = _constants([*given, *(term for _, term in failures)])
    lines = [f"; {name}", "; cvc5 needs --incremental", "(set-logic ALL)"]
    lines += [f"(declare-fun {each.sexpr()} () {each.sort().sexpr()})" for each in constants]
    lines += [f"(assert {term.sexpr()})" for term in given]
    lines += ["; the hypotheses can hold: sat", "(check-sat)"]
    for label, term in failures:
        lines += [f"; {label}: unsat", "(push 1)", f"(assert {z3.simplify(term).sexpr()})"]
        lines += ["(check-sat)", "(pop 1)"]
    return Theorem(name, tuple(label for label, _ in failures), "\n".join(lines) + "\n")


def _constants(terms: Sequence[Any]) -> list[Any]:
    """Every unknown in the terms, once, by name."""
    import z3

    found: dict[str, Any] = {}
    seen: set[int] = set()
    waiting = list(terms)
    while waiting:
        term = waiting.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        if z3.is_const(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            found[term.sexpr()] = term
        waiting += term.children()
    return [found[name] for name in sorted(found)]


@dataclass(frozen=True, slots=True)
class Closing:
    """Which provers closed a theorem; all must be asked, and none may contradict it."""

    theorem: Theorem
    verdicts: Mapping[str, str]

    @property
    def closed_by(self) -> tuple[str, ...]:
        """The provers that closed it."""
        return tuple(name for name, verdict in self.verdicts.items() if verdict == CLOSED)


def close(each: Theorem) -> Closing:
    """Ask every prover; a theorem that none closes, or that one contradicts, is a violation."""
    closing = Closing(each, {name: each.judged_by(ask) for name, ask in PROVERS.items()})
    if CONTRADICTED in closing.verdicts.values() or not closing.closed_by:
        said = ", ".join(f"{name}: {verdict}" for name, verdict in closing.verdicts.items())
        raise Violation("provers", f"{each.name}: not closed ({said})")
    return closing

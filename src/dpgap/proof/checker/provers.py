"""Theorems and their provers: hypotheses, and claims that z3 and cvc5 judge.

A theorem is written as SMT-LIB. The first question is whether the hypotheses can hold: a
contradiction would prove every claim. Every other question is whether a claim can fail. Each prover
reads the same text, and answers each question with "sat", "unsat" or "unknown".
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from dpgap.proof.checker.numbers import (
    Violation,
)

if TYPE_CHECKING:
    pass


_SECONDS_FOR_A_QUESTION = 30


@lru_cache(maxsize=1024)  # several mechanisms rest on the same lemmas
def ask_z3(text: str) -> list[str]:
    """The answers of z3."""
    import z3  # takes its time to load

    context = z3.Context()
    limit = f"(set-option :timeout {_SECONDS_FOR_A_QUESTION * 1000})\n"
    return str(z3.Z3_eval_smtlib2_string(context.ref(), limit + text)).split()


@lru_cache(maxsize=1024)
def ask_cvc5(text: str) -> list[str]:
    """The answers of cvc5."""
    import cvc5  # takes its time to load

    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("incremental", "true")
    solver.setOption("tlimit-per", str(_SECONDS_FOR_A_QUESTION * 1000))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "theorem")
    names = parser.getSymbolManager()
    verdicts = ""
    while not (command := parser.nextCommand()).isNull():
        verdicts += command.invoke(solver, names)
    return verdicts.split()


PROVERS: Mapping[str, Callable[[str], list[str]]] = {"z3": ask_z3, "cvc5": ask_cvc5}
CLOSED = "closed"
OPEN = "open"
CONTRADICTED = "contradicted"


@dataclass(frozen=True, slots=True)
class Theorem:
    """A theorem as text; `labels` name its claims, in order."""

    name: str
    labels: tuple[str, ...]
    text: str

    @property
    def file_name(self) -> str:
        """A file name made from the theorem's name."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.casefold()).strip("-") + ".smt2"

    def judged_by(self, ask: Any) -> str:
        """The verdict of one prover."""
        verdicts = ask(self.text)
        expected = ["sat"] + ["unsat"] * len(self.labels)
        if verdicts == expected:
            return CLOSED
        if len(verdicts) == len(expected):
            for verdict, expected_verdict in zip(verdicts, expected, strict=True):
                if verdict != expected_verdict and verdict in ("sat", "unsat"):
                    return CONTRADICTED
        return OPEN


class Closing(NamedTuple):
    """A theorem, and the provers that closed it; all were asked, and none contradicts it."""

    theorem: Theorem
    closed_by: tuple[str, ...]


def close(theorem: Theorem) -> Closing:
    """Ask every prover; a theorem that none closes, or that one contradicts, is a violation."""
    verdicts = {name: theorem.judged_by(ask) for name, ask in PROVERS.items()}
    closed_by = tuple(name for name, verdict in verdicts.items() if verdict == CLOSED)
    if CONTRADICTED in verdicts.values() or not closed_by:
        text = ", ".join(f"{name}: {verdict}" for name, verdict in verdicts.items())
        raise Violation("provers", f"{theorem.name}: not closed ({text})")
    return Closing(theorem, closed_by)

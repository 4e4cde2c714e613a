"""A theorem: hypotheses, and claims that follow from them. Two provers judge it.

It is written as SMT-LIB. The first question is whether the hypotheses can hold at all: from a
contradiction anything would follow. Every other question is whether a claim can fail.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpgap.proof.checker.alignment import Functions, Trial, trial
from dpgap.proof.checker.numbers import Exact, Violation
from dpgap.proof.checker.proving import DIRECTIONS

if TYPE_CHECKING:
    from dpgap.proof.every.recording import Recording

# --------------------------------------------------------------------------------------------------
# Two provers that read the same text: z3 and cvc5.
#
# A text in SMT-LIB asks several times whether something is possible. Each prover answers with
# "sat", "unsat" or "unknown".


SECONDS = 5
"""What a prover may take for one question."""


def ask_z3(text: str) -> list[str]:
    """What z3 says."""
    import z3  # takes its time to load

    context = z3.Context()
    limit = f"(set-option :timeout {SECONDS * 1000})\n"
    return str(z3.Z3_eval_smtlib2_string(context.ref(), limit + text)).split()


def ask_cvc5(text: str) -> list[str]:
    """What cvc5 says."""
    import cvc5  # takes its time to load

    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("incremental", "true")
    solver.setOption("tlimit-per", str(SECONDS * 1000))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "theorem")
    names = parser.getSymbolManager()
    said = ""
    while not (command := parser.nextCommand()).isNull():
        said += command.invoke(solver, names)
    return said.split()


PROVERS: Mapping[str, Callable[[str], list[str]]] = {"z3": ask_z3, "cvc5": ask_cvc5}


# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------
# A whole program on the few answers that can show a violation, as a theorem.
#
# `run`, `align` and `run` again, as the checker does it (`checker.alignment`), and written down.


def recording(epsilon: Exact | None, *, ties: bool) -> "Recording":
    """A judge that writes down what it is asked; without ε, costs are shown elsewhere."""
    from dpgap.proof.every.recording import Recording  # z3 takes its time to load

    return Recording(epsilon, ties=ties)


def prove_few(
    name: str,
    program: Any,
    n: int,
    kind: str,
    allowed: Exact | None,
    settled: Callable[[Trial], bool],
    *,
    ties: bool = False,
) -> Theorem:
    """The program on n answers costs at most what is allowed; raises the first violation.

    `settled` says whether the shifts of a path depend on noise in an order that holds for every n.
    """
    judge = recording(allowed, ties=ties)
    answers = [judge.unknown(f"q{i}") for i in range(n)]
    moves = [judge.between(f"d{i}", *DIRECTIONS[kind]) for i in range(n)]
    neighbour = [answer + move for answer, move in zip(answers, moves, strict=True)]

    laws: list[Any] = []
    functions = Functions()

    def on_path() -> None:
        made = trial(program, answers, neighbour, judge)
        functions.add(made)
        laws.extend(made.draws.laws if not laws else [])
        uneven = Violation("draws", "how many draws are taken must not depend on noise")
        judge.require(laws == made.draws.laws, uneven)
        cyclic = Violation("acyclic", "shifts depend on noise in a way that may be cyclic")
        judge.require(settled(made), cyclic)

    return judge.proved(f"{name}, {kind}", on_path)

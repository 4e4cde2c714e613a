"""A whole program on the few answers that can show a violation, as a theorem.

`run`, `align` and `run` again, as the checker does it (`checker.alignment`), and written down.
"""

from collections.abc import Callable
from typing import Any

from dpgap.proof.checker.alignment import Trial, trial
from dpgap.proof.checker.numbers import Exact, Violation
from dpgap.proof.checker.proving import DIRECTIONS
from dpgap.proof.every.theorem import Theorem


def prove_few(
    name: str,
    program: Any,
    n: int,
    kind: str,
    allowed: Exact | None,
    settled: Callable[[Trial], bool],
    *,
    ties: bool = False,
    paid: Callable[[Trial, Any], None] | None = None,
) -> Theorem:
    """The program on n answers costs at most what is allowed; raises the first violation.

    `program` may be a function that makes one from unknowns. `settled` says whether the shifts of a
    path depend on noise in an order that holds for every n. `paid` asks what each draw costs.
    """
    from dpgap.proof.every.recording import Recording  # z3 takes its time to load

    judge = Recording(allowed, ties=ties)
    answers = [judge.unknown(f"q{i}") for i in range(n)]
    moves = [judge.between(f"d{i}", *DIRECTIONS[kind]) for i in range(n)]
    neighbour = [answer + move for answer, move in zip(answers, moves, strict=True)]

    made_from = program if hasattr(program, "run") else program(judge.unknown)
    laws: list[Any] = []

    def on_path() -> None:
        made = trial(made_from, answers, neighbour, judge)
        laws.extend(made.draws.laws if not laws else [])
        uneven = Violation("draws", "how many draws are taken must not depend on noise")
        judge.require(laws == made.draws.laws, uneven)
        cyclic = Violation("acyclic", "shifts depend on noise in a way that may be cyclic")
        judge.require(settled(made), cyclic)
        if paid is not None:
            paid(made, judge)

    judge.explore(on_path)
    return judge.theorem(f"{name}, {kind}")

"""Two provers that read the same text: z3 and cvc5.

A text in SMT-LIB asks several times whether something is possible. Each prover answers with "sat",
"unsat" or "unknown".
"""

from collections.abc import Callable, Mapping

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

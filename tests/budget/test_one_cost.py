"""Privacy is added, split and compared in `budget/cost.py` alone: the source is searched for more.

Numbers of privacy have a few names everywhere: ε, ρ, δ, and what is spent, reserved or left. This
test finds arithmetic and comparisons of order with them. A scale of noise (a sensitivity over ε) is
no such arithmetic. Whole costs may be added with + and −, which `Cost` defines.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpgap

SOURCE = Path(dpgap.__file__).parent
NUMBERS = {"epsilon", "pure_epsilon", "epsilons", "rho", "delta", "spent", "remaining", "reserved"}
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
OF_SEVERAL = ("sum", "min", "max", "sorted")
CONVERSIONS = ("float", "Fraction", "int")

EXCEPTIONS = {
    "budget/cost.py": "the place",
    "exact/parameters.py": "`factor` says in words how large e^ε is",
    "question.py": "`weak_promises` warns of a large ε or δ before anything is charged",
    "proof/": "proofs and audits state their theorems independently, and on symbols",
}


def _is_number(node: ast.expr) -> bool:
    """Whether an expression is a number of privacy, by its name."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        is_converted = node.func.id in CONVERSIONS and len(node.args) == 1
        return is_converted and _is_number(node.args[0])
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.Name):
        return node.id in NUMBERS
    return isinstance(node, ast.Attribute) and node.attr in NUMBERS


def _is_accounting(node: ast.AST) -> bool:
    """Whether a node adds, splits or compares numbers of privacy."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC):
        is_scale = isinstance(node.op, ast.Div) and not _is_number(node.left)
        return not is_scale and (_is_number(node.left) or _is_number(node.right))
    if isinstance(node, ast.AugAssign):
        is_scale = isinstance(node.op, ast.Div) and not _is_number(node.target)
        return not is_scale and (_is_number(node.target) or _is_number(node.value))
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        is_order = any(isinstance(operator, ORDER) for operator in node.ops)
        return is_order and any(map(_is_number, sides))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in OF_SEVERAL and any(map(_has_numbers, node.args))
    return False


def _has_numbers(argument: ast.expr) -> bool:
    """Whether an argument of `sum` or its like is a number of privacy, or makes several."""
    if isinstance(argument, ast.GeneratorExp | ast.ListComp):
        return _is_number(argument.elt)
    return _is_number(argument)


def _accounting(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if _is_accounting(node):
            yield ast.unparse(node)


def _files() -> dict[str, Path]:
    return {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}


def test_privacy_is_added_split_and_compared_in_one_file() -> None:
    found = []
    for name, path in _files().items():
        if not name.startswith(tuple(EXCEPTIONS)):
            found += [f"{name}: {code}" for code in _accounting(path.read_text(encoding="utf-8"))]
    assert found == [], "use Cost, Limit, split or equal_part of dpgap.budget.cost"


@pytest.mark.parametrize("exception", EXCEPTIONS)
def test_every_exception_is_needed(exception: str) -> None:
    excepted = [path for name, path in _files().items() if name.startswith(exception)]
    assert any(list(_accounting(path.read_text(encoding="utf-8"))) for path in excepted)


@pytest.mark.parametrize(
    "code",
    [
        "self.epsilon / self.max_groups",
        "question.epsilon - selection.epsilon",
        "sum(each.spent for each in releases)",
        "sum((part.epsilon for part in parts), Fraction(0))",
        "max(Fraction(0), left.epsilon)",
        "share * self.epsilon",
        "(1 - split) * question.epsilon",
        "used.rho <= limit",
        "0 < request.delta",
        "float(run.spent) / 2",
        "epsilon += charge",
        "self.pure_epsilon ** 2 / 2",
    ],
)
def test_the_search_finds_accounting(code: str) -> None:
    assert list(_accounting(code)) != []


@pytest.mark.parametrize(
    "code",
    [
        "self.sensitivity / self.epsilon",
        "self.used + self.held",
        "total.covers(cost)",
        "asked.epsilon == most.epsilon",
        "max(histogram.line_for(question.delta), line)",
        "split(self.epsilon, share)",
    ],
)
def test_the_search_leaves_scales_costs_and_equality_alone(code: str) -> None:
    assert list(_accounting(code)) == []

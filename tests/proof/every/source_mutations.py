"""Every condition, sign, constant and index of a function, changed one at a time in its source."""

import ast
import copy
import inspect
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

_COMPARISONS = {
    ast.LtE: (ast.Lt, ast.GtE),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_ENDS = {"min": "max", "max": "min", "all": "any", "any": "all"}


class Mutation(NamedTuple):
    """A function with one thing changed."""

    owner: Any
    method: str
    what: str
    source: str

    @property
    def name(self) -> str:
        """Where it is, and what was changed."""
        return f"{self.owner.__name__}.{self.method}: {self.what}"

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The shipped class with this function in place of its own."""
        original = inspect.getattr_static(self.owner, self.method)
        function = getattr(original, "__func__", original)
        made: dict[str, Any] = {}
        exec(compile(self.source, f"<{self.name}>", "exec"), function.__globals__, made)
        mutant = made[self.method]
        setattr(self.owner, self.method, mutant)
        try:
            yield
        finally:
            setattr(self.owner, self.method, original)


def mutations(owner: Any, method: str) -> Iterator[Mutation]:
    """All mutations of one method."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(owner, method))))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.returns = None
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    if ast.get_docstring(function) is not None:
        del function.body[0]
    places = list(ast.walk(function))
    seen: Counter[str] = Counter()
    for place, node in enumerate(places):
        for number, what in enumerate(_changes(node)):
            changed = copy.deepcopy(tree)
            twin = list(ast.walk(changed.body[0]))[place]
            _change(twin, number)
            change = f"{ast.unparse(node).splitlines()[0]} → {what}"
            seen[change] += 1
            shown = change if seen[change] == 1 else f"{change}, the {seen[change]}. time"
            yield Mutation(owner, method, shown, ast.unparse(changed))


def _changes(node: ast.AST) -> list[str]:
    """What can be changed at a node, as it looks afterwards."""
    shown = []
    for number in range(4):
        twin = copy.deepcopy(node)
        if not _change(twin, number):
            break
        shown.append(ast.unparse(twin).splitlines()[0])
    return shown


def _change(node: Any, number: int) -> bool:
    """Change the node in place in the way of this number, if there is one."""
    if isinstance(node, ast.Compare):
        ways = _COMPARISONS.get(type(node.ops[0]), ())
        if number < len(ways):
            node.ops = [ways[number]()]
            return True
    elif isinstance(node, ast.BinOp | ast.AugAssign) and not number:
        if type(node.op) in _SIGNS:
            node.op = _SIGNS[type(node.op)]()
            return True
    elif isinstance(node, ast.UnaryOp) and not number and isinstance(node.op, ast.Not):
        node.operand = ast.UnaryOp(ast.Not(), node.operand)
        return True
    elif isinstance(node, ast.Constant) and type(node.value) is int and number < 2:
        node.value += (1, -1)[number]
        return True
    elif isinstance(node, ast.Constant) and type(node.value) is bool and not number:
        node.value = not node.value
        return True
    elif isinstance(node, ast.Slice) and node.upper is not None and number < 2:
        node.upper = ast.BinOp(node.upper, (ast.Add, ast.Sub)[number](), ast.Constant(1))
        return True
    elif isinstance(node, ast.Name) and node.id in _ENDS and not number:
        node.id = _ENDS[node.id]
        return True
    elif isinstance(node, ast.IfExp) and not number:
        node.body, node.orelse = node.orelse, node.body
        return True
    elif isinstance(node, ast.If) and not number and not _is_negated_elsewhere(node.test):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return True
    elif isinstance(node, ast.BoolOp) and not number:
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return True
    return False


def _is_negated_elsewhere(condition: ast.expr) -> bool:
    """Whether a change of the condition itself is its negation."""
    if isinstance(condition, ast.UnaryOp):
        return isinstance(condition.op, ast.Not)
    pairs = (ast.In, ast.NotIn, ast.Is, ast.IsNot)
    return isinstance(condition, ast.Compare) and isinstance(condition.ops[0], pairs)

"""How code reads: no room becomes denser than it is.

Five habits make a reader read a line twice: a tuple assignment of two thoughts, a comprehension in
a comprehension, a conditional expression in another one, text times a truth value, and names that
could be the names of anything. `_MOST` has the figures that a room may have: habits per thousand
statements, and vague names per thousand names that are bound.

A room that became plainer keeps this: lower its line of `_MOST`.
`python tests/test_plain_code.py` prints the table with the figures of now, and never raises one.
"""

import ast
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "dpgap"

VAGUE = set(
    "it own each told held said made found kept asked given shown so one few way more most every "
    "known taken left drawn stated wanted whole rest both place thing things seen chosen why what "
    "such least some now then here there out who which words reads tells says".split()
)
"""Names that could be the names of anything: a noun of the domain says more."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SLACK = 1.1
"""A figure that is noted for the first time may grow by this factor."""


class Density(NamedTuple):
    """How often each habit occurs: per thousand statements, and per thousand bound names."""

    packed: float
    """Tuple assignments whose right side has a thought for each name."""
    nested: float
    """Comprehensions with another one inside, or with two loops."""
    chained: float
    """Conditional expressions in conditional expressions."""
    times: float
    """Text times something."""
    vague: float
    """Names of `VAGUE`, per thousand names that are bound."""


_MOST: dict[str, Density] = {
    "budget": Density(packed=0.0, nested=0.0, chained=0.0, times=0.0, vague=7.2),
    "cli": Density(packed=0.9, nested=0.0, chained=0.0, times=0.0, vague=8.2),
    "data": Density(packed=0.0, nested=0.0, chained=0.0, times=0.0, vague=43.1),
    "desk": Density(packed=0.5, nested=0.9, chained=0.0, times=0.5, vague=42.1),
    "estimates": Density(packed=0.0, nested=0.0, chained=0.0, times=0.0, vague=0.0),
    "exact": Density(packed=0.0, nested=0.0, chained=0.0, times=0.0, vague=5.9),
    "interop": Density(packed=0.0, nested=0.0, chained=0.0, times=0.0, vague=220.1),
    "mechanisms": Density(packed=40.1, nested=1.4, chained=0.0, times=0.0, vague=107.4),
    "outside": Density(packed=3.7, nested=0.0, chained=0.0, times=1.3, vague=27.7),
    "pipelines": Density(packed=0.0, nested=0.0, chained=0.0, times=0.0, vague=0.0),
    "proof": Density(packed=0.0, nested=0.0, chained=0.0, times=0.0, vague=0.0),
    "releases": Density(packed=22.8, nested=8.6, chained=1.8, times=0.0, vague=137.5),
    "research": Density(packed=0.0, nested=0.0, chained=0.0, times=0.0, vague=0.0),
    "simulation": Density(packed=0.0, nested=0.0, chained=0.0, times=0.0, vague=1.9),
}


def density_of(sources: list[str]) -> Density:
    """The figures of all these sources together."""
    count: Counter[str] = Counter()
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            count.update(_habits(node))
            name = _bound_name(node)
            if name is not None:
                count["names"] += 1
                count["vague"] += name in VAGUE
    statements = max(count["statements"], 1)
    return Density(
        packed=1000 * count["packed"] / statements,
        nested=1000 * count["nested"] / statements,
        chained=1000 * count["chained"] / statements,
        times=1000 * count["times"] / statements,
        vague=1000 * count["vague"] / max(count["names"], 1),
    )


def _habits(node: ast.AST) -> Iterator[str]:
    """The habits of a node itself, and whether it is a statement."""
    if isinstance(node, ast.stmt) and not _is_text_alone(node):
        yield "statements"
    if isinstance(node, ast.Assign) and _is_packed(node):
        yield "packed"
    if isinstance(node, COMPREHENSIONS) and _is_nested(node):
        yield "nested"
    if isinstance(node, ast.IfExp):
        for part in ast.walk(node):
            if part is not node and isinstance(part, ast.IfExp):
                yield "chained"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = (node.left, node.right)
        if any(map(_is_text, sides)):
            yield "times"


def _is_text_alone(node: ast.stmt) -> bool:
    """Whether a statement is only a text: a docstring."""
    return isinstance(node, ast.Expr) and _is_text(node.value)


def _is_packed(node: ast.Assign) -> bool:
    """Whether an assignment gives values to several names at once; a swap does not count."""
    if not any(isinstance(target, ast.Tuple) for target in node.targets):
        return False
    if isinstance(node.value, ast.GeneratorExp | ast.ListComp):
        return True
    return isinstance(node.value, ast.Tuple) and not _is_swap(node)


def _is_swap(node: ast.Assign) -> bool:
    """Whether the same names stand on both sides."""
    targets = {ast.unparse(part) for part in ast.iter_child_nodes(node.targets[0])}
    values = {ast.unparse(part) for part in ast.iter_child_nodes(node.value)}
    return targets == values


def _is_nested(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> bool:
    """Whether a comprehension has two loops, or another comprehension inside."""
    if len(node.generators) > 1:
        return True
    return any(isinstance(part, COMPREHENSIONS) for part in ast.walk(node) if part is not node)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        return True
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _bound_name(node: ast.AST) -> str | None:
    """The name that a node binds, without underscores before it; None if it binds none."""
    name = None
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        name = node.id
    elif isinstance(node, ast.arg):
        name = node.arg
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        name = node.attr
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        name = node.name.lower()
    if name is None or name in ("self", "cls"):
        return None
    return name.lstrip("_") or None


def _rooms() -> dict[str, list[str]]:
    """The sources of each room; files outside all rooms are one more."""
    rooms: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        room = parts[0] if len(parts) > 1 else "outside"
        rooms.setdefault(room, []).append(path.read_text(encoding="utf-8"))
    return rooms


ROOMS = _rooms()


def test_every_room_has_a_line() -> None:
    assert list(_MOST) == sorted(ROOMS)


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_no_room_becomes_denser(room: str) -> None:
    density = density_of(ROOMS[room])
    limits = _MOST[room]._asdict()
    denser = {
        habit: f"{figure:.1f} and at most {limits[habit]}"
        for habit, figure in density._asdict().items()
        if figure > limits[habit]
    }
    assert not denser, (
        f"{room} reads worse than it did: unpack what was added. Where a room became plainer, "
        "`python tests/test_plain_code.py` prints the table with its lower figures"
    )


@pytest.mark.parametrize(
    ("source", "habit"),
    [
        ("low, high = ends[0], ends[1]", "packed"),
        ("low, high = (end + 1 for end in ends)", "packed"),
        ("names = [name for part in parts for name in part]", "nested"),
        ("rows = [[cell for cell in row] for row in table]", "nested"),
        ("size = 1 if small else 2 if medium else 3", "chained"),
        ("text = f'({name})' * has_name", "times"),
        ("found = 1", "vague"),
        ("def _told(): ...", "vague"),
        ("def read(what): ...", "vague"),
        ("release.made = 1", "vague"),
    ],
)
def test_a_dense_line_is_found(source: str, habit: str) -> None:
    figures = density_of([source])._asdict()
    assert [name for name, figure in figures.items() if figure] == [habit]


@pytest.mark.parametrize(
    "source",
    [
        "low, high = ends",
        "low, high = high, low",
        "names = [name for name in parts if name]",
        "size = 1 if small else 2",
        "width = 2 * size",
        "answer = match.found",
    ],
)
def test_a_plain_line_is_not(source: str) -> None:
    assert density_of([source]) == Density(0, 0, 0, 0, 0)


def _lowered(room: str) -> Density:
    """The line of a room: its figures of now, unless its line is lower already."""
    density = density_of(ROOMS[room])
    limits = _MOST.get(room)
    if limits is None:
        return Density(*(_rounded_up(_SLACK * figure) for figure in density))
    return Density(*map(min, map(_rounded_up, density), limits))


def _rounded_up(figure: float) -> float:
    return math.ceil(10 * figure) / 10


if __name__ == "__main__":
    print("_MOST: dict[str, Density] = {")
    for name in sorted(ROOMS):
        figures = ", ".join(map("{}={}".format, Density._fields, _lowered(name)))
        print(f'    "{name}": Density({figures}),')
    print("}")

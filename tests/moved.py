"""Show that code only moved: `python tests/moved.py BEFORE [AFTER]` compares two revisions.

Without AFTER it is this tree that is compared.

All functions, classes and other statements at the top of modules are compared, without imports and
docstrings, as one multiset. `tests/moved.toml` says what went where: which old file became which
new one (`files`), what of a file went elsewhere (`parts`), and which names changed (`names`). New
names are followed into whatever imports them. An entry of the table that nothing uses is refused,
so the table says what happened and no more.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = "src/dpgap"

Tree = Mapping[str, str]
"""Files and their texts; files are named from the package on, as in `exact/bits.py`."""


def main() -> int:
    """Compare, and print what is not the same."""
    before, *after = sys.argv[1:]
    table = tomllib.loads((ROOT / "tests" / "moved.toml").read_text(encoding="utf-8"))
    found = differences(_tree_of(before), _tree_of(*after) if after else _tree_here(), table)
    print(*found, sep="\n")
    print(f"{len(found)} differences from {before}")
    return 1 if found else 0


def differences(before: Tree, after: Tree, table: Mapping[str, Any]) -> list[str]:
    """What is not the same in both trees once everything has moved as the table says."""
    moves = Moves(before, table)
    old = Counter(each for file in before for each in moves.statements(file))
    new = Counter((file, dump) for file, text in after.items() for dump in _statements(text))
    lost = [f"gone from {file}: {dump[:160]}" for file, dump in (old - new).elements()]
    added = [f"new in {file}: {dump[:160]}" for file, dump in (new - old).elements()]
    return [*lost, *added, *(f"the table says what nothing uses: {each}" for each in moves.unused)]


class Moves:
    """What went where."""

    def __init__(self, before: Tree, table: Mapping[str, Any]) -> None:
        self._before = before
        self._files: dict[str, str] = table.get("files", {})
        self._names: dict[str, dict[str, str]] = table.get("names", {})
        self._parts: dict[str, dict[str, str]] = table.get("parts", {})
        self._modules = {_module(old): _module(new) for old, new in self._files.items()}
        self._renamed = {_module(file): names for file, names in self._names.items()}
        self.unused = {file for file in self._files if file not in before}
        for entries in (self._names, self._parts):
            self.unused |= {f"{file}: {name}" for file, names in entries.items() for name in names}

    def statements(self, file: str) -> Iterator[tuple[str, str]]:
        """The statements of an old file as expected found now, with the file that has them."""
        tree = ast.parse(self._before[file])
        names, parts = self._names.get(file, {}), self._parts.get(file, {})
        renamed = _Renamed({**self._imported(tree), **names}, self._attributes(tree), self._modules)
        for node in tree.body:
            bound = _bound(node)
            self.unused -= {f"{file}: {name}" for name in bound & (names.keys() | parts.keys())}
            part = next((parts[name] for name in bound & parts.keys()), None)
            for dump in _statements(ast.Module([node], []), renamed):
                yield part or self._files.get(file, file), dump

    def _imported(self, tree: ast.Module) -> dict[str, str]:
        """Names that change since what a file imports is called otherwise now."""
        found = {}
        for module, name in _imports(tree):
            now = self._modules.get(f"{module}.{name}")
            new = now.rpartition(".")[2] if now else self._renamed.get(module, {}).get(name, name)
            if new != name:
                found[name] = new
        return found

    def _attributes(self, tree: ast.Module) -> dict[tuple[str, str], str]:
        """The same for names that are taken from an imported module: `module.name`."""
        return {
            (name, old): new
            for module, name in _imports(tree)
            for old, new in self._renamed.get(f"{module}.{name}", {}).items()
        }


class _Renamed(ast.NodeTransformer):
    """A statement under its new names."""

    def __init__(
        self, names: dict[str, str], attributes: dict[tuple[str, str], str], modules: dict[str, str]
    ) -> None:
        self._names, self._attributes, self._modules = names, attributes, modules

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name):
            node.attr = self._attributes.get((node.value.id, node.attr), node.attr)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A text may name a module, or be an annotation."""
        if isinstance(node.value, str):
            text = re.sub(r"dpgap(\.\w+)+", self._moved, node.value)
            pattern = "|".join(map(re.escape, self._names))
            if pattern and re.fullmatch(r"[\w\[\], |.]+", text):
                text = re.sub(rf"\b({pattern})\b", lambda found: self._names[found[0]], text)
            node.value = text
        return node

    def _moved(self, found: re.Match[str]) -> str:
        path, rest = found[0], ""
        while path and path not in self._modules:
            path, _, last = path.rpartition(".")
            rest = f".{last}{rest}" if path else rest
        return self._modules[path] + rest if path else found[0]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._names.get(node.name, node.name)
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._names.get(node.name, node.name)
        return self.generic_visit(node)


class _Bare(ast.NodeTransformer):
    """A statement without imports and docstrings."""

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)


def _statements(tree: ast.Module | str, renamed: _Renamed | None = None) -> Iterator[str]:
    """What stands at the top of a module, each statement as a text."""
    tree = ast.parse(tree) if isinstance(tree, str) else tree
    for node in tree.body:
        bare = _Bare().visit(node)
        if bare is None or (isinstance(bare, ast.If) and not bare.body):  # it had imports alone
            continue
        yield ast.dump(bare if renamed is None else renamed.visit(bare))


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The modules and names that a file imports from dpgap under their own names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpgap"):
            yield from ((str(node.module), each.name) for each in node.names if not each.asname)


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement gives a meaning to."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    names = {each.id for each in targets if isinstance(each, ast.Name)}
    return names | {str(node.name)} if hasattr(node, "name") else names


def _module(file: str) -> str:
    return "dpgap." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _tree_here() -> Tree:
    folder = ROOT / PACKAGE
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*.py")
    }


def _tree_of(revision: str) -> Tree:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True)
        return done.stdout.decode()

    files = git("ls-tree", "-r", "--name-only", revision, PACKAGE).splitlines()
    return {
        file.removeprefix(f"{PACKAGE}/"): git("show", f"{revision}:{file}")
        for file in files
        if file.endswith(".py")
    }


if __name__ == "__main__":
    sys.exit(main())

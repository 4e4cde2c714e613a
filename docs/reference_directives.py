"""Two directives for the reference: public names from their docstrings, and the commands.

`public-names` takes a module, and names of it or none: then all that the module lists. `commands`
walks the command line's own objects. So neither can lag behind the code.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import typer.main
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import OptionSpec

import dpgap
from dpgap.cli.main import app


class PublicNames(SphinxDirective):
    """The documentation of some names of a module, or of all that it lists.

    `:members:` says which members of classes users call; with `:own:` not where they are inherited.
    """

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[OptionSpec] = {
        "members": directives.unchanged_required,
        "own": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Let autodoc write each of them."""
        module = self.arguments[0]
        names = " ".join(self.content).split() or importlib.import_module(module).__all__
        lines = [line for name in names for line in self._asked(module, name)]
        return self.parse_text_to_nodes("\n".join(["```{eval-rst}", *lines, "```"]))

    def _asked(self, module: str, name: str) -> Iterator[str]:
        thing = getattr(importlib.import_module(module), name)
        if inspect.ismodule(thing) or (thing.__module__ == "dpgap" != module):
            return  # it is listed where it is at home
        kind = "autoclass" if inspect.isclass(thing) else "autofunction"
        if inspect.isclass(thing) and issubclass(thing, BaseException):
            kind = "autoexception"
        yield f".. {kind}:: {module}.{name}"
        if kind == "autoclass":
            known = vars(thing) if "own" in self.options else dir(thing)
            members = [each for each in self.options.get("members", "").split() if each in known]
            if members:
                yield f"   :members: {', '.join(members)}"
        yield ""


class Commands(SphinxDirective):
    """Every command with its help, its arguments and its options."""

    def run(self) -> list[nodes.Node]:
        """One section for each command."""
        group = typer.main.get_command(app)
        return [self._section(command, path) for command, path in _commands(group, ("dpgap",))]

    def _section(self, listed: Any, path: tuple[str, ...]) -> nodes.section:
        name = " ".join(path)
        section = nodes.section(ids=[nodes.make_id(name)], names=[name.lower()])
        section += nodes.title(text=name)
        with listed.make_context(name, [], resilient_parsing=True) as context:
            command = context.command  # one that is loaded when it is called has options only here
            for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
                section += nodes.paragraph(text=" ".join(paragraph.split()))
            usage = " ".join([name, *command.collect_usage_pieces(context)])
            section += nodes.literal_block(text=usage, language="text")
            section += _options(command, context)
        self.state.document.note_explicit_target(section)
        return section


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """All commands below this one that do something, in the order of the help."""
    if not hasattr(command, "commands"):
        yield command, path
        return
    with command.context_class(command) as context:
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if not inner.hidden:
                yield from _commands(inner, (*path, name))


def _options(command: Any, context: Any) -> nodes.definition_list:
    """Each option as the help shows it."""
    listed = nodes.definition_list()
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        written, said = record
        item = nodes.definition_list_item()
        item += nodes.term("", "", nodes.literal(text=" ".join(written.split())))
        item += nodes.definition("", nodes.paragraph(text=" ".join(said.split())))
        listed += item
    return listed


def _shorten(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    """No signature where users never call it: of releases and other things that are returned."""
    if what == "class" and not name.startswith(CALLED):
        return "", ""
    return None


def _head_parameters(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Names and what they mean are a list already; their heading must not be a section."""
    if "Parameters" not in lines:
        return
    head = lines.index("Parameters")
    lines[head : head + 2] = [".. rubric:: Parameters", ""]
    for place in range(head + 2, len(lines) - 1):
        if re.match(r"\w", lines[place]) and lines[place + 1].startswith("    "):
            lines[place] = ", ".join(f"`{word}`" for word in lines[place].split(", "))


CALLED = (*(f"dpgap.{name}" for name in dpgap.__all__), "dpgap.proof.")


def _list_the_rest(app: Sphinx, page: str, text: list[str]) -> None:
    """Leave out of the first page what is not there, and list at its end what it leaves out."""
    if page != app.config.root_doc:
        return
    pages = sorted(path.stem for path in (app.srcdir / "docs").glob("*.md"))
    listed = set(re.findall(r"^.* <([\w-]+)>$", text[0], re.MULTILINE))
    for name in listed.difference(pages):
        text[0] = re.sub(rf"^.* <{name}>\n", "", text[0], flags=re.MULTILINE)
    rest = [name for name in pages if name not in listed and name != "index"]
    if rest:
        text[0] += "\n".join(["", "```{toctree}", ":hidden:", ":caption: More", *rest, "```", ""])


def _write_front_door(app: Sphinx, failure: Exception | None) -> None:
    """A page at the top of the site that leads to the first one."""
    door = '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>dpgap</title>'
    door += '<meta http-equiv="refresh" content="0; url=docs/index.html">'
    door += '<p><a href="docs/index.html">dpgap</a></p></html>\n'
    if failure is None:
        (app.outdir / "index.html").write_text(door, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx of both."""
    app.add_directive("public-names", PublicNames)
    app.add_directive("commands", Commands)
    app.connect("autodoc-process-docstring", _head_parameters)
    app.connect("autodoc-process-signature", _shorten)
    app.connect("source-read", _list_the_rest)
    app.connect("build-finished", _write_front_door)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

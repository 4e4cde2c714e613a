"""Every case of the record, by name: what it does, and the parts of what comes out.

A case is called in an empty folder of its own, in a fixed world (`seams.fixed_world`), and returns
its parts: text, or what JSON can hold. It asks through public names and through what other tests
use, so that modules can move.

Left out, as it is not the same each time or says nothing that other cases do not say:

- `dpgap audit` and `dpgap reproduce` but for their help: samples of many processes, and minutes.
- OpenDP's measurements, and ledgers on PostgreSQL: tests of their own compare them with these.
- The kernel's integers at the desk: its documents, which are built of them, are recorded.
- How long proofs take, and which counterexamples they show.
- Hashes in a ledger that has releases: a document's hash has all digits of its floats, which may
  differ in the last one on another machine. Ledgers without releases are recorded with hashes.
"""

import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import typer
from typer.testing import CliRunner

import dpgap
import every_kind
from faces import faces
from releases_to_show import session
from seams import MOMENT, SpyArchive, app, builds_kept, fixed_world
from servers import connection_to, postgres_server, spark_session
from twins.questions import QUESTIONS
from twins.readers import READERS

TESTS = Path(__file__).parents[1]
HOSTILE = "<script>alert(1)</script>"
Parts = dict[str, Any]


class Case(NamedTuple):
    """How to make the parts of a case, and whether `make test` does."""

    make: Callable[[], Parts]
    quick: bool = True
    needs: str = ""
    """A program without which the case is left out."""


# Releases


def released(ask: Callable[[], Any]) -> Parts:
    """All that is seen of a release; its integers are what left the kernel."""
    with builds_kept() as built:
        release = ask()
    return {"integers": [_whole(arguments) for _, arguments in built], **_faces(release)}


def _faces(release: Any) -> Parts:
    shown = faces(release)
    pages = {name: shown.pop(name) for name in ("in a notebook", "page")}
    rows = {name: shown.pop(name) for name in ("csv", "frame")}
    documents = {name: shown.pop(name) for name in ("dictionary", "document")}
    return {"document": documents, "rows": rows, "page": pages, "words": shown | _named(release)}


def _named(value: Any) -> Parts:
    """What a value says of itself, and what can be asked of it."""
    names = [name for name in dir(value) if not name.startswith("_")]
    return {"str": str(value), "repr": repr(value), "names": names}


def _whole(drawn: Any) -> Any:
    """Whole numbers and names, in order, whatever the values are called that hold them."""
    if isinstance(drawn, np.ndarray):
        return drawn.tolist()
    if isinstance(drawn, tuple | list):
        return [_whole(each) for each in drawn]
    if is_dataclass(drawn):
        return [_whole(getattr(drawn, each.name)) for each in fields(drawn)]
    return drawn if isinstance(drawn, int | str | None) else repr(drawn)


def _laws() -> Iterable[tuple[str, Callable[[], Any]]]:
    """Every mechanism that takes noise, with every noise; half of them with other facts."""
    mechanisms: dict[str, Callable[..., Any]] = {
        "NoisyTopK": lambda **said: dpgap.NoisyTopK(3, 1, **said),
        "NoisyMax": lambda **said: dpgap.NoisyMax("1/3", **said),
        "SparseVector": lambda **said: dpgap.SparseVector(1_000, 2, 1, **said),
        "AdaptiveSparseVector": lambda **said: dpgap.AdaptiveSparseVector(1_000, 2, 1, **said),
    }
    for name, made in mechanisms.items():
        for noise in ("laplace", "exponential", "staircase"):
            for said in ({}, {"sensitivity": 2, "monotonic": True}):
                more = "".join(f", {key}" for key in said)
                ask = partial(made, noise=noise, **said)
                yield (
                    f"{name}, {noise}{more}",
                    lambda ask=ask: ask().release(every_kind.ANSWERS, labels=every_kind.NAMES),
                )


def _streamed(mechanism: Any) -> Parts:
    account = SpyArchive()
    with mechanism.start(account=account) as run:
        said = [run.ask(answer) for answer in (3, 5_000, 103, 990, 90_000, 1_200)]
        parts = [(repr(each), each.to_dict(), run.lower_bound(each)) for each in said if each.above]
    return {"words": [*map(repr, said), parts, _named(run)], "account": account.diary}


def _session() -> Parts:
    """A session of six kinds of questions: each release, and the page of all."""
    session.cache_clear()
    made = session()
    session.cache_clear()
    documents = [each.to_json() for each in made.releases]
    return {"document": documents, "page": made.to_html(), "words": _named(made)}


# Plans and simulations


_PLANS: dict[str, dict[str, Any]] = {
    "epsilon": {"k": 10, "epsilon": 1},
    "error": {"k": 3, "error": 12},
    "above": {"k": 5, "epsilon": "1/2", "select": "above", "adaptive": True},
    "paper": {"k": 5, "epsilon": 1, "method": "paper", "split": "1/3", "monotonic": True},
    "counts": {"k": 4, "epsilon": 1, "counts": {1: 9000, 10: 2000, 100: 300}, "items": 500},
    "max items": {"k": 4, "epsilon": 1, "max_items": 2},
}
_SIMULATED: dict[str, Callable[[], Any]] = {
    "NoisyTopK": lambda: dpgap.NoisyTopK(3, 1, noise="laplace"),
    "NoisyMax": lambda: dpgap.NoisyMax(1, noise="staircase"),
    "JointTopK": lambda: dpgap.JointTopK(3, 1),
    "HybridTopK": lambda: dpgap.HybridTopK(1_000, 3, 1),
    "SparseVector": lambda: dpgap.SparseVector(1_000, 2, 1, noise="laplace"),
    "AdaptiveSparseVector": lambda: dpgap.AdaptiveSparseVector(1_000, 2, 1, noise="laplace"),
    "NoisyHistogram": lambda: dpgap.NoisyHistogram(1, reach=2),
    "Laplace": lambda: dpgap.Laplace(1),
    "CountHull": lambda: dpgap.CountHull(1, monotonic=True),
    "Cube": lambda: dpgap.Cube(1),
    "MeasuredTopK": lambda: dpgap.MeasuredTopK(3, 2),
    "MeasuredAbove": lambda: dpgap.MeasuredAbove(1_000, 3, 2),
}


def _planned(asked: dict[str, Any]) -> Parts:
    plan = dpgap.plan(**asked)
    return {"words": {**_named(plan), "page": plan._repr_html_(), "guarantee": plan.guarantee}}


def _simulated(made: Callable[[], Any]) -> Parts:
    found = dpgap.simulate(made(), every_kind.ANSWERS, runs=40, seed=7)
    names = [name for name in dir(found) if not name.startswith("_")]
    values = {name: getattr(found, name) for name in names}
    arrays = {name: each for name, each in values.items() if isinstance(each, np.ndarray)}
    numbers = {name: (str(each.dtype), each.tolist()) for name, each in arrays.items()}
    return {"numbers": numbers, "words": _named(found)}


# Tables, through every reader


def _read(reader: str, question: str) -> Parts:
    asked, account = QUESTIONS[question], SpyArchive()
    home = READERS[reader](Path.cwd(), _server(reader))
    twins = home.twins(Random(f"{reader} {question}"), asked.domains, bool(asked.options))
    stated = home.load(twins, twins.rows)
    if asked.of_table:
        parts = released(lambda: asked.ask(stated, account))
    else:
        options = stated | dict(asked.options)
        with closing(dpgap.counts(options.pop("table"), **options)) as answers:
            if question in ("counts", "order"):
                return {"words": repr(answers)}
            parts = released(lambda: asked.ask(answers, account))
    parts["document"]["account"] = account.diary
    return parts


_open = ExitStack()


@cache
def _server(reader: str) -> Any:
    if reader == "spark":
        return _open.enter_context(spark_session())
    if reader == "postgres":
        return _open.enter_context(connection_to(_open.enter_context(postgres_server())))
    return None


def _readers() -> Iterable[tuple[str, Case]]:
    """Each question of each reader; `make test` asks a third of them, each of one quick reader."""
    quick = [name for name, reader in READERS.items() if reader.cost == 1]
    for number, question in enumerate(QUESTIONS):
        able = [name for name in READERS if READERS[name].columns >= QUESTIONS[question].columns]
        chosen = [name for name in quick if name in able]
        for reader in able:
            yield (
                f"{reader}/{question}",
                Case(
                    partial(_read, reader, question),
                    reader == chosen[number % len(chosen)] and number % 3 == 0,
                    {"spark": "java"}.get(reader, ""),
                ),
            )


# The command line


def _run(*words: str) -> str:
    said = CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})
    error = "" if isinstance(said.exception, SystemExit | None) else repr(said.exception)
    return f"$ dpgap {' '.join(words)}\n{said.stdout}{said.stderr}{error}exit {said.exit_code}\n"


def _script(*lines: str, hide: bool = False) -> Parts:
    """What each command says and writes, a day after the one before."""
    _write_files()
    parts = {}
    for number, line in enumerate(lines):
        with fixed_world(line, MOMENT + timedelta(days=number)):
            said = _run(*line.split())
        for name in re.findall(r"(?:--html|--csv|--out) (\S+)", line):
            path = Path(name)
            said += f"{name}:\n{path.read_text('utf-8') if path.exists() else 'is not there'}"
        first = line.split()[: 1 + line.startswith("ledger")]
        parts[f"{number + 1} {' '.join(first)}"] = _hidden(said) if hide else said
    return parts


def _hidden(text: str) -> str:
    return re.sub(r"\b[0-9a-f]{64}\b", "HASH", text)


def _write_files() -> None:
    rows = [
        f"c{who},{what},{'CH' if who % 2 else 'DE'},{(who % 7) / 4}\n"
        for place, what in enumerate(("fig", "pea", "oat", "rye", HOSTILE))
        for who in range(900 - 170 * place)
    ]
    Path("sold.csv").write_text("".join(["who,what,land,paid\n", *rows]), encoding="utf-8")
    Path("items.txt").write_text(f"fig\npea\noat\nrye\nyam\n{HOSTILE}\n", encoding="utf-8")


_ASK = "sold.csv --unit who --epsilon 2"
_ITEMS = "--item what --domain items.txt"
_BUDGET = "--ledger budget.db --dataset sales"
_SCRIPTS: dict[str, tuple[str, ...]] = {
    "top-k": (
        f"top-k {_ASK} {_ITEMS} -k 3 --html page.html --csv rows.csv",
        f"top-k {_ASK} {_ITEMS} -k 3 --json",
        f"top-k {_ASK} {_ITEMS} -k 3 --method joint",
        f"top-k {_ASK} {_ITEMS} -k 3 --method paper --split 1/3 --neighbours replace",
        f"top-k {_ASK} {_ITEMS} -k 2 --sum paid --at-most 5",
        f"top-k {_ASK} {_ITEMS} -k 2 --by land --groups CH,DE --max-groups 1",
        f"top-k {_ASK} --item what -k 2 --max-items 2 --delta 1e-4",
        f"top-k {_ASK} {_ITEMS} -k 2 --where land='CH'",
        f"top-k {_ASK} --item what -k 2",
        f"top-k {_ASK} --item none --domain items.txt -k 2",
        "top-k none.csv --unit who --item what --domain items.txt -k 2 --epsilon 1",
    ),
    "above": (
        f"above {_ASK} {_ITEMS} -k 2 --threshold 300",
        f"above {_ASK} {_ITEMS} -k 2 --threshold 300 --plain --json",
        f"above {_ASK} {_ITEMS} --threshold 300 --max-items 1 --html page.html",
    ),
    "count": (f"count {_ASK}", f"count {_ASK} --where land='CH' --json", "count sold.csv"),
    "total": (
        f"total {_ASK} --sum paid --at-most 5",
        f"total {_ASK} --sum paid --at-most 5 --at-least -1 --where land='CH' --json",
        f"total {_ASK} --sum none --at-most 5",
    ),
    "plan": (
        "plan -k 10 --epsilon 1",
        "plan -k 10 --error 20 --json",
        "plan -k 5 --epsilon 1 --counts 1:9000,10:2000,100:300 --items 500",
        "plan -k 5 --epsilon 1 --select above --adaptive",
        "plan -k 5",
    ),
    "desk": ("desk --check desk.toml", "desk --check none.toml", "desk --token", "--version"),
    "ledger acts": (
        f"ledger create {_BUDGET} --epsilon 2 --delta 1e-6 --table sold.csv --unit who",
        f"ledger create {_BUDGET} --epsilon 2",
        f"ledger raise {_BUDGET} --epsilon 3 --reason survey",
        f"ledger lower {_BUDGET} --epsilon 2.5 --reason survey --json",
        f"ledger allow {_BUDGET} --person ann --epsilon 1/3",
        f"ledger bind {_BUDGET} --unit who --reason moved",
        f"ledger write-off {_BUDGET} --before 2999-01-01 --reason lost",
        f"ledger close {_BUDGET} --reason done",
        f"top-k {_ASK} {_ITEMS} -k 1 {_BUDGET}",
        f"ledger show {_BUDGET} --all",
        "ledger show --ledger budget.db --json",
        "ledger verify --ledger budget.db",
        f"ledger export {_BUDGET}",
        f"ledger export {_BUDGET} --csv",
        "ledger roles --person ann",
    ),
    "ledger releases": (
        f"ledger create {_BUDGET} --epsilon 9 --table sold.csv --unit who",
        f"top-k {_ASK} {_ITEMS} -k 2 {_BUDGET}",
        f"top-k {_ASK} {_ITEMS} -k 2 {_BUDGET}",
        f"above {_ASK} {_ITEMS} -k 1 --threshold 500 {_BUDGET} --json",
        f"count {_ASK} {_BUDGET}",
        f"count {_ASK} {_BUDGET}",
        f"count sold.csv --unit who --epsilon 5 {_BUDGET}",
        f"ledger show {_BUDGET}",
        f"ledger archive {_BUDGET}",
        f"ledger archive {_BUDGET} --entry 1",
        "ledger verify --ledger budget.db",
        "ledger page --ledger budget.db --out ledger.html",
    ),
}


def _desk_file() -> Parts:
    from desks import write_file

    write_file(Path.cwd())
    return _script(*_SCRIPTS["desk"])


def _kept_document(path: Path) -> Parts:
    """A stored document, read and shown again."""
    shutil.copy(path, "release.json")
    shown = _run("show", "release.json")
    return {**_faces(dpgap.read_release(path.read_text("utf-8"))), "shown": shown}


def _help(*path: str) -> Parts:
    return {"words": _run(*path, "--help")}


def _commands() -> Iterable[tuple[str, ...]]:
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        yield (name,)
        yield from ((name, each) for each in getattr(command, "commands", ()))


def _proved() -> Parts:
    """Every verdict. Which counterexample a solver finds depends on what its process did before."""
    command = [sys.executable, "-W", "ignore", "-m", "dpgap", "prove", "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if not said.stdout:
        raise RuntimeError(said.stderr[-500:])
    rows = json.loads(said.stdout)
    for row in rows:
        row["counterexample"] = row["counterexample"] is not None
        del row["seconds"]
    return {"words": {"exit": said.returncode, "rows": rows}}


# Signatures


def _signed(thing: Any) -> Parts:
    """The signature and the words of a public name, and of all that is public in it."""
    inner: dict[str, Any] = {}
    if inspect.ismodule(thing):
        inner = {name: getattr(thing, name) for name in thing.__all__}
    elif inspect.isclass(thing):
        inner = {name: each for name, each in inspect.getmembers(thing) if name[0] != "_"}
    every = {"": thing, **inner}
    return {
        "signature": {name: _signature(each) for name, each in every.items()},
        "words": {name: inspect.getdoc(each) for name, each in every.items() if callable(each)},
    }


def _signature(thing: Any) -> list[str]:
    """The signature, without the modules where types live."""
    try:
        signature = inspect.signature(thing.fget if isinstance(thing, property) else thing)
    except (TypeError, ValueError):
        return [type(thing).__name__]
    return [re.sub(r"\bdpgap\.(?:\w+\.)*(?=\w)", "", str(signature))]


# The desk


_TOPICS = """
[[datasets.sales.topics]]
name = "cities"
item = "what"
domain = ["fig", "pea", "oat"]
by = "city"
groups = ["Bern", "Genf"]
max_groups = 2

[[datasets.sales.topics]]
name = "people"
where = "what = 'fig'"
"""
_API = "/api/v1/datasets/sales"


def _at_the_desk() -> Parts:
    """Pages and answers of a small desk, whose people ask one after the other."""
    from desks import form_in, running, write_file

    parts: Parts = {}
    asked = {"topic": "what", "k": 2, "epsilon": "0.5"}
    with running(write_file(Path.cwd(), figs=400, more=_TOPICS)) as desk:

        def note(client: Any, method: str, path: str, **sent: Any) -> str:
            answer = client.request(method, path, **sent)
            kept = {name: answer.headers.get(name) for name in ("content-type", "location")}
            text = f"{answer.status_code} {kept}\n{answer.text}".replace(f":{desk.port}", ":PORT")
            parts[f"{len(parts) + 1} {method} {path}"] = _hidden(text)
            return str(answer.text)

        with desk.client() as anybody, desk.program("ann") as ann, desk.program("sue") as sue:
            for path in ("/enter", "/", "/health", f"{_API}"):
                note(anybody, "GET", path)
            for path in ("/api/v1/datasets", _API, "/api/openapi.json"):
                note(ann, "GET", path)
            note(ann, "POST", f"{_API}/plan", json=asked)
            first = note(ann, "POST", f"{_API}/ask", json={**asked, "key": "a" * 16})
            entry = json.loads(first)["entry"]
            note(ann, "POST", f"{_API}/ask", json={**asked, "key": "b" * 16})
            note(ann, "POST", f"{_API}/ask", json={**asked, "topic": "cities", "key": "c" * 16})
            more = {"topic": "people", "kind": "count", "epsilon": "1/4", "key": "d" * 16}
            note(ann, "POST", f"{_API}/ask", json=more)
            note(ann, "POST", f"{_API}/ask", json={**asked, "epsilon": 99, "key": "e" * 16})
            for path in ("releases", f"asked/{'a' * 16}", f"releases/{entry}", "releases/99"):
                note(ann, "GET", f"{_API}/{path}")
            note(sue, "POST", f"{_API}/acts/raise", json={"epsilon": 12, "reason": "survey"})
            note(sue, "POST", f"{_API}/acts/raise", json={"epsilon": 1, "reason": "survey"})
            for path in (f"{_API}/entries", f"{_API}/stale", f"{_API}/verify"):
                note(sue, "GET", path)
        with desk.browser("ann") as ann, desk.browser("sue") as sue:
            page = note(ann, "GET", "/data/sales")
            form = form_in(page, "/data/sales/ask")
            note(ann, "POST", "/data/sales/ask", data={**form, **asked, "k": "1"})
            for path in ("/", "/data/sales/archive", f"/data/sales/releases/{entry}", "/programs"):
                note(ann, "GET", path)
            for path in ("/steward", "/steward/sales", "/data/none"):
                note(sue, "GET", path)
    return parts


# All of them


@cache
def cases() -> dict[str, Case]:
    """Every case by name."""
    found = {f"kinds/{name}": Case(partial(released, ask)) for name, ask in _kinds()}
    for name, mechanism in (
        ("SparseVector", dpgap.SparseVector(1_000, 3, 1, noise="laplace")),
        ("AdaptiveSparseVector", dpgap.AdaptiveSparseVector(1_000, 3, 1, noise="exponential")),
    ):
        found[f"streams/{name}"] = Case(partial(_streamed, mechanism))
    found["sessions/six questions"] = Case(_session)
    found |= {f"plan/{name}": Case(partial(_planned, asked)) for name, asked in _PLANS.items()}
    for name, made in _SIMULATED.items():
        found[f"simulate/{name}"] = Case(partial(_simulated, made))
    found |= _readers()
    for path in sorted((TESTS / "releases" / "documents").glob("*.json")):
        found[f"documents/{path.stem}"] = Case(partial(_kept_document, path), quick=False)
    for name, lines in _SCRIPTS.items():
        run = partial(_script, *lines, hide=name == "ledger releases")
        found[f"cli/{name}"] = Case(_desk_file if name == "desk" else run, name == "ledger acts")
    found["help"] = Case(_help)
    found |= {f"help/{' '.join(path)}": Case(partial(_help, *path)) for path in _commands()}
    for name in dpgap.__all__:
        found[f"names/{name}"] = Case(partial(_signed, getattr(dpgap, name)))
    found["desk"] = Case(_at_the_desk, quick=False)
    found["prove"] = Case(_proved, quick=False)
    return found


def _kinds() -> Iterable[tuple[str, Callable[[], Any]]]:
    yield from every_kind.RELEASES.items()
    yield from _laws()

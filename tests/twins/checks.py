"""What must hold of twins; each difference is a line of text.

- Labels are the same in type and letters.
- Counts move by at most one and all the same way; bounded answers by no more than they say, of no
  more items and groups than they say. So no unit moves what another one keeps.
- What was done up to the count of counts is the same, with every literal and parameter of the
  statements. After it, it is the same as long as as many items won, on the same route.
- A route is the one that the released look decides on.
- The public facts of both are the same, but for where the tables are.
- Both are refused or neither, before any charge, in words that show nothing of a row. What is no
  record may be refused.
- Items are asked in a fresh random order over the whole domain.
- What is shown after the charge is what `twins.eyes` says, warnings and logs are the same, and
  nothing fails.
"""

import gc
import logging
import math
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np

import dpgap
from dpgap.budget.cost import equal_part
from dpgap.data.domain import text_of
from dpgap.exact.bits import InsecureSeededBits
from dpgap.releases.release import ReleasesByGroup
from seams import FollowedBits, SpyArchive, bits_are, builds_kept
from twins.eyes import Shown, in_both, in_numbers, in_one, order_of, ranks_of, room, shown
from twins.neighbours import FIRST_UNIT, Row, Twins
from twins.odd_values import MARK
from twins.questions import QUESTIONS, parts_of
from twins.readers import Reader
from twins.records import Record, recorded

CLEAR = ("noisy-top-k", "top-4", "top-4-ranked", "top-4-joint")
"""Questions whose winners lead by far more than noise: their order is the same for both twins."""
ORDERS = 12
"""How often the order in which items are asked is looked at."""


class Side(NamedTuple):
    """What was seen of one table."""

    refusal: str | None = None
    charged: bool = False
    leaks: bool = False
    printed: str = ""
    warned: list[str] | None = None
    """Warnings, and what was logged."""
    counts: dict[Any, int] | None = None
    limits: Any = None
    """By how much one unit may move answers, and how many."""
    twice: bool = False
    kind: str = ""
    facts: Any = None
    before: Record | None = None
    after: Record | None = None
    winners: list[Any] | None = None
    route: list[str | None] | None = None
    decided: list[str | None] | None = None
    """The routes that follow from what was released."""
    order: str = ""
    shown: Shown | None = None


class Verdict(NamedTuple):
    """What differs between twins, and whether both were refused so that little was seen of them."""

    differences: list[str]
    refused: bool


def examine(reader: Reader, question: str, seed: object) -> Verdict:
    """What differs between the twins of this reader, question and seed."""
    rng = Random(f"{type(reader).__name__} {question} {seed}")
    asked = QUESTIONS[question]
    return compare(reader, question, reader.twins(rng, asked.domains, bool(asked.options)))


def compare(reader: Reader, question: str, twins: Twins) -> Verdict:
    """What differs between these twins."""
    base, twin = (look(reader, question, twins, rows) for rows in (twins.rows, twins.twin))
    if reader.follows_rows:
        base, twin = (each._replace(before=None, after=None) for each in (base, twin))
    found = _differences(base, twin, twins.malformed)
    if base.shown and twin.shown and question in CLEAR:
        found += _other_winners(base, twin, twins.labels)
    return Verdict(found, bool(base.refusal and twin.refusal))


def _other_winners(base: Side, twin: Side, domain: Sequence[Any]) -> list[str]:
    """Winners that are not the same in the same order, or are not in the public domain."""
    sides = [(each.shown, each.counts) for each in (base, twin)]
    named = [seen.document.get("labels") or [] for seen, _ in sides if seen is not None]
    counts = [counted or {} for _, counted in sides]
    far = room(*counts, base.winners or (), twin.limits.most)
    found = []
    if far is not None and list(map(str, named[0])) != list(map(str, named[1])):
        found.append(f"other winners, or in another order: {named[0]}, {named[1]}")
    if len(domain) < 10**4:
        public = {text_of(label) for label in domain}
        strange = [each for side in named for each in side if text_of(each) not in public]
        found += [f"a label that is not in the domain: {each!r}" for each in strange[:1]]
    return found


def _differences(base: Side, twin: Side, malformed: bool) -> list[str]:
    found = [*_alone("base", base), *_alone("twin", twin)]
    if malformed and twin.refusal and not base.refusal:
        return found
    if (base.refusal is None) != (twin.refusal is None):
        found.append(f"only one is refused: base {base.refusal!r}, twin {twin.refusal!r}")
    if base.warned != twin.warned:
        found.append(f"other warnings: {base.warned}, {twin.warned}")
    if base.counts is not None and twin.counts is not None:
        found += _moves(base.counts, twin.counts, twin.limits)
    if not base.refusal and not twin.refusal:
        if base.kind != twin.kind:
            found.append(f"another kind of answers: {base.kind}, {twin.kind}")
        if base.facts != twin.facts:
            found.append(f"other facts: base {base.facts}, twin {twin.facts}")
        found += _decisions("up to the count of counts", base.before, twin.before)
        if _as_many_winners(base, twin):
            found += _decisions("after the count of counts", base.after, twin.after)
        if _same_winners(base, twin):
            found += _of_same_winners(base, twin)
        if base.order != twin.order:
            found.append(f"another order: base {base.order}, twin {twin.order}")
        if base.shown and twin.shown:
            found += [*in_both(base.shown, twin.shown), *_other_types(base, twin)]
    return found


def look(reader: Reader, question: str, twins: Twins, rows: list[Row]) -> Side:
    """Ask one table."""
    asked = reader.load(twins, rows)
    with (
        _nothing_collected(),
        _printing() as printed,
        _logging() as logged,
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        side = _ask(asked, question, twins)
        said = {f"{each.category.__name__}: {each.message}" for each in warned}
        return side._replace(printed=printed(), warned=sorted(said | logged))


def _ask(asked: dict[str, Any], question: str, twins: Twins) -> Side:
    account, seen, bits = SpyArchive(), dict[str, Any](), FollowedBits()
    try:
        if QUESTIONS[question].of_table:
            with builds_kept() as built, bits_are(bits), recorded() as seen["before"]:
                release = QUESTIONS[question].ask(asked, account)
            return Side(
                counts={} if question in ("count", "total") else None,
                limits=_OF_TABLE.get(question, Limits(0, 1, math.inf, math.inf)),
                winners=[],
                kind=f"{type(release).__name__} {release.detail.route or ''}",
                before=seen["before"],
                shown=shown(release, built, bits, None, account, []),
            )
        with bits_are(InsecureSeededBits(1)), recorded() as seen["before"]:
            options = asked | dict(QUESTIONS[question].options)
            answers = dpgap.counts(options.pop("table"), **options)
        with closing(answers):
            seen["kind"] = " ".join(f"{type(each).__name__} {each!r}" for each in _all_of(answers))
            seen["facts"] = replace(answers.origin, table=None, address=None)
            seen["counts"], seen["twice"] = _present(answers)
            seen["limits"] = _limits(answers)
            with builds_kept() as built, bits_are(bits), recorded() as seen["after"]:
                release = QUESTIONS[question].ask(answers, account)
            seen["winners"] = _winners(release)
            if release is not None:
                won = dict(_parts(release))
                ranks = [
                    ranks_of(part, len(getattr(won[group], "labels", None) or ()))
                    for group, part in parts_of(answers)
                ]
                order = [order_of(part) for _, part in parts_of(answers)]
                seen["shown"] = shown(release, built, bits, ranks, account, order)
            each = [part for _, part in _parts(release)]
            seen["route"] = [None if part is None else part.detail.route for part in each]
            seen["decided"] = [_decided(part) for part in each]
            if question == "order":
                seen["order"] = _order(answers, twins)
    except Exception as error:
        said = _everything(error).lower()
        return Side(
            refusal=f"{type(error).__name__}: {error}"[:200],
            charged=bool(account.diary),
            leaks=any(mark in said for mark in (MARK, str(FIRST_UNIT)[:5])),
            counts=seen.get("counts"),
            limits=seen.get("limits"),
        )
    return Side(**seen)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Let go of no garbage of other questions while the block lasts: an engine would be asked."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _logging() -> Iterator[set[str]]:
    """What dpgap logs while the block lasts."""
    logged: set[str] = set()
    handler, logger = logging.Handler(), logging.getLogger("dpgap")
    handler.emit = lambda record: logged.add(  # type: ignore[method-assign]
        f"{record.name} {record.levelname}: {record.getMessage()}"
    )
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield logged
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextmanager
def _printing() -> Iterator[Callable[[], str]]:
    """What this process prints or logs while the block lasts, and how to read it."""
    with tempfile.TemporaryFile() as file, ExitStack() as back:

        def read() -> str:
            sys.stdout.flush()
            sys.stderr.flush()
            file.seek(0)
            return file.read().decode(errors="replace")

        sys.stdout.flush()
        sys.stderr.flush()
        for number in (1, 2):
            kept = os.dup(number)
            back.callback(os.close, kept)
            back.callback(os.dup2, kept, number)
            os.dup2(file.fileno(), number)
        yield read


def _everything(error: BaseException | None) -> str:
    """All that an error and those behind it say."""
    said = ""
    while error is not None:
        said += f"{error} {error!r} {error.args} {vars(error)}"
        error = error.__context__ or error.__cause__
    return said


def _alone(name: str, side: Side) -> list[str]:
    """What is wrong with one side, whatever the other is."""
    found = []
    if side.leaks or any(MARK in each.lower() for each in side.warned or ()):
        found.append(f"{name}: an error or warning shows something of a row")
    if side.twice:
        found.append(f"{name}: an item comes twice")
    if side.printed:
        found.append(f"{name}: something is printed: {side.printed!r:.150}")
    if side.refusal and side.charged:
        found.append(f"{name}: fails after the charge: {side.refusal}")
    if side.route != side.decided:
        found.append(f"{name}: takes another route than its look decides on: {side.route}")
    if side.order not in ("", "random"):
        found.append(f"{name}: items are asked in an order that is {side.order}")
    if side.shown:
        found += [f"{name}: {each}" for each in in_one(side.shown)]
    return found


class Limits(NamedTuple):
    """What one unit more may do."""

    least: int
    most: int
    """How far an answer may move."""
    items: float
    groups: float
    """How many of them may move."""


_OF_TABLE = {"total": Limits(-500, 2500, math.inf, math.inf)}
"""What one unit may move where it is not one count: the bounds of the question, in steps."""


def _limits(answers: Any) -> Limits:
    _, first = parts_of(answers)[0]
    most = int(first.sensitivity)
    is_grouped = answers.origin.by is not None
    return Limits(
        least=0 if first.monotonic else -most,
        most=most,
        items=math.inf if first.reach is None else first.reach,
        groups=answers.origin.max_groups if is_grouped else math.inf,
    )


def _moves(base: dict[Any, int], twin: dict[Any, int], limits: Limits) -> list[str]:
    by = {cell: twin.get(cell, 0) - base.get(cell, 0) for cell in base.keys() | twin.keys()}
    moved = {cell: far for cell, far in by.items() if far}
    wrong = [
        f"{cell!r:.40} by {far}"
        for cell, far in moved.items()
        if not limits.least <= far <= limits.most
    ]
    found = [f"counts move: {', '.join(sorted(wrong)[:4])}"] if wrong else []
    if len(moved) > limits.items:
        found.append(f"too many items move: {len(moved)} instead of {limits.items}")
    if len({group for group, _ in moved}) > limits.groups:
        found.append(f"too many groups move: not {limits.groups}")
    return found


def _as_many_winners(base: Side, twin: Side) -> bool:
    """Whether both released as many items of each group, on the same route."""
    if base.winners is None or twin.winners is None or base.route != twin.route:
        return False
    return _sizes(base.winners) == _sizes(twin.winners)


def _sizes(winners: Sequence[Any]) -> Counter[Any]:
    return Counter(group for group, _ in winners)


def _same_winners(base: Side, twin: Side) -> bool:
    if base.counts is None or twin.counts is None or base.winners != twin.winners:
        return False
    if base.route != twin.route:
        return False
    return all((cell in base.counts) == (cell in twin.counts) for cell in base.winners or ())


def _of_same_winners(base: Side, twin: Side) -> Iterator[str]:
    """What may differ only as far as counts do: both have the same winners."""
    if base.shown and twin.shown and base.counts is not None and twin.counts is not None:
        most = twin.limits.most
        far = room(base.counts, twin.counts, base.winners or (), most)
        yield from in_numbers(base.shown, twin.shown, far, most)


def _other_types(base: Side, twin: Side) -> list[str]:
    """Labels that are written alike and are of different types."""
    types = [
        {(group, item.split(" ", 1)[1].strip("'")): item.split(" ", 1)[0] for group, item in won}
        for won in (base.winners or (), twin.winners or ())
    ]
    both = types[0].keys() & types[1].keys()
    found = sorted({(types[0][each], types[1][each]) for each in both})
    return [f"labels of other types: {a}, {b}" for a, b in found if a != b]


def _decisions(when: str, base: Record | None, twin: Record | None) -> list[str]:
    found: list[str] = []
    if base is None or twin is None:
        return found
    if base.statements != twin.statements:
        pairs = zip([*base.statements, "none"], [*twin.statements, "none"], strict=False)
        one, other = next((a, b) for a, b in pairs if a != b)
        found.append(f"{when} other statements: {_around(one, other)}")
    if base.functions != twin.functions:
        found.append(f"{when} other functions: {sorted(base.functions ^ twin.functions)[:4]}")
    return found


def _around(one: str, other: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return f"…{one[max(at - 40, 0) : at + 60]}… against …{other[max(at - 40, 0) : at + 60]}…"


def _all_of(answers: Any) -> list[Any]:
    return [answers, *(part for group, part in parts_of(answers) if group is not None)]


def _present(answers: Any) -> tuple[dict[Any, int], bool]:
    """The answers by group and item that are not 0, and whether one of them comes twice."""
    seen = [
        ((group, _written(item)), count)
        for group, part in parts_of(answers)
        for item, count, _ in _stream(part.in_order())
    ]
    found: dict[Any, int] = {}
    for item, count in seen:
        found[item] = found.get(item, 0) + count
    return found, len(found) < len(seen)


def _stream(chunks: Any) -> Iterator[tuple[Any, int, int]]:
    """Items that are not 0, with their counts and places."""
    before = 0
    for chunk in chunks:
        at = np.flatnonzero(chunk.values)
        places = at if chunk.places is None else chunk.places[at]
        labels = chunk.found(places).labels
        yield from zip(labels, chunk.values[at].tolist(), (places + before).tolist(), strict=True)
        before += chunk.length


def _winners(release: Any) -> list[Any]:
    """The cells that won: pairs of a group, or None, and an item."""
    named = ((group, getattr(each, "labels", None) or ()) for group, each in _parts(release))
    return sorted(
        ((group, _written(label)) for group, labels in named for label in labels), key=str
    )


def _parts(release: Any) -> list[tuple[Any, Any]]:
    """The release of every group; or all of it, of none."""
    return list(release.items()) if isinstance(release, ReleasesByGroup) else [(None, release)]


def _written(label: Any) -> str:
    """A label with its type: 1, 1.0 and "1" are three."""
    return f"{type(label).__name__} {label!r}"


def _decided(release: Any) -> str | None:
    """The route that a release must have taken, as everybody can tell who sees it."""
    if release is None:
        return None
    if not release.detail.looked:
        return release.detail.route
    asked, promise = release.question, release.detail.promise
    made = dpgap.MeasuredTopK(
        asked.k,
        equal_part(asked.epsilon, asked.max_groups),
        monotonic=promise.monotonic,
        sensitivity=promise.sensitivity / asked.step,
    )
    assert made.looking is not None
    values = np.rint([[value / float(asked.step) for _, value in release.detail.looked]])
    return made.looking.routes[int(made.looking.rule(asked.items).decide(values)[0])].name


def _order(answers: Any, twins: Twins) -> str:
    """The kind of order: in a random one, runs are seldom and all parts of it are reached."""
    rank = (
        {label: at for at, label in enumerate(sorted(twins.labels))}
        if len(twins.labels) < 100
        else None
    )
    runs, parts = 0, set()
    for _ in range(ORDERS):
        with closing(answers.shuffled()) as chunks:
            seen = list(_stream(chunks))
        ranks = [item if rank is None else rank[item] for item, _, _ in seen]
        following = ranks[1:] + ranks[:1]
        falls = sum(b < a for a, b in zip(ranks, following, strict=True))
        runs += min(falls, len(ranks) - falls) <= 1
        parts |= {4 * place // len(answers) for _, _, place in seen}
    if runs > 1:
        return "a run through the domain" if runs == ORDERS else "often a run through the domain"
    return "random" if len(parts) == 4 else f"only over parts {sorted(parts)} of the domain"

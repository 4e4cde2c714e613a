"""The release document: one form of JSON for every release, which can be read again for ever.

It holds all that was released, and all that is needed to show it again: the question, the
guarantee, the mechanisms with their parameters, what the numbers may be off by, when and by which
version it was made, and who paid. It does not hold where the table is, nor anything private.

    {"format": "dpgap release", "version": 1, "kind": "table", …}

What is in a document
---------------------
- `format`, `version` and `kind` come first. `_KINDS` lists the kinds and the fields of each.
- What there is not (labels, a threshold, an entry of a ledger) is left out.
- Exact numbers (ε, δ, scales) are text such as "7/10". Floats have all their digits. Labels have
  rules of their own: `dpgap.releases.labels`.
- `delta` is that of the promise: "0" but where items were unknown.
- Fields in `SHOWN` (findings and other words, 95 % intervals, rows) follow from the others. They
  are there for people, and for programs that do not want to work them out. They are never read.
  An archive keeps documents without them: they are made when a document is handed out.
  `BESIDE` lists what the command line adds about an account; that is not read either.

How it may change
-----------------
- **A new kind** gets a new name. A reader that does not know it refuses the document.
- **A new field** must have a default that is true of every document written before. It is left out
  where it has this default (`forms.maybe`). So an older reader reads every document that does
  without the new field, and refuses one that has it: it could not know what the numbers mean. δ
  above 0, a route and a group are such fields.
- **A new word** in a field that lists its words, such as a method or a law, is like a new field.
- **A field that changes its meaning** makes a new `version`. A reader refuses a later version, and
  says so. It reads all earlier ones.
- No field, kind or word is ever taken away or used for something else. Documents of every version
  are kept among the tests, and must be read.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from dpgap._package import __version__, public
from dpgap.releases.agreement import require_agreement
from dpgap.releases.by_group import ReleasesByGroup
from dpgap.releases.counted import UnitCount
from dpgap.releases.faults import DocumentError
from dpgap.releases.forms import (
    Form,
    each,
    exact,
    flag,
    floats,
    integers,
    label,
    maybe,
    moment,
    pairs,
    parts,
    positive,
    real,
    record,
    text,
    whole,
    word,
)
from dpgap.releases.json_text import parsed
from dpgap.releases.law_forms import ERROR, EVIDENCE, GAP_ERRORS, MEASUREMENT_ERROR
from dpgap.releases.numbers import exact_text
from dpgap.releases.provenance import LedgerReference, MechanismUsed, Provenance
from dpgap.releases.questions import ADD_OR_REMOVE, REPLACE, Origin, Question, TableRelease
from dpgap.releases.release import Promise, Release, Selected
from dpgap.releases.results import (
    AboveRelease,
    HybridRelease,
    IndexRelease,
    JointRelease,
    MaxRelease,
    Measured,
    MeasuredValues,
    TopKRelease,
)
from dpgap.releases.rows import rows_of
from dpgap.releases.ways import HISTOGRAM, METHODS, ROUTES
from dpgap.releases.words import attempted

FORMAT, VERSION = "dpgap release", 1
SHOWN = ("findings", "guarantee", "interval", "items", "private")
"""Fields that follow from others, and are not read."""
BESIDE = ("epsilon_spent", "epsilon_remaining", "exact")
"""What the command line adds, and is not read."""
_HEADER = ("format", "version", "kind", "delta")
_NONE = Fraction(0)


def _parameters() -> Form:
    """The parameters of a mechanism: names, and text, whole numbers, true, false or null."""

    def read(found: Any, where: str) -> tuple[tuple[str, Any], ...]:
        if not isinstance(found, dict):
            raise DocumentError(f"{where} must be an object")
        if not all(value is None or isinstance(value, str | int) for value in found.values()):
            raise DocumentError(f"{where} must be text, whole numbers, true, false or null")
        return tuple(found.items())

    return Form(dict, read)


def _question() -> Form:
    """The question; the address of its table and its columns are left out."""
    forms = {
        "kind": word("top-k", "above", "count"),
        "k": maybe(whole(1)),
        "epsilon": positive(),
        "delta": maybe(exact(lambda chance: 0 < chance < 1, "a chance between 0 and 1"), _NONE),
        "split": maybe(exact(lambda share: 0 < share < 1, "a share between 0 and 1")),
        "threshold": maybe(exact(lambda value: abs(value) < 1 << 200, "a number below 2^200")),
        "adaptive": flag(),
        "method": word(*METHODS, HISTOGRAM),
        "unit": text(),
        "item": text(),
        "neighbours": word(ADD_OR_REMOVE, REPLACE),
        "private": flag(),
        "domain": text(),
        "domain_size": maybe(whole(0)),
        "domain_digest": maybe(text()),
        "table": maybe(text()),
        "identity": maybe(text()),
        "max_items": maybe(whole(1)),
        "by": maybe(text()),
        "groups": maybe(whole(0), 0),
        "groups_digest": maybe(text()),
        "max_groups": maybe(whole(1), 1),
        "group": maybe(label()),
        "sum": maybe(text()),
        "at_most": maybe(positive(), Fraction(1)),
        "at_least": maybe(exact(lambda value: value <= 0, "a number not above 0"), _NONE),
        "step": maybe(positive(), Fraction(1)),
        "where": maybe(text()),
        "unknown": maybe(flag(), False),
        "sum_of_text": maybe(flag(), False),
    }
    inside = parts(forms)
    other = {  # what a question or its origin calls otherwise
        "domain_size": "items",
        "identity": "recorded",
        "private": "is_private",
        "domain_digest": "digest",
    }

    def write(asked: Question) -> Any:
        values = asked.origin._asdict() | asked._asdict() | {"recorded": asked.identity}
        return inside.write({name: values[other.get(name, name)] for name in forms})

    def read(found: Any, where: str) -> Question:
        values = {other.get(name, name): each for name, each in inside.read(found, where).items()}
        origin = Origin(**{name: values.pop(name) for name in Origin._fields if name in values})
        return Question(**values, origin=origin)

    return Form(write, read)


_MADE = record(
    Provenance,
    {
        "time": moment(),
        "dpgap": text(),
        "ledger": maybe(
            record(LedgerReference, {"dataset": text(), "entry": whole(0), "hash": text()})
        ),
    },
)
_PROMISE = record(
    Promise,
    {
        "epsilon": positive(),
        "sensitivity": positive(),
        "monotonic": flag(),
        "reach": maybe(whole(1)),
        "delta": maybe(exact(lambda value: 0 < value <= 1, "a chance above 0"), Fraction(0)),
    },
)
_EVERY: dict[str, Form] = {
    "made": _MADE,
    "epsilon": positive(),
    "promise": _PROMISE,
    "mechanisms": each(record(MechanismUsed, {"name": text(), "parameters": _parameters()})),
}
_LABELS = maybe(each(label()))
_INDICES = {"indices": integers(-1), "labels": _LABELS}
_TOP = _INDICES | {"gaps": floats(), "evidence": maybe(EVIDENCE)}
_SPENT = {"spent": positive()}
_MEASURED = (
    _TOP
    | _SPENT
    | {
        "measurements": floats(),
        "estimates": floats(),
        "variances": floats(least=0),
        "centres": word("measurements", "estimates"),
        "errors": each(ERROR),
        "rounding": real(least=0),
        "method": word(*METHODS, HISTOGRAM),
        "route": maybe(word(*ROUTES)),
        "looked": maybe(each(pairs((whole(1), real()))), ()),
        "lead": maybe(real(least=0)),
        "parts": maybe(each(pairs((word("look", "select", "measure"), positive()))), ()),
        "measured_by": maybe(MEASUREMENT_ERROR),
    }
)
_ABOVE = {"branch_of": integers(1), "processed": whole(0), "errors": GAP_ERRORS}
_VALUES = {"values": floats(), "error": MEASUREMENT_ERROR, "rounding": real(least=0)}

_ASKED = {"question": _question()}


def _answers() -> Form:
    """The answers for all groups; the question, the time and who paid stand beside them, once."""
    own = {name: form for name, form in (_EVERY | _MEASURED).items() if name != "made"}
    inside = parts({"group": label()} | own)

    def write(answer: TableRelease) -> Any:
        values = {name: getattr(answer, name) for name in own}
        return inside.write(values | {"group": answer.question.group})

    return each(Form(write, inside.read))


def _by_group(**values: Any) -> ReleasesByGroup:
    """The releases of all groups, each with the question and the time that they have in common."""
    asked, made = values["question"], values["made"]
    answers = []
    for one in values.pop("answers"):
        question = asked._replace(group=one.pop("group"))
        answers.append(TableRelease(**one, question=question, made=made))
    return ReleasesByGroup(**values, answers=tuple(answers))


_JOINT = {"lead": real(least=0), "p_value": real(least=0)}
_KINDS: dict[str, tuple[type[Release], Mapping[str, Form]]] = {
    "indices": (IndexRelease, _EVERY | _INDICES),
    "top-k": (TopKRelease, _EVERY | _TOP),
    "max": (MaxRelease, _EVERY | _TOP),
    "hybrid": (HybridRelease, _EVERY | _SPENT | _TOP),
    "above": (AboveRelease, _EVERY | _SPENT | _TOP | _ABOVE),
    "joint": (JointRelease, _EVERY | _INDICES | _JOINT),
    "values": (MeasuredValues, _EVERY | _VALUES),
    "measured": (Measured, _EVERY | _MEASURED),
    "table": (TableRelease, _EVERY | _ASKED | _MEASURED),
    "count": (UnitCount, _EVERY | _ASKED | _VALUES),
    "groups": (ReleasesByGroup, _EVERY | _ASKED | _SPENT | {"answers": _answers()}),
}
_NAMES = {made: name for name, (made, _) in _KINDS.items()}
_RECORDS = {name: record(made, forms) for name, (made, forms) in _KINDS.items()}
_RECORDS["groups"] = record(_by_group, _KINDS["groups"][1])


def document(release: Release) -> dict[str, Any]:
    """The release as a dictionary that JSON can hold."""
    return {**drawn(release), **_shown(release)}


def drawn(release: Release) -> dict[str, Any]:
    """The same without the fields in `SHOWN`: what was drawn, before any word is made of it."""
    name = _name_of(release)
    header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "kind": name}
    header["delta"] = exact_text(release.promise.delta)
    return {**header, **_RECORDS[name].write(release)}


def _name_of(release: Release) -> str:
    name = _NAMES.get(type(release))
    if name is None:
        raise TypeError(f"a release of class {type(release).__name__} is no kind of document")
    return name


def _shown(release: Release) -> dict[str, Any]:
    """What follows from the rest, for people; what cannot be made is left out."""
    fields: dict[str, Callable[[], Any]] = {"guarantee": lambda: release.guarantee}
    if isinstance(release, Selected | UnitCount | ReleasesByGroup):
        fields["findings"] = lambda: list(release.findings)
    if isinstance(release, TableRelease):
        fields["private"] = lambda: release.question.origin.is_private
        fields["items"] = lambda: _rows(release)
    elif isinstance(release, Measured | MeasuredValues):
        fields["interval"] = lambda: _ends(release)
    made = {name: attempted(name, make, None) for name, make in fields.items()}
    return {name: each for name, each in made.items() if each is not None}


def _rows(release: TableRelease) -> list[dict[str, Any]]:
    return [
        {name: _finite(cell) for name, cell in row._asdict().items()} for row in rows_of(release)
    ]


def _ends(release: Measured | MeasuredValues) -> list[list[Any]]:
    ends = release.interval().reshape(-1, 2).tolist()
    return [[_finite(low), _finite(high)] for low, high in ends]


def _finite(cell: Any) -> Any:
    """JSON has no infinity: an interval without an end has null there."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


@public
def read_release(text: str | bytes) -> Release:
    """The release that a document holds, free of charge: the same table, page and intervals.

    Any other text, and a document that this version of dpgap does not understand, raise a
    `ValueError` that says why. A document can be up to 64 MiB long.

    Parameters
    ----------
    text
        What `to_json()` of a release gave, or what `dpgap top-k … --json` printed.

    >>> import dpgap
    >>> release = dpgap.NoisyTopK(k=1, epsilon=1000).release([10, 50], labels=["fig", "pea"])
    >>> again = dpgap.read_release(release.to_json())
    >>> again.labels, again.to_json() == release.to_json()
    (('pea',), True)
    """
    return _read(parsed(text))


def read_archived(text: str) -> Release:
    """The release that a document from an archive holds, which may be longer than a stranger's."""
    return _read(parsed(text, is_ours=True))


def handed_out(text: str) -> str:
    """A document from an archive, with the words, rows and intervals that follow from it.

    Versions before 0.2.1 wrote a float coin, which told too much: reading drops it
    (`dpgap.releases.law_forms`), and a document that has one is not handed out unread.
    """
    if '"coin"' in text:
        return read_archived(text).to_json()
    return attempted("document", lambda: read_archived(text).to_json(), text)


def _read(content: Mapping[str, Any]) -> Release:
    name = _kind_of(content)
    passed_over = (*_HEADER, *SHOWN, *BESIDE)
    values = {field: value for field, value in content.items() if field not in passed_over}
    release: Release = _RECORDS[name].read(values, "the document")
    require_agreement(release)
    if content.get("delta") != exact_text(release.promise.delta):
        raise DocumentError("delta and the promise contradict each other")
    return release


def _kind_of(content: Mapping[str, Any]) -> str:
    """Which kind of release this is; refuses what cannot be understood."""
    if content.get("format") != FORMAT:
        raise DocumentError(f"this is not a release document: its format is not {FORMAT!r}")
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise DocumentError("the version must be a whole number from 1 on")
    if version > VERSION:
        raise DocumentError(
            f"this document has a later version than {VERSION}, and dpgap {__version__} reads no "
            "later one: a newer dpgap is needed"
        )
    return str(word(*_KINDS).read(content.get("kind"), "the kind of release"))

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
- `delta` is "0" in this version: nothing else can be promised.
- Fields in `SHOWN` (findings and other words, 95 % intervals, rows) follow from the others. They
  are there for people, and for programs that do not want to work them out. They are never read.
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

from collections.abc import Mapping
from typing import Any

from dpgap import __version__, public
from dpgap.releases.agreement import require_agreement
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
from dpgap.releases.provenance import LedgerReference, MechanismUsed, Provenance
from dpgap.releases.questions import ADD_OR_REMOVE, REPLACE, Origin, Question, TableRelease
from dpgap.releases.release import Promise, Release, Selected
from dpgap.releases.results import (
    AboveRelease,
    IndexRelease,
    JointRelease,
    MaxRelease,
    Measured,
    MeasuredValues,
    TopKRelease,
)
from dpgap.releases.rows import rows_of
from dpgap.releases.ways import METHODS, ROUTES

FORMAT, VERSION = "dpgap release", 1
SHOWN = ("findings", "guarantee", "interval", "items", "private")
"""Fields that follow from others, and are not read."""
BESIDE = ("epsilon_spent", "epsilon_remaining", "exact")
"""What the command line adds, and is not read."""
_HEADER = ("format", "version", "kind", "delta")


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
        "kind": word("top-k", "above"),
        "k": whole(1),
        "epsilon": positive(),
        "split": maybe(exact(lambda share: 0 < share < 1, "a share between 0 and 1")),
        "threshold": maybe(exact(lambda value: abs(value) < 1 << 200, "a number below 2^200")),
        "adaptive": flag(),
        "method": word(*METHODS),
        "unit": text(),
        "item": text(),
        "neighbours": word(ADD_OR_REMOVE, REPLACE),
        "private": flag(),
        "domain": text(),
        "domain_size": whole(0),
        "domain_digest": maybe(text()),
        "table": maybe(text()),
        "identity": maybe(text()),
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
_PROMISE = record(Promise, {"epsilon": positive(), "sensitivity": positive(), "monotonic": flag()})
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
        "method": word(*METHODS),
        "route": maybe(word(*ROUTES)),
        "looked": maybe(each(pairs((whole(1), real()))), ()),
        "lead": maybe(real(least=0)),
        "parts": maybe(each(pairs((word("look", "select", "measure"), positive()))), ()),
        "measured_by": maybe(MEASUREMENT_ERROR),
    }
)
_ABOVE = {"branch_of": integers(1), "processed": whole(0), "errors": GAP_ERRORS}
_VALUES = {"values": floats(), "error": MEASUREMENT_ERROR, "rounding": real(least=0)}

_JOINT = {"lead": real(least=0), "p_value": real(least=0)}
_KINDS: dict[str, tuple[type[Release], Mapping[str, Form]]] = {
    "indices": (IndexRelease, _EVERY | _INDICES),
    "top-k": (TopKRelease, _EVERY | _TOP),
    "max": (MaxRelease, _EVERY | _TOP),
    "above": (AboveRelease, _EVERY | _SPENT | _TOP | _ABOVE),
    "joint": (JointRelease, _EVERY | _INDICES | _JOINT),
    "values": (MeasuredValues, _EVERY | _VALUES),
    "measured": (Measured, _EVERY | _MEASURED),
    "table": (TableRelease, _EVERY | {"question": _question()} | _MEASURED),
}
_NAMES = {made: name for name, (made, _) in _KINDS.items()}
_RECORDS = {name: record(made, forms) for name, (made, forms) in _KINDS.items()}


def document(release: Release) -> dict[str, Any]:
    """The release as a dictionary that JSON can hold."""
    name = _name_of(release)
    header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "kind": name, "delta": "0"}
    return {**header, **_RECORDS[name].write(release), **_shown(release)}


def _name_of(release: Release) -> str:
    name = _NAMES.get(type(release))
    if name is None:
        raise TypeError(f"a release of class {type(release).__name__} is no kind of document")
    return name


def _shown(release: Release) -> dict[str, Any]:
    """What follows from the rest, for people."""
    words: dict[str, Any] = {"guarantee": release.guarantee}
    if isinstance(release, Selected):
        words |= {"findings": list(release.findings)}
    if isinstance(release, TableRelease):
        rows = [row._asdict() for row in rows_of(release)]
        return words | {"private": release.question.origin.is_private, "items": rows}
    if isinstance(release, Measured | MeasuredValues):
        return words | {"interval": release.interval().tolist()}
    return words


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


def _read(content: Mapping[str, Any]) -> Release:
    name = _kind_of(content)
    passed_over = (*_HEADER, *SHOWN, *BESIDE)
    values = {field: value for field, value in content.items() if field not in passed_over}
    release: Release = _RECORDS[name].read(values, "the document")
    require_agreement(release)
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
    if content.get("delta") != "0":
        raise DocumentError("delta must be '0': this dpgap knows no other promise")
    return str(word(*_KINDS).read(content.get("kind"), "the kind of release"))

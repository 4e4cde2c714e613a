"""The release document: one JSON schema for every release, which can be read again for ever.

It holds all that was released, and all that is needed to show it again: the question, the
guarantee, the mechanisms with their parameters, the errors of the numbers, the time and version,
and the ledger's entry that paid. It does not hold the address of the table, nor anything private.

    {"format": "dpgap release", "version": 1, "kind": "table", …}

What is in a document
---------------------
- `format`, `version` and `kind` come first. `_KINDS` lists the kinds. A kind has the fields of its
  type, and some of those of `Detail`. Each field states its form where it is declared.
- Absent values (labels, a threshold, an entry of a ledger) are left out.
- Exact numbers (ε, δ, scales) are text such as "7/10". Floats have all their digits. Labels have
  rules of their own (`forms.py`).
- `epsilon` and `delta` are those of the guarantee. δ is "0", unless items were unknown. `promise`
  has them again, and ρ, as the most that such a release costs; `cost` is what this one did cost.
- Fields in `SHOWN` (findings and other sentences, 95 % intervals, rows) are computed from the
  others, for people, and for programs that do not want to compute them. They are never read. An
  archive keeps documents without them; they are added when a document is shown. `BESIDE` lists
  fields that the command line adds about an account; these are not read either.

How it may change
-----------------
- **A new kind** gets a new name. A reader that does not know it refuses the document.
- **A new field** must have a default that is true for every earlier document. It is left out if it
  has this default (`maybe`). So an older reader reads every document without the new field. It
  refuses a document with this field, because it cannot know what the numbers mean. δ above 0, a
  route and a group are such fields.
- **A new word** in a field that lists its words, such as a method or a law, is like a new field.
- **A field that changes its meaning** makes a new `version`. A reader refuses a later version, and
  says so. It reads all earlier ones.
- No field, kind or word is ever removed or used for something else. The tests have documents of
  every version, and all must be readable.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import singledispatch
from typing import Any

from dpgap._package import __version__, public
from dpgap.budget.cost import Cost, equal_part
from dpgap.estimates.certificates import Evidence
from dpgap.exact.parameters import exact_text
from dpgap.printable import DocumentError
from dpgap.question import HISTOGRAM
from dpgap.releases.detail import Detail, MechanismUsed
from dpgap.releases.forms import LABEL, POSITIVE, Form, each, forms_of, kinds, parts
from dpgap.releases.plain import attempted, parsed, plain
from dpgap.releases.release import (
    Items,
    ItemsAbove,
    MeasuredItems,
    MeasuredValues,
    Release,
    ReleasesByGroup,
    SelectedItems,
    finite,
)

# --------------------------------------------------------------------------------------------------
# Consistency of a release that was read: lengths, budgets and the question must agree.
#
# dpgap never makes a release in which they disagree. But a document may be edited or invented.


_ROUTES_OF: dict[str, tuple[str | None, ...]] = {
    "best": ("joint", "ranked", "histogram", "hybrid", None),
    "joint": ("joint",),
    "ranked": ("ranked",),
    "paper": ("paper", None),
    "histogram": ("histogram",),
}
"""None is for what is above a threshold."""
_MOST_ERRORS = 16
"""The most different errors that a release has: one for each branch."""


def require_agreement(release: Release) -> None:
    """Refuse a release whose parts contradict each other."""
    question, most = release.question, release.detail.promise.cost
    _require(release.cost.delta == most.delta, "the δ of the cost and of the promise")
    _require(release.cost.fits(most), "cost and promise")
    if question is not None:
        _require(most.delta == question.delta, "a δ and what was asked")
        if question.group is None:
            _require(question.epsilon == most.epsilon, "epsilon and the question")
    _require_parts(release)


@singledispatch
def _require_parts(release: Release) -> None:
    """Refuse a release of this kind whose parts contradict each other."""
    raise TypeError(f"a {type(release).__name__} is of no kind that a document can hold")


def _require_mechanisms(release: Release) -> None:
    """The mechanisms take all of ε."""
    most = release.detail.promise.cost
    used = Cost.sum(map(_cost_of, release.detail.mechanisms))
    _require(used.epsilon == most.epsilon, "epsilon and the mechanisms")
    _require(used.fits(most), "the cost of the mechanisms and the promise")


def _cost_of(mechanism: MechanismUsed) -> Cost:
    """The most that a mechanism costs, by its parameters."""
    epsilon = dict(mechanism.parameters).get("epsilon")
    _require(isinstance(epsilon, str), "epsilon and the mechanisms")
    return Cost.pure(POSITIVE.read(epsilon, "the epsilon of a mechanism"))


def _require_no_delta(release: Release) -> None:
    _require(release.detail.promise.cost.delta == 0, "a δ and what was asked")


@_require_parts.register
def _(release: MeasuredValues) -> None:
    _require_mechanisms(release)
    _require_no_delta(release)
    _require(release.cost == release.detail.promise.cost, "cost and promise")
    _require_laws([release.detail.measured_by], release.values.size)
    question = release.question
    if question is not None:
        _require(release.values.size == 1, f"a {question.kind} and the values")
        _require(question.is_of_all, "one number and the question")
        is_count = question.kind == "count"
        _require((question.sum is None) == is_count, "a count and what is added up")


def _require_items(release: Items) -> None:
    """Indices, labels and leads must agree, whatever was selected."""
    _require_mechanisms(release)
    count = release.indices.size
    line, evidence = release._line, release.detail.evidence
    _require(release.labels is None or len(release.labels) == count, "indices and labels")
    _require(line is None or abs(line) < 1 << 200, "a threshold and what answers can reach")
    leads, scales = evidence or Evidence((), ())
    _require(len(leads) == len(scales), "leads and their scales")
    # One for each, one for all, or none if nobody lost.
    lengths = (0, min(count, 1), count) if line is None or evidence is None else (count,)
    _require(len(leads) in lengths, "indices and leads")


@_require_parts.register
def _(release: SelectedItems) -> None:
    _require_items(release)
    _require(release.question is None, "a selection alone and the question")
    count = release.indices.size
    if release._line is not None:  # it may end early, and its items may be unknown
        _require(release.lead is None, "a threshold and the lead of a set")
        _require(release.gaps.size == count, "indices and gaps")
        return
    _require_no_delta(release)
    _require(release.cost == release.detail.promise.cost, "cost and promise")
    _require(count >= 1, "a top-k and its indices")
    lengths = (count, count - 1) if release.lead is None else (0,)
    _require(release.gaps.size in lengths, "indices and gaps")


@_require_parts.register
def _(release: ItemsAbove) -> None:
    _require_items(release)
    _require_no_delta(release)
    _require(release.question is None, "a selection alone and the question")
    _require(release.lead is None, "answers above a threshold and the lead of a set")
    count = release.indices.size
    _require(release.gaps.size == release.branch_of.size == count, "indices and gaps")
    thresholds = release.detail.thresholds
    _require(thresholds is None or len(thresholds) == count, "indices and thresholds")
    branches = len(release._gap_errors.branch_laws)
    _require(1 <= branches <= _MOST_ERRORS, "branches and their laws")
    highest = int(release.branch_of.max()) if count else 1
    _require(highest <= branches, "branches and their laws")
    _require(release.processed >= count, "indices and how many were processed")


@_require_parts.register
def _(release: MeasuredItems) -> None:
    _require_items(release)
    count, detail = release.indices.size, release.detail
    has_no_gaps = detail.route in ("joint", HISTOGRAM)
    lengths = (0,) if has_no_gaps else (count, max(count - 1, 0))
    _require(release.gaps.size in lengths, "indices and gaps")
    for column in (release.measurements, release.estimates, release.variances):
        _require(column.size == count, "indices and numbers")
    is_possible = detail.processed is None or detail.processed >= count
    _require(is_possible, "indices and how many were processed")
    _require(len(detail.errors) in ((1, count) if count else (0,)), "numbers and their errors")
    _require(len(set(detail.errors)) <= _MOST_ERRORS, "numbers and their errors")
    _require_laws([*detail.errors, detail.measured_by], count)
    _require(detail.route in _ROUTES_OF.get(detail.method or "", ()), "the method and the route")
    _require((release.lead is not None) == (detail.route == "joint"), "the route and the lead")
    is_above = release._line is not None
    _require(detail.route is not None or is_above, "a top-k and its route")
    _require_steps(release)
    ranks = [rank for rank, _ in detail.looked]
    _require(ranks == sorted(set(ranks)), "the ranks that were looked at")
    question = release.question
    if question is None:
        _require_no_delta(release)
        return
    is_above = question.kind == "above"
    _require(not question.is_of_all, "a table and the question")
    _require(is_above or question.k is not None, "a top-k and its k")
    _require(question.method == detail.method, "the method and the question")
    _require(is_above == (question.threshold is not None), "kind and threshold")
    _require(release.labels is not None or not count, "a table and its labels")


def _require_steps(release: MeasuredItems) -> None:
    """The steps of a route add up to the cost; nothing is measured if nothing was found."""
    steps = ["look"] if release.detail.looked else []
    if release.detail.route != HISTOGRAM:
        steps.append("select")
    if release.detail.route == HISTOGRAM or len(release):
        steps.append("measure")
    parts = release.cost.parts
    _require([step for step, _ in parts] == steps, "the route and its steps")
    together = Cost.sum(cost for _, cost in parts).with_delta(release.cost.delta)
    _require(together == release.cost, "the cost and that of each step")


def _require_laws(errors: Iterable[Any], count: int) -> None:
    """Joint noise must have a coordinate for each value, and perhaps one that all share."""
    for error in set(errors) - {None}:
        dimension = getattr(getattr(error, "law", None), "dimension", count)
        _require(dimension in (count, count + 1), "numbers and the dimension of their noise")


@_require_parts.register
def _(release: ReleasesByGroup) -> None:
    question = release._asked
    is_right = len(release) == len(set(release)) == question.groups > 0
    _require(is_right, "the groups and their answers")
    used = {mechanism for answer in release.values() for mechanism in answer.detail.mechanisms}
    _require(set(release.detail.mechanisms) == used, "the groups and their mechanisms")
    possible = (question.epsilon, equal_part(question.epsilon, question.max_groups))
    for answer in release.values():
        _require(answer.epsilon in possible, "epsilon and that of the groups")
        require_agreement(answer)


def _require(is_so: bool, what: str) -> None:
    if not is_so:
        raise DocumentError(f"{what} contradict each other")


# --------------------------------------------------------------------------------------------------
# The form of each kind of release: the fields of its type, beside those of its details.


FORMAT, VERSION = "dpgap release", 1
SHOWN = ("findings", "guarantee", "interval", "items", "private")
BESIDE = ("epsilon_spent", "epsilon_remaining", "exact")

Makers = dict[str, Callable[[], Any]]
_DETAILS = forms_of(Detail)


def _forms(kind: type[Release]) -> dict[str, Form]:
    """The forms of the fields of this kind and of its details."""
    forms = forms_of(kind)
    for name, form in _DETAILS.items():
        if name in kind._needed:
            forms[name] = form.needed()
        elif name in kind._possible:
            forms[name] = form
    return forms


def _field(release: Release, name: str) -> Any:
    return getattr(release.detail if name in _DETAILS else release, name)


def _made_of(kind: type[Release], values: Mapping[str, Any]) -> Release:
    """The release with these fields."""
    details = {name: value for name, value in values.items() if name in _DETAILS}
    fields = {name: value for name, value in values.items() if name not in _DETAILS}
    return kind(**fields, detail=Detail(**details))


def _form(kind: type[Release]) -> Form:
    fields = parts(_forms(kind), _field)
    return Form(fields.write, lambda found, where: _made_of(kind, fields.read(found, where)))


def _form_of_groups() -> Form:
    """The form of a release by group: answers lack what they share, and have their group."""
    shared = ("made", "question")
    own = {name: form for name, form in _forms(MeasuredItems).items() if name not in shared}
    answers = each(parts({"group": LABEL} | own, _field_of_group))
    forms = _forms(ReleasesByGroup)
    forms["question"] = forms["question"].needed()
    fields = parts(forms | {"answers": answers}, _field_of_groups)

    def read(found: Any, where: str) -> Release:
        values = fields.read(found, where)
        releases = []
        for answer in values.pop("answers"):
            question = replace(values["question"], group=answer.pop("group"))
            answer |= {"made": values["made"], "question": question}
            releases.append(_made_of(MeasuredItems, answer))
        return _made_of(ReleasesByGroup, values | {"_answers": tuple(releases)})

    return Form(fields.write, read)


def _field_of_group(answer: MeasuredItems, name: str) -> Any:
    return answer.question.group if name == "group" and answer.question else _field(answer, name)


def _field_of_groups(release: ReleasesByGroup, name: str) -> Any:
    return release._answers if name == "answers" else _field(release, name)


_KINDS: dict[str, tuple[type[Release], Form]] = {
    "selected": (SelectedItems, _form(SelectedItems)),
    "above": (ItemsAbove, _form(ItemsAbove)),
    "measured": (MeasuredItems, _form(MeasuredItems)),
    "values": (MeasuredValues, _form(MeasuredValues)),
    "groups": (ReleasesByGroup, _form_of_groups()),
}
_RELEASE = kinds(_KINDS)


def document(release: Release) -> dict[str, Any]:
    """The release as a dictionary that JSON can hold."""
    return {**drawn(release), **_shown(release)}


def drawn(release: Release) -> dict[str, Any]:
    """The dictionary without the fields in `SHOWN`: only what was drawn, no sentences."""
    written = _RELEASE.write(release)
    header = {"format": FORMAT, "version": VERSION, "kind": written["kind"]}
    return {**header, **_guarantee(release), **written}


def _guarantee(release: Release) -> dict[str, str | None]:
    """The ε and the δ of the guarantee, which the promise states too."""
    most = release.detail.promise.cost
    epsilon = None if most.epsilon is None else exact_text(most.epsilon)
    return {"epsilon": epsilon, "delta": exact_text(most.delta)}


def _shown(release: Release) -> dict[str, Any]:
    """The fields in `SHOWN`; one that cannot be made is left out."""
    fields: Makers = {"guarantee": lambda: release.guarantee}
    fields |= _shown_beside(release)
    values = {name: attempted(name, None, make) for name, make in fields.items()}
    return {name: value for name, value in values.items() if value is not None}


@singledispatch
def _shown_beside(release: Release) -> Makers:
    """Functions that make the other fields in `SHOWN`, by their names."""
    return {"findings": lambda: list(release.findings)}


@_shown_beside.register
def _(release: MeasuredItems) -> Makers:
    fields: Makers = {"findings": lambda: list(release.findings)}
    question = release.question
    if question is None:
        fields["interval"] = lambda: _intervals(release)
    else:
        fields["private"] = lambda: question.is_private
        fields["items"] = lambda: [plain(row) for row in release]
    return fields


@_shown_beside.register
def _(release: MeasuredValues) -> Makers:
    fields: Makers = {"interval": lambda: _intervals(release)}
    if release.question is not None:
        fields["findings"] = lambda: list(release.findings)
    return fields


def _intervals(release: MeasuredItems | MeasuredValues) -> list[list[float | None]]:
    return [list(map(finite, ends)) for ends in release.interval().reshape(-1, 2).tolist()]


@public
def read_release(text: str | bytes) -> Release:
    """The release that a document holds, free of charge: the same table, page and intervals.

    Any other text, and a document that this version of dpgap does not understand, raise a
    `ValueError` that says why. A document can be up to 64 MiB long.

    Parameters
    ----------
    text
        The text that `to_json()` of a release returned, or that `dpgap top-k … --json` printed.

    >>> import dpgap
    >>> release = dpgap.NoisyTopK(k=1, epsilon=1000).release([10, 50], labels=["fig", "pea"])
    >>> again = dpgap.read_release(release.to_json())
    >>> again.labels, again.to_json() == release.to_json()
    (('pea',), True)
    """
    return _read(parsed(text))


def read_archived(text: str) -> Release:
    """The release in a document from an archive, which may have any length."""
    return _read(parsed(text, is_ours=True))


def handed_out(text: str) -> str:
    """A document from an archive, with its sentences, rows and intervals added."""
    return attempted("document", text, lambda: read_archived(text).to_json())


def _read(content: Mapping[str, Any]) -> Release:
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
    passed_over = ("format", "version", "epsilon", "delta", *SHOWN, *BESIDE)
    values = {field: value for field, value in content.items() if field not in passed_over}
    release: Release = _RELEASE.read(values, "the document")
    require_agreement(release)
    for name, number in _guarantee(release).items():
        _require(content.get(name) == number, f"{name} and the promise")
    return release

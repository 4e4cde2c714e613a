"""All that a release shows of itself, to compare two of them byte for byte."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from dpgap.releases.page import page
from dpgap.releases.release import Release
from dpgap.releases.text import shown


def altered_release(release: Any, **changes: Any) -> Any:
    """The same release with other values in these fields, or in those of its details."""
    names = {field.name for field in fields(release.detail)}
    details = {name: value for name, value in changes.items() if name in names}
    others = {name: value for name, value in changes.items() if name not in names}
    return replace(release, **others, detail=replace(release.detail, **details))


LEVELS = (0.5, 0.8, 0.95, 0.999)


def faces(release: Release) -> dict[str, Any]:
    """Table, pages, intervals, frame and document of a release, as text."""
    found = {
        "class": type(release).__name__,
        "table": str(release),
        "in a notebook": release._repr_html_(),
        "page": page(release),
        "csv": release.to_csv(),
        "on a terminal": shown(release, release.epsilon, "sales"),
        "frame": _frame(release),
        "dictionary": release._to_dict(),
        "document": release.to_json(),
    }
    if hasattr(release, "interval"):
        found["intervals"] = {level: release.interval(level).tolist() for level in LEVELS}
    if hasattr(release, "lower_bounds"):
        found["bounds"] = {level: release.lower_bounds(level).tolist() for level in LEVELS}
    if release.question is not None:
        asked = release.question
        found["question"] = (asked.identity, asked.purpose, asked.guarantee())
    return found


def _frame(release: Release) -> dict[str, tuple[str, str]]:
    """The type of every column of the data frame, and its cells."""
    frame = release.to_frame()
    return {name: (str(frame[name].dtype), repr(frame[name].tolist())) for name in frame.columns}


def arrays(release: Release) -> dict[str, tuple[str, list[Any]]]:
    """The arrays of a release, with the types of their numbers."""
    names = [name for kind in type(release).__mro__ for name in getattr(kind, "__slots__", ())]
    values = {name: getattr(release, name) for name in names}
    return {
        name: (str(value.dtype), value.tolist())
        for name, value in values.items()
        if isinstance(value, np.ndarray)
    }

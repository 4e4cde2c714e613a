"""Options that several commands have, in one wording, and a way to take many of them at once.

A group of options is a class of named fields. A command that takes such a group has all of its
options, and is given the group as one value.
"""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

K = Annotated[int, typer.Option("-k", "--k", help="How many items to find.")]
Split = Annotated[
    str | None, typer.Option(help="The share of ε for selecting; else the method's own.")
]
Neighbours = Annotated[
    str, typer.Option(help="What one unit may do: add-or-remove, or replace another.")
]
Adaptive = Annotated[
    bool, typer.Option("--adaptive/--plain", help="Pay less for items far above a threshold.")
]
AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CSVFile = Annotated[Path | None, typer.Option("--csv", help="Also write the rows to this file.")]
HTMLFile = Annotated[Path | None, typer.Option("--html", help="Also write a report page.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of its groups in place of them.

    Groups are parameters whose types are named tuples. Those that must be given come first.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if hasattr(kind, "_field_defaults")}
    taken: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name not in groups:
            taken.append(parameter.replace(annotation=hints[name]))
            continue
        defaults = groups[name]._field_defaults
        for field, hint in get_type_hints(groups[name], include_extras=True).items():
            default = defaults.get(field, Parameter.empty)
            kind = Parameter.KEYWORD_ONLY
            taken.append(Parameter(field, kind, default=default, annotation=hint))

    @wraps(command)
    def flat(**given: Any) -> None:
        made = {
            name: kind(**{field: given.pop(field) for field in kind._fields})
            for name, kind in groups.items()
        }
        command(**given, **made)

    ordered = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in taken]
    flat.__signature__ = signature(command).replace(parameters=ordered)  # type: ignore[attr-defined]
    flat.__annotations__ = {each.name: each.annotation for each in ordered} | {"return": None}
    del flat.__wrapped__
    return flat

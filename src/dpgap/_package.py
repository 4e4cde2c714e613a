"""What every room may take from the package: its version, `public`, and how to get extras."""

import sys
from typing import Any, TypeVar

__version__ = "0.3.0.dev0"

Thing = TypeVar("Thing", bound=Any)


def public(thing: Thing) -> Thing:
    """Let a class or function say that it is dpgap's own, whatever file it lives in.

    Doctests are looked for by module, so its home keeps it in `__test__`, where they are found.
    """
    vars(sys.modules[thing.__module__]).setdefault("__test__", {})[thing.__name__] = thing
    thing.__module__ = "dpgap"
    return thing


def how_to_get(extra: str) -> str:
    """The command that adds an extra, from wherever this dpgap was installed: it is on no index.

    pip notes where that was. Without a note a copy of the source is the way.
    """
    import json
    import shlex
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote

    try:
        note = json.loads(distribution("dpgap").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        note = {}
    if "url" not in note:
        return f"in a copy of dpgap's source, pip install '.[{extra}]'"
    if note.get("dir_info", {}).get("editable"):
        folder = unquote(note["url"].removeprefix("file://"))
        return f"pip install -e {shlex.quote(f'{folder}[{extra}]')}"
    return f"pip install {shlex.quote(f'dpgap[{extra}] @ ' + note['url'])}"

"""Facts that every room may import: the version, `public`, and how to install extras."""

import sys
from typing import Any, TypeVar

__version__ = "0.3.0.dev0"

Thing = TypeVar("Thing", bound=Any)


def public(thing: Thing) -> Thing:
    """Set `__module__` of a class or function to `dpgap`, whatever file defines it.

    doctest searches by module. So the file that defines it lists it in `__test__`.
    """
    vars(sys.modules[thing.__module__]).setdefault("__test__", {})[thing.__name__] = thing
    thing.__module__ = "dpgap"
    return thing


def how_to_get(extra: str) -> str:
    """The pip command that installs an extra. dpgap is on no index (PyPI).

    pip records where a package was installed from. If there is no record, the command is for a
    copy of the source.
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

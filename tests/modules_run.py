"""What of dpgap one command executes: its modules, functions, depth, and calls between rooms.

    python tests/modules_run.py top-k FILE …

What runs while modules are being imported does not count. The command's own output comes first; on
standard error the modules follow, each where its first function ran, and then four numbers. *Depth*
is how many functions of dpgap wait for each other at the most. A command that counts in a thread of
its own may list a few modules in another order the next time.
"""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import dpgap

_ROOT = str(Path(dpgap.__file__).parents[1]) + "/"
_first: dict[str, str] = {}
_functions: set[tuple[str, str]] = set()
_numbers = {"depth": 0, "calls between rooms": 0}


def _note(frame: FrameType, event: str, _: Any) -> None:
    code = frame.f_code
    path = code.co_filename.removeprefix(_ROOT)
    if event != "call" or not path.startswith("dpgap/") or code.co_name == "<module>":
        return
    waiting = list(_ours(frame))
    if "" in waiting:
        return
    _first.setdefault(path, code.co_qualname)
    _functions.add((path, code.co_qualname))
    _numbers["depth"] = max(_numbers["depth"], len(waiting))
    _numbers["calls between rooms"] += len({each.split("/")[1] for each in waiting[:2]}) == 2


def _ours(frame: FrameType | None) -> Iterator[str]:
    """The files of the functions of dpgap that wait for each other; "" is an import."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            yield ""
        elif name.startswith(_ROOT + "dpgap/"):
            yield name.removeprefix(_ROOT)
        frame = frame.f_back


if __name__ == "__main__":
    from dpgap.cli.main import app

    sys.argv[0] = "dpgap"
    threading.setprofile(_note)
    sys.setprofile(_note)
    try:
        app()
    finally:
        sys.setprofile(None)
        for number, (module, function) in enumerate(_first.items(), start=1):
            print(f"{number:3} {module} {function}", file=sys.stderr)
        counted = {"modules": len(_first), "functions": len(_functions), **_numbers}
        print(*(f"{name} {number}" for name, number in counted.items()), sep=", ", file=sys.stderr)

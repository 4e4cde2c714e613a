"""Which modules of dpgap one command executes: those in which a function runs.

    python tests/modules_run.py top-k FILE …

What runs while modules are being imported does not count. The command's own output comes first;
the modules follow on standard error, each where its first function ran. A command that counts in a
thread of its own may list a few of them in another order the next time.
"""

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import dpgap

_ROOT = str(Path(dpgap.__file__).parents[1]) + "/"
_first: dict[str, str] = {}


def _note(frame: FrameType, event: str, _: Any) -> None:
    code = frame.f_code
    path = code.co_filename.removeprefix(_ROOT)
    is_ours = path.startswith("dpgap/") and path not in _first
    if event == "call" and is_ours and code.co_name != "<module>" and not _importing(frame):
        _first[path] = code.co_qualname


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    from dpgap.cli.app import app

    sys.argv[0] = "dpgap"
    threading.setprofile(_note)
    sys.setprofile(_note)
    try:
        app()
    finally:
        sys.setprofile(None)
        for number, (module, function) in enumerate(_first.items(), start=1):
            print(f"{number:3} {module} {function}", file=sys.stderr)

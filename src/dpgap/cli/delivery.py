"""A release that is paid for reaches somebody: files, the terminal, or the next place that works.

If a file or the terminal fails (a full disk, a closed pipe), the release document goes into the
present folder, else into the home folder, else into that for temporary files. Only its owner can
read it there, a message says where it is, and the exit code is 1. `dpgap show` reads it.
"""

import secrets
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dpgap.cli.errors import message_of
from dpgap.cli.files import Output, write_new
from dpgap.cli.streams import let_go_if_broken, say
from dpgap.releases.printable import printable

if TYPE_CHECKING:
    from dpgap.releases.release import Release

Render = Callable[[], str]


def renders(release: "Release") -> dict[str, Render]:
    """What to write into a file of each kind."""

    def csv() -> str:
        from dpgap.releases.text import to_csv

        return to_csv(release)

    def html() -> str:
        from dpgap.releases.page import page

        return page(release)

    return {"csv": csv, "html": html}


def deliver(files: Sequence[tuple[Output, Render]], shown: Render, complete: Render) -> None:
    """Write the files and print what is shown; if any of it fails, keep what is complete."""
    failed = []
    for output, render in files:
        if why := _failure(output.write, render):
            failed.append(f"{output.path} could not be written ({why})")
    if why := _failure(say, shown):
        failed.append(f"the release could not be printed ({why})")
    if not failed:
        return
    let_go_if_broken(sys.stdout)
    is_printed = why is None and shown is complete
    place = "it was printed as well" if is_printed else _kept(complete)
    message = f"dpgap: {'; '.join(failed)}. The release is paid for: {place}"
    lines = map(printable, message.split("\n"))
    _failure(partial(typer.echo, err=True), lambda: "\n".join(lines))
    let_go_if_broken(sys.stderr)
    raise typer.Exit(1)


def _failure(put: Callable[[str], object], render: Render) -> str | None:
    """Why a text could not be put there. It is paid for, so not even an interrupt stops us."""
    try:
        put(render())
    except KeyboardInterrupt:
        return "interrupted"
    except Exception as error:
        return message_of(error)
    return None


def _kept(complete: Render) -> str:
    """Keep the release in the first folder that takes it, and say where. Else say all of it."""
    content = complete()
    moment = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    for folder in (Path.cwd, Path.home, lambda: Path(tempfile.gettempdir())):
        try:
            path = folder().absolute() / f"dpgap-release-{moment}-{secrets.token_hex(4)}.json"
            write_new(path, (content + "\n").encode(), mode=0o600)
        except (OSError, RuntimeError):  # there may be no such folder
            continue
        return f"it is in {path}, which dpgap show reads"
    return f"no place could be found for it, so here it is:\n{content}"

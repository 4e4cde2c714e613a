"""Files that the command line writes: never onto what it reads, and whole or not at all.

A file that is there already stays unless `--force` is given. What is written goes to a temporary
file in the same folder, which takes the name when it is complete. With `--force` a link is
followed, as the shell's `>` does: the file that it leads to is replaced, and the link stays.
Pipes and devices such as /dev/stdout are written straight into.

Names are taken as they are: `~` at their beginning is for the shell to expand.
"""

import os
import secrets
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from urllib.parse import unquote, urlsplit

_BESIDE_A_DATABASE = ("", "-journal", "-wal", "-shm", ".wal")


@dataclass(frozen=True, slots=True)
class Input:
    """A file that is read, and what it is."""

    what: str
    path: Path


@dataclass(frozen=True, slots=True)
class Output:
    """A file to write, which must be none of the inputs."""

    option: str
    path: Path
    inputs: Sequence[Input]
    force: bool

    def require_writable(self) -> None:
        """Refuse a file that must not or cannot be written."""
        for read in self.inputs:
            if _is_same(self.path, read.path):
                raise ValueError(
                    f"{self.option} {self.path} is {read.what}: it must be another file"
                )
        folder = Path(os.path.realpath(self.path)).parent
        if not folder.is_dir() or not _is_writable_kind(self.path):
            raise ValueError(
                f"{self.path} cannot be written: it must be a file in an existing folder"
            )
        if _is_stream(self.path):
            return
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ValueError(f"{self.path} cannot be written: its folder cannot be written to")
        if os.path.lexists(self.path) and not self.force:
            raise ValueError(f"{self.path} is there already: --force replaces it")

    def write(self, text: str) -> None:
        """Write the whole text, or raise an error and leave no trace."""
        content = text.encode(errors="backslashreplace")
        if _is_stream(self.path):
            _write_into(self.path, content)
            return
        target = Path(os.path.realpath(self.path)) if self.force else self.path.absolute()
        temporary = target.with_name(f".dpgap-{secrets.token_hex(8)}.part")
        try:
            write_new(temporary, content, mode=0o666)
            if self.force:
                self.require_writable()  # much may have happened while we were counting
                os.replace(temporary, target)
            else:
                _name_if_free(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which files to make of a release."""

    csv: Path | None
    html: Path | None
    force: bool

    def files(self, inputs: Callable[[], Sequence[Input]]) -> dict[str, Output]:
        """The files by kind, none of which may be one that is read."""
        paths = {"csv": self.csv, "html": self.html}
        given = {kind: path for kind, path in paths.items() if path is not None}
        read = inputs() if given else []
        files = {kind: Output(f"--{kind}", path, read, self.force) for kind, path in given.items()}
        require_outputs(list(files.values()))
        return files


def require_outputs(outputs: Sequence[Output]) -> None:
    """Refuse files that must not or cannot be written, before anything is counted or paid."""
    for output in outputs:
        output.require_writable()
    files = [output for output in outputs if not _is_stream(output.path)]
    for place, one in enumerate(files):
        for other in files[:place]:
            if _is_same(one.path, other.path):
                raise ValueError(
                    f"{other.option} and {one.option} must be two files, whose names differ in "
                    "more than capitals"
                )


def input_files(table: str, domain: str, ledger: str | None) -> list[Input]:
    """All files that a release may read or write besides its output, however they are written."""
    found = [Input("the domain", Path(name)) for name in (domain, domain.rpartition(":")[0])]
    names = _files_of_url(table) if "://" in table else [table]
    found += [Input("the table", Path(name)) for name in names]
    if ledger is not None:
        from dpgap.budget.store import read_url

        file = read_url(ledger).file
        if file is not None:
            found += [Input("the ledger", path) for path in _with_journals(file)]
    return [read for read in found if read.path.name]


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that is not there yet; if that fails, it is not there afterwards either."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(handle, "wb") as file:
            file.write(content)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _files_of_url(url: str) -> Iterator[str]:
    """The files that the address of a database could mean, such as duckdb://sales.db?table=may."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    for name in (parts.netloc + parts.path, parts.path, parts.path.lstrip("/")):
        for path in (name, unquote(name)):
            yield from (path + ending for ending in _BESIDE_A_DATABASE if path)


def _with_journals(database: Path) -> Iterable[Path]:
    """A file of SQLite, and those that SQLite keeps beside it. Links are followed."""
    for file in (str(database), os.path.realpath(database)):
        yield from (Path(file + ending) for ending in _BESIDE_A_DATABASE)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, or would if it were made."""
    try:
        are_there = os.path.exists(one), os.path.exists(other)
        if all(are_there):
            return os.path.samefile(one, other)
        return not any(are_there) and _place(one) == _place(other)
    except (OSError, ValueError):
        return False


def _place(path: Path) -> tuple[int, int, str]:
    """The folder, and the name. Some file systems do not tell capitals apart, so we do not."""
    real = Path(os.path.realpath(path))
    folder = os.stat(real.parent)
    return folder.st_dev, folder.st_ino, unicodedata.normalize("NFC", real.name).casefold()


def _is_writable_kind(path: Path) -> bool:
    """Whether it can be written: nothing yet, a file, a pipe or a terminal, but no folder."""
    try:
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(kind) or stat.S_ISFIFO(kind) or stat.S_ISCHR(kind)


def _is_stream(path: Path) -> bool:
    """Whether to write straight into it: a pipe, a device, or a file that is open for us."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return True
    except (OSError, ValueError):
        return False
    is_handle = os.path.realpath(path.parent) == os.path.realpath("/dev/fd")
    return is_handle or _ours(path) is not None


def _ours(path: Path) -> TextIO | None:
    """The standard stream that leads to this file, if any does."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if os.path.samestat(os.stat(path), os.fstat(stream.fileno())):
                return stream
        except (OSError, ValueError, AttributeError):  # a stream may be closed
            continue
    return None


def _write_into(path: Path, content: bytes) -> None:
    stream = _ours(path)
    if stream is not None:
        stream.flush()
        stream.buffer.write(content)
        stream.flush()
        return
    with open(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as file:
        file.write(content)


def _name_if_free(temporary: Path, target: Path) -> None:
    """Give a complete file its name, unless another file took the name in the meantime."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # not every file system has links
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        os.replace(temporary, target)

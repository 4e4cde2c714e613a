"""`dpgap top-k`, `above`, `count` and `total`: from a table to a release that is delivered."""

import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import typer

from dpgap.cli.commands import (
    JSON,
    Force,
    PageTitle,
    keyword_option,
    let_go_if_broken,
    message_of,
    notes,
    option,
    progress,
    say,
    say_error,
)
from dpgap.printable import printable
from dpgap.question import (
    COUNTING,
    Above,
    Amounts,
    OfAll,
    TopK,
    hints_of,
    read_wanted,
    stated_counting,
)

if TYPE_CHECKING:
    from dpgap.budget.ledger import LedgerAccount
    from dpgap.releases.release import Release


# --------------------------------------------------------------------------------------------------
# Files that the command line writes: never over an input file, and complete or not at all.
#
# An existing file stays, unless `--force` is given. Then the text goes to a temporary file in the
# same folder, which is renamed when it is complete. A link is followed, as the shell's `>` does:
# the target is replaced, and the link stays. Pipes and devices are refused.
#
# Names are used as they are: only the shell expands a leading `~`.


Render = Callable[[], str]
Put = tuple[str, Callable[[str], None], Render]
"""A step of delivery: the words if it fails, how to write the text, and how to make it."""
Inputs = Sequence[tuple[str, str | Path]]
"""Input files, each with a word for its role."""
_PRINTED: Inputs = [("the standard output", "/dev/stdout"), ("the standard error", "/dev/stderr")]
"""Streams that a shell may redirect to a file; if this file were replaced, output would be lost."""


class OutputFile(NamedTuple):
    """A file to write, which must be none of the inputs."""

    option: str
    path: Path
    inputs: Inputs
    force: bool

    def require_writable(self) -> None:
        """Refuse a file that must not or cannot be written."""
        for what, path in self.inputs:
            if _is_same(self.path, path):
                raise ValueError(f"{self.option} {self.path} is {what}: it must be another file")
        folder = Path(os.path.realpath(self.path)).parent
        if not folder.is_dir() or (self.path.exists() and not self.path.is_file()):
            raise ValueError(
                f"{self.path} cannot be written: it must be a file in an existing folder"
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ValueError(f"{self.path} cannot be written: its folder cannot be written to")
        if os.path.lexists(self.path) and not self.force:
            raise ValueError(f"{self.path} is there already: --force replaces it")

    def write(self, text: str) -> None:
        """Write the whole text, or raise an error and leave no file."""
        content = text.encode(errors="backslashreplace")
        if not self.force:
            write_new(self.path, content, mode=0o666)
            return
        target = Path(os.path.realpath(self.path))
        temporary = target.with_name(f".dpgap-{secrets.token_hex(8)}.part")
        write_new(temporary, content, mode=0o666)
        try:
            self.require_writable()  # files may have changed during counting
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


class Output(NamedTuple):
    """Options for what is printed, and for the files that are written."""

    json: JSON = False
    csv: Annotated[Path | None, "Also write the rows to this file."] = None
    html: Annotated[Path | None, "Also write a report page."] = None
    title: PageTitle = None
    force: Force = False

    def files(self, inputs: Callable[[], Inputs]) -> dict[str, OutputFile]:
        """The files by kind. An output file must not be an input file.

        A file that must not or cannot be written is refused before anything is counted or paid.
        """
        if self.title is not None and self.html is None:
            raise ValueError("--title is the heading of a page: give --html as well")
        files: dict[str, OutputFile] = {}
        taken = list(_PRINTED)
        for kind, path in (("csv", self.csv), ("html", self.html)):
            if path is not None:
                files[kind] = OutputFile(f"--{kind}", path, [*inputs(), *taken], self.force)
                files[kind].require_writable()
                taken.append((f"the file of --{kind}, {path}", path))
        return files

    def rendered(self, kind: str, release: "Release") -> str:
        """The text for a file of this kind."""
        if kind == "html":
            return release.to_html(title=self.title)
        return release.to_csv()


def input_files(table: str, domain: str, ledger: str | None) -> Inputs:
    """All files that a release may read or write besides its output, in any spelling."""
    path = table
    if "://" in table:  # such as duckdb://sales.db?table=may
        with suppress(ValueError):
            path = unquote(urlsplit(table).netloc + urlsplit(table).path)
    found = [("the domain", domain), ("the domain", domain.rpartition(":")[0]), ("the table", path)]
    return [*(it for it in found if it[1]), *ledger_files(ledger or "")]


def ledger_files(ledger: str) -> Inputs:
    """The file of a ledger, if it has one, and the files that SQLite keeps beside it."""
    from dpgap.budget.store import read_url

    file = read_url(ledger).file if ledger else None
    ends = () if file is None else ("", "-journal", "-wal", "-shm")
    return [("the ledger", os.path.realpath(file or "") + end) for end in ends]


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that does not exist yet; after an error it does not exist either."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(handle, "wb") as file:
            file.write(content)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _is_same(one: str | Path, other: str | Path) -> bool:
    """Whether two paths lead (or would lead) to one file. Some file systems ignore capitals."""
    with suppress(OSError, ValueError):
        if os.path.exists(one) and os.path.exists(other):
            return os.path.samefile(one, other)
        return os.path.realpath(one).casefold() == os.path.realpath(other).casefold()
    return False


# --------------------------------------------------------------------------------------------------
# Delivery of a paid release: to files and the terminal, or to the first folder that works.
#
# If a file or the terminal fails (a full disk, a closed pipe), the release document is written to
# the current folder; if this fails, to the home folder, or to the folder for temporary files. Only
# its owner can read it there. A message says where it is, and the exit code is 1. `dpgap show`
# reads it.


def deliver(puts: Sequence[Put], complete: Render) -> None:
    """Write every text, the last one to the terminal; if one fails, save the complete document."""
    failed = []
    for what, put, render in puts:
        try:
            put(render())
            is_printed = render is complete
        except (Exception, KeyboardInterrupt) as error:  # it is paid for, so interrupts are ignored
            is_printed = False
            failed.append(f"{what} ({message_of(error)})")
    if not failed:
        return
    let_go_if_broken(sys.stdout)
    place = "it was printed as well" if is_printed else _kept(complete)
    message = f"dpgap: {'; '.join(failed)}. The release is paid for: {place}"
    lines = map(printable, message.split("\n"))
    with suppress(Exception, KeyboardInterrupt):
        typer.echo("\n".join(lines), err=True)
    let_go_if_broken(sys.stderr)
    raise typer.Exit(1)


def _kept(complete: Render) -> str:
    """Save the release in the first folder that works, and say where; otherwise print all of it."""
    content = complete()
    moment = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    for folder in (Path.cwd, Path.home, lambda: Path(tempfile.gettempdir())):
        try:
            path = folder().absolute() / f"dpgap-release-{moment}-{secrets.token_hex(4)}.json"
            write_new(path, (content + "\n").encode(), mode=0o600)
        except (OSError, RuntimeError):  # this folder may not exist
            continue
        return f"it is in {path}, which dpgap show reads"
    return f"it could not be saved, so it is printed here:\n{content}"


# --------------------------------------------------------------------------------------------------
# `dpgap show`: print a release again from its document; this costs nothing.


def show(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A release document, as --json prints it; - is standard input."
        ),
    ],
    output: Output,
) -> None:
    """Show a release again from its document. Nothing is counted, drawn or charged."""
    files = output.files(lambda: [] if file == "-" else [("the document", file)])
    from dpgap.releases.document import read_release
    from dpgap.releases.text import shown, to_json

    release = read_release(_content(file))
    entry = release.made.ledger
    for kind, target in files.items():
        target.write(output.rendered(kind, release))
    if output.json:
        # What a ledger has left now is not in a document.
        say(to_json(release, release.remaining if entry is None else None))
    else:
        say(shown(release, release.remaining))
    if entry is not None:
        say_error(
            f"note: the document says that entry {entry.entry} of data set {entry.dataset!r} paid "
            "for it. That was not checked: `dpgap ledger archive` shows what the ledger has"
        )


def _content(file: str) -> bytes:
    """The bytes of a file or of standard input; at most one byte more than is accepted."""
    from dpgap.releases.plain import MOST

    if file == "-" and sys.stdin is None:
        raise ValueError("standard input is closed")
    with nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb") as document:
        return document.read(MOST + 1)


# --------------------------------------------------------------------------------------------------


_ROWS = "Which rows, and how much of a unit counts"
_NO_DOMAIN = (
    "state the items: --domain FILE (public, one on each line); or, without a list, "
    "--max-items 3 --delta 1e-6"
)
_NO_LEDGER = "Nothing remembers this ε: add your runs up, or use --ledger."

_MAIN = ("unit", "item", "domain", "neighbours")
TABLE = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="Parquet, CSV, JSON lines or FIMI .dat, also .gz; or postgresql://…/db?table=sales.",
    ),
]


def _options(needed: Sequence[str], *others: Iterable[str]) -> list[Parameter]:
    """Options of a question, without those of payment; needed options come first."""
    rows, left_out = {*COUNTING} - {*_MAIN}, ("fresh", *needed)
    more = (name for names in others for name in names if name not in left_out)
    made = [keyword_option(name, needed=True) for name in needed]
    return made + [keyword_option(name, _ROWS if name in rows else None) for name in more]


OPTIONS = {
    "top-k": _options(["k", "epsilon"], COUNTING, hints_of(TopK)),
    "above": _options(["threshold", "epsilon"], COUNTING, hints_of(Above)),
    "count": _options(["epsilon"], hints_of(OfAll)),
    "total": _options(["epsilon", "sum", "at_most"], hints_of(OfAll), hints_of(Amounts)),
}
SUMMARIES = {
    "top-k": "Find the k items with the most units or the largest sums, with error bars.",
    "above": "Find items above a threshold, in a fresh random order, with estimates and gaps.",
    "count": "Count the units of a table, with an interval.",
    "total": "Add up a column of a table, each unit cut off at public ends, with an interval.",
}


_pays = partial(option, panel="Who pays")


class Payer(NamedTuple):
    """Options of payment: a data set in a ledger, or none."""

    ledger: Annotated[str | None, _pays("The ledger to charge.")] = None
    dataset: Annotated[str | None, _pays("The data set in the ledger.")] = None
    reason: Annotated[str, _pays("The reason; the ledger keeps it.")] = ""
    key: Annotated[str | None, _pays("A name for the request, so that it is charged once.")] = None
    fresh: Annotated[bool, _pays("Pay for a new answer even if there is one.", "--fresh")] = False

    def account(self) -> "LedgerAccount | None":
        """The account that is charged; None without a ledger."""
        if self.ledger is None and self.dataset is None:
            if self.reason or self.key:
                raise ValueError("--reason and --key are for a ledger: give --ledger and --dataset")
            return None
        if self.ledger is None or self.dataset is None:
            raise ValueError("--ledger and --dataset must be given together")
        from dpgap.budget.ledger import Ledger

        return Ledger(self.ledger).account(self.dataset).of(reason=self.reason, key=self.key)


def _groups(stated: str) -> list[Any]:
    """Groups from a list in one word, or from a file."""
    if "," in stated or not Path(stated).is_file():
        return [group.strip() for group in stated.split(",")]
    from dpgap.data.domain import read_domain

    return list(read_domain(stated).labels)


def release(kind: str, file: TABLE, stated: dict[str, Any], payer: Payer, output: Output) -> None:
    """Charge and release; then show the paid release, even if files cannot be written."""
    said = stated_counting(stated)
    is_bounded = "max_items" in said and stated["delta"] != "0"
    is_of_all = kind in ("count", "total")
    if not is_of_all and "domain" not in said and not is_bounded:
        raise ValueError(_NO_DOMAIN)
    domain = said.get("domain", "")
    files = output.files(partial(input_files, file, domain, payer.ledger))
    if "groups" in said:
        said["groups"] = _groups(said["groups"])
    if "," in domain and not any(map(os.path.isfile, (domain, domain.rpartition(":")[0]))):
        said["domain"] = _groups(domain)
    from dpgap.data.counts import counts, units_of
    from dpgap.data.private_counts import errors_without_answers

    # While the engine counts, Python loads the other modules.
    with notes(), ThreadPoolExecutor(1) as background, progress("Counting …"):
        count_table: Any = units_of if is_of_all else counts
        counting = background.submit(count_table, file, **said)
        account = payer.account()
        from dpgap.pipelines.tables import answer, warn_of_weak_promise
        from dpgap.releases.text import shown, to_json

        answers = counting.result()
    wanted = read_wanted(kind, stated)
    with notes():
        warn_of_weak_promise(wanted)
        made = errors_without_answers(answer)(wanted, answers, account, payer.fresh)
    remaining, whose = None, "" if account is None else f"for you in data set {account.dataset!r}"
    with suppress(Exception, KeyboardInterrupt):  # the ledger may not be reachable now
        remaining = made.remaining if account is None else account.remaining
    as_object = partial(to_json, made, remaining)
    puts: list[Put] = []
    for each, target in files.items():
        render = partial(output.rendered, each, made)
        puts.append((f"{target.path} could not be written", target.write, render))
    note = "" if whose else _NO_LEDGER
    printed = as_object if output.json else partial(shown, made, remaining, whose, note)
    deliver([*puts, ("the release could not be printed", say, printed)], as_object)

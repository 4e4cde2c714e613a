"""`dpgap top-k`, `above`, `count` and `total`: from a table to a release that is delivered."""

import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import typer

from dpgap.cli.commands import (
    JSON,
    Force,
    PageTitle,
    let_go_if_broken,
    message_of,
    notes,
    option,
    progress,
    say,
    say_error,
)
from dpgap.printable import printable
from dpgap.question import Counting, Question, read_question

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
        for role, path in self.inputs:
            if _is_same(self.path, path):
                raise ValueError(f"{self.option} {self.path} is {role}: it must be another file")
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
        others = list(_PRINTED)
        for kind, path in (("csv", self.csv), ("html", self.html)):
            if path is not None:
                files[kind] = OutputFile(f"--{kind}", path, [*inputs(), *others], self.force)
                files[kind].require_writable()
                others.append((f"the file of --{kind}, {path}", path))
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
    files = []
    file_of_column = domain.rpartition(":")[0]
    for name in (domain, file_of_column):
        if name:
            files.append(("the domain", name))
    files.append(("the table", path))
    return [*files, *ledger_files(ledger or "")]


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


def _is_same(path: str | Path, other: str | Path) -> bool:
    """Whether two paths lead (or would lead) to one file. Some file systems ignore capitals."""
    with suppress(OSError, ValueError):
        if os.path.exists(path) and os.path.exists(other):
            return os.path.samefile(path, other)
        return os.path.realpath(path).casefold() == os.path.realpath(other).casefold()
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
    for failure, put, render in puts:
        try:
            put(render())
            is_printed = render is complete
        except (Exception, KeyboardInterrupt) as error:  # it is paid for, so interrupts are ignored
            is_printed = False
            failed.append(f"{failure} ({message_of(error)})")
    if not failed:
        return
    let_go_if_broken(sys.stdout)
    where = "it was printed as well" if is_printed else _saved(complete)
    message = f"dpgap: {'; '.join(failed)}. The release is paid for: {where}"
    lines = map(printable, message.split("\n"))
    with suppress(Exception, KeyboardInterrupt):
        typer.echo("\n".join(lines), err=True)
    let_go_if_broken(sys.stderr)
    raise typer.Exit(1)


def _saved(complete: Render) -> str:
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


_NO_DOMAIN = (
    "state the items: --domain FILE (public, one on each line); or, without a list, "
    "--max-items 3 --delta 1e-6"
)
_NO_LEDGER = "Nothing remembers this ε: add your runs up, or use --ledger."

TABLE = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="Parquet, CSV, JSON lines or FIMI .dat, also .gz; or postgresql://…/db?table=sales.",
    ),
]
EPSILON = Annotated[
    str,
    'The privacy budget ε that the whole answer costs: a number, or text as "0.7" or "2/3".',
]

_counts = partial(option, panel="Which rows, and how much of a unit counts")


class TableOptions(NamedTuple):
    """Options about the units and rows of a table."""

    unit: Annotated[
        str | None, 'The column that names the unit of each row; or "row", or "line".'
    ] = None
    neighbours: Annotated[str, "What privacy hides."] = "add-or-remove"
    where: Annotated[
        str | None,
        _counts("Which rows count, such as \"country = 'CH' and amount >= 10\"."),
    ] = None
    encoding: Annotated[
        str | None,
        _counts(
            "How the text of a CSV file is encoded, unless it is UTF-8: "
            '"latin-1", "cp1252" or "utf-16".'
        ),
    ] = None
    decimal: Annotated[
        str | None,
        _counts('The decimal mark of numbers in the text of a file: "." or ",".'),
    ] = None


class ItemOptions(NamedTuple):
    """Options about items and groups, and how much of a unit counts."""

    item: Annotated[str | None, "The column whose values are counted."] = None
    domain: Annotated[
        str | None,
        "The public items: a list A,B, a range 0..16469, a file of items, "
        '"items.parquet:column", in a database also "table:column"; without it, all items that '
        "occur count (needs --delta and --max-items).",
    ] = None
    max_items: Annotated[
        int | None,
        _counts(
            "The most items that a unit counts for; if it has more, this many are drawn at random."
        ),
    ] = None
    by: Annotated[str | None, _counts("The column of the groups: each group gets an answer.")] = (
        None
    )
    groups: Annotated[
        str | None,
        _counts("The public groups, in the order of the answer: a list CH,DE,FR or groups.txt."),
    ] = None
    max_groups: Annotated[
        int | None,
        _counts("The most groups that a unit counts in; --by needs it, unless the unit is a row."),
    ] = None
    sum: Annotated[
        str | None, _counts("The column whose amounts are added up, instead of counting units.")
    ] = None
    at_most: Annotated[str | None, _counts("With --sum: the most that a unit adds to a sum.")] = (
        None
    )
    at_least: Annotated[
        str, _counts("With --sum: the least that a unit adds to a sum, 0 or below.")
    ] = "0"
    step: Annotated[str, _counts("With --sum: what each row's amount is rounded to.")] = "0.01"

    def counting(self, rows: TableOptions) -> Counting:
        """What is counted; lists in one word are read."""
        domain: Any = self.domain
        if domain is not None and _is_list(domain):
            domain = _names(domain)
        return Counting(
            unit=rows.unit,
            item=self.item,
            domain=domain,
            max_items=self.max_items,
            by=self.by,
            groups=None if self.groups is None else _groups(self.groups),
            max_groups=self.max_groups,
            sum=self.sum,
            at_most=self.at_most,
            at_least=self.at_least,
            step=self.step,
            where=rows.where,
            neighbours=rows.neighbours,
            encoding=rows.encoding,
            decimal=rows.decimal,
        )


class AnswerOptions(NamedTuple):
    """Options about how items are found."""

    delta: Annotated[
        str,
        "Without a --domain: the chance that an item of only one unit is shown, such as 1e-6.",
    ] = "0"
    method: Annotated[
        str,
        '"best": it chooses the route; "paper": as in the paper; "histogram": all items measured '
        'at once, for --max-items only; for a top k also "joint": as a set, and "ranked": ranked, '
        "with gaps.",
    ] = "best"
    split: Annotated[str | None, "The share of ε for selecting."] = None


def _is_list(text: str) -> bool:
    """Whether text is a list such as fig,pea; not if there is such a file, or a column of one."""
    return "," in text and not any(map(os.path.isfile, (text, text.rpartition(":")[0])))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _groups(text: str) -> list[Any]:
    """Groups from a list in one word, or from a file."""
    if "," in text or not Path(text).is_file():
        return list(_names(text))
    from dpgap.data.domain import read_domain

    return list(read_domain(text).labels)


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


def top_k(
    table: TABLE,
    k: Annotated[int, option("How many items to find.", "-k", "--k")],
    epsilon: EPSILON,
    rows: TableOptions,
    items: ItemOptions,
    answering: AnswerOptions,
    payer: Payer,
    output: Output,
) -> None:
    """Find the k items with the most units or the largest sums, with error bars."""
    question = read_question(
        "top-k",
        k=k,
        epsilon=epsilon,
        delta=answering.delta,
        method=answering.method,
        split=answering.split,
    )
    release(question, table, items.counting(rows), items.domain, payer, output)


def above(
    table: TABLE,
    threshold: Annotated[str, "The count, or the sum, that an item must have."],
    epsilon: EPSILON,
    rows: TableOptions,
    items: ItemOptions,
    answering: AnswerOptions,
    payer: Payer,
    output: Output,
    k: Annotated[int | None, option("How many items to find.", "-k", "--k")] = None,
    adaptive: Annotated[
        bool,
        option(
            "Whether to pay less for items far above the threshold, so that more than k may be "
            "found.",
            "--adaptive/--plain",
        ),
    ] = True,
) -> None:
    """Find items above a threshold, in a fresh random order, with estimates and gaps."""
    question = read_question(
        "above",
        k=k,
        threshold=threshold,
        epsilon=epsilon,
        delta=answering.delta,
        adaptive=adaptive,
        method=answering.method,
        split=answering.split,
        decimal=rows.decimal,
    )
    release(question, table, items.counting(rows), items.domain, payer, output)


def count(table: TABLE, epsilon: EPSILON, rows: TableOptions, payer: Payer, output: Output) -> None:
    """Count the units of a table, with an interval."""
    question = read_question("count", epsilon=epsilon)
    release(question, table, ItemOptions().counting(rows), None, payer, output)


def total(
    table: TABLE,
    sum: Annotated[str, _counts("The column whose amounts are added up.")],
    at_most: Annotated[str, _counts("The most that a unit adds to the total.")],
    epsilon: EPSILON,
    rows: TableOptions,
    payer: Payer,
    output: Output,
    at_least: Annotated[str, _counts("The least that a unit adds to the total, 0 or below.")] = "0",
    step: Annotated[str, _counts("What each row's amount is rounded to.")] = "0.01",
) -> None:
    """Add up a column of a table, each unit cut off at public ends, with an interval."""
    question = read_question("total", epsilon=epsilon)
    amounts = ItemOptions(sum=sum, at_most=at_most, at_least=at_least, step=step)
    release(question, table, amounts.counting(rows), None, payer, output)


def release(
    question: Question,
    table: str,
    counting: Counting,
    domain: str | None,
    payer: Payer,
    output: Output,
) -> None:
    """Charge and release; then show the paid release, even if files cannot be written."""
    is_bounded = counting.max_items is not None and question.delta != 0
    if not question.is_of_all and domain is None and not is_bounded:
        raise ValueError(_NO_DOMAIN)
    files = output.files(partial(input_files, table, domain or "", payer.ledger))
    from dpgap.data.counts import count_items, units_of
    from dpgap.data.private_counts import errors_without_answers

    # While the engine counts, Python loads the other modules.
    with notes(), ThreadPoolExecutor(1) as background, progress("Counting …"):
        count_table = units_of if question.is_of_all else count_items
        counted = background.submit(count_table, table, counting)
        account = payer.account()
        from dpgap.pipelines.tables import answer, warn_of_weak_promise
        from dpgap.releases.text import shown, to_json

        answers = counted.result()
    with notes():
        warn_of_weak_promise(question)
        paid = errors_without_answers(answer)(question, answers, account, payer.fresh)
    remaining = None
    payer_words = "" if account is None else f"for you in data set {account.dataset!r}"
    with suppress(Exception, KeyboardInterrupt):  # the ledger may not be reachable now
        remaining = paid.remaining if account is None else account.remaining
    as_object = partial(to_json, paid, remaining)
    puts: list[Put] = []
    for kind, file in files.items():
        render = partial(output.rendered, kind, paid)
        puts.append((f"{file.path} could not be written", file.write, render))
    note = _NO_LEDGER if account is None else ""
    as_text = partial(shown, paid, remaining, payer_words, note)
    printed = as_object if output.json else as_text
    puts.append(("the release could not be printed", say, printed))
    deliver(puts, as_object)

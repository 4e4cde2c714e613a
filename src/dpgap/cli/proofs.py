"""`dpgap prove` and `dpgap audit`: lines for people, JSON for programs.

A name with a colon, such as `package.module:function`, is a mechanism or function of your own.

Both commands end with one summary line. The exit code is 0 if all results are as expected: the
mechanisms of dpgap are proved and stay within ε, and mutants are refuted and caught. Otherwise it
is 1. It is 2 if nothing was judged, because the call or the user's module is wrong.
"""

import importlib.util
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

from dpgap._package import how_to_get
from dpgap.cli.commands import JSON, UsageError, option, progress, say

# --------------------------------------------------------------------------------------------------
# `dpgap prove package.module:Mechanism` and `dpgap audit package.module:function`: the user's own.
#
# The module is imported as `python -m` would: the current directory comes first. The last line is a
# summary. The exit code is 1 if the mechanism is refuted or the function rejected.


Epsilon = Annotated[str | None, "The ε that is claimed, unless it has an attribute epsilon."]
Sensitivity = Annotated[str | None, "The most that one person can move one answer; 1 unless said."]


class Claimed(NamedTuple):
    """Options of a proof of a mechanism that is named by its module."""

    n: Annotated[
        int | None,
        option("Answers: 3 unless said. Paths multiply with each; 100,000 are the limit.", "-n"),
    ] = None
    epsilon: Epsilon = None
    sensitivity: Sensitivity = None
    ties: Annotated[bool, "Ties count: for noise on a grid. Shifts must be whole steps."] = False


class Audited(NamedTuple):
    """Options of an audit of a function that is named by its module."""

    epsilon: Epsilon = None
    delta: Annotated[str, "The δ that is claimed beside ε."] = "0"
    samples: Annotated[int, "How many calls in all, from 2,000."] = 100_000
    level: Annotated[float, "The chance that something private is rejected."] = 1e-3
    sensitivity: Sensitivity = None
    monotonic: Annotated[bool, "One person moves all answers the same way, as with counts."] = False
    reach: Annotated[
        int | None,
        "How many answers one person can move: 1 where each person is in one group only. Without "
        "it, all of them.",
    ] = None
    batch: Annotated[bool, "It takes (answers, runs) and returns one output for each run."] = False
    bits: Annotated[
        bool, "Look at the lowest bits of floats, too. Without it, find other leaks."
    ] = True


def is_address(name: str | None, options: NamedTuple) -> bool:
    """Whether a name is an address (package.module:name); only addresses have these options."""
    if name is not None and ":" in name:
        return True
    for field, value in options._asdict().items():
        if value != options._field_defaults[field]:
            flag = f"-{field}" if len(field) == 1 else f"--{field}"
            raise UsageError(
                f"{flag} is for your own, named as package.module:name. To use it for a mechanism "
                "of dpgap, write 'own = dpgap.NoisyMax(1)' to a file mine.py, and name mine:own"
            )
    return False


def prove_addressed(address: str, claimed: Claimed, as_json: bool) -> None:
    """Prove or refute the mechanism at an address."""
    from dpgap.proof import Stepwise, prove, prove_every
    from dpgap.proof.addresses import made_at, sample_of
    from dpgap.proof.checker.proving import stated_number

    if claimed.n is None:
        claimed = claimed._replace(n=3)
    claims = [name for name in ("epsilon", "sensitivity") if getattr(claimed, name) is not None]
    with _judging("Proving", None, as_json):
        mechanism = made_at(address)
        sample = sample_of(address, mechanism)
        if isinstance(mechanism, Stepwise) and claims:
            raise UsageError(f"--{claims[0]} is not for a Stepwise: {address} states its own")
        if isinstance(mechanism, Stepwise):
            proof = prove_every(mechanism, ties=claimed.ties)
            size = "every n"
        else:
            proof = prove(mechanism, **claimed._asdict())
            size = f"n = {claimed.n}"
        epsilon = stated_number(sample, "epsilon", claimed.epsilon)
    row = json.dumps(
        {"address": address, "n": size, "epsilon": epsilon} | _of_proof(proof), default=str
    )
    typer.echo(row if as_json else f"{proof}\n{address}: {proof.verdict}, {size}")
    raise typer.Exit(int(proof.verdict == "REFUTED"))


def audit_addressed(address: str, audited: Audited, as_json: bool) -> None:
    """Audit the function at an address."""
    from dpgap.proof import audit
    from dpgap.proof.addresses import function_at

    options: dict[str, Any] = audited._asdict() | {"monotonic": audited.monotonic or None}
    with _judging("Auditing", audited.samples, as_json) as update:
        function = function_at(address)
        result = audit(function, **options, progress=lambda done: update(completed=done))
    if as_json:
        row = asdict(result) | {"address": address, "rejected": result.rejected}
        typer.echo(json.dumps(row, default=str))
    else:
        typer.echo(f"{result}\n{address}: {'REJECTED' if result.rejected else 'not rejected'}")
    raise typer.Exit(int(result.rejected))


@contextmanager
def _judging(doing: str, total: int | None, as_json: bool) -> Iterator[Callable[..., None]]:
    """Show progress; report what the user's code does wrong, so that nothing was judged."""
    from dpgap.proof import BadProgram

    with progress(doing, total, is_quiet=as_json) as update:
        try:
            yield update
        except (BadProgram, TypeError, ValueError) as error:
            raise UsageError(str(error)) from None
        except SystemExit:
            raise UsageError(
                "the module or its function ends Python (SystemExit): nothing was judged"
            ) from None


# --------------------------------------------------------------------------------------------------
# Doing many things on all cores, in the order given.


Row = dict[str, Any]


def workers() -> int:
    """How many worker processes to start."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _collected(
    work: Callable[[int], Row], numbers: Sequence[int], doing: str, as_json: bool
) -> Iterator[Row]:
    """The row of each of these numbers, computed on all cores, in the order of the numbers."""
    from concurrent.futures import ProcessPoolExecutor

    is_alone = workers() == 1 or len(numbers) == 1
    with (
        progress(doing, len(numbers), is_quiet=as_json) as update,
        ProcessPoolExecutor(workers()) as pool,
    ):
        for row in map(work, numbers) if is_alone else pool.map(work, numbers):
            update(advance=1)
            yield row


# --------------------------------------------------------------------------------------------------


Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME | package.module:name]",
        help="Only cases with this in their name, such as NoisyTopK. Or your own, by its module in "
        "this folder: for audit, a function from a list of numbers to the published output; for "
        "prove, an object with run and align.",
    ),
]

_NO_PROOF = (
    "“Within its ε” is no proof. It says that no event was found that refutes the claim, on some "
    "invented answers and in this many samples. It says nothing about other answers, rarer events, "
    "time, memory and logs."
)
_SOURCES = (
    "document: the whole document of a release was tested; program: the output of run was tested; "
    "exact: the probability of a known event was computed."
)


def prove(
    claimed: Claimed,
    name: Name = None,
    json: JSON = False,
    smt: Annotated[Path | None, "Write theorems for every n to this folder, as SMT-LIB."] = None,
) -> None:
    """Prove every mechanism that dpgap ships, and refute the mutants; or prove your own."""
    for prover in ("z3", "cvc5"):
        if importlib.util.find_spec(prover) is None:
            raise ImportError(f"proofs need {prover}: {how_to_get('proof')}")
    if is_address(name, claimed) and name is not None:
        if smt is not None:
            raise UsageError("--smt is for mechanisms of dpgap, not for your own")
        prove_addressed(name, claimed, json)
    from dpgap.proof.cases import cases

    numbers = _numbers_of(name, [case.name for case in cases()])
    if smt is not None:
        smt.mkdir(parents=True, exist_ok=True)
    rows = list(_collected(partial(_proved, smt), numbers, "Proving", json))
    _end(rows, list(_proof_lines(rows)), json)


def audit(audited: Audited, name: Name = None, json: JSON = False) -> None:
    """Search for events that refute the ε of dpgap's mechanisms, and catch the mutants.

    This takes a quarter of an hour on two cores; NoisyMax alone takes two minutes. Or audit your
    own in the same way: `dpgap audit package.module:function --epsilon 1`.
    """
    from dpgap.proof.auditing.chances import require_scipy

    require_scipy()
    if is_address(name, audited) and name is not None:
        audit_addressed(name, audited, json)
    from dpgap.proof.cases import audits

    numbers = _numbers_of(name, [task for task, _ in audits()])
    rows = []
    for row in _collected(_audited, numbers, "Auditing", json):
        rows.append(row)
        if not json:
            say(_audit_line(row))
    notes = [_SOURCES]
    if not all(row["caught"] for row in rows):
        notes.append(_NO_PROOF)
    _end(rows, notes, json)


def _end(rows: Sequence[Row], lines: Iterable[str], as_json: bool) -> NoReturn:
    """Print rows as lines or as JSON, then a summary, and end with the right exit code."""
    wrong = sum(not _is_as_it_must(row) for row in rows)
    if as_json:
        typer.echo(json.dumps(rows, indent=1, default=str))
    else:
        verdicts = Counter(map(_verdict, rows)).items()
        counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts)
        judged = "all as expected"
        if wrong:
            judged = f"{wrong} NOT as expected"
        typer.echo("\n".join([*lines, f"{len(rows)} in all: {counts}; {judged}."]))
    raise typer.Exit(1 if wrong else 0)


def _proved(smt: Path | None, number: int) -> Row:
    """The row of one proof, computed in a worker process."""
    from dpgap.proof.cases import cases

    case = cases()[number]
    proof = case.judge()
    if smt is not None:
        for closing in proof.closings:
            path = smt / closing.theorem.file_name
            path.write_text(closing.theorem.text, encoding="utf-8")
    row = {name: getattr(case, name) for name in ("name", "kind", "variant", "n", "k")}
    return row | _of_proof(proof)


def _of_proof(proof: Any) -> Row:
    """What every row of a proof has."""
    names = ("verdict", "condition", "reason", "neighbours", "closed_by")
    row = {name: getattr(proof, name) for name in names}
    row["seconds"] = round(proof.seconds, 4)
    row["counterexample"] = proof.counterexample and asdict(proof.counterexample)
    row["theorems"] = {closing.theorem.name: closing.closed_by for closing in proof.closings}
    return row


def _audited(number: int) -> Row:
    """The row of one audit, computed in a worker process."""
    from dpgap.proof.cases import audits

    _, task = audits()[number]
    result = task()
    row = asdict(result)
    row["lower_bound"] = result.lower_bound if result.lower_bound < 1e300 else None
    row["caught"] = result.caught
    row["seconds"] = round(result.seconds, 4)
    return row


def _numbers_of(name: str | None, cases: Sequence[str]) -> list[int]:
    """The numbers of the cases with this name, or else with this in their name."""
    part = (name or "").casefold()
    exact = [number for number, case in enumerate(cases) if case.casefold() == part]
    numbers = exact or [number for number, case in enumerate(cases) if part in case.casefold()]
    if not numbers:
        hint = ""
        if "." in part:
            hint = f" (yours is {':'.join(str(name).rsplit('.', 1))})"
        names = "; ".join(dict.fromkeys(cases))
        raise UsageError(f"nothing here is called {name!r}{hint}. There are: {names}")
    return numbers


def _verdict(row: Row) -> str:
    """The verdict of a proof or an audit."""
    if "verdict" in row:
        return str(row["verdict"])
    if row.get("caught"):
        return "caught"
    return f"within its {row.get('bounds')}"


def _is_as_it_must(row: Row) -> bool:
    return bool((_verdict(row) in ("caught", "REFUTED")) == (row["kind"] == "mutant"))


def _marked(*same: Row) -> str:
    verdict = _verdict(same[0])
    if not all(map(_is_as_it_must, same)):
        return f"{verdict}, NOT as expected:"
    return f"{verdict:8}"


def _proof_lines(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each mechanism and variant; cases that differ only in n and k share a line."""
    alike: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        is_every = str(row.get("n") == "every")
        key = (row["name"], row["kind"], row["variant"], row["verdict"], is_every)
        alike.setdefault(key, []).append(row)
    for same in alike.values():
        first = same[0]
        sizes = ", ".join(f"n={row['n']} k={row['k']}" for row in same)
        if len(same) > 2:
            n = max(row["n"] for row in same)
            k = max(row["k"] for row in same)
            sizes = f"{len(same)} cases, n≤{n} k≤{k}"
        provers = " ".join(first["closed_by"]) or "z3"
        seconds = f"{sum(row['seconds'] for row in same):.2f} s"
        line = f"{_marked(*same)} {first['name']}: {first['variant']}"
        line += f"; {sizes}; {provers}, {seconds}"
        if first["verdict"] == "REFUTED":
            line += f": {first['reason']}"
        yield line


def _audit_line(row: Row) -> str:
    verdict = _marked(row)
    bound = "∞" if row["lower_bound"] is None else f"{row['lower_bound']:.3g}"
    claim = f"{row['bounds']} = {row['claimed']:.3g} claimed, at least {bound} found"
    line = f"{verdict} {row['name']}: {row['variant']}; {row['source']}; {claim}"
    if row["samples"]:
        line += f"; {row['samples']:,} samples"
    if row["p_value"] is not None:
        line += f"; p = {row['p_value']:.2g}"
    return line

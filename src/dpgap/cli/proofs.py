"""`dpgap prove` and `dpgap audit`: tables for people, JSON for programs.

A name with a colon, as in `package.module:function`, is of other people's: `cli/addressed.py`.

Both end with one line that sums up, and with exit code 0 if everything came out as it must: what
dpgap ships is proved and stays within its ε, mutants are refuted and caught. Otherwise it is 1.
"""

import importlib.util
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from dpgap._package import how_to_get
from dpgap.cli.addressed import Audited, Claimed, audit_addressed, is_address, prove_addressed
from dpgap.cli.errors import UsageError
from dpgap.cli.options import AsJSON, with_groups
from dpgap.proof.parallel import each
from dpgap.releases.text import Column, fitted

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME | package.module:name]",
        help="Only what has this in its name, such as NoisyTopK; or your own, by its module.",
    ),
]

Row = dict[str, Any]
_NO_PROOF = (
    "Within its ε is no proof: it is so on the answers that were tried, for what happens often "
    "enough in so many samples to be counted. Time, memory and logs are no output."
)

SMT = Annotated[
    Path | None,
    typer.Option("--smt", metavar="DIR", help="Write the theorems for every n here, as SMT-LIB."),
]


@with_groups
def prove(claimed: Claimed, name: Name = None, as_json: AsJSON = False, smt: SMT = None) -> None:
    """Prove every mechanism that dpgap ships, and refute the mutants; or prove your own."""
    for prover in ("z3", "cvc5"):
        if importlib.util.find_spec(prover) is None:
            raise ImportError(f"proofs need {prover}: {how_to_get('proof')}")
    if name is not None and is_address(name, claimed):
        prove_addressed(name, claimed, as_json)
    from dpgap.proof.cases import cases

    chosen = _chosen(name, [case.name for case in cases()])
    if smt is not None:
        smt.mkdir(parents=True, exist_ok=True)
    rows = _collected(_Proving(chosen, smt), len(chosen), "Proving", as_json)
    verdicts = [row["verdict"] for row in rows]
    _end(rows, list(map(_is_as_it_must, rows)), verdicts, None if as_json else _proof_columns)


@with_groups
def audit(audited: Audited, name: Name = None, as_json: AsJSON = False) -> None:
    """Bound the ε of everything from below by samples, and compare releases with their law.

    Or that of your own: `dpgap audit package.module:function --epsilon 1`.
    """
    from dpgap.proof.auditing.finding import require_scipy

    require_scipy()
    if name is not None and is_address(name, audited):
        audit_addressed(name, audited, as_json)
    from dpgap.proof.cases import audits

    chosen = _chosen(name, [task for task, _ in audits()])
    rows = _collected(_Auditing(chosen), len(chosen), "Auditing", as_json)
    verdicts = [_audit_verdict(row) for row in rows]
    good = list(map(_is_audited_well, rows))
    note = None if all(row["caught"] for row in rows) else _NO_PROOF
    _end(rows, good, verdicts, None if as_json else _audit_columns, note)


def _end(
    rows: Sequence[Row],
    good: Sequence[bool],
    verdicts: Sequence[str],
    columns: Callable[[Sequence[Row]], Sequence[Column]] | None,
    note: str | None = None,
) -> None:
    """Show rows as a table, or as JSON without columns; sum them up; end with the right code."""
    if columns is None:
        typer.echo(json.dumps(rows, indent=1))
    else:
        console = Console(highlight=False)
        console.print(fitted(columns(rows), console))
        if note is not None:
            console.print(note)
        found = ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).items())
        wrong = good.count(False)
        judged = f"{wrong} NOT as they must be" if wrong else "all as they must be"
        console.print(f"{len(rows)} in all: {found}; {judged}.", soft_wrap=True)
    raise typer.Exit(0 if all(good) else 1)


class _Proving:
    """The i-th chosen proof; can be sent to another process."""

    def __init__(self, chosen: Sequence[int], smt: Path | None) -> None:
        self.chosen, self.smt = chosen, smt

    def __call__(self, i: int) -> Row:
        from dpgap.proof.cases import cases

        case = cases()[self.chosen[i]]
        proof = case.judge()
        if self.smt is not None:
            for closing in proof.closings:
                path = self.smt / closing.theorem.file_name
                path.write_text(closing.theorem.text, encoding="utf-8")
        return {
            "name": case.name,
            "kind": case.kind,
            "variant": case.variant,
            "n": case.n,
            "k": case.k,
            "verdict": proof.verdict,
            "seconds": round(proof.seconds, 4),
            "condition": proof.condition,
            "reason": proof.reason,
            "counterexample": _spelt(proof.counterexample),
            "theorems": {each.theorem.name: list(each.closed_by) for each in proof.closings},
            "closed_by": list(proof.closed_by),
        }


class _Auditing:
    """The i-th chosen audit; can be sent to another process."""

    def __init__(self, chosen: Sequence[int]) -> None:
        self.chosen = chosen

    def __call__(self, i: int) -> Row:
        from dpgap.proof.cases import audits

        _, task = audits()[self.chosen[i]]
        found = task()
        return {
            "name": found.name,
            "kind": found.kind,
            "variant": found.variant,
            "source": found.source,
            "bounds": found.bounds,
            "claimed": found.claimed,
            "lower_bound": found.lower_bound if found.lower_bound < 1e300 else None,
            "samples": found.samples,
            "p_value": found.p_value,
            "caught": found.caught,
            "seconds": round(found.seconds, 4),
        }


def _spelt(example: Any) -> Row | None:
    """A counterexample with its fractions written out, to be replayed exactly."""
    if example is None:
        return None
    return {
        "answers": [str(value) for value in example.answers],
        "neighbour": [str(value) for value in example.neighbour],
        "noise": [str(value) for value in example.noise],
        "parameters": {name: str(value) for name, value in example.parameters.items()},
    }


def _chosen(name: str | None, names: Sequence[str]) -> list[int]:
    if name is None:
        return list(range(len(names)))
    wanted = name.casefold()
    exact = [i for i, each_name in enumerate(names) if each_name.casefold() == wanted]
    chosen = exact or [i for i, each_name in enumerate(names) if wanted in each_name.casefold()]
    if not chosen:
        known = "; ".join(dict.fromkeys(names))
        raise UsageError(f"nothing here is called {name!r}. There are: {known}")
    return chosen


def _collected(work: Callable[[int], Row], count: int, doing: str, as_json: bool) -> list[Row]:
    """All rows; a bar and a clock show at once that work is under way, if somebody is looking."""
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=as_json) as bar:
        task = bar.add_task(doing, total=count)
        return each(work, count, lambda _: bar.advance(task))


def _is_as_it_must(row: Row) -> bool:
    return bool((row["verdict"] == "REFUTED") == (row["kind"] == "mutant"))


def _proof_columns(rows: Sequence[Row]) -> list[Column]:
    groups = _grouped(rows)
    firsts = [same[0] for same in groups]
    seconds = [f"{sum(row['seconds'] for row in same):.2f}" for same in groups]
    provers = [" ".join(row["closed_by"]) or "z3" for row in firsts]
    good = [all(map(_is_as_it_must, same)) for same in groups]
    why = [row["reason"] if row["verdict"] == "REFUTED" else "" for row in firsts]
    return [
        Column("what", [f"{row['name']}: {row['variant']}" for row in firsts], wraps=True),
        Column("answers, k", list(map(_sizes, groups))),
        Column("why refuted", why, wraps=True),
        Column("by", provers, wraps=True),
        Column("seconds", seconds),
        Column("verdict", list(map(_coloured, [row["verdict"] for row in firsts], good))),
    ]


def _sizes(same: Sequence[Row]) -> str:
    if len(same) > 2:
        return f"n≤{max(row['n'] for row in same)} k≤{max(row['k'] for row in same)}"
    return ", ".join(f"n={row['n']} k={row['k']}" for row in same)


def _coloured(verdict: str, is_good: bool) -> Text:
    return Text(verdict, style="green" if is_good else "bold red")


def _grouped(rows: Sequence[Row]) -> list[list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        every = row.get("n") == "every"
        key = (row["name"], row["kind"], row["variant"], row["verdict"], str(every))
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _is_audited_well(row: Row) -> bool:
    return bool(row["caught"] == (row["kind"] == "mutant"))


def _audit_verdict(row: Row) -> str:
    return "caught" if row["caught"] else f"within its {row['bounds']}"


def _audit_columns(rows: Sequence[Row]) -> list[Column]:
    verdicts = [_coloured(_audit_verdict(row), _is_audited_well(row)) for row in rows]
    least = ["∞" if row["lower_bound"] is None else f"{row['lower_bound']:.3g}" for row in rows]
    fit = ["" if row["p_value"] is None else f"{row['p_value']:.2g}" for row in rows]
    what = [f"{row['name']}: {row['variant']}; {row['source']}" for row in rows]
    return [
        Column("what", what, wraps=True),
        Column("samples", [f"{row['samples']:,}" if row["samples"] else "" for row in rows]),
        Column("claimed", [f"{row['bounds']} = {row['claimed']:.3g}" for row in rows]),
        Column("is at least", least),
        Column("fit: p", fit),
        Column("verdict", verdicts),
    ]

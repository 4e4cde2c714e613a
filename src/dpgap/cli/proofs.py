"""`dpgap prove` and `dpgap audit`: tables for people, JSON for programs.

Both end with an exit status of 0 if everything came out as it must: what dpgap ships is proved
and stays within its ε, mutants are refuted and caught. Otherwise it is 1, and 2 for a bad call.
"""

import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from dpgap.proof.parallel import each

Name = Annotated[
    str | None, typer.Argument(help="Only what has this in its name, such as NoisyTopK.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

Row = dict[str, Any]
Named = TypeVar("Named")


def prove(name: Name = None, as_json: AsJson = False) -> None:
    """Prove every mechanism that dpgap ships, and refute the mutants."""
    if importlib.util.find_spec("z3") is None:
        _refuse("proofs need z3: pip install 'dpgap[proof]'")
    from dpgap.proof.cases import cases

    chosen = _chosen(name, [case.name for case in cases()])
    rows = _collected(_Proving(chosen), len(chosen), "Proving", as_json)
    good = [_is_as_it_must(row) for row in rows]
    if as_json:
        _print_json(rows)
    else:
        _print_proofs(rows)
    raise typer.Exit(0 if all(good) else 1)


def audit(name: Name = None, as_json: AsJson = False) -> None:
    """Bound the ε of everything from below by samples, and compare releases with their law."""
    from dpgap.proof.cases import audits

    chosen = _chosen(name, [task for task, _ in audits()])
    rows = _collected(_Auditing(chosen), len(chosen), "Auditing", as_json)
    good = [row["caught"] == (row["kind"] == "mutant") for row in rows]
    if as_json:
        _print_json(rows)
    else:
        _print_audits(rows)
    raise typer.Exit(0 if all(good) else 1)


class _Proving:
    """The i-th chosen proof; can be sent to another process."""

    def __init__(self, chosen: Sequence[int]) -> None:
        self.chosen = chosen

    def __call__(self, i: int) -> Row:
        from dpgap.proof.cases import cases

        case = cases()[self.chosen[i]]
        proof = case.judge()
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
        _refuse(f"nothing here is called {name!r}. There are: {known}")
    return chosen


def _refuse(message: str) -> NoReturn:
    Console(stderr=True).print(f"[bold red]Error:[/] {escape(message)}", highlight=False)
    raise typer.Exit(2)


def _collected(work: Callable[[int], Row], count: int, doing: str, as_json: bool) -> list[Row]:
    rows: Iterator[Row] = each(work, count)
    console = Console(stderr=True)
    return list(track(rows, doing, count, console=console, disable=as_json, transient=True))


def _is_as_it_must(row: Row) -> bool:
    return bool((row["verdict"] == "REFUTED") == (row["kind"] == "mutant"))


def _print_json(rows: Sequence[Row]) -> None:
    typer.echo(json.dumps(rows, indent=1))


def _print_proofs(rows: Sequence[Row]) -> None:
    table = Table("name", "variant", "answers, k", "verdict", "seconds", "why refuted")
    for same in _grouped(rows):
        first = same[0]
        shown = ", ".join(f"n={row['n']} k={row['k']}" for row in same)
        if len(same) > 2:
            shown = f"{len(same)} pairs up to n={max(row['n'] for row in same)}"
        colour = "green" if all(map(_is_as_it_must, same)) else "bold red"
        table.add_row(
            first["name"],
            first["variant"],
            shown,
            f"[{colour}]{first['verdict']}",
            f"{sum(row['seconds'] for row in same):.2f}",
            escape(first["reason"]) if first["verdict"] == "REFUTED" else "",
        )
    _print_table(table)


def _grouped(rows: Sequence[Row]) -> list[list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = (row["name"], row["kind"], row["variant"], row["verdict"])
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _print_audits(rows: Sequence[Row]) -> None:
    table = Table(
        "name", "variant", "source", "samples", "claimed ε", "ε is at least", "fit", "verdict"
    )
    for row in rows:
        right = row["caught"] == (row["kind"] == "mutant")
        verdict = "caught" if row["caught"] else "within its ε"
        least = row["lower_bound"]
        table.add_row(
            row["name"],
            row["variant"],
            row["source"],
            f"{row['samples']:,}" if row["samples"] else "",
            f"{row['claimed']:g}",
            "∞" if least is None else f"{least:.3f}",
            "" if row["p_value"] is None else f"p = {row['p_value']:.2g}",
            f"[{'green' if right else 'bold red'}]{verdict}",
        )
    _print_table(table)


def _print_table(table: Table) -> None:
    Console().print(table)

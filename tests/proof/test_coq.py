"""The alignment of exponential noise in Coq: it holds for every n and k, and is the program's."""

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dpgap.mechanisms.top_k import extremes, extremes_undone, shift_of

PROOF = Path(__file__).parents[2] / "proofs" / "exponential.v"
THEOREMS = 10

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("coq")]


def compiled(
    folder: Path, text: str, name: str = "exponential"
) -> subprocess.CompletedProcess[str]:
    assert shutil.which("coqc"), "`make long` installs Debian's coq; or `apt-get install coq`"
    (folder / f"{name}.v").write_text(text, encoding="utf-8")
    command = ["coqc", "-Q", ".", "Top", f"{name}.v"]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", timeout=120)


def test_every_theorem_holds_and_assumes_nothing(tmp_path: Path) -> None:
    text = PROOF.read_text(encoding="utf-8")
    done = compiled(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Closed under the global context"] * THEOREMS
    assert not re.search(r"\b(Admitted|admit|Axiom|Parameter)\b", text)
    stated = re.findall(r"^Theorem (\w+)", text, re.MULTILINE)
    assert {*re.findall(r"Assumptions (\w+)", text)} == {*stated}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Z.min (fall eta) (tau eta)", "fall eta"),
        ("Z.min (fall eta) (tau eta)", "tau eta"),
        ("then s i - tau eta", "then s i"),
        ("then s i - drop eta", "then s i - tau eta"),
        ("then Z.min (fall eta') (tau_again eta') - s i", "then tau_again eta' - s i"),
        ("argmax (fun j => q j - s j + eta' j)", "argmax (fun j => q j + s j + eta' j)"),
        ("<= R * Z.of_nat (length winners)", "<= R * (Z.of_nat (length winners) - 1)"),
        ("forall i, 0 <= s i <= R", "forall i, s i <= R"),
    ],
)
def test_a_changed_definition_is_refused(tmp_path: Path, right: str, wrong: str) -> None:
    text = PROOF.read_text(encoding="utf-8")
    assert right in text
    assert compiled(tmp_path, text.replace(right, wrong, 1)).returncode != 0


def test_the_program_shifts_as_the_proof_does(tmp_path: Path) -> None:
    rng = random.Random(7)
    asked = ["From Coq Require Import ZArith List.", "From Top Require Import exponential."]
    asked += ["Import ListNotations.", "Open Scope Z_scope."]
    expected = []
    for _ in range(300):
        n = rng.randint(2, 6)
        answers, noise = ([rng.randint(0, 6) for _ in range(n)] for _ in range(2))
        falls, k = [rng.randint(0, 3) for _ in range(n)], rng.randint(1, n)
        order = sorted(range(n), key=lambda i: -answers[i] - noise[i])
        winners, losers = order[:k], sorted(order[k:])
        by = extremes(answers, falls, noise, winners)
        shifts = [shift_of(i, falls, winners, by) for i in range(n)]
        shifted = [value + shift for value, shift in zip(noise, shifts, strict=True)]
        undone = extremes_undone(answers, falls, shifted, winners)
        expected += [shifts, [-shift_of(i, falls, winners, undone) for i in range(n)]]
        function, given = "shift_of_all", [_split(winners)]
        if losers:
            function, given = "shift", [*given, _split(losers), _numbers(answers)]
        for name, drawn in (function, noise), ("un" + function, shifted):
            call = " ".join([name, *given, _numbers(falls), _numbers(drawn)])
            asked.append(f"Compute map ({call}) (seq 0 {n}).")
    assert compiled(tmp_path, PROOF.read_text(encoding="utf-8")).returncode == 0
    done = compiled(tmp_path, "\n".join(asked), "asked")
    assert done.returncode == 0, done.stderr
    lists = re.findall(r"= \[([^\]]*)\]", done.stdout)
    assert [[int(each.strip("() ")) for each in found.split(";")] for found in lists] == expected


def _split(indices: list[int]) -> str:
    """A list that is not empty, as its head and its tail."""
    return f"{indices[0]}%nat [{'; '.join(f'{i}%nat' for i in indices[1:])}]"


def _numbers(values: list[int]) -> str:
    """Numbers as a function of their index."""
    return f"(fun i => nth i [{'; '.join(f'({value})' for value in values)}] 0)"

"""The two commands, as a person and as a program would call them."""

import json
import subprocess
import sys
from collections import Counter

import pytest
from typer.testing import CliRunner

from dpgap import how_to_get
from dpgap.cli.app import app
from dpgap.proof import parallel


def call(*arguments):
    return CliRunner().invoke(app, arguments)


def test_proofs_as_json():
    result = call("prove", "NoisyMax", "--json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert {row["name"] for row in rows} == {"NoisyMax"}
    few = [row for row in rows if row["n"] != "every"]
    assert Counter(row["verdict"] for row in few) == {"PROVED": 24, "CHECKED": 12}
    needed = {"name", "kind", "variant", "n", "k", "verdict", "seconds"}
    assert all(needed <= row.keys() for row in rows)


def test_a_proof_for_every_n_says_who_closed_it_and_leaves_its_theorems(tmp_path):
    result = call("prove", "Laplace", "--json", "--smt", str(tmp_path / "theorems"))
    assert result.exit_code == 0
    (row,) = (row for row in json.loads(result.stdout) if row["n"] == "every")
    assert (row["k"], row["verdict"], row["closed_by"]) == ("every", "PROVED", ["cvc5", "z3"])
    written = {path.name: path.read_text() for path in (tmp_path / "theorems").iterdir()}
    assert len(written) == len(row["theorems"]) == 2
    assert all(text.count("(check-sat)") >= 3 for text in written.values())


def test_a_refutation_carries_its_counterexample():
    (row,) = json.loads(call("prove", "no answer noise", "--json").stdout)
    assert (row["kind"], row["verdict"], row["n"]) == ("mutant", "REFUTED", "every")
    assert len(row["counterexample"]["answers"]) == 2


def test_proofs_as_a_table():
    result = call("prove", "never stops paying")
    assert result.exit_code == 0
    assert "REFUTED" in result.stdout
    assert result.stdout.endswith("in all: 1 REFUTED; all as they must be.\n")


def test_audits_as_json():
    result = call("audit", "no answer noise", "--json")
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)
    assert {"name", "kind", "claimed", "lower_bound", "samples"} <= row.keys()
    assert row["caught"]
    assert row["lower_bound"] > row["claimed"] == 1


def test_audits_as_a_table():
    result = call("audit", "right scale")
    assert result.exit_code == 0
    assert result.stdout.endswith("1 in all: 1 caught; all as they must be.\n")


def test_both_commands_know_every_mechanism_by_the_same_name():
    from dpgap.proof.auditing.designs import designs
    from dpgap.proof.cases import shipped

    assert {design.name for design in designs()} == {case.name for case in shipped()}


@pytest.mark.parametrize("width", ["40", "60", "80"])
def test_a_verdict_is_never_cut(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", width)
    proved = call("prove", "no answer noise").stdout
    assert "REFUTED" in proved.rsplit("\n", 2)[0]
    audited = call("audit", "right scale").stdout
    assert "caught" in audited.rsplit("\n", 2)[0]
    assert "…" not in proved + audited
    table = (proved + audited).split("\n")
    assert all(len(line) <= int(width) for line in table if "in all:" not in line)


def test_progress_counts_what_is_finished_in_any_order(monkeypatch):
    monkeypatch.setattr(parallel, "workers", lambda: 2)
    finished = []
    assert parallel.each(str, 9, finished.append) == [str(i) for i in range(9)]
    assert len(finished) == 9


@pytest.mark.parametrize("command", ["prove", "audit"])
def test_an_unknown_name_is_refused_with_the_names_there_are(command):
    result = call(command, "NoisyMin")
    assert result.exit_code == 2
    assert result.stderr.startswith("dpgap: nothing here is called 'NoisyMin'")
    assert "NoisyTopK" in result.stderr
    assert "Traceback" not in result.output


def test_a_shipped_mechanism_that_is_refuted_fails_the_command(monkeypatch):
    from dpgap.mechanisms.measuring.laplace import Laplace

    monkeypatch.setattr(Laplace, "align", lambda self, a, b, noise, output: [0] * len(a))
    monkeypatch.setattr("dpgap.proof.parallel.workers", lambda: 1)
    result = call("prove", "Laplace", "--json")
    assert result.exit_code == 1
    rows = json.loads(result.stdout)
    assert {row["verdict"] for row in rows} == {"REFUTED"}
    assert "every" in {row["n"] for row in rows}


def test_z3_is_loaded_only_when_used():
    program = (
        "import sys, dpgap.proof, dpgap.proof.cases; "
        "print('z3' in sys.modules, 'hypothesis' in sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["False", "False"]


def test_without_z3_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = call("prove", "Laplace")
    assert result.exit_code == 1
    assert result.stderr == f"dpgap: proofs need z3: {how_to_get('proof')}\n"

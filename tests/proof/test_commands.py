"""The two commands, as a person and as a program would call them."""

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.progress import Progress
from typer.testing import CliRunner

from dpgap import how_to_get
from dpgap.cli import proofs
from dpgap.cli.main import app
from dpgap.proof.auditing.chances import Audit


def call(*arguments):
    return CliRunner().invoke(app, arguments)


def test_proofs_as_json():
    result = call("prove", "NoisyMax", "--json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert {row["name"] for row in rows} == {"NoisyMax"}
    few = [row for row in rows if row["n"] != "every"]
    assert Counter(row["verdict"] for row in few) == {"PROVED": 33}
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


def test_proofs_as_lines():
    result = call("prove", "never stops paying")
    assert result.exit_code == 0
    assert "REFUTED" in result.stdout
    assert result.stdout.endswith("in all: 1 REFUTED; all as expected.\n")


def test_audits_as_json():
    result = call("audit", "no answer noise", "--json")
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)
    assert {"name", "kind", "claimed", "lower_bound", "samples"} <= row.keys()
    assert row["caught"]
    assert row["lower_bound"] > row["claimed"] == 1


def test_audits_as_lines():
    result = call("audit", "right scale")
    assert result.exit_code == 0
    assert result.stdout.endswith("1 in all: 1 caught; all as expected.\n")


def test_audits_say_that_what_they_do_not_catch_is_not_proved(monkeypatch):
    sound = Audit("made up", "shipped", "general", "document", 1.0, 0.4, 2_000, None, 0.1)
    monkeypatch.setattr("dpgap.proof.cases.audits", lambda: [("made up", lambda: sound)])
    result = call("audit")
    assert result.exit_code == 0
    assert "“Within its ε” is no proof" in result.stdout
    assert result.stdout.endswith("1 in all: 1 within its ε; all as expected.\n")


def test_both_commands_know_every_mechanism_by_the_same_name():
    from dpgap.proof.cases import mechanisms, shipped

    assert {name for name, _, _ in mechanisms()} == {case.name for case in shipped()}


def test_a_verdict_stands_first_however_narrow_the_terminal_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    proved, summed_up = call("prove", "no answer noise").stdout.splitlines()
    assert proved.startswith("REFUTED  no answer noise: ")
    assert summed_up == "1 in all: 1 REFUTED; all as expected."
    audited, *_ = call("audit", "right scale").stdout.splitlines()
    assert audited.startswith("caught   ")


def test_a_verdict_that_was_not_expected_says_so(monkeypatch):
    broken = Audit("made up", "shipped", "general", "document", 1.0, 1.4, 2_000, 1e-9, 0.1)
    monkeypatch.setattr("dpgap.proof.cases.audits", lambda: [("made up", lambda: broken)])
    result = call("audit")
    assert result.exit_code == 1
    assert result.stdout.startswith("caught, NOT as expected: made up: general; document; ")
    assert result.stdout.endswith("1 in all: 1 caught; 1 NOT as expected.\n")


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_counts_what_is_finished(workers, monkeypatch):
    monkeypatch.setattr(proofs, "workers", lambda: workers)
    finished = []
    monkeypatch.setattr(Progress, "update", lambda *_, advance: finished.append(advance))
    assert [*proofs._collected(str, range(9), "Proving", True)] == [str(i) for i in range(9)]
    assert finished == [1] * 9


@pytest.mark.parametrize("command", ["prove", "audit"])
def test_an_unknown_name_is_refused_with_the_names_there_are(command):
    result = call(command, "NoisyMin")
    assert result.exit_code == 2
    assert result.stderr.startswith("dpgap: nothing here is called 'NoisyMin'")
    assert "NoisyTopK" in result.stderr
    assert "Traceback" not in result.output


def test_a_shipped_mechanism_that_is_refuted_fails_the_command(monkeypatch):
    from dpgap.mechanisms.measuring import Laplace

    monkeypatch.setattr(Laplace, "align", lambda self, a, b, noise, output: [0] * len(a))
    monkeypatch.setattr("dpgap.cli.proofs.workers", lambda: 1)
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


MINE = """
import random
from fractions import Fraction

from dpgap.proof import LaplaceNoise, Stepwise

number = 3
draw = random.Random(1)


def leaks(answers):
    return max(range(len(answers)), key=lambda place: answers[place] + draw.choice((0, 1)))


def refuses(answers):
    raise RuntimeError("not today")


def says_nothing(answers):
    return draw.random() < 0.5


class Counts:
    epsilon, monotonic = 1, True

    def is_spread(self, answers):
        return max(answers) - min(answers) >= 2


counts = Counts()


class Sum:
    epsilon = 1

    def __init__(self, scale=1):
        self.scale = scale

    def run(self, answers, noise):
        return answers[0] + noise.draw(LaplaceNoise(Fraction(self.scale)))

    def align(self, answers, neighbour, noise, output):
        return [answers[0] - neighbour[0]]


class Scaled(Sum):
    def __init__(self, scale):
        super().__init__(scale)


class Fails(Sum):
    def run(self, answers, noise):
        return 1 / 0


class ReturnsNothing(Sum):
    def run(self, answers, noise):
        noise.draw(LaplaceNoise(1))

    def align(self, answers, neighbour, noise, output):
        return [0]


class SometimesNothing(ReturnsNothing):
    def run(self, answers, noise):
        return 1 if noise.draw(LaplaceNoise(1)) > 0 else None


class NoAlign:
    epsilon = 1

    def run(self, answers, noise):
        return answers[0] + noise.draw(LaplaceNoise(1))


class NoEpsilon(Sum):
    epsilon = None


class AlignsToNothing(Sum):
    def align(self, answers, neighbour, noise, output):
        pass


class BrokenInit(Sum):
    def __init__(self):
        self.scale = undefined_name


def returns_nothing(answers):
    pass


def broken(unknown):
    return Sum(undefined_name)


def any_scale(unknown):
    return Sum()


def half_the_noise():
    return Sum(Fraction(1, 2))


class Above(Stepwise):
    epsilon = 1
    shared_law, law = LaplaceNoise(Fraction(2)), LaplaceNoise(Fraction(4))
    capacity, unit = 1, Fraction(1, 2)

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return above, used + above

    def align_step(self, used, move, outcome):
        return [move if outcome else 0], used + outcome
"""


@pytest.fixture
def of_others(tmp_path, monkeypatch):
    """A module of somebody else's in the current directory; returns its name."""
    name = f"mine_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MINE, encoding="utf-8")
    for kind, text in (("broken", "1 / 0"), ("syntax", "x = 1\ny = = 2"), ("lacks", "import nix")):
        (tmp_path / f"{kind}_{name}.py").write_text(f"{text}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    return name


def test_a_function_of_others_that_leaks_is_rejected(of_others):
    result = call("audit", f"{of_others}:leaks", "--epsilon", "1", "--samples", "5000")
    assert result.exit_code == 1
    assert result.stdout.startswith("REJECTED: not ε = 1 ")
    assert result.stdout.endswith(f"\n{of_others}:leaks: REJECTED\n")


def test_a_function_of_others_that_is_private_is_not_and_json_says_so(of_others):
    how = ("--epsilon", "1", "--samples", "5000", "--monotonic", "--json")
    result = call("audit", f"{of_others}:says_nothing", *how)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["rejected"], found["epsilon"], found["runs"]) == (False, 1.0, 1_000)


def test_a_method_is_audited_on_what_its_mechanism_says(of_others):
    """A move of some answers up and others down would tell."""
    result = call("audit", f"{of_others}:counts.is_spread", "--samples", "2000")
    assert result.exit_code == 0
    assert "not rejected: ε = 1 " in result.stdout
    general = ("--epsilon", "1", "--samples", "2000")
    assert (
        call("audit", f"{of_others}:Counts.is_spread", *general).exit_code == 2
    )  # of no mechanism


@pytest.mark.parametrize(
    ("name", "code", "ending"),
    [
        ("Sum", 0, "Sum: PROVED, n = 2\n"),
        ("half_the_noise", 1, "half_the_noise: REFUTED, n = 2\n"),
        ("any_scale", 0, "any_scale: PROVED, n = 2\n"),
        ("Above", 0, "Above: PROVED, every n\n"),
    ],
)
def test_mechanisms_of_others_are_proved_or_refuted(of_others, name, code, ending):
    result = call("prove", f"{of_others}:{name}", "-n", "2")
    assert (result.exit_code, result.stdout[-len(ending) :]) == (code, ending)


@pytest.mark.parametrize("option", ["--epsilon", "--sensitivity"])
def test_what_a_stream_states_itself_is_not_given_beside_it(of_others, option):
    result = call("prove", f"{of_others}:Above", option, "0.01")
    assert result.exit_code == 2
    assert f"{option} is not for a Stepwise" in result.stderr


@pytest.mark.parametrize(
    ("command", "address", "code", "words"),
    [
        (
            "audit",
            "no_such_module:f",
            2,
            "no_such_module cannot be imported: ModuleNotFoundError: No module named",
        ),
        ("audit", "{mine}.deeper:f", 2, "{mine}.deeper cannot be imported: ModuleNotFoundError"),
        ("audit", "{mine}:f", 2, "{mine} has no 'f'"),
        ("audit", "{mine}:refuses", 2, "the function refused all answers that were tried"),
        ("audit", "{mine}:number", 2, "{mine}:number is not callable: it is of type int"),
        ("audit", "{mine}:returns_nothing", 2, "function returned None in every call: does it"),
        ("audit", "{mine}:ReturnsNothing", 2, "run returned None in every call: does it return"),
        ("prove", "{mine}:ReturnsNothing", 2, "run returned None on every path: does it return"),
        (
            "prove",
            "{mine}:Scaled",
            2,
            "{mine}:Scaled needs arguments: add 'own = Scaled(2)' to {mine}.py",
        ),
        ("prove", "{mine}:leaks", 2, "{mine}:leaks must make a mechanism from unknown parameters"),
        ("prove", "{mine}:NoAlign", 2, "{mine}:NoAlign has no method align: name a class"),
        ("prove", "{mine}:AlignsToNothing", 2, "align must return a list, one shift for each draw"),
        ("prove", "{mine}.py:Sum", 2, "write {mine}:Sum"),
        ("prove", ":Sum", 2, "write mine:Sum"),
        ("audit", ":leaks", 2, "write mine:leaks"),
        ("prove", "{mine}:number", 2, "{mine}:number is not a mechanism: name a class"),
        ("prove", "{mine}:counts", 2, "{mine}:counts is not a mechanism: name a class"),
        ("prove", "{mine}:Fails", 2, "run failed: ZeroDivisionError"),
        ("prove", "broken_{mine}:f", 2, "broken_{mine} cannot be imported: ZeroDivisionError"),
        ("audit", "NoisyMax", 2, "--epsilon is for your own, named as package.module:name. To use"),
    ],
)
def test_a_wrong_address_is_refused_in_words(of_others, command, address, code, words):
    result = call(command, address.format(mine=of_others), "--epsilon", "1")
    assert result.exit_code == code
    assert result.stderr.lstrip().startswith(f"dpgap: {words.format(mine=of_others)}")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (
            "broken_{mine}:f",
            "cannot be imported: ZeroDivisionError: division by zero (broken_{mine}.py, line 1)",
        ),
        ("syntax_{mine}:f", "SyntaxError: invalid syntax (syntax_{mine}.py, line 2)"),
        ("lacks_{mine}:f", "ModuleNotFoundError: No module named 'nix' (lacks_{mine}.py, line 1)"),
        (
            "{mine}:BrokenInit",
            "could not be made: NameError: name 'undefined_name' is not defined ({mine}.py, line",
        ),
        ("{mine}:broken", "NameError: name 'undefined_name' is not defined ({mine}.py, line"),
    ],
)
def test_an_error_in_a_users_code_is_shown_with_its_place(of_others, address, words):
    result = call("prove", address.format(mine=of_others))
    assert result.exit_code == 2
    assert words.format(mine=of_others) in result.stderr


def test_a_program_may_return_nothing_on_some_paths(of_others):
    assert call("prove", f"{of_others}:SometimesNothing", "-n", "1").exit_code == 0


def test_a_name_without_a_colon_is_shown_with_one(of_others):
    assert "(yours is mine:Max)" in call("prove", "mine.Max").stderr


def test_without_epsilon_the_option_is_named(of_others):
    assert "--epsilon" in call("prove", f"{of_others}:NoEpsilon").stderr


@pytest.mark.parametrize(
    "wrong", [["prove", "{mine}:Sum", "--smt", "here"], ["prove", "NoisyMax", "-n", "3"]]
)
def test_an_option_that_would_be_ignored_is_refused(of_others, wrong):
    result = call(*(each.format(mine=of_others) for each in wrong))
    assert result.exit_code == 2
    assert f"{wrong[2]} is for " in result.stderr


def test_a_proof_of_ones_own_as_json_has_its_claim_and_its_numbers(of_others):
    result = call("prove", f"{of_others}:half_the_noise", "-n", "2", "--json")
    row = json.loads(result.stdout)
    assert (row["epsilon"], row["neighbours"], row["condition"]) == ("1", "general", "cost")
    assert len(row["counterexample"]["answers"]) == 2


def test_a_proof_says_for_how_many_answers_it_holds_and_what_it_leaves_out(of_others):
    said = call("prove", f"{of_others}:Sum", "-n", "1").stdout
    assert "PROVED on 1 path in " in said
    assert "for 1 answer, every condition holds on every path. Ties have probability 0" in said
    assert "Ties" not in call("prove", f"{of_others}:Sum", "-n", "1", "--ties").stdout


def test_an_audit_prints_each_verdict_when_it_is_ready(monkeypatch):
    said = []
    sound = Audit("made up", "shipped", "general", "document", 1.0, 0.4, 2_000, None, 0.1)
    monkeypatch.setattr("dpgap.proof.cases.audits", lambda: [(name, None) for name in "abc"])
    monkeypatch.setattr(proofs, "workers", lambda: 1)
    row = {**asdict(sound), "caught": False}
    monkeypatch.setattr(proofs, "_audited", lambda number: said.append(number) or row)
    monkeypatch.setattr(proofs, "_audit_line", lambda row: f"after {len(said)}")
    assert call("audit").stdout.splitlines()[:3] == ["after 1", "after 2", "after 3"]


ENDS = """
import sys


def leaks(answers):
    sys.exit()


class Sum:
    epsilon = 1

    def run(self, answers, noise):
        raise SystemExit(0)

    def align(self, answers, neighbour, noise, output):
        return []


if __name__ != "ends":
    sys.exit(0)
"""


@pytest.mark.parametrize("command", ["audit", "prove"])
@pytest.mark.parametrize("address", ["ends:Sum", "ends:leaks", "script:leaks"])
def test_a_module_or_a_function_that_ends_python_gets_no_verdict_and_no_code_0(
    command, address, tmp_path, monkeypatch
):
    for name in ("ends", "script"):
        (tmp_path / f"{name}.py").write_text(ENDS, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    result = call(command, address, "--epsilon", "1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "ends Python (SystemExit): nothing was judged" in result.stderr


@pytest.mark.parametrize("asked", [["--version"], ["--help"], ["audit", "--help"]])
def test_what_ends_by_itself_still_ends_with_code_0(asked):
    assert call(*asked).exit_code == 0


@pytest.mark.parametrize("given", [["audit", "--samples", "5000"], ["prove", "-n", "2"]])
@pytest.mark.parametrize("name", [["NoisyMax"], []])
def test_an_option_for_others_is_refused_with_what_to_do_instead(
    given, name, tmp_path, monkeypatch
):
    command, *options = given
    refused = call(command, *name, *options)
    assert refused.exit_code == 2
    assert f"{options[0]} is for your own, named as package.module:name" in refused.stderr
    advice = re.search(r"write '(.*)' to a file (\S+), and name (\S+)", refused.stderr)
    line, file, address = advice.groups()
    (tmp_path / file).write_text(f"import dpgap\n{line}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert call(command, address, *options).exit_code == 0


def test_an_audit_without_a_claim_is_refused(of_others):
    result = call("audit", f"{of_others}:leaks")
    assert result.exit_code == 2
    assert result.stderr.startswith("dpgap: --epsilon must be given")


def test_the_few_lines_in_the_docs_run_in_anybodys_pytest(tmp_path):
    """The private one passes, the leaking one fails and pytest shows why."""
    page = (Path(__file__).parents[2] / "docs" / "audit-others.md").read_text(encoding="utf-8")
    lines = re.findall(r"```python\n(from dpgap\.proof import .*?)```", page, re.DOTALL)
    assert [sum(map(bool, block.split("\n"))) for block in lines] == [4, 3]
    for name, chosen in (("private", "says_nothing"), ("leaking", "leaks")):
        names = f"my_mechanism, MyMechanism = {chosen}, Sum\n"
        text = MINE + names + "\n\n".join(lines)
        (tmp_path / f"test_{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    outcomes = re.findall(r"^(PASSED|FAILED|ERROR) test_(\w+)\.py", done.stdout, re.MULTILINE)
    passed, failed = ("PASSED", "private"), ("FAILED", "leaking")
    assert sorted(outcomes) == [failed, ("PASSED", "leaking"), passed, passed]
    assert done.returncode == 1
    assert "REJECTED: not ε = 1" in done.stdout

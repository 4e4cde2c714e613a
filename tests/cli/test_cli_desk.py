"""`dpgap desk`: checks its file, makes tokens, opens, and counts again when it is told to."""

import re
import subprocess
import sys
from pathlib import Path

import httpx

from dpgap.budget.ledger import Ledger
from dpgap.desk.app import open_desk
from dpgap.desk.auth import hash_of_token
from dpgap.desk.config import read_stewards_file

FILE = """[desk]
ledger = "sqlite:///budget.db"
tick = 0.01

[datasets.sales]
table = "sales.csv"
unit = "who"
epsilon = 1000

[[datasets.sales.topics]]
name = "what"
item = "what"
domain = ["fig", "pea"]
"""


def _dpgap(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "dpgap", "desk", *arguments]
    return subprocess.run(command, capture_output=True, check=False, encoding="utf-8")


def _write(folder: Path, figs: int = 3000) -> Path:
    rows = [f"{who},{'fig' if who < figs else 'pea'}\n" for who in range(4000)]
    (folder / "sales.csv").write_text("".join(["who,what\n", *rows]))
    path = folder / "desk.toml"
    path.write_text(FILE)
    return path


def test_a_token_and_its_line_for_the_file_belong_together() -> None:
    said = _dpgap("--token").stdout
    token, line = re.findall(r"(dpgap-\S+)|(sha256:[0-9a-f]{64})", said)
    assert hash_of_token(token[0]) == line[1]
    assert token[0] not in _dpgap("--token").stdout


def test_a_key_is_one_that_the_file_takes(tmp_path: Path) -> None:
    path = _write(tmp_path)
    line = _dpgap("--key").stdout.removeprefix("for the file:   ")
    path.write_text(FILE.replace("[desk]", f"[desk]\n{line}"))
    path.chmod(0o604)
    done = _dpgap(str(path), "--check")
    assert done.stdout.startswith(f"{path}: nothing is wrong\n")
    assert re.fullmatch(f"dpgap: note: everybody .* can read .*{path}.*chmod 600.*\n", done.stderr)
    assert line.split('"')[1] not in done.stderr


def test_a_file_is_checked_without_opening_anything(tmp_path: Path) -> None:
    path = _write(tmp_path)
    said = _dpgap(str(path), "--check").stdout
    assert said == f"{path}: nothing is wrong\nA start would open the budgets: sales\n"
    assert not (tmp_path / "budget.db").exists()


def test_a_check_says_what_a_start_would_say(tmp_path: Path) -> None:
    path = _write(tmp_path)
    path.write_text(FILE.replace('unit = "who"', 'unit = "whom"'))
    path.chmod(0o600)
    said = [_dpgap(str(path), *check) for check in ((), ("--check",))]
    assert [done.returncode for done in said] == [1, 1]
    assert said[0].stderr == said[1].stderr
    assert "line 10: sales.what: " in said[0].stderr
    assert "whom" in said[0].stderr
    assert not (tmp_path / "budget.db").exists()
    refused = _dpgap(str(path), "--check", "--host", "0.0.0.0")
    assert refused.stderr.startswith("dpgap: --host must be one of 127.0.0.1")


def test_every_fault_is_one_line_with_its_line(tmp_path: Path) -> None:
    path = _write(tmp_path)
    path.write_text(FILE.replace('unit = "who"', "unit = 1").replace("tick = 0.01", "tick = 0"))
    done = _dpgap(str(path))
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert [line.split(": ")[1] for line in lines] == [f"{path}, line 3", f"{path}, line 7"]


def test_a_desk_opens_with_a_link_and_counts_again_when_it_is_told_to(tmp_path: Path) -> None:
    path = _write(tmp_path)
    command = [sys.executable, "-W", "ignore", "-m", "dpgap", "desk", str(path), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(4)]
        link, token = lines[1], lines[3]
        base = f"http://127.0.0.1:{re.findall(':([0-9]+)/', link)[0]}"
        name = {"host": link.split("/")[2]}
        link = base + link.removeprefix(f"http://{name['host']}")
        try:
            assert re.fullmatch(r"[0-9a-f]{20}\.localhost:[0-9]+", name["host"])
            form, origin = (
                {"link": link.partition("=")[2]},
                {"origin": f"http://{name['host']}", **name},
            )
            assert httpx.get(link).status_code == 421
            assert httpx.get(link, headers=name).status_code == 200
            assert httpx.post(f"{base}/enter", data=form, headers=origin).status_code == 303
            assert httpx.post(f"{base}/enter", data=form, headers=origin).status_code == 401
            headers = {"authorization": f"Bearer {token}"}
            with httpx.Client(base_url=f"{base}/api/v1", headers=headers) as client:
                ask = {"topic": "what", "k": 1, "epsilon": 100, "fresh": True}
                first = client.post("/datasets/sales/ask", json={**ask, "key": "number-one"})
                assert first.json()["release"]["labels"] == ["fig"]
                _write(tmp_path, figs=1000)
                client.post("/datasets/sales/acts/refresh", json={}).raise_for_status()
                second = client.post("/datasets/sales/ask", json={**ask, "key": "number-two"})
                assert second.json()["release"]["labels"] == ["pea"]
        finally:
            process.terminate()


def test_an_allowance_that_differs_from_the_ledger_is_said_at_the_start(tmp_path: Path) -> None:
    path = _write(tmp_path)
    people = '\n[people.ann]\n[people.bob]\n[datasets.sales.people]\nann = {}\nbob = "all"\n'
    path.write_text(FILE + people.format("2"))
    assert _dpgap(str(path), "--check").stderr == ""
    open_desk(read_stewards_file(path)).spool.close()
    path.chmod(0o600)
    assert _dpgap(str(path), "--check").stderr == ""
    Ledger(f"sqlite:///{tmp_path}/budget.db").steward("sales").allow("bob", 7)
    path.write_text(FILE + people.format("3"))
    ann, bob = _dpgap(str(path), "--check").stderr.splitlines()
    assert ann.startswith(
        "dpgap: note: datasets.sales gives 'ann' ε = 3, but the ledger gives ε = 2"
    )
    assert "dpgap ledger allow --person ann --dataset sales --epsilon" in ann
    assert "gives 'bob' \"all\", but the ledger gives ε = 7" in bob
    started = [sys.executable, "-m", "dpgap", "desk", str(path), "--port", "0"]
    with subprocess.Popen(started, stderr=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stderr is not None
        try:
            assert [process.stderr.readline() for _ in range(2)] == [f"{ann}\n", f"{bob}\n"]
        finally:
            process.terminate()

"""A ledger that was put back, or is lost, is noticed: nothing that was spent is free again."""

import re
import shlex
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from desks import process_of, question, running, token_of, write_file
from typer.testing import CliRunner

from dpgap.budget.cost import Cost
from dpgap.budget.ledger import Ledger
from dpgap.cli.main import app
from dpgap.desk.app import check_desk, open_desk
from dpgap.desk.config import read_stewards_file
from dpgap.desk.heads import Heads, PutBack
from dpgap.desk.middleware import Refused, in_our_words
from dpgap.desk.questions import FilledForm
from dpgap.desk.queue import Desk, Receipt
from dpgap.desk.spool import Pending

ALL = '{ ann = "all", bob = "all" }'
TENTH = Fraction(1, 10)
ASK = "/api/v1/datasets/sales/ask"


def _open(path: Path) -> Desk:
    return open_desk(read_stewards_file(path))


def _end(desk: Desk) -> None:
    desk.spool.close()


def _charge(desk: Desk, key: str, epsilon: str = "0.1") -> "Pending | Receipt":
    visitor = desk.auth.with_token(token_of("ann"))
    assert visitor is not None
    asked = FilledForm.read({"topic": "what", "k": "2", "epsilon": epsilon}, None)
    with in_our_words():
        return desk.charge(visitor, desk.file.datasets["sales"], asked, key)


def _ask(desk: Desk, key: str, epsilon: str = "0.1") -> Receipt:
    """All steps of a question."""
    charged = _charge(desk, key, epsilon)
    if isinstance(charged, Receipt):
        return charged
    charged.draw()
    return desk.settle(charged)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_file(tmp_path, shares=ALL)


def _copy(path: Path) -> Path:
    """A copy of the ledger, made as the page on backups says."""
    copy = path.with_name("copy.db")
    connection = sqlite3.connect(path.with_name("budget.db"))
    connection.execute("VACUUM INTO ?", (str(copy),))
    connection.close()
    return copy


def _put_back(path: Path, copy: Path) -> None:
    shutil.copy(copy, path.with_name("budget.db"))


def _commands(refusal: object) -> list[list[str]]:
    """The commands that a refusal names."""
    lines = [line.strip() for line in str(refusal).splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("dpgap ")]


def _run(command: list[str]) -> str:
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_book_put_back_is_refused_at_the_start_and_goes_on_when_its_loss_is_charged(
    path: Path,
) -> None:
    desk = _open(path)
    _ask(desk, "before-the-copy")
    copy = _copy(path)
    _ask(desk, "paid-and-then-lost", "0.3")
    _end(desk)
    before = Ledger(f"sqlite:///{path.parent}/budget.db").account("sales")
    assert before.spent == 4 * TENTH
    head = before.head

    _put_back(path, copy)
    for start in (lambda: _open(path), lambda: check_desk(read_stewards_file(path))):
        with pytest.raises(PutBack, match=r"lacks entry \d+ of 'sales'.* Nothing is charged") as no:
            start()
    ((*words, reason),) = _commands(no.value)
    assert words[:2] == ["ledger", "accept"]
    assert words[words.index("--epsilon") + 1] == "3/10"
    _run([*words, reason])

    after = Ledger(f"sqlite:///{path.parent}/budget.db").account("sales")
    assert after.spent == 4 * TENTH
    assert after.balance.kind == "accept"
    assert after.ledger.verify(head=head) != []  # the desk saw the charge, and not its settlement

    desk = _open(path)
    with pytest.raises(Refused, match="its answer was lost") as refused:
        _charge(desk, "paid-and-then-lost", "0.3")
    assert refused.value.status == 409
    assert _ask(desk, "before-the-copy").entry < after.balance.number
    assert _ask(desk, "a-new-question", "0.2").state == "settled"
    assert after.spent == 6 * TENTH
    assert after.ledger.verify() == []
    _end(desk)
    _end(_open(path))


def test_less_than_what_is_known_to_be_lost_is_not_enough(path: Path) -> None:
    desk = _open(path)
    copy = _copy(path)
    _ask(desk, "paid-and-then-lost", "0.3")
    _end(desk)
    _put_back(path, copy)
    with pytest.raises(PutBack) as no:
        _open(path)
    ((*words, reason),) = _commands(no.value)
    words[words.index("--epsilon") + 1] = "0.2"
    _run([*words, reason])
    with pytest.raises(PutBack, match="--epsilon 3/10"):
        _open(path)


def test_a_book_put_back_under_a_running_desk_is_refused_before_anything_is_drawn(
    path: Path,
) -> None:
    desk = _open(path)
    copy = _copy(path)
    _ask(desk, "paid-and-then-lost")
    _put_back(path, copy)
    with pytest.raises(Refused, match="an older copy is in its place") as refused:
        _charge(desk, "paid-and-then-lost")
    assert refused.value.status == 503
    ledger = Ledger(f"sqlite:///{path.parent}/budget.db")
    assert "reserve" not in [entry.kind for entry in ledger.entries("sales")]

    with pytest.raises(PutBack) as no:
        check_desk(read_stewards_file(path))
    for command in _commands(no.value):
        _run(command)
    with pytest.raises(Refused, match="its answer was lost"):
        _charge(desk, "paid-and-then-lost")
    assert _ask(desk, "a-new-question").state == "settled"
    assert ledger.account("sales").spent == 2 * TENTH
    _end(desk)


def test_charges_on_the_copy_before_anybody_notices_do_not_hide_the_loss(path: Path) -> None:
    desk = _open(path)
    copy = _copy(path)
    _ask(desk, "paid-and-then-lost", "0.3")
    _end(desk)
    _put_back(path, copy)
    account = Ledger(f"sqlite:///{path.parent}/budget.db").account("sales")
    for _ in range(4):  # beyond the number of the head that was seen
        account.reserve(Cost.pure(TENTH), "a program that saw nothing").settle(Cost.pure(TENTH))
    with pytest.raises(PutBack, match="--epsilon 3/10"):
        _open(path)


def test_a_lost_ledger_is_refused_and_opened_anew_with_all_that_was_spent(path: Path) -> None:
    desk = _open(path)
    _ask(desk, "paid-and-then-lost", "0.3")
    _end(desk)
    path.with_name("budget.db").unlink()
    for start in (lambda: _open(path), lambda: check_desk(read_stewards_file(path))):
        with pytest.raises(PutBack, match=r"there is no ledger .* has seen entry \d+") as no:
            start()
    assert not path.with_name("budget.db").exists()

    create, accept = _commands(no.value)
    create[create.index("TOTAL")] = "10"
    _run(create)
    with pytest.raises(PutBack, match="lacks entry"):
        _open(path)
    _run(accept)
    desk = _open(path)
    assert desk.ledger.account("sales").spent == Fraction(3, 10)
    with pytest.raises(Refused, match="its answer was lost"):
        _charge(desk, "paid-and-then-lost", "0.3")
    _end(desk)


def test_a_ledger_without_the_data_set_is_refused(path: Path) -> None:
    _end(_open(path))
    path.with_name("budget.db").unlink()
    Ledger(f"sqlite:///{path.parent}/budget.db").create("another", 1)
    with pytest.raises(PutBack, match="dpgap ledger create"):
        _open(path)
    assert Ledger(f"sqlite:///{path.parent}/budget.db").datasets() == ["another"]


def test_what_was_lost_counts_beyond_the_total(path: Path) -> None:
    desk = _open(path)
    copy = _copy(path)
    desk.ledger.steward("sales").raise_to(20, reason="a second survey")
    _ask(desk, "paid-and-then-lost", "12")
    _end(desk)
    _put_back(path, copy)
    with pytest.raises(PutBack) as no:
        _open(path)
    for command in _commands(no.value):
        _run(command)
    account = Ledger(f"sqlite:///{path.parent}/budget.db").account("sales")
    assert (account.spent, account.total, account.remaining) == (12, 12, 0)
    assert account.ledger.verify() == []


def test_charges_at_other_desks_are_remembered_too(path: Path) -> None:
    desk = _open(path)
    copy = _copy(path)
    Ledger(f"sqlite:///{path.parent}/budget.db").account("sales").reserve(
        Cost.pure(TENTH), "elsewhere"
    )
    desk.remember()
    _put_back(path, copy)
    with pytest.raises(Refused, match="an older copy"):
        _charge(desk, "a-key-of-ann")
    desk.remember()  # it is logged, and no error
    _end(desk)


def test_the_newest_copy_goes_on_as_if_nothing_had_happened(path: Path) -> None:
    desk = _open(path)
    _ask(desk, "before-the-copy")
    copy = _copy(path)
    path.with_name("budget.db").unlink()
    _put_back(path, copy)
    assert _ask(desk, "a-new-question").state == "settled"
    _end(desk)


def test_a_spool_whose_heads_are_damaged_charges_nothing(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    desk = _open(path)
    path.with_name("desk.spool").joinpath("heads.db").write_bytes(b"no database" * 99)
    with pytest.raises(Refused) as refused:
        _charge(desk, "a-key-of-ann")
    assert refused.value.status == 503
    assert "heads.db cannot be read or written" in caplog.text
    assert str(path.parent) not in caplog.text
    assert "reserve" not in [entry.kind for entry in desk.ledger.entries("sales")]
    _end(desk)


def test_clients_are_told_and_the_log_says_how_to_go_on(path: Path) -> None:
    with running(path) as desk, desk.program("ann") as ann:
        copy = _copy(path)
        assert ann.post(ASK, json=question()).status_code == 200
        _put_back(path, copy)
        answer = ann.post(ASK, json=question())
        assert answer.status_code == 503
        assert "charged until your steward has looked" in answer.json()["error"]
        assert "the ledger lacks entries that this desk has seen" in desk.lines
        desk.desk.remember()
        desk.desk.remember()
    (line,) = [line for line in desk.lines if "was put back" in line]
    assert "--check" in line


def test_a_killed_desk_has_kept_the_head_of_what_it_charged(path: Path) -> None:
    with process_of(path) as desk:
        import httpx

        copy = _copy(path)
        headers = {"authorization": f"Bearer {token_of('ann')}"}
        answer = httpx.post(f"{desk.url}{ASK}", json=question(), headers=headers, timeout=60)
        assert answer.status_code == 200
    _put_back(path, copy)
    with pytest.raises(PutBack):
        _open(path)


def test_heads_are_readable_to_their_owner_only(path: Path) -> None:
    _end(_open(path))
    file: Any = path.with_name("desk.spool") / "heads.db"
    assert file.stat().st_mode & 0o777 == 0o600
    newest = Heads(file.parent).newest("sales")
    assert newest is not None
    assert re.fullmatch("[0-9a-f]{64}", newest.hash)


def test_a_database_that_was_put_back_on_a_server_is_noticed(tmp_path: Path, url: str) -> None:
    path = write_file(tmp_path, ledger=url, shares=ALL)
    desk = _open(path)
    _ask(desk, "before-the-copy")
    backed_up = desk.ledger.account("sales").balance.number
    _ask(desk, "paid-and-then-lost", "0.3")
    with desk.ledger._store.engine.begin() as connection:
        for table in ("dpgap_entries", "dpgap_documents"):
            connection.exec_driver_sql(f"DELETE FROM {table} WHERE number > {backed_up}")
    with pytest.raises(Refused, match="an older copy"):
        _charge(desk, "paid-and-then-lost", "0.3")
    with pytest.raises(PutBack, match="--epsilon 3/10") as no:
        _open(path)
    assert "--ledger 'postgresql" in str(no.value)
    head = re.findall("[0-9a-f]{64}", str(no.value))[0]
    desk.ledger.steward("sales").accept(head, "3/10", reason="restored from a dump")
    with pytest.raises(Refused, match="its answer was lost"):
        _charge(desk, "paid-and-then-lost", "0.3")
    assert _ask(desk, "a-new-question").state == "settled"
    _end(desk)


def test_what_a_settlement_gave_back_before_the_copy_does_not_hide_a_loss(path: Path) -> None:
    desk = _open(path)
    asked = FilledForm.read(
        {"topic": "what", "kind": "above", "threshold": "900000", "k": "2", "epsilon": "1"}, None
    )
    visitor = desk.auth.with_token(token_of("ann"))
    assert visitor is not None
    charged = desk.charge(visitor, desk.file.datasets["sales"], asked, "costs-less-than-reserved")
    assert isinstance(charged, Pending)
    charged.draw()
    desk.settle(charged)
    account = desk.ledger.account("sales")
    assert account.spent < 1
    copy = _copy(path)
    _ask(desk, "paid-and-then-lost", "0.3")
    spent = account.spent
    _end(desk)
    _put_back(path, copy)
    with pytest.raises(PutBack, match="--epsilon 3/10") as no:
        _open(path)
    for command in _commands(no.value):
        _run(command)
    assert account.spent == spent
    _end(_open(path))


def test_desks_with_one_spool_notice_an_accepted_loss_one_after_the_other(path: Path) -> None:
    desk = _open(path)
    copy = _copy(path)
    _ask(desk, "paid-and-then-lost", "0.3")
    seen = desk.spool.heads.newest("sales")
    _put_back(path, copy)
    with pytest.raises(PutBack) as no:
        check_desk(read_stewards_file(path))
    for command in _commands(no.value):
        _run(command)
    other = _open(path)
    charged = _ask(other, "at-the-other-desk", "0.2").entry
    with desk.ledger._store.reading() as rows:
        desk.spool.heads.require_later(rows, "sales", seen)
    newest = desk.spool.heads.newest("sales")
    assert newest is not None
    assert newest.number == charged
    _end(desk)
    _end(other)

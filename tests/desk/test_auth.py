"""Who comes in: by a link once, by a token until it is revoked, with a pass until it ends."""

import os
from pathlib import Path

import pytest
from desks import KEY, Running, running, token_of, write_file

from dpgap.desk.auth import LASTS, Auth, Passes, hash_of_token
from dpgap.desk.config import read_stewards_file
from dpgap.desk.middleware import Refused


def _auth(path: Path) -> Auth:
    return Auth(read_stewards_file(path))


def test_a_link_lets_one_browser_in_once(tmp_path: Path) -> None:
    auth = _auth(write_file(tmp_path, people={}, shares="{}"))
    link = auth.link
    assert link is not None
    assert auth.by_link(link[:-1]) is None
    carried = auth.by_link(link)
    assert carried is not None
    visitor = auth.with_pass(carried)
    assert visitor is not None
    assert visitor.person.is_steward
    assert auth.by_link(link) is None
    assert auth.link is None


def test_there_is_no_link_where_people_have_tokens(tmp_path: Path) -> None:
    assert _auth(write_file(tmp_path)).link is None


def test_a_token_is_its_owners_and_nobody_elses(tmp_path: Path) -> None:
    auth = _auth(write_file(tmp_path))
    visitor = auth.with_token(token_of("ann"))
    assert visitor is not None
    assert visitor.name == "ann"
    for wrong in ("", token_of("ann")[:-1], hash_of_token(token_of("ann")), token_of("nobody")):
        assert auth.with_token(wrong) is None


def test_a_revoked_token_ends_its_passes_at_once_and_no_others(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    auth = _auth(path)
    ann, bob = (auth.by_token(token_of(name)) for name in ("ann", "bob"))
    assert ann is not None
    assert bob is not None
    assert auth.with_pass(ann) is not None
    text = path.read_text().replace(hash_of_token(token_of("ann")), hash_of_token("another"))
    path.write_text(text)
    os.utime(path, ns=(1, 1))
    assert auth.with_pass(ann) is None
    assert auth.with_token(token_of("ann")) is None
    assert auth.with_pass(bob) is not None


def test_a_revocation_that_keeps_the_files_size_and_time_is_seen(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    auth = _auth(path)
    assert auth.with_token(token_of("ann")) is not None
    before, text = path.stat(), path.read_text()
    path.write_text(text.replace(hash_of_token(token_of("ann")), hash_of_token("another")))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    for name in ("st_size", "st_mtime_ns", "st_ino"):
        assert getattr(before, name) == getattr(after, name)
    assert auth.with_token(token_of("ann")) is None


def test_nobody_comes_in_while_the_file_cannot_be_read(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    auth = _auth(path)
    good = path.read_text()
    path.write_text("[desk")
    with pytest.raises(Refused, match="has a fault: run `dpgap desk FILE --check`"):
        auth.with_token(token_of("ann"))
    path.write_text(good)
    assert auth.with_token(token_of("ann")) is not None


def test_a_pass_ends_and_cannot_be_made_without_the_key() -> None:
    ours, others = Passes(bytes.fromhex(KEY)), Passes(b"x" * 32)
    issued = ours.issue("ann", "mark", now=0)
    assert ours.read(issued, LASTS - 1) is not None
    assert ours.read(issued, LASTS) is None
    assert others.read(issued, 1) is None
    body, _, signature = issued.partition(".")
    for forged in (f"{body}.", body, "", ".", f"{body}A.{signature}", f"{body}.{signature[:-1]}"):
        assert ours.read(forged, 1) is None
    assert ours.form_key(issued) != signature


def test_a_pass_of_one_desk_is_good_at_another_with_the_same_key(
    desk: Running, tmp_path: Path
) -> None:
    with running(tmp_path / "desk.toml") as other:
        carried = desk.desk.auth.by_token(token_of("ann"))
        assert carried is not None
        assert other.desk.auth.with_pass(carried) is not None


def test_a_token_that_is_revoked_while_the_desk_starts_is_revoked(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    file = read_stewards_file(path)
    text = path.read_text().replace(hash_of_token(token_of("ann")), hash_of_token("another"))
    path.write_text(text)
    assert Auth(file).with_token(token_of("ann")) is None


def test_whoever_is_taken_off_a_data_set_asks_no_more_and_nobody_is_added(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    file = read_stewards_file(path)
    auth, sales = Auth(file), file.datasets["sales"]
    visitors = [auth.with_token(token_of(name)) for name in ("ann", "bob", "eve")]
    assert [each is not None and auth.may_ask(each, sales) for each in visitors] == [1, 1, 0]
    path.write_text(path.read_text().replace('bob = "all"', 'eve = "all"'))
    os.utime(path, ns=(1, 1))
    assert [each is not None and auth.may_ask(each, sales) for each in visitors] == [1, 0, 0]

"""Whatever a client sends: what does not belong is refused with the right status, in our words."""

import http.client
import re
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from desks import (
    KEY,
    Running,
    form_in,
    question,
    running,
    token_of,
    write_file,
)
from fastapi.routing import APIRoute

from dpgap.desk import api, pages
from dpgap.desk.app import configured, listening, listening_locally
from dpgap.desk.auth import Auth, Passes, hash_of_token
from dpgap.desk.config import read_stewards_file
from dpgap.desk.middleware import HEADERS, Limits, Place
from seams import quick_in

ASK = "/api/v1/datasets/sales/ask"
TRICKS = [
    "../../etc/passwd",
    "/etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "sqlite:///etc/passwd",
    "postgresql://evil.test/db?table=x",
    "'; DROP TABLE dpgap_entries; --",
    '" OR 1=1 --',
    "what UNION SELECT who FROM sales",
    "read_csv('/etc/passwd')",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "${jndi:ldap://evil.test/a}",
    "a\r\nSet-Cookie: x=y",
    "\x00",
    "\u202egnp",
    "9" * 5000,
    "NaN",
    "1e999",
    "-1",
    "0x10",
    "٣",
]


def _entries(desk: Running) -> int:
    return len(desk.desk.ledger.entries("sales"))


@pytest.mark.parametrize(
    "field", ["topic", "kind", "k", "threshold", "epsilon", "delta", "method", "key", "fresh"]
)
def test_no_trick_in_a_field_gets_anywhere(desk: Running, field: str) -> None:
    before = _entries(desk)
    with desk.program("ann") as ann, desk.browser("ann") as browser:
        page = browser.get("/data/sales", params={"topic": "what"}).text
        for trick in TRICKS:
            answer = ann.post(ASK, json={**question(kind="above"), field: trick})
            assert answer.status_code == 422, (field, trick, answer.text)
            form = {**form_in(page, "/data/sales/ask"), field: trick}
            sent = browser.post("/data/sales/ask", data=form)
            assert sent.status_code in (400, 422), (field, trick)
            assert "<script>alert" not in sent.text
            assert "x" not in sent.cookies
    assert _entries(desk) == before
    assert not [line for line in desk.lines if "an error inside" in line]


@pytest.mark.parametrize("field", ["reason", "epsilon", "person", "entry"])
def test_no_trick_of_a_steward_gets_anywhere(desk: Running, field: str) -> None:
    """A text that is kept is kept as it is, or refused if it cannot be printed on a line."""
    said = {"reason": "why", "epsilon": "1", "person": "bob", "entry": "0"}
    with desk.program("sue") as sue, desk.browser("sue") as browser:
        form = form_in(browser.get("/steward/sales").text, "/steward/sales/allow")
        for trick in TRICKS:
            is_words = field in ("reason", "person") and trick.isprintable() and len(trick) < 200
            for what in ("raise", "allow", "write-off"):
                sent = {**said, field: trick, **({"entry": 0} if field != "entry" else {})}
                answer = sue.post(f"/api/v1/datasets/sales/acts/{what}", json=sent)
                wanted = (200, 422) if is_words or field not in _USED[what] else (422,)
                assert answer.status_code in wanted, (what, trick, answer.text)
                sent = {**form, **said, field: trick, "token": token_of("sue")}
                answer = browser.post(f"/steward/sales/{what}", data=sent)
                assert answer.status_code in ((303, 422) if 200 in wanted else (422,))
                assert "x" not in answer.cookies
        assert "<script>alert" not in browser.get("/steward/sales").text
    assert desk.desk.ledger.verify("sales") == []
    assert desk.desk.ledger.account("sales").total == 10
    assert not [line for line in desk.lines if "an error inside" in line]


_USED = {
    "raise": ("reason", "epsilon"),
    "allow": ("reason", "epsilon", "person"),
    "write-off": ("reason", "entry"),
}


@pytest.mark.parametrize(
    "field",
    quick_in(  # the others are those of a question, which are tried above
        ["topic", "kind", "k", "threshold", "epsilon", "delta", "method", "sizes", "fresh"],
        {"k", "delta", "sizes"},
    ),
)
def test_no_trick_in_a_plan_gets_anywhere(desk: Running, field: str) -> None:
    said = {"topic": "what", "kind": "above", "k": 2, "epsilon": "0.1"}
    with desk.program("ann") as ann, desk.browser("ann") as browser:
        for trick in (each for each in TRICKS if len(each) < 4000):
            answer = ann.post("/api/v1/datasets/sales/plan", json={**said, field: trick})
            assert answer.status_code == 422, (field, trick)
            page = browser.get("/data/sales", params={**said, field: trick})
            assert page.status_code == (200 if field == "delta" else 422), (field, trick)
            assert "<script>alert" not in page.text
            assert "x" not in page.cookies
    assert not [line for line in desk.lines if "an error inside" in line]


PLACES = [
    "/data/{}",
    "/data/sales/releases/{}",
    "/data/sales/asked/{}",
    "/static/{}",
    "/steward/{}",
    "/data/sales/archive?before={}",
    "/api/v1/datasets/{}",
    "/api/v1/datasets/{}/verify",
    "/api/v1/datasets/sales/releases/{}",
    "/api/v1/datasets/sales/releases?limit={}",
    "/api/v1/datasets/sales/entries?before={}",
    "/api/v1/datasets/sales/asked/{}",
]


def test_no_trick_in_an_address_gets_anywhere(desk: Running) -> None:
    tricks = [quote(trick, safe="") for trick in TRICKS if len(trick) < 4000]
    with desk.browser("sue") as sue:
        for place in (place.format(trick) for place in PLACES for trick in tricks):
            answer = sue.get(place)
            assert answer.status_code in (404, 405, 422), place
            assert "root:" not in answer.text


OPEN = {"/static/{name}", "/health", "/enter", "/"}
"""What strangers reach; of these `/` sends them to the login page."""
STEWARDS = {"entries", "stale", "verify", "acts", "steward"}
"""What the address of a route has that is for stewards."""


def _routes() -> list[tuple[str, str, str]]:
    """The method, the pattern and an address of everything that there is."""
    routers = (pages.router, pages.stewards_router, api.router, api.about)
    given = {"{name}": "sales", "{number}": "0", "{key}": "a-key-of-nobody", "{what}": "raise"}
    found = []
    for route in (each for router in routers for each in router.routes):
        assert isinstance(route, APIRoute)
        address = re.sub(r"\{\w+\}", lambda part: given[part[0]], route.path)
        found += [(method, route.path, address) for method in route.methods - {"HEAD"}]
    assert len(found) > 25
    return found


@pytest.mark.parametrize("person", [None, "ann", "eve"])
def test_every_route_is_closed_to_whom_it_is_not_for(desk: Running, person: str | None) -> None:
    """To strangers; stewards' routes to Ann; and all that is about the data to Eve."""
    said = {"topic": "what", "key": "a-key-of-nobody"}
    for method, path, address in _routes():
        is_stewards = bool(STEWARDS & set(path.split("/")))
        turned_away = 401 if person is None else 403 if is_stewards else 404
        if path in OPEN or (turned_away == 404 and not (person == "eve" and "{name}" in path)):
            continue
        kind, to = ("json", desk.program) if path.startswith("/api") else ("data", desk.browser)
        with to(person) if person else desk.client(headers={"origin": desk.url}) as client:
            sent = client.request(method, address, **({kind: said} if method == "POST" else {}))
        assert sent.status_code == turned_away, (method, path)
    assert len(desk.desk.ledger.entries("sales")) == 2


@pytest.mark.parametrize("origin", ["http://evil.test", "null"])
def test_no_change_comes_from_another_origin(desk: Running, origin: str) -> None:
    with desk.browser("sue") as sue:
        form_key = form_in(sue.get("/steward/sales").text, "/steward/sales/close")["form_key"]
        for method, _, address in _routes():
            if method == "POST":
                form = {"form_key": form_key, "reason": "mine", "epsilon": "99"}
                answer = sue.post(address, data=form, headers={"origin": origin})
                assert answer.status_code == 403, address
        assert sue.get("/steward").status_code == 200
    assert desk.desk.ledger.account("sales").total == 10


def test_everything_but_the_door_is_closed_to_strangers(desk: Running) -> None:
    with desk.client() as stranger:
        for place in ("/data/sales", "/steward", "/programs", "/data/sales/releases/1.json"):
            assert stranger.get(place).status_code == 401
        assert stranger.get("/").headers["location"] == "/enter"
        for place in ("/api/v1/datasets", "/api/openapi.json", "/api/v1/datasets/sales/entries"):
            answer = stranger.get(place)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        for place in ("/docs", "/redoc", "/openapi.json", "/data"):
            assert stranger.get(place).status_code == 404


def _pass_of(desk: Running, passes: Passes, person: str, token: str, now: float) -> dict[str, str]:
    carried = passes.issue(person, hash_of_token(token), now)
    return {f"dpgap-desk-{desk.port}": carried}


def test_forged_expired_and_other_peoples_passes_are_refused(desk: Running) -> None:
    ours, now = Passes(bytes.fromhex(KEY)), time.time()
    shown = {
        "good": _pass_of(desk, ours, "ann", token_of("ann"), now),
        "forged": _pass_of(desk, Passes(b"x" * 32), "ann", token_of("ann"), now),
        "expired": _pass_of(desk, ours, "ann", token_of("ann"), now - 10**6),
        "another's": _pass_of(desk, ours, "sue", token_of("ann"), now),
        "nobody's": _pass_of(desk, ours, "zoe", token_of("zoe"), now),
        "rubbish": {f"dpgap-desk-{desk.port}": "\xff.\xfe"},
    }
    statuses = {}
    for name, cookies in shown.items():
        with desk.client() as client:
            header = "; ".join(f"{key}={value}" for key, value in cookies.items())
            answer = client.get("/data/sales", headers={"cookie": header.encode("latin-1")})
            statuses[name] = answer.status_code
    assert statuses == {name: 200 if name == "good" else 401 for name in shown}


def test_wrong_tokens_are_refused_at_both_doors(desk: Running) -> None:
    for wrong in ("x", token_of("nobody"), hash_of_token(token_of("ann")), "é" * 9):
        headers = {"authorization": f"Bearer {wrong}".encode()}
        with desk.client(headers=headers) as client:
            assert client.get("/api/v1/datasets").status_code == 401
        with desk.client(headers={"origin": desk.url}) as client:
            answer = client.post("/enter", data={"token": wrong})
            assert answer.status_code == 401
            assert not answer.cookies


def test_roles_hold(desk: Running) -> None:
    with desk.program("eve") as eve, desk.program("ann") as ann, desk.program("sue") as sue:
        assert eve.get("/api/v1/datasets").json() == {"datasets": []}
        assert eve.post(ASK, json=question()).status_code == 404
        assert ann.get("/api/v1/datasets/sales/entries").status_code == 403
        raised = {"epsilon": 99, "reason": "mine"}
        assert ann.post("/api/v1/datasets/sales/acts/raise", json=raised).status_code == 403
        assert sue.post(ASK, json=question()).status_code == 403
    with desk.browser("ann") as ann:
        assert ann.get("/steward").status_code == 403
        form = form_in(ann.get("/data/sales").text, "/data/sales/ask")
        sent = {"form_key": form["form_key"], "epsilon": "99", "reason": "mine"}
        assert ann.post("/steward/sales/raise", data=sent).status_code == 403
    assert desk.desk.ledger.account("sales").total == 10


@pytest.mark.parametrize(
    "origin", ["http://evil.test", "null", "https://127.0.0.1", "http://127.0.0.1:1", ""]
)
def test_a_form_from_another_origin_is_refused(desk: Running, origin: str) -> None:
    with desk.browser("ann") as ann:
        form = form_in(ann.get("/data/sales").text, "/data/sales/ask")
        answer = ann.post("/data/sales/ask", data=form, headers={"origin": origin})
        assert answer.status_code == 403
    assert desk.desk.ledger.account("sales").spent == 0


def test_a_form_without_an_origin_is_refused(desk: Running) -> None:
    with desk.browser("ann") as ann:
        form = form_in(ann.get("/data/sales").text, "/data/sales/ask")
        del ann.headers["origin"]
        assert ann.post("/data/sales/ask", data=form).status_code == 403
        headers = {"authorization": f"Bearer {token_of('ann')}"}
        assert ann.post("/data/sales/ask", data=form, headers=headers).status_code == 403


def test_a_form_of_another_visit_is_refused(desk: Running) -> None:
    with desk.browser("ann") as ann, desk.browser("bob") as bob:
        form = form_in(bob.get("/data/sales").text, "/data/sales/ask")
        for key in (form["form_key"], "", "é"):
            answer = ann.post("/data/sales/ask", data={**form, "form_key": key})
            assert answer.status_code == 403
            assert "This form has expired" in answer.text
    assert desk.desk.ledger.account("sales").spent == 0


def test_a_pass_is_not_enough_for_a_program_to_change_anything(desk: Running) -> None:
    with desk.browser("ann") as ann:
        assert ann.get("/api/v1/datasets").status_code == 200
        assert ann.post(ASK, json=question()).status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.test", "127.0.0.1", "localhost.evil.test", "127.0.0.1:1", "", "169.254.169.254"]
)
def test_another_name_for_this_machine_is_refused(desk: Running, host: str) -> None:
    """As a name that is rebound to this machine would be."""
    with desk.client() as client:
        for place in ("/", "/enter", "/health", "/static/desk.css"):
            assert client.get(place, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_pages_and_cookies_are_under_a_name_that_no_other_port_knows(
    desk: Running, name: str
) -> None:
    """A browser sends the cookie of 127.0.0.1 to whoever listens at another port there."""
    headers = {"host": f"{name}:{desk.port}", "origin": f"http://{name}:{desk.port}"}
    token = {"authorization": f"Bearer {token_of('ann')}"}
    with desk.client(headers=headers) as client:
        entered = client.post("/enter", data={"token": token_of("sue")})
        assert (entered.status_code, "set-cookie" in entered.headers) == (421, False)
        for place in ("/", "/enter", "/steward", "/data/sales"):
            answer = client.get(place)
            assert answer.status_code == 421
            assert desk.place.label not in answer.text + str(answer.headers)
        assert client.get("/health").status_code == 204
        assert client.get("/api/v1/datasets", headers=token).status_code == 200
    assert re.fullmatch("[0-9a-f]{20}", desk.place.label)


def test_without_a_key_every_start_has_a_name_of_its_own(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    first, again = (Auth(read_stewards_file(path)).passes.label() for _ in range(2))
    assert first == again
    path.write_text(re.sub("key = .*", "", path.read_text()))
    names = {Auth(read_stewards_file(path)).passes.label() for _ in range(3)}
    assert len({*names, first}) == 4


def test_nobody_else_waits_at_the_other_address_of_a_local_name() -> None:
    """Browsers try ::1 before 127.0.0.1 for a name under localhost."""
    try:
        taken = listening("::1", 0)
    except OSError:
        pytest.skip("there is no IPv6 here")
    with taken, pytest.raises(OSError, match="is in use"):
        listening_locally("127.0.0.1", taken.getsockname()[1])
    found = listening_locally("127.0.0.1", 0)
    for each in found:
        each.close()
    assert len(found) == 2


@pytest.mark.parametrize("token", [None, "", token_of("ann"), hash_of_token(token_of("sue"))])
def test_a_stolen_cookie_changes_no_budget_and_what_was_typed_stays(
    desk: Running, token: str | None
) -> None:
    with desk.browser("sue") as sue:
        form = form_in(sue.get("/steward/sales").text, "/steward/sales/raise")
        sent = {**form, "epsilon": "999", "reason": "a whim"}
        sent |= {} if token is None else {"token": token}
        for what in ("raise", "refresh"):
            answer = sue.post(f"/steward/sales/{what}", data=sent)
            assert answer.status_code == 403
            assert "token must be your own" in answer.text
            assert ('value="999"' in answer.text) == (what == "raise")
    assert desk.desk.ledger.account("sales").total == 10


def test_hosts_of_the_file_are_the_only_names(tmp_path: Path) -> None:
    path = write_file(tmp_path, desk='hosts = ["desk.test"]')
    with running(path) as desk, desk.client() as client:
        assert client.get("/enter").status_code == 421
        answer = client.get("/enter", headers={"host": "desk.test"})
        assert answer.status_code == 200
        headers = {"host": "desk.test", "origin": "https://desk.test"}
        entered = client.post("/enter", data={"token": token_of("ann")}, headers=headers)
        cookie = entered.headers["set-cookie"]
        assert cookie.startswith("__Host-dpgap-desk=")
        for part in ("HttpOnly", "Secure", "SameSite=strict", "Path=/"):
            assert part in cookie


@pytest.fixture
def strict(tmp_path: Path) -> Any:
    """A desk with little patience."""
    limits = Limits(body=2000, address=500, seconds=0.3, under_way=3)
    with running(write_file(tmp_path), limits) as found:
        yield found


@pytest.mark.parametrize("https", [True, False])
def test_a_host_may_name_its_default_port(tmp_path: Path, https: bool) -> None:
    scheme, port, other = ("https", 443, 80) if https else ("http", 80, 443)
    said = f'hosts = ["desk.test", "b.test:{port}"]\nhttps = {str(https).lower()}'
    with running(write_file(tmp_path, desk=said)) as desk, desk.client() as client:
        for name in ("desk.test", "b.test"):
            for host in (name, f"{name}:{port}"):
                headers = {"host": host, "origin": f"{scheme}://{name}"}
                answer = client.post("/enter", data={"token": token_of("ann")}, headers=headers)
                assert answer.status_code == 303
                promised = answer.headers.get("strict-transport-security")
                assert promised == ("max-age=31536000" if https else None)
            assert client.get("/enter", headers={"host": f"{name}:{other}"}).status_code == 421


def test_head_is_get_without_the_body(desk: Running) -> None:
    with desk.browser("ann") as ann:
        for place in ("/health", "/data/sales/archive", "/static/desk.css", "/nothing"):
            head, got = ann.head(place), ann.get(place)
            assert head.status_code == got.status_code
            assert head.content == b""
            assert head.headers.get("content-length") == got.headers.get("content-length")


def test_fetching_the_link_does_not_use_it_up(tmp_path: Path) -> None:
    with running(write_file(tmp_path, people={}, shares="{}")) as desk:
        place = f"/enter?link={desk.desk.auth.link}"
        with desk.client() as scanner:
            for method in ("GET", "HEAD", "GET"):
                assert not scanner.request(method, place).cookies
        with desk.client(headers={"origin": desk.url}) as person:
            form = form_in(person.get(place).text, "/enter")
            for _ in range(2):  # a second press
                assert person.post("/enter", data=form).headers["location"] == "/"
            assert person.get(place).headers["location"] == "/"
        with desk.client(headers={"origin": desk.url}) as thief:
            assert thief.post("/enter", data=form).status_code == 401


def test_a_body_that_is_too_long_is_refused_however_it_is_sent(strict: Running) -> None:
    with strict.program("ann") as ann:
        assert ann.post(ASK, content=b"x" * 2001).status_code == 413
        chunks = (b"x" * 100 for _ in range(100))
        assert ann.post(ASK, content=chunks).status_code == 413
        assert ann.get("/api/v1/datasets", params={"x": "y" * 600}).status_code == 414


def _raw(desk: Running, text: str) -> http.client.HTTPResponse:
    wire = socket.create_connection(("127.0.0.1", desk.port), timeout=30)
    wire.sendall(text.encode("latin-1"))
    answer = http.client.HTTPResponse(wire)
    answer.begin()
    wire.close()
    return answer


def _head(desk: Running, *more: str) -> str:
    lines = f"POST {ASK} HTTP/1.1", f"Host: 127.0.0.1:{desk.port}", "Authorization: Bearer x", *more
    return "\r\n".join(lines) + "\r\n\r\n"


def test_two_lengths_of_one_body_are_refused(strict: Running) -> None:
    lengths = ("Content-Length: 5", "Transfer-Encoding: chunked")
    for more in (lengths, lengths[::-1]):
        assert _raw(strict, _head(strict, *more) + "0\r\n\r\n").status == 400


@pytest.mark.parametrize("more", ["Content-Length: 5", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_only_a_post_has_a_body(strict: Running, method: str, more: str) -> None:
    head = _head(strict, more).replace("POST", method)
    assert _raw(strict, head).status == 400
    assert _raw(strict, _head(strict, "Content-Length: 0").replace("POST", method)).status != 400


def test_a_body_that_does_not_come_is_refused(strict: Running) -> None:
    assert _raw(strict, _head(strict, "Content-Length: 100") + "{").status == 408


def test_a_body_that_trickles_in_is_refused(strict: Running) -> None:
    """Each byte comes in time, and all of them do not."""
    with socket.create_connection(("127.0.0.1", strict.port), timeout=30) as wire:
        wire.sendall(_head(strict, "Content-Length: 1000").encode())
        answer = b""
        wire.settimeout(0.02)
        for _ in range(1000):
            try:
                wire.sendall(b" ")
                answer = wire.recv(100)
            except TimeoutError:
                continue
            break
    assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    ("more", "sent"),
    [("Content-Length: 2001", ""), ("Transfer-Encoding: chunked", "7d1\r\n" + 2001 * "x")],
)
def test_a_body_that_is_too_long_is_refused_before_it_is_all_there(
    strict: Running, more: str, sent: str
) -> None:
    assert _raw(strict, _head(strict, more) + sent).status == 413


def test_the_server_has_the_limits_that_the_documentation_states(
    strict: Running,
) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "desk.md").read_text(encoding="utf-8")
    limits = Limits()
    config = configured(strict.desk, Place(strict.port))
    assert f"more than {config.h11_max_incomplete_event_size // 1024} KiB" in " ".join(docs.split())
    assert f"idle connections after {config.timeout_keep_alive} s" in " ".join(docs.split())
    assert config.backlog == max(64, min(512, limits.connections // 2))
    told_or_believed = (config.proxy_headers, config.access_log, config.server_header)
    assert told_or_believed == (False, False, False)
    assert limits.body == config.h11_max_incomplete_event_size
    assert f"more than {limits.seconds} s (408)" in " ".join(docs.split())
    assert f"more than {limits.under_way} requests" in " ".join(docs.split())
    assert f"read within {limits.unread} s" in " ".join(docs.split())
    assert "at most 2,000" in " ".join(docs.split())
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert limits.connections == min(2000, most // 2)


def test_headers_without_an_end_are_refused_and_idle_connections_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpgap.desk.app._KEEP_ALIVE", 0.1)
    with running(write_file(tmp_path)) as desk:
        endless = f"GET /health HTTP/1.1\r\nX: {'a' * 17_000}"
        assert _raw(desk, endless).status in (400, 431)
        with socket.create_connection(("127.0.0.1", desk.port), timeout=30) as wire:
            wire.sendall(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{desk.port}\r\n\r\n".encode())
            received = b"".join(iter(lambda: wire.recv(1000), b""))
        assert received.startswith(b"HTTP/1.1 204 ")


def test_more_than_the_limit_under_way_is_refused(
    strict: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, left = threading.Semaphore(0), threading.Event(), strict.desk.balance

    def slow(*given: Any) -> Any:
        begun.release()
        go_on.wait()
        return left(*given)

    monkeypatch.setattr(strict.desk, "balance", slow)
    with strict.program("ann") as ann, ThreadPoolExecutor(3) as others:
        pages = [others.submit(ann.get, "/api/v1/datasets") for _ in range(3)]
        try:
            assert all(begun.acquire(timeout=30) for _ in pages)
            assert ann.get("/health").status_code == 503
        finally:
            go_on.set()
        assert [page.result().status_code for page in pages] == [200] * 3
        assert ann.get("/health").status_code == 204


@pytest.mark.parametrize(
    "line",
    [
        "Host: evil.test\r\nHost: 127.0.0.1:{port}",
        "Host: 127.0.0.1:{port}\r\nX: a\rb",
        "Host: 127.0.0.1:{port}\r\nX y: b",
        "Host: 127.0.0.1:{port}\r\nContent-Length: 1\r\nContent-Length: 2",
        "Host: 127.0.0.1:{port}\r\nX: " + "a" * 2_001,
    ],
)
def test_headers_that_are_tricks_are_refused(strict: Running, line: str) -> None:
    answer = _raw(strict, f"GET / HTTP/1.1\r\n{line.format(port=strict.port)}\r\n\r\n")
    assert answer.status in (400, 421, 431)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(desk: Running, method: str) -> None:
    with desk.client() as client:
        assert client.request(method, "/data/sales").status_code == 405


def test_every_response_has_strict_headers_and_nothing_inline(desk: Running) -> None:
    with desk.browser("sue") as sue, desk.client() as stranger:
        pages = [
            "/",
            "/data/sales",
            "/data/sales/archive",
            "/steward",
            "/steward/sales",
            "/programs",
        ]
        answers = [sue.get(place) for place in (*pages, "/nothing", "/static/desk.css")]
        answers += [
            stranger.get("/enter"),
            stranger.get("/"),
            stranger.get("/x", headers={"host": "x"}),
        ]
        for answer in answers:
            for name, value in HEADERS.items():
                assert answer.headers[name] == value or "static" in str(answer.url)
            assert "server" not in answer.headers
            assert not re.search(r"<style|<script>|\sstyle=|\son\w+=|javascript:", answer.text)


def test_an_error_inside_is_told_to_nobody(desk: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("secret-item", 3177)

    monkeypatch.setattr(desk.desk, "balance", broken)
    with desk.program("ann") as ann:
        answer = ann.get("/api/v1/datasets")
        assert answer.status_code == 500
        assert answer.json() == {
            "error": "Something went wrong inside the desk. Details are not shown."
        }
    assert "an error inside: KeyError" in desk.lines


def test_a_ledger_that_is_gone_releases_nothing_and_shows_no_address(
    desk: Running, tmp_path: Path
) -> None:
    (tmp_path / "budget.db").unlink()
    with desk.program("ann") as ann:
        answer = ann.post(ASK, json=question())
        assert answer.status_code == 503
        assert "nothing is released" in answer.json()["error"]


def test_a_file_that_cannot_be_read_is_said_on_pages_too(desk: Running, tmp_path: Path) -> None:
    with desk.browser("ann") as ann:
        (tmp_path / "desk.toml").write_text("[desk")
        for place in ("/", "/data/sales", "/enter", "/nothing"):
            answer = ann.get(place)
            assert answer.status_code == (404 if place == "/nothing" else 503)
    assert not [line for line in desk.lines if "an error inside" in line]


def test_a_truth_value_is_no_amount(desk: Running) -> None:
    with desk.program("ann") as ann:
        assert ann.post(ASK, json=question(epsilon=True)).status_code == 422

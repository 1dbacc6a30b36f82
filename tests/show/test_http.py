"""The daemon's HTTP servers, in this process."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE, until

import qioi.show.connections
import qioi.show.http
from qioi.show.connections import Service
from qioi.show.http import (
    BusyError,
    UnreachableError,
    answer,
    get_json,
    is_cheap,
    serve_tcp,
    serve_unix,
    why_not_served,
)


def switches(thread: int) -> int:
    """How often a thread of this process has gone to sleep."""
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    return int(status.split("voluntary_ctxt_switches:")[1].split()[0])


def sleeps(thread: int, seconds: float) -> bool:
    """Whether a thread does not wake up for so long."""
    before = switches(thread)
    time.sleep(seconds)
    return switches(thread) == before


def serving() -> list[threading.Thread]:
    """Threads of services. One that is closed is not waited for for long, so another test's may still be at its end."""
    return [one for one in threading.enumerate() if one.name == "status"]


@pytest.mark.slow
def test_a_server_that_nobody_asks_sleeps_and_one_that_is_closed_ends(tmp_path: Path) -> None:
    service = serve_unix(tmp_path / "sock", {"GET /status": ("application/json", lambda _: b'{"period": 1}')})
    until(lambda: len(serving()) == 1)
    (thread,) = [one.native_id or 0 for one in serving()]
    for _ in range(2):
        assert get_json(tmp_path / "sock", "/status") == {"period": 1}
    with pytest.raises(UnreachableError, match="404"):
        get_json(tmp_path / "sock", "/other")
    until(lambda: sleeps(thread, 1.1))  # the last answer may still be on its way
    assert sleeps(thread, 3.0)
    service.close()
    until(lambda: not serving())
    with pytest.raises(UnreachableError):
        get_json(tmp_path / "sock", "/status")


@pytest.mark.slow
def test_whoever_asks_all_the_time_has_a_tenth_of_a_cpu_at_most(tmp_path: Path) -> None:
    """The daemon may have real-time priority, and everybody on the host may ask for metrics."""
    used = []

    def work(_: object) -> bytes:
        begun = time.thread_time()
        while time.thread_time() < begun + 0.02:
            pass
        used.append(time.thread_time() - begun)
        return b"{}"

    service = serve_unix(tmp_path / "sock", {"GET /status": ("application/json", work)})
    begun = time.monotonic()
    for _ in range(5):
        get_json(tmp_path / "sock", "/status")
    assert time.monotonic() - begun >= (1 + qioi.show.connections.REST) * sum(used[:-1])
    service.close()  # and does not wait for the rest of its pause


def test_metrics_may_listen_on_an_ipv6_address() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this host has no IPv6")
    service = serve_tcp("::1", 0, {"GET /healthz": ("text/plain", lambda _: b"OK")})
    with urllib.request.urlopen(f"http://[::1]:{service.address[1]}/healthz") as answer:
        assert answer.read() == b"OK"
    service.close()


def test_a_client_that_dribbles_does_not_keep_others_out(tmp_path: Path) -> None:
    service = serve_unix(tmp_path / "sock", {"GET /status": ("application/json", lambda _: b"{}")})
    answered = threading.Event()

    def dribble(client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not answered.wait(0.05):
                client.send(b"G")

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(tmp_path / "sock"))
        slow = threading.Thread(target=dribble, args=(client,))
        slow.start()
        try:
            assert get_json(tmp_path / "sock", "/status") == {}
        finally:
            answered.set()
            slow.join()
    service.close()


def test_a_client_that_hangs_up_leaves_nothing_in_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    body = b"x" * 10_000_000
    service = serve_unix(tmp_path / "sock", {"GET /status": ("text/plain", lambda _: body)})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(tmp_path / "sock"))
        client.sendall(b"GET /status HTTP/1.0\r\n\r\n")
        client.recv(10)
    with pytest.raises(UnreachableError, match="404"):  # it goes on
        get_json(tmp_path / "sock", "/other")
    service.close()
    assert capfd.readouterr().err == ""


def test_a_server_closed_while_it_is_busy_ends_when_its_client_lets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qioi.show.connections, "ENDING", 0.01)
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda its: failed.append(its.exc_value))
    asked, go_on = threading.Event(), threading.Event()

    def held(_: object) -> bytes:
        asked.set()
        go_on.wait(PATIENCE)
        return b"{}"

    service = serve_unix(tmp_path / "sock", {"GET /status": ("application/json", held)})
    until(lambda: len(serving()) == 1)
    (thread,) = serving()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(tmp_path / "sock"))
        client.sendall(b"GET /status HTTP/1.0\r\n\r\n")
        assert asked.wait(PATIENCE)
        service.close()  # its time is up before the answer is made
        assert thread.is_alive()
        go_on.set()
        thread.join(PATIENCE)
        assert client.recv(4096).startswith(b"HTTP/1.0 200")
    assert (thread.is_alive(), failed) == (False, [])
    assert (service._listener.fileno(), service._stop.fileno()) == (-1, -1)


def test_a_socket_whose_owner_is_slow_is_not_taken_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qioi.show.http, "TIMEOUT", 0.05)
    path = tmp_path / "sock"
    with contextlib.ExitStack() as stack:
        owner = stack.enter_context(socket.socket(socket.AF_UNIX))
        owner.bind(str(path))
        owner.listen(0)
        for _ in range(3):  # more than wait in line
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            client.connect_ex(str(path))
        with pytest.raises(BusyError, match="another process"):
            serve_unix(path, {})
        assert path.is_socket()
    serve_unix(path, {}).close()  # a dead one's is taken


def test_an_order_whose_client_has_gone_is_not_carried_out(tmp_path: Path) -> None:
    """It was told that nobody answers. Who only has nothing more to say still waits for the answer."""
    orders: list[str] = []

    def order(query: Mapping[str, str]) -> bytes:
        orders.append(query["tps"])
        return b"{}"

    def ask(tps: int) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(PATIENCE)
        client.connect(str(tmp_path / "sock"))
        client.sendall(b"POST /threshold?tps=%d HTTP/1.0\r\n\r\n" % tps)
        return client

    with socket.socket(socket.AF_UNIX) as listener:  # nobody accepts yet: the daemon stands still
        listener.bind(str(tmp_path / "sock"))
        listener.listen()
        ask(1).close()
        with ask(2) as half, ask(3) as whole:
            half.shutdown(socket.SHUT_WR)
            routes = {"POST /threshold": ("application/json", order)}
            with contextlib.closing(Service(listener, "status", answer(routes), is_cheap)):
                for client in (half, whole):
                    assert client.makefile("rb").read().endswith(b"{}")
    assert orders == ["2", "3"]


def test_an_answer_that_fails_is_said_and_no_other_with_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: object) -> bytes:
        raise ZeroDivisionError("of a test")

    routes = {"GET /status": ("application/json", lambda _: b"{}"), "GET /metrics": ("text/plain", fails)}
    with contextlib.closing(serve_unix(tmp_path / "sock", routes)):
        with pytest.raises(UnreachableError, match=r"HTTP status 500: internal error: the daemon's log says which$"):
            get_json(tmp_path / "sock", "/metrics")
        assert get_json(tmp_path / "sock", "/status") == {}
    assert "ZeroDivisionError: of a test" in caplog.text


@pytest.fixture
def asked() -> Iterator[Callable[[str], tuple[str, dict[str, str], str]]]:
    """A server on loopback with two routes; a function that sends it bytes and takes its answer apart."""
    routes = {
        "GET /status": ("application/json", lambda _: b'{"period": 1}'),
        "POST /threshold": ("application/json", lambda query: json.dumps(query).encode()),
    }
    service = serve_tcp("127.0.0.1", 0, routes)

    def ask(request: str) -> tuple[str, dict[str, str], str]:
        with socket.create_connection(service.address) as client:
            client.sendall(request.encode())
            with client.makefile("rb") as answer:
                head, _, body = answer.read().decode().partition("\r\n\r\n")
        status, *headers = head.split("\r\n")
        return status.split(" ")[1], dict(one.split(": ", 1) for one in headers), body

    yield ask
    service.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((one, "200") for one in ("", "localhost", "LOCALHOST:9464", "127.0.0.1:9464", "[::1]:9464", "10.0.0.7")),
        *((one, "403") for one in ("evil.example", "evil.example:9464", "127.0.0.1.evil.example", "[::1", "a b")),
    ],
)
def test_a_page_that_had_its_name_rebound_to_loopback_learns_nothing(asked: Any, host: str, status: str) -> None:
    got = asked(f"GET /status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    assert got[0] == status
    assert ("period" in got[2]) == (status == "200")


@pytest.mark.parametrize("six", [True, False])
def test_all_addresses_are_ipv4s_too_and_ipv6s_where_there_are_any(monkeypatch: pytest.MonkeyPatch, six: bool) -> None:
    """As on a cluster of one kind, of the other, and of both."""
    if not six:
        monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    elif not socket.has_dualstack_ipv6():
        pytest.skip("this host has no IPv6")
    with contextlib.closing(serve_tcp("::", 0, {"GET /healthz": ("text/plain", lambda _: b"OK")})) as service:
        for host in ("127.0.0.1", "[::1]") if six else ("127.0.0.1",):
            with urllib.request.urlopen(f"http://{host}:{service.address[1]}/healthz") as answer:
                assert answer.read() == b"OK"


def test_an_ipv6_address_where_the_kernel_has_none_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with pytest.raises(BusyError, match=r"^metrics\.listen: 2001:db8::1: .*: accepted is an address of this host"):
        serve_tcp("2001:db8::1", 0, {})


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("192.0.2.1", "Cannot assign requested address"),  # TEST-NET-1: nobody has it
        ("ü" * 64, "no name of a host"),
        ("peer..example", "no name of a host"),
        ("[::1]", r"(?!Unknown error).*"),  # which of its words the resolver says depends on name servers
    ],
)
def test_an_address_that_cannot_be_listened_on_is_named(host: str, why: str) -> None:
    accepted = r": accepted is an address of this host, such as 127\.0\.0\.1 or ::$"
    with pytest.raises(BusyError, match=rf"^metrics\.listen: {re.escape(host)}: {why}{accepted}"):
        serve_tcp(host, 0, {})


def test_a_port_that_is_somebody_elses_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BusyError, match=rf"^metrics 127\.0\.0\.1:{port}: Address already in use; name a free one"):
            serve_tcp("127.0.0.1", port, {})


def test_a_port_without_the_right_to_it_is_not_said_to_be_taken() -> None:
    said = why_not_served("127.0.0.1", 80, PermissionError(errno.EACCES, "Permission denied"))
    assert said == (
        "metrics 127.0.0.1:80: Permission denied (a port below 1024 needs CAP_NET_BIND_SERVICE); name another one with "
        "`metrics.port`, or 0 for none"
    )


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
def test_every_address_but_loopback_is_asked_by_names_too(everywhere: str) -> None:
    with contextlib.closing(serve_tcp(everywhere, 0, {"GET /metrics": ("text/plain", lambda _: b"1")})) as service:
        question = urllib.request.Request(f"http://127.0.0.1:{service.address[1]}/metrics", headers={"Host": "ledger1"})
        with urllib.request.urlopen(question) as answer:
            assert answer.read() == b"1"


@pytest.mark.parametrize(
    ("request_line", "status", "headers", "body"),
    [
        ("HEAD /status HTTP/1.1", "200", {"Content-Type": "application/json", "Content-Length": "13"}, ""),
        ("GET /status?x=%FF HTTP/1.1", "200", {}, '{"period": 1}'),
        ("GET /nothing HTTP/1.1", "404", {}, "accepted: GET /status, POST /threshold"),
        ("GET / HTTP/1.1", "404", {}, "accepted: GET /status, POST /threshold"),
        ("HEAD /threshold HTTP/1.1", "405", {"Allow": "POST"}, ""),
        ("PUT /status HTTP/1.1", "405", {"Allow": "GET, HEAD"}, "accepted: GET, HEAD"),
        ("POST /status HTTP/1.1", "405", {"Allow": "GET, HEAD"}, "accepted: GET, HEAD"),
        ("DELETE /threshold HTTP/1.1", "405", {"Allow": "POST"}, "accepted: POST"),
        ("POST /threshold?channel=%C3%BC&tps=4 HTTP/1.1", "200", {}, r'{"channel": "\u00fc", "tps": "4"}'),
        ("BREW /status HTTP/1.1", "501", {}, "Unsupported method ('BREW')\n"),
    ],
)
def test_every_request_is_answered_in_kind(
    asked: Any, request_line: str, status: str, headers: dict[str, str], body: str
) -> None:
    got = asked(f"{request_line}\r\n\r\n")
    assert (got[0], got[2]) == (status, body)
    assert headers.items() <= got[1].items()
    if status != "200":
        assert got[1]["Content-Type"] == "text/plain; charset=utf-8"
    assert got[1]["Server"] == "qioi"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: becomes nobody")
def test_who_may_not_ask_is_told_so(tmp_path: Path) -> None:
    with contextlib.closing(serve_unix(tmp_path / "sock", {})):
        os.seteuid(65534)
        try:
            with pytest.raises(UnreachableError, match=r"sock: root, or the daemon's own user, is needed$"):
                get_json(tmp_path / "sock", "/status")
        finally:
            os.seteuid(0)

"""HTTP: the daemon's status on a Unix socket, and its metrics on loopback."""

from __future__ import annotations

import errno
import http.client
import io
import ipaddress
import json
import logging
import os
import socket
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from qioi.model.names import in_one_line, printable
from qioi.show.connections import Answer, Service

log = logging.getLogger("qioi")

#: Seconds that a socket file's owner has to answer a knock.
TIMEOUT = 2.0
#: Clients that wait to be let in.
BACKLOG = 128
#: Seconds that a client waits for its answer: it may come late on a host that is short of CPU.
PATIENCE = 30.0
#: How often a client comes that is hung up on before its question was read.
TRIES = 3
#: What is to be done about a port that cannot be bound.
UNBOUND = {
    errno.EADDRINUSE: "; name a free one",
    errno.EACCES: " (a port below 1024 needs CAP_NET_BIND_SERVICE); name another one",
}
#: What explains a route that is not served.
OTHER_VERSION = "; if the daemon is of another version: restart it, or use the command of its version"

TEXT = "text/plain; charset=utf-8"

#: What stands behind the question mark of a request, by key.
Query = Mapping[str, str]
#: Method and path -> content type and a function that makes the body.
Routes = Mapping[str, tuple[str, Callable[[Query], bytes]]]


class RefusedError(Exception):
    """A request names something that is not there, or a value that is not accepted; the message says which."""

    def __init__(self, message: str, status: int = 400) -> None:
        self.status = status
        super().__init__(message)


class StalledError(Exception):
    """The daemon answers, but its loop has ended no period for too long; the message says for how long."""


class BusyError(Exception):
    """The address belongs to somebody else, or cannot be bound; the message says which."""


class UnreachableError(Exception):
    """No daemon answers; the message says where it was looked for."""


class Handler(BaseHTTPRequestHandler):
    """Answers one question by a table of routes."""

    routes: Routes = MappingProxyType({})
    #: Whether a request's Host must be an address or localhost. A page in a browser whose name was made to resolve
    #: to loopback ("DNS rebinding") asks for that name.
    by_address = False
    error_content_type = TEXT
    error_message_format = "%(message)s\n"

    def __init__(self, question: bytes) -> None:
        self.written = b""
        super().__init__(question, ("local", 0), None)  # type: ignore[arg-type]

    def setup(self) -> None:
        """Read from the question and write to memory; sockets are the service's."""
        self.rfile, self.wfile = io.BytesIO(cast("bytes", self.request)), io.BytesIO()

    def finish(self) -> None:
        """Keep what was written."""
        self.written = cast("io.BytesIO", self.wfile).getvalue()

    def do_GET(self) -> None:
        """Answer a question, or take an order."""
        more: dict[str, str] = {}
        kind = TEXT
        try:
            status, (kind, body) = 200, self._answer(more)
        except RefusedError as error:
            status, body = error.status, printable(str(error)).encode()
        except StalledError as error:
            status, body = 503, str(error).encode()
        except Exception:  # a client that got no answer would wait
            log.exception("%s %s", self.command, self.path)
            status, body = 500, b"internal error: the daemon's log says which"
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET  # noqa: N815 (the library's names)

    def _answer(self, more: dict[str, str]) -> tuple[str, bytes]:
        """Give an answer's content type and body, and put headers that it needs beside those into ``more``."""
        if self.by_address and not names_an_address(self.headers.get("Host", "")):
            raise RefusedError("Host: accepted is an address, or localhost", 403)
        path, _, query = self.path.partition("?")
        method = "GET" if self.command == "HEAD" else self.command
        known = [one.partition(" ")[0] for one in self.routes if one.partition(" ")[2] == path]
        if not known:
            raise RefusedError(f"accepted: {', '.join(self.routes)}", 404)
        if method not in known:
            more["Allow"] = ", ".join([*known, *(["HEAD"] if "GET" in known else [])])
            raise RefusedError(f"accepted: {more['Allow']}", 405)
        kind, answer = self.routes[f"{method} {path}"]
        return kind, answer(dict(parse_qsl(query, errors="surrogateescape")))

    def version_string(self) -> str:
        """Name the daemon, without versions."""
        return "qioi"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: Prometheus asks every few seconds."""

    def address_string(self) -> str:
        """Give a name for the client; on a Unix socket there is none to look up."""
        return "local"


def answer(routes: Routes, by_address: bool = False) -> Answer:
    """Make the function that answers questions by a table of routes."""
    kind = type("RoutesHandler", (Handler,), {"routes": routes, "by_address": by_address})
    return lambda question: kind(question).written


def is_cheap(question: bytes) -> bool:
    """Whether a question is for the daemon's health: a kubelet kills a daemon that does not answer it soon."""
    return question.split(b" ", 2)[1:2] == [b"/healthz"]


def serve_unix(path: Path, routes: Routes) -> Service:
    """Serve on a Unix socket. A socket file left by a dead daemon is replaced, anything else is not."""
    try:
        if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(TIMEOUT)
                # EAGAIN: somebody listens, and others wait in line.
                if probe.connect_ex(str(path)) not in (errno.ECONNREFUSED, errno.ENOENT):
                    raise BusyError(f"socket {path}: another process answers there; name another one with `socket`")
            path.unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)  # only root, or the daemon's own user, may connect
        try:
            listener.bind(str(path))
        finally:
            os.umask(mask)
        listener.listen(BACKLOG)
    except OSError as error:
        raise BusyError(f"socket {path}: {error.strerror or error}; name another one with `socket`") from None
    return Service(listener, "status", answer(routes), is_cheap)


def serve_tcp(host: str, port: int, routes: Routes) -> Service:
    """Serve on a TCP address; ``::`` means all of them, IPv4's too, whether the kernel has IPv6 or not."""
    dual = socket.has_dualstack_ipv6()
    if host == "::" and not dual:
        host = "0.0.0.0"
    six = ":" in host
    family = socket.AF_INET6 if six else socket.AF_INET
    try:
        socket.getaddrinfo(host, port, family)  # create_server would say of a name only that it is wrong
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=six and dual)
    except (OSError, UnicodeError) as error:
        raise BusyError(why_not_served(host, port, error)) from None
    return Service(listener, "metrics", answer(routes, is_loopback(host)), is_cheap)


def why_not_served(host: str, port: int, error: OSError | UnicodeError) -> str:
    """Say whether it is the port or the address that cannot be used; UnicodeError: no host can have such a name."""
    if isinstance(error, OSError) and (what := UNBOUND.get(error.errno or 0)):
        return f"metrics {host}:{port}: {os.strerror(error.errno or 0)}{what} with `metrics.port`, or 0 for none"
    if isinstance(error, UnicodeError):
        why = "no name of a host"
    else:
        why = str(error.strerror) if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
    return f"metrics.listen: {host}: {why}: accepted is an address of this host, such as 127.0.0.1 or ::"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this host only."""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def names_an_address(host: str) -> bool:
    """Whether a request's Host header is independent of name servers: an address, localhost, or none (old clients)."""
    try:
        name = urlsplit(f"//{host}").hostname or "localhost"
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


class UnixConnection(http.client.HTTPConnection):
    """A client's side of HTTP on a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket file."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def get_json(path: Path, route: str, **query: str) -> Any:
    """Ask the daemon behind a socket file."""
    return request_json(path, "GET", route, query)


def loop_seconds(path: Path) -> float:
    """Ask the daemon behind a socket file for the time that its last period took; 0: it has ended none yet."""
    try:
        return float(get_json(path, "/status")["loop"])
    except UnreachableError:
        return 0.0


def request_json(path: Path, method: str, route: str, query: Query) -> Any:
    """Send a question or an order to the daemon behind a socket file; RefusedError says what it did not accept."""
    target = f"{route}?{urlencode(query, errors='surrogateescape')}" if query else route
    try:
        status, body = exchange(path, method, target)
        if status == 400:
            raise RefusedError(body.decode(errors="replace"))
        if status != 200:
            said = in_one_line(body.decode(errors="replace").strip()) or "without a word"
            other = OTHER_VERSION if status == 404 else ""
            raise UnreachableError(f"{path}{route}: HTTP status {status}: {said}{other}")
        return json.loads(body)
    except PermissionError:
        raise UnreachableError(f"{path}: root, or the daemon's own user, is needed") from None
    except TimeoutError:
        dropped = "; it drops the order, unless it is just carrying it out" if method == "POST" else ""
        said = f"the daemon has not answered for {PATIENCE:g} s: it stands still, or gets no CPU"
        raise UnreachableError(f"{path}: {said}{dropped}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or error
        raise UnreachableError(
            f"{path}: no daemon answers ({why}); is `qioi run` running, and is this its socket?"
        ) from None


def exchange(path: Path, method: str, target: str) -> tuple[int, bytes]:
    """Give an answer's status and body.

    A client that got no CPU between its first step and its question is hung up on, and comes again. With either error
    the daemon has not read the question: an order is not given twice.
    """
    for _ in range(TRIES - 1):
        with suppress(BrokenPipeError, ConnectionResetError):
            return exchange_once(path, method, target)
    return exchange_once(path, method, target)


def exchange_once(path: Path, method: str, target: str) -> tuple[int, bytes]:
    """Connect, ask, and give the answer's status and body; ConnectionResetError: nobody has read the question."""
    connection = UnixConnection(path)
    try:
        connection.request(method, target)
        response = connection.getresponse()
        return response.status, response.read()
    except http.client.RemoteDisconnected as error:  # read, and not answered
        raise http.client.BadStatusLine(str(error)) from None
    finally:
        connection.close()

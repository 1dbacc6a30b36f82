"""Something else answers behind an engine's socket, or an engine that answers nonsense: it is said, in one line."""

from __future__ import annotations

import json
import logging
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from qioi.discovery import available
from qioi.discovery.docker import DockerDiscovery
from qioi.discovery.engine import DOCKER, PODMAN, Engine, EngineError, NoContainerError


class Web(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A web server that knows some paths, by their ends, and has 404 for all others."""

    daemon_threads = True
    block_on_close = False
    pages: dict[str, Any]


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, Web)
        found = [page for end, page in self.server.pages.items() if self.path.partition("?")[0].endswith(end)]
        body = json.dumps(found[0] if found else {"message": "page not found"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "web"

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    web = Web(str(tmp_path / "sock"), Answers)
    threading.Thread(target=web.serve_forever, args=(0.01,), daemon=True).start()
    yield web
    web.shutdown()
    web.server_close()


VERSION = {"ApiVersion": "1.41", "Components": [{"Name": "Podman Engine", "Version": "4.3.1"}]}
NONSENSE = [
    {},
    {"/version": []},
    {"/version": None},
    {"/version": VERSION},
    {"/version": VERSION, "/containers/json": [{}]},
    {"/version": VERSION, "/containers/json": [3]},
    {"/version": VERSION, "/containers/json": None},
    {"/version": {**VERSION, "Components": [3]}, "/containers/json": [], "/events": {}},
]


@pytest.mark.parametrize("pages", NONSENSE[:-2] + NONSENSE[-1:])
def test_check_says_what_it_found(web: Web, pages: dict[str, Any]) -> None:
    web.pages = pages
    said = available.engine(str(web.server_address), DOCKER)
    assert said.startswith(f"{web.server_address}: "), said
    assert "\n" not in said


@pytest.mark.parametrize("pages", NONSENSE[:-1])
def test_the_daemon_says_so_and_has_no_traceback(
    web: Web, pages: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    web.pages = pages
    with caplog.at_level(logging.ERROR), closing(DockerDiscovery(str(web.server_address), 2, kind=PODMAN)) as one:
        until(lambda: "asked again" in str(one.found().problems))
    assert caplog.records == []


def test_a_container_that_is_gone_is_no_such_failure(web: Web) -> None:
    web.pages = {"/version": VERSION}
    with closing(Engine(str(web.server_address))) as engine:
        with pytest.raises(NoContainerError):
            engine.inspect("gone")
        with pytest.raises(EngineError, match="page not found: is it an engine"):
            engine.ping()

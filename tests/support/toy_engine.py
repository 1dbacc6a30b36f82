"""As much of Docker's API as daemon and lab ask for, over a Unix socket, with containers that the test makes up."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


class Engine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """As much of Docker's API as is asked for; ``facts`` are those of its containers, ``None`` where it fails."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, socket: Path, facts: dict[str, dict[str, Any] | None]) -> None:
        self.facts = facts
        self.silent: set[str] = set()  # words of the paths that are never answered
        self.runtime, self.runc = "runc", "1.1.5"
        self.api = "1.41"  # the only version that it speaks
        self.deaf: str | None = (
            None  # events "refused" as by Podman's events_logger none; "ended" at once, or so "once"
        )
        self.inspected: list[str] = []
        self.images: list[str] = []
        self.event_every: float | None = None  # seconds between two events, of a container that ended long ago
        self.groups: dict[str, Path] = {}  # where the shares of containers are, whose records can be updated
        super().__init__(str(socket), Answers)
        self.broken: list[object] = []  # those who hung up, as a daemon that is killed does
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        self.broken.append(client_address)


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, Engine)
        path = self.path.partition("?")[0]
        if self.server.silent.intersection(path.split("/")):
            threading.Event().wait()
        if path != "/version" and not path.startswith(f"/v{self.server.api}/"):
            self.refuse_version()
        elif path.endswith("/version"):
            components = [{"Name": self.server.runtime, "Version": self.server.runc}]
            self.answer(200, {"ApiVersion": self.server.api, "Components": components})
        elif path.endswith("/events") and self.server.deaf == "refused":
            self.answer(500, {"message": 'cannot read events with the "none" logger'})
        elif path.endswith("/events"):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if self.server.deaf in ("ended", "once"):
                self.server.deaf = "ended" if self.server.deaf == "ended" else None
                self.wfile.write(b"0\r\n\r\n")
                return
            while self.server.event_every is not None:
                event = json.dumps({"Type": "container", "Action": "die", "id": "ended"}).encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
                time.sleep(self.server.event_every)
            threading.Event().wait()
        elif path.endswith("/_ping"):
            self.answer(200, "OK")
        elif path.endswith(("/containers/json", "/images/json")):
            known = self.server.facts if path.endswith("/containers/json") else self.server.images
            self.answer(200, [{"Id": name} for name in list(known)])
        else:
            name = unquote(path.split("/")[-2])
            self.server.inspected.append(name)
            facts = self.server.facts.get(name)
            self.answer(
                404 if name not in self.server.facts else 200 if facts else 500,
                facts or {"message": "driver overlay2 failed"},
            )

    def do_POST(self) -> None:
        """Make an image or a container, start one, or update its share: on its record, and in its group."""
        assert isinstance(self.server, Engine)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.startswith(f"/v{self.server.api}/"):
            self.refuse_version()
            return
        where = urlsplit(self.path)
        named = dict(parse_qsl(where.query))
        name = where.path.split("/")[-2]
        if where.path.endswith("/images/create"):
            self.server.images.append(f"{named['repo']}:{named['tag']}")
            self.answer(200, {"status": "sha256:1"})
            return
        if where.path.endswith("/start"):
            self.answer(204, "")
            return
        asked = json.loads(body)
        if where.path.endswith("/containers/create"):
            self.create(named["name"], asked["Image"])
            return
        shares = asked["CpuShares"]
        facts = self.server.facts[name]
        assert facts is not None
        facts["HostConfig"]["CpuShares"] = shares
        self.server.groups[name].write_text(str(shares))
        self.answer(200, {"Warnings": []})

    def create(self, name: str, image: str) -> None:
        """Make a container, which ends as soon as it is started."""
        assert isinstance(self.server, Engine)
        if image not in self.server.images:
            self.answer(404, {"message": f"No such image: {image}"})
            return
        self.server.facts[name] = {"State": {"Pid": 0, "Running": False, "ExitCode": 0}}
        self.answer(201, {"Id": name})

    def do_DELETE(self) -> None:
        """Remove a container."""
        assert isinstance(self.server, Engine)
        name = self.path.partition("?")[0].split("/")[-1]
        known = self.server.facts.pop(name, None) is not None
        self.answer(204 if known else 404, "" if known else {"message": f"No such container: {name}"})

    def refuse_version(self) -> None:
        """Say so as Docker does (moby's api/server/middleware/version.go)."""
        self.answer(400, {"message": "client version 1.41 is too old. Minimum supported API version is 1.44"})

    def answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode() if status != 204 else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "engine"

    def log_message(self, format: str, *args: object) -> None:
        pass

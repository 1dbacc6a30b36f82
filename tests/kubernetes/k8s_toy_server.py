"""A server that answers as a test has it, and a client of it."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from qioi.kubernetes.client import Access, Api


class Quiet(BaseHTTPRequestHandler):
    """A handler that writes nothing to the terminal."""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def answer(self, document: object, status: int = 200, later: str = "") -> None:
        """Read what was sent, and answer with a document; ``later`` says when to come back (Retry-After)."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = json.dumps(document).encode()
        self.send_response(status)
        if later:
            self.send_header("Retry-After", later)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def break_off(self, status: int) -> None:
        """Answer with a status and the beginning of a document, and reset the connection."""
        self.send_response(status)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b'{"mess')
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()  # it would keep the socket open
        self.connection.close()


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler], root: str = "") -> Iterator[Api]:
    """Serve by this handler, the API below ``root``. It ends with the test, also with one that fails."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with closing(Api(Access(f"http://127.0.0.1:{http.server_port}{root}"))) as api:
                yield api
        finally:
            http.shutdown()
            thread.join()

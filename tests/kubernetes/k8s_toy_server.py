"""A server that answers as a test has it, and a client of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from qioi.kubernetes.client import Access, Api


class Quiet:
    """What keeps a handler from writing to the terminal."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[Api]:
    """Serve by this handler. It ends with the test, also with one that fails."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with closing(Api(Access(f"http://127.0.0.1:{http.server_port}"))) as api:
                yield api
        finally:
            http.shutdown()
            thread.join()

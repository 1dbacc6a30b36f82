"""Which authority a client of the API server trusts, also once that has another one."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from k8s_toy_server import Quiet

from qioi.kubernetes.client import Access, Api, ApiError

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs Debian's package openssl")

PATH = "/api/v1/pods"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with an authority's keys before and after a rotation, and a server's certificate by each."""
    folder = tmp_path_factory.mktemp("keys")

    def make(name: str, subject: str, more: str, *signed: str) -> None:
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key"]
        about = ["-days", "9", "-subj", f"/CN={subject}", "-addext", more, "-out", f"{name}.pem"]
        subprocess.run(["openssl", "req", "-x509", *new, *about, *signed], cwd=folder, check=True, capture_output=True)

    for ca in ("old", "new"):
        make(ca, "ca", "keyUsage=critical,keyCertSign")
        make(f"server-{ca}", "server", "subjectAltName=IP:127.0.0.1", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key")
    return folder


class Server:
    """A server that ends each connection after its answer, and says who it is to each new one."""

    def __init__(self, keys: Path, port: int) -> None:
        self._keys = keys
        self.url = f"https://127.0.0.1:{port}"
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.be("old")

    def be(self, ca: str) -> None:
        """Have a certificate of this authority from now on."""
        self.context.load_cert_chain(self._keys / f"server-{ca}.pem", self._keys / f"server-{ca}.key")


@contextmanager
def serving(keys: Path) -> Iterator[Server]:
    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer({})

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as http:
        server = Server(keys, http.server_port)
        http.handle_error = lambda request, client: None  # type: ignore[method-assign]  # who does not trust it hangs up
        http.socket = server.context.wrap_socket(http.socket, server_side=True)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture
def server(keys: Path) -> Iterator[Server]:
    with serving(keys) as server:
        yield server


@pytest.fixture
def ca(keys: Path, tmp_path: Path) -> Path:
    """The mounted file of the authority."""
    file = tmp_path / "ca.crt"
    file.write_bytes((keys / "old.pem").read_bytes())
    return file


def is_trusted(api: Api) -> bool:
    """Whether a request and a watch succeed; neither may alone."""
    failures = []
    for ask in (lambda: api.request("get", "GET", PATH, {}), lambda: api.watch(PATH, {}).close()):
        try:
            ask()
        except ApiError as error:
            failures.append(str(error))
    assert len(failures) in (0, 2)
    assert all("certificate verify failed" in one for one in failures)
    return not failures


def test_a_new_authority_is_trusted_once_its_file_is_there(keys: Path, server: Server, ca: Path) -> None:
    with closing(Api(Access(server.url, ca))) as api:
        assert is_trusted(api)
        server.be("new")
        assert not is_trusted(api)
        ca.write_bytes((keys / "new.pem").read_bytes())
        assert is_trusted(api)
        server.be("old")
        assert not is_trusted(api)


@pytest.mark.parametrize("content", [None, b"half a fi"])
def test_a_file_that_cannot_be_used_changes_no_trust(
    content: bytes | None, server: Server, ca: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once."""
    with closing(Api(Access(server.url, ca))) as api:
        ca.unlink()
        if content is not None:
            ca.write_bytes(content)
        assert [is_trusted(api) for _ in range(3)] == [True] * 3
    assert len([one for one in caplog.messages if one.startswith(f"kubernetes: ca {ca}: ")]) == 1
    with pytest.raises(ApiError, match=f"ca {ca}: "):
        Api(Access(server.url, ca))

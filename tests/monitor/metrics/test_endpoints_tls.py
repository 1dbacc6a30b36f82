"""A peer's metrics over TLS, which Fabric gives only to who shows a certificate of its own."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from waiting import until

from qioi.model import Component, Credentials, Role
from qioi.monitor.logs.component_logs import LogChannels
from qioi.monitor.metrics.endpoints import MeteredChannels

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs Debian's package openssl")

PAGE = (
    b'ledger_blockchain_height{channel="red"} 5\nledger_transaction_count{channel="red",validation_code="VALID"} 50\n'
)


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def certificate(folder: Path, name: str, more: str, authority: str | None) -> None:
    """Make NAME.pem and NAME.key, signed by an authority or by itself."""
    signed = ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key"] if authority else []
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key"]
    about = ["-days", "9", "-subj", f"/CN={name}", "-addext", more, "-out", f"{name}.pem"]
    openssl(folder, "req", "-x509", *new, *about, *signed)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two organisations' authorities; the peer and the daemon have certificates of the first one's."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("org1", "org2"):
        certificate(folder, name, "keyUsage=critical,keyCertSign", None)
    for name in ("peer", "qioi"):
        certificate(folder, name, "subjectAltName=IP:127.0.0.1", "org1")
    return folder


@contextmanager
def peer(keys: Path) -> Iterator[str]:
    """Serve pages to who has a certificate that the organisation's authority has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "peer.pem", keys / "peer.key")
    context.load_verify_locations(keys / "org1.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client, suppress(OSError), context.wrap_socket(client, server_side=True) as line:
                    line.recv(4096)
                    line.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + PAGE)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.getsockname()[1]}/metrics"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def ask(url: str, credentials: Credentials) -> MeteredChannels:
    component = Component("peer0", Role.PEER, "peer0", ("red",), metrics_url=url, metrics_tls=credentials)
    return MeteredChannels(LogChannels([component], ("red",)), [component], every=0.05)


def told(metered: MeteredChannels) -> str | int | None:
    """The problem, or else how many valid transactions the last page has."""
    metered.read(time.monotonic())
    (state,) = metered.states()
    return state.problem or state.commits


def credentials(keys: Path, ca: str, who: str) -> Credentials:
    return Credentials(str(keys / f"{ca}.pem"), str(keys / f"{who}.pem"), str(keys / f"{who}.key"))


def test_who_shows_a_certificate_is_answered(keys: Path) -> None:
    with peer(keys) as url, closing(ask(url, credentials(keys, "org1", "qioi"))) as metered:
        until(lambda: told(metered) == 50)


@pytest.mark.parametrize(
    ("ca", "who", "expected"),
    [
        ("org2", "qioi", "CERTIFICATE_VERIFY_FAILED"),  # somebody else's peer
        ("org1", "org2", "TLSV1_ALERT_UNKNOWN_CA"),  # a stranger to the peer
        ("org1", "none", "metrics_tls: certificate "),
        ("none", "qioi", "metrics_tls: ca "),
    ],
)
def test_who_is_not_believed_is_said(keys: Path, ca: str, who: str, expected: str) -> None:
    with peer(keys) as url, closing(ask(url, credentials(keys, ca, who))) as metered:
        until(lambda: expected in str(told(metered)))  # a closed connection may have swallowed the peer's word at first
        assert "No such file" in str(told(metered)) or "none" not in (ca, who)


def test_a_renewed_certificate_is_taken_up(keys: Path, tmp_path: Path) -> None:
    for suffix in ("pem", "key"):
        shutil.copy(keys / f"org2.{suffix}", tmp_path / f"qioi.{suffix}")
    files = Credentials(str(keys / "org1.pem"), str(tmp_path / "qioi.pem"), str(tmp_path / "qioi.key"))
    with peer(keys) as url, closing(ask(url, files)) as metered:
        until(lambda: told(metered) != 0)
        for suffix in ("pem", "key"):
            shutil.copy(keys / f"qioi.{suffix}", tmp_path / f"qioi.{suffix}")
        until(lambda: told(metered) == 50)

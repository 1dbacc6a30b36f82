"""A real Spark cluster that sorts real records, and what is made of its rounds."""

from __future__ import annotations

import socket
import zlib
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from ports import reserved

from qioi.interference import Spark, spark_home
from qioi.interference.spark import Round, alive_workers, records_per_second
from qioi.interference.terasort import validate
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree


@pytest.mark.parametrize(
    ("since", "until", "rate"),
    [
        (0, 20, 10.0),
        (0, 30, (20 * 10 + 10 * 5) / 30),
        (12, 18, 10.0),  # within a round
        (25, 45, 5.0),  # what comes after the last round is not finished
        (30, 61, None),
        (70, 90, None),
    ],
)
def test_rounds_count_for_as_long_as_they_lie_in_the_window(since: float, until: float, rate: float | None) -> None:
    rounds = [Round(100, 0.0, 10.0), Round(100, 10.0, 20.0), Round(100, 20.0, 40.0)]
    assert records_per_second(rounds, since, until) == (None if rate is None else pytest.approx(rate))


def test_the_master_is_asked_directly_whatever_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), Master) as server, reserved() as nobody:
        Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{nobody}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert alive_workers(str(server.server_port)) == 2


WHOLE = b"HTTP/1.0 200 OK\r\n"


@pytest.mark.parametrize(
    "answer",
    [b"", b"nothing of HTTP\r\n\r\n", WHOLE + b"Content-Length: 99\r\n\r\n{}", WHOLE + b"\r\n{}", WHOLE + b"\r\n{"],
)
def test_a_master_that_is_only_half_there_is_asked_again(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        thread = Thread(target=answer_once, args=(master, answer), daemon=True)
        thread.start()
        assert alive_workers(str(master.getsockname()[1])) is None
        thread.join()


def answer_once(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(answer)


class Master(BaseHTTPRequestHandler):
    """Says what Spark's master says of its workers."""

    def do_GET(self) -> None:
        self.send_response(HTTPStatus.OK)
        self.end_headers()
        self.wfile.write(b'{"aliveworkers": 2}')


RECORDS = [f"{key:0>10}".encode() + b"x" * 89 + b"\n" for key in range(30)]
CHECKSUM = sum(zlib.crc32(record.rstrip(b"\n")) for record in RECORDS)


@pytest.mark.parametrize(
    ("records", "wrong"),
    [
        (RECORDS, None),
        (RECORDS[:3] + RECORDS[4:5] + RECORDS[3:4] + RECORDS[5:], "out of order"),
        (RECORDS[:-1], "29 records came out"),
        (RECORDS[:5] + RECORDS[4:5] + RECORDS[6:], "not those that went in"),
    ],
)
def test_a_result_is_validated(tmp_path: Path, records: list[bytes], wrong: str | None) -> None:
    (tmp_path / "part-00000").write_bytes(b"".join(records[:10]))
    (tmp_path / "part-00001").write_bytes(b"".join(records[10:]))
    said = validate(tmp_path, 30, CHECKSUM)
    assert said is None if wrong is None else wrong in (said or "")


def test_a_host_without_spark_is_told_how_to_have_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(LabError, match="make spark"):
        spark_home()


@pytest.mark.slow
@pytest.mark.host
def test_a_cluster_sorts_in_groups_of_its_own(tree: Tree, tmp_path: Path) -> None:
    before = temporary_files()
    spark = Spark(tree, 1, tmp_path, records=20_000)
    try:
        spark.prepare()
        assert len(spark.rounds()) == 1
        assert spark.names == ("spark-master", "spark-worker1", "spark-driver")
        worker = tree.group("spark-worker1")
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in worker.pids()]
        assert any(b"CoarseGrainedExecutorBackend" in command for command in commands)
        assert worker.cpu_seconds() > 0
        spark.start()
        pids = tree.pids()
        while len(spark.rounds()) < 3:
            spark.check()
        first, last = spark.rounds()[1].start, spark.rounds()[-1].end
        assert (spark.work(first, last) or 0) > 0
    finally:
        spark.stop()
    assert not [pid for pid in pids if lives(pid)]
    assert not (tmp_path / "spark").exists()
    assert temporary_files() <= before


def temporary_files() -> set[Path]:
    """List what executors keep, and libraries that the virtual machines unpack, in the host's own folder."""
    return {path for pattern in ("spark-*", "lib*.so*") for path in Path("/tmp").glob(pattern)}


def lives(pid: int) -> bool:
    """Whether a process runs; an executor's zombie is its adopter's to bury."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

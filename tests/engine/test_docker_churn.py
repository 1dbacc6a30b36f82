"""Containers that come and go in waves while the daemon runs (--containers): nothing of any of them stays with it."""

from __future__ import annotations

import contextlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from engine_site import CHAINCODE, PEER, EngineSite
from test_docker_daemon import Daemon, daemon
from waiting import until

from qioi.controller.guard.journal import Journal
from qioi.discovery.told import ToldFiles
from qioi.show.http import UnixConnection

__all__ = ["daemon"]  # the fixture

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(3600)]

#: Between two waves the daemon must be where it was after the first.
WAVE = 100
#: As many as an engine on two cores creates and removes at once.
WORKERS = 4
#: Bytes that the daemon may have grown by at the end: a container that stays behind costs some 20 kB.
GROWTH = 8_000_000


def come_and_go(engine: EngineSite, names: list[str]) -> None:
    """Create, start and remove one container after the other; every second one is a peer that commits."""
    with contextlib.closing(engine.client()) as client:
        for number, name in enumerate(names):
            container = client.api.create_container(
                PEER if number % 2 else CHAINCODE, ["/writer", f"channel{number % 3}", "20"], name=name,
                host_config=client.api.create_host_config(network_mode="none"),
            )  # fmt: skip
            client.api.start(container)
            client.api.remove_container(container, force=True)


def churn(engine: EngineSite, daemon: Daemon, prefix: str, count: int) -> set[str]:
    """Have so many come and go; give the names of those that the daemon was seen to watch."""
    batches = [[f"{prefix}-{number}" for number in range(worker, count, WORKERS)] for worker in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        work = [pool.submit(come_and_go, engine, names) for names in batches]
        seen: set[str] = set()
        while not all(one.done() for one in work):
            seen |= daemon.components().keys()
            time.sleep(0.1)
    for one in work:
        one.result()
    return seen


def series(daemon: Daemon) -> list[bytes]:
    """Give the lines of metrics that have a value."""
    connection = UnixConnection(daemon.state / "qioi.sock")
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        return [line for line in connection.getresponse().read().splitlines() if not line.startswith(b"#")]


def watches(pid: int) -> int:
    """Count what the kernel watches for a process (inotify)."""
    return sum("inotify" in file.read_text() for file in Path(f"/proc/{pid}/fdinfo").iterdir())


def figures(daemon: Daemon, process: psutil.Process) -> dict[str, int]:
    """Say what the daemon has, in numbers; memory in bytes."""
    journal = daemon.state / "journal"
    return {
        "files": process.num_fds(),
        "threads": process.num_threads(),
        "memory": process.memory_info().rss,
        "journal": journal.stat().st_size if journal.exists() else 0,
        "series": len(series(daemon)),
    }


def writes(daemon: Daemon) -> int:
    """Count the writes that were done since the daemon's start."""
    status = daemon.status()
    assert status is not None
    return int(status["totals"]["writes"]["ok"])


def test_many_containers_leave_nothing_behind(
    engine: EngineSite, daemon: Daemon, request: pytest.FixtureRequest
) -> None:
    count = request.config.getoption("--containers")
    daemon.start()
    assert daemon.process is not None
    process = psutil.Process(daemon.process.pid)
    engine.run(PEER, "first", rate=20)
    until(lambda: engine.record("first") > 1024)
    engine.remove("first")
    churn(engine, daemon, "before", 40)  # whatever is made at the first use is there now
    until(lambda: daemon.components() == {})
    files, threads, memory = process.num_fds(), process.num_threads(), process.memory_info().rss
    watched, began, written = watches(process.pid), time.monotonic(), writes(daemon)
    seen: set[str] = set()
    print(json.dumps(figures(daemon, process)))  # with pytest -s
    for start in range(0, count, WAVE):
        seen |= churn(engine, daemon, f"wave{start}", min(WAVE, count - start))
        until(lambda: daemon.components() == {})
        until(lambda: process.num_fds() <= files and process.num_threads() <= threads)
        until(lambda: ToldFiles(daemon.state).load()[0] == [])
        print(json.dumps({"containers": min(start + WAVE, count), "seconds": round(time.monotonic() - began)}
                         | figures(daemon, process)))  # fmt: skip
    assert len(seen) > count / 20
    engine.run(PEER, "last", rate=5)
    until(lambda: daemon.components().keys() == {"last"})  # it still sees what comes
    engine.remove("last")
    until(lambda: daemon.components() == {})
    until(lambda: process.num_fds() <= files and process.num_threads() <= threads)
    until(lambda: watches(process.pid) <= watched)
    assert not [line for line in series(daemon) if b"before-" in line or b"wave" in line]
    assert process.memory_info().rss - memory < GROWTH
    status = daemon.status()
    assert status is not None
    assert writes(daemon) > written  # some were raised: they left while they were
    assert status["sources"] == []
    assert len(status["channels"]) <= 3 + 1
    assert daemon.end() == 0
    assert Journal(daemon.state).load().entries == ()
    assert "Traceback" not in daemon.log()

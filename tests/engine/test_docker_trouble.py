"""An engine in trouble, and containers made, paused, renamed or updated in unusual ways, under a real daemon."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from engine_site import PEER, EngineSite
from test_docker_daemon import PREFERRED, Daemon, daemon, raise_peer, share
from waiting import until

from qioi.discovery.told import ToldFiles
from qioi.kernel.hierarchy import find_hierarchy
from qioi.show.http import request_json

__all__ = ["daemon"]  # the fixture

pytestmark = [pytest.mark.slow, pytest.mark.host]


def owe(daemon: Daemon, threshold: float, channel: str = "red") -> None:
    """Owe a channel more or less, so that its components' shares move."""
    request_json(daemon.state / "qioi.sock", "POST", "/threshold", {"channel": channel, "tps": str(threshold)})


def periods(daemon: Daemon) -> int:
    status = daemon.status()
    return int(status["totals"]["periods"]) if status else 0


def update(engine: EngineSite, name: str, **limits: Any) -> None:
    with contextlib.closing(engine.client()) as client:
        client.api.update_container(name, **limits)


def test_an_engine_that_hangs_holds_up_no_period_and_no_share(daemon: Daemon, engine: EngineSite) -> None:
    container = raise_peer(daemon, engine)
    until(lambda: engine.record("peer0") == share(container))
    raised, told = share(container), engine.record("peer0")
    stopped = engine.processes("dockerd") + engine.processes("containerd")
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        owe(daemon, 20)
        until(lambda: 1024 < share(container) < raised)
        before = periods(daemon)
        until(lambda: periods(daemon) >= before + 60)  # longer than one call to an engine may take
        until(
            lambda: any("not on their owner's record" in text for text in (daemon.status() or {})["problems"].values())
        )
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    until(lambda: engine.record("peer0") == share(container) != told)
    assert daemon.end() == 0, daemon.log()
    assert (share(container), engine.record("peer0")) == (1024, 1024)
    assert ToldFiles(daemon.state).load() == ([], [])


def test_what_an_operator_writes_into_the_group_stays_and_the_record_goes_back(
    daemon: Daemon, engine: EngineSite
) -> None:
    container = raise_peer(daemon, engine)
    hierarchy = find_hierarchy()

    def left_alone() -> bool:
        # Once more each time: an update whose record is there already may still be on its way to the kernel.
        (hierarchy.folder(f"docker/{container}") / hierarchy.file).write_text("777")
        return "somebody else" in (daemon.components()["peer0"]["problem"] or "")

    until(left_alone, pause=0.5)
    assert daemon.end() == 0, daemon.log()
    assert (share(container), engine.record("peer0")) == (777, 1024)
    assert ToldFiles(daemon.state).load() == ([], [])


def test_what_an_operator_writes_into_the_group_of_a_dead_daemon_stays(daemon: Daemon, engine: EngineSite) -> None:
    container = raise_peer(daemon, engine)
    hierarchy = find_hierarchy()
    until(lambda: engine.record("peer0") == share(container))
    daemon.end(signal.SIGKILL)
    (hierarchy.folder(f"docker/{container}") / hierarchy.file).write_text("777")
    done = daemon.qioi("restore", "--state-dir", str(daemon.state))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (share(container), engine.record("peer0")) == (777, 1024)


def test_an_engine_that_takes_its_containers_with_it(daemon: Daemon, engine: EngineSite) -> None:
    """Without live-restore: they are stopped as it stops, and start with what is on record as it starts."""
    engine.stop()
    engine.live_restore = False
    try:
        engine.start()
        container = engine.run(PEER, "peer0", rate=10, restart_policy={"Name": "always"})
        daemon.start()
        until(lambda: engine.record("peer0") > 1024)
        engine.stop()
        until(lambda: "asked again until it answers" in daemon.log())
        engine.start()
        until(lambda: daemon.components().get("peer0", {}).get("share", 0) > 1024)
        assert daemon.components()["peer0"]["original"] == 1024
        assert daemon.end() == 0, daemon.log()
        assert (share(container), engine.record("peer0")) == (1024, 1024)
        assert ToldFiles(daemon.state).load() == ([], [])
    finally:
        if engine.ended():
            engine.start()
        engine.remove_all()
        engine.stop()
        engine.live_restore = True
        engine.start()


@pytest.mark.parametrize("shares", [0, 512, 1024])
def test_the_record_is_put_back_to_what_was_asked_for(daemon: Daemon, engine: EngineSite, shares: int) -> None:
    container = engine.run(PEER, "peer0", rate=10, cpu_shares=shares)
    daemon.start()
    until(lambda: share(container) > 1024)
    until(lambda: engine.record("peer0") > 1024)
    assert daemon.end() == 0, daemon.log()
    # An update cannot say 0, which is 1024 to the kernel.
    assert (share(container), engine.record("peer0")) == (shares or 1024, shares or 1024)


@pytest.mark.parametrize("shares", [0, 1024])
def test_an_update_of_something_else_is_nobody_elses_share(daemon: Daemon, engine: EngineSite, shares: int) -> None:
    container = engine.run(PEER, "peer0", rate=10, cpu_shares=shares)
    daemon.start()
    until(lambda: share(container) > 1024)
    update(engine, "peer0", mem_limit="64m", memswap_limit="64m")
    owe(daemon, 20)
    until(lambda: engine.record("peer0") == share(container) > 1024)
    update(engine, "peer0", mem_limit="96m", memswap_limit="96m")
    owe(daemon, 1000)
    until(lambda: engine.record("peer0") == share(container) > 1024)
    until(lambda: daemon.components()["peer0"]["problem"] is None)  # the status follows what was done
    assert daemon.end() == 0, daemon.log()
    assert (share(container), engine.record("peer0")) == (1024, 1024)


def test_a_paused_container_is_moved_and_put_back_and_holds_up_no_other(daemon: Daemon, engine: EngineSite) -> None:
    paused = raise_peer(daemon, engine)
    with contextlib.closing(engine.client()) as client:
        client.api.pause("peer0")
    other = engine.run(PEER, "peer1", rate=10)
    until(lambda: engine.record("peer1") == share(other) > 1024)
    assert daemon.end() == 0, daemon.log()
    with contextlib.closing(engine.client()) as client:
        client.api.unpause("peer0")
    assert (share(paused), engine.record("peer0")) == (1024, 1024)
    assert (share(other), engine.record("peer1")) == (1024, 1024)


def test_a_container_that_is_renamed_while_raised(daemon: Daemon, engine: EngineSite) -> None:
    container = raise_peer(daemon, engine)
    with contextlib.closing(engine.client()) as client:
        client.api.rename("peer0", "peer9")
    until(lambda: daemon.components().keys() == {"peer9"})
    until(lambda: daemon.components()["peer9"]["share"] > 1024)
    assert daemon.components()["peer9"]["original"] == 1024
    assert daemon.end() == 0, daemon.log()
    assert (share(container), engine.record("peer9")) == (1024, 1024)


def test_a_container_below_a_group_of_its_operators(daemon: Daemon, engine: EngineSite) -> None:
    hierarchy = find_hierarchy()
    parent = f"qioi-parent-{os.getpid()}"
    try:
        engine.remove("beside")
        engine.run_hog("beside-it", cgroup_parent=f"/{parent}")
        (hierarchy.folder(parent) / hierarchy.file).write_text(str(PREFERRED))
        container = engine.run(PEER, "peer0", rate=10, cgroup_parent=f"/{parent}")
        file = hierarchy.folder(f"{parent}/{container}") / hierarchy.file
        daemon.start()
        until(lambda: int(file.read_text()) > 1024)
        until(lambda: engine.record("peer0") > 1024)
        assert daemon.end() == 0, daemon.log()
        assert (int(file.read_text()), engine.record("peer0")) == (1024, 1024)
    finally:
        engine.remove_all()
        for folder in (*Path("/sys/fs/cgroup").glob(f"*/{parent}"), Path("/sys/fs/cgroup", parent)):
            with contextlib.suppress(FileNotFoundError):  # the one of v1 or of v2 is there
                folder.rmdir()


def test_what_compose_makes_is_found_by_labels_and_by_image(daemon: Daemon, engine: EngineSite) -> None:
    labels = {"com.docker.compose.project": "net", "com.docker.compose.service": "peer0.org1"}
    engine.run(PEER, "net-peer0.org1-1", labels=labels)
    engine.run("qioi/scratch:1", "net-mine-1", labels=labels | {"io.qioi.role": "orderer", "io.qioi.channel": "red"})
    daemon.start()
    until(lambda: daemon.components().keys() == {"net-peer0.org1-1", "net-mine-1"})
    assert daemon.components()["net-mine-1"]["role"] == "orderer"

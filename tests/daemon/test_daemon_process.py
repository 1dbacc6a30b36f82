"""The daemon as a process: it raises, and it puts back, however it ends."""

from __future__ import annotations

import signal
import socket
import time

import pytest
from raised_component import raise_one, value
from running import Site, begin_in, end
from waiting import until

from qioi.daemon.known_shares import NAME
from qioi.show.http import UnixConnection

#: Throughput is known after a window of 6 s, so most of these take that long.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_raised_while_below_the_threshold_and_back_at_the_end(site: Site, number: int) -> None:
    process, share = raise_one(site)
    status, text = end(process, number)  # type: ignore[arg-type]
    assert status == 0, text
    assert value(share) == 1024
    # Beside whatever else works on this host, what was enough is knowledge that outlives the daemon.
    assert {file.name for file in site.state.iterdir()} - {NAME} == {"lock"}
    assert "its original" in text


def test_after_a_sigkill_restore_brings_it_back(site: Site) -> None:
    process, share = raise_one(site)
    end(process, signal.SIGKILL)  # type: ignore[arg-type]
    assert value(share) > 1024
    done = site.qioi("restore", "--state-dir", str(site.state))
    assert done.returncode == 0, done.stderr
    assert value(share) == 1024
    assert "nothing is to be restored" in site.qioi("restore", "--state-dir", str(site.state)).stdout


def test_after_a_sigkill_the_next_start_begins_with_the_original(site: Site) -> None:
    process, share = raise_one(site)
    end(process, signal.SIGKILL)  # type: ignore[arg-type]
    process = site.start()
    until(lambda: (site.status() or {"totals": {"periods": 0}})["totals"]["periods"] > 0)
    status = site.status()
    assert status is not None
    assert status["components"][0]["original"] == 1024
    _, text = end(process)
    assert f"WARNING left by a daemon before this one: {site.parent}/peer0: ok: " in text
    assert value(share) == 1024


def test_what_somebody_else_sets_is_left_alone(site: Site) -> None:
    process, share = raise_one(site)
    share.write_text("777")  # type: ignore[attr-defined]
    site.commit_until(lambda: site.status()["totals"]["writes"]["foreign"] > 0)  # type: ignore[index]
    component = site.status()["components"][0]  # type: ignore[index]
    assert "somebody else" in component["problem"]
    site.stays(lambda: value(share) == 777)
    status, _ = end(process)  # type: ignore[arg-type]
    assert (status, value(share)) == (0, 777)


def test_a_dry_run_decides_and_writes_nothing(site: Site) -> None:
    share = site.component("peer0")
    process = site.start("--dry-run")
    site.commit_until(lambda: site.status()["totals"]["decisions"] > 0)  # type: ignore[index]
    assert {file.name for file in site.state.iterdir()} == {"lock", site.socket.name}
    component = site.status()["components"][0]  # type: ignore[index]
    assert component["wanted"] > component["share"] == 1024
    site.stays(lambda: value(share) == 1024)
    status, text = end(process)
    assert status == 0
    assert "would set 1024 -> " in text
    assert "left its journal" not in text
    assert value(share) == 1024
    assert {file.name for file in site.state.iterdir()} == {"lock"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "kept"])
def test_a_dry_run_leaves_what_a_daemon_before_it_has_left(site: Site, number: int) -> None:
    site.changes = {"on_exit": "keep"}
    process, share = raise_one(site)
    end(process, number)  # type: ignore[arg-type]
    left, journal = value(share), (site.state / "journal").read_bytes()
    assert left > 1024
    process = site.start("--dry-run")
    site.stays(lambda: value(share) == left, periods=3)
    status, text = end(process)
    assert status == 0, text
    assert (value(share), (site.state / "journal").read_bytes()) == (left, journal)
    assert (site.state / "kept").exists() == (number == signal.SIGTERM)
    assert f"has left its journal {site.state}/journal: a dry run restores nothing" in text
    assert site.qioi("restore", "--state-dir", str(site.state)).returncode == 0
    assert value(share) == 1024


def test_a_component_whose_group_vanishes_does_not_stop_the_others(site: Site) -> None:
    share = site.component("peer0")
    gone = site.component("peer1")
    process = site.start()
    site.commit_until(lambda: value(share) > 1024 and value(gone) > 1024)
    gone.parent.rmdir()
    until(lambda: site.status()["components"][1]["problem"] is not None)  # type: ignore[index]
    assert site.status()["components"][0]["problem"] is None  # type: ignore[index]
    gone.parent.mkdir()  # and it comes again
    site.commit_until(lambda: value(gone) > 1024)
    status, text = end(process)
    assert status == 0, text
    assert "no such control group" in text
    assert "peer1: well again" in text
    assert value(share) == value(gone) == 1024


def test_a_log_that_vanishes_is_said_and_tolerated(site: Site) -> None:
    process, _ = raise_one(site)
    site.log.unlink()
    until(lambda: site.status()["sources"][0]["problem"] is not None)  # type: ignore[index]
    site.log.touch()
    site.commit_until(lambda: site.status()["sources"][0]["problem"] is None)  # type: ignore[index]
    assert end(process)[0] == 0  # type: ignore[arg-type]


def test_a_second_daemon_is_refused_and_so_is_restore(site: Site) -> None:
    site.component("peer0")
    process = site.start()
    second = site.qioi("run", "-c", str(site.config()))
    assert second.returncode == 1
    assert second.stderr.strip().splitlines() == [
        f"Error: {site.state}/lock: a QiOi daemon is running already (pid {process.pid}); stop that one first"
    ]
    restore = site.qioi("restore", "--state-dir", str(site.state))
    assert restore.returncode == 1
    assert "stop it, and it restores by itself" in restore.stderr
    assert end(process)[0] == 0


def test_a_busy_metrics_port_is_refused(site: Site) -> None:
    share = site.component("peer0")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        site.changes = {"metrics": {"port": port}}
        done = site.qioi("run", "-c", str(site.config()))
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert f"metrics 127.0.0.1:{port}: Address already in use; name a free one" in line
    assert value(share) == 1024


def test_every_missing_log_and_group_is_named_at_start(site: Site) -> None:
    site.component("peer0")
    site.component("peer1").parent.rmdir()
    site.log.unlink()
    done = site.qioi("run", "-c", str(site.config()))
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 2
    assert "component peer0: log:" in lines[0]
    assert "no such file" in lines[0]
    assert "component peer1: cgroup:" in lines[1]
    assert "no such control group" in lines[1]
    check = site.qioi("check", "-c", str(site.config()))
    assert check.returncode == 1
    assert check.stderr.strip().splitlines() == lines


def test_a_component_that_is_not_there_at_the_start_is_taken_up_when_it_comes(site: Site) -> None:
    """A service that comes later at a boot, or is stopped while the daemon is restarted: the others are protected."""
    share, late = site.component("peer0"), site.component("peer1")
    log = site.folder / "peer1.log"
    site.components[1]["log"] = str(log)
    late.parent.rmdir()
    process = site.start()
    site.commit_until(lambda: value(share) > 1024)
    late.parent.mkdir()
    log.touch()
    site.commit_until(lambda: value(late) > 1024)
    status, text = end(process)
    assert (status, value(share), value(late)) == (0, 1024, 1024), text
    assert "component peer1: cgroup:" in text
    assert "no such control group: accepted is a group that exists; it is taken up when it comes" in text
    assert f"component peer1: log: {log}: no such file" in text


def test_where_no_listed_component_is_there_the_start_is_refused(site: Site) -> None:
    for name in ("peer0", "peer1"):
        site.component(name).parent.rmdir()
    done = site.qioi("run", "-c", str(site.config()))
    lines = done.stderr.strip().splitlines()
    assert (done.returncode, len(lines)) == (1, 2), done.stderr
    assert all("no such control group" in line for line in lines)


LATE = "qioi_periods_late_total "


def late(site: Site) -> int:
    return int(site.status()["totals"]["late"])  # type: ignore[index]


def test_periods_that_a_daemon_was_held_up_for_are_counted(site: Site) -> None:
    site.component("peer0")
    process = site.start()
    until(lambda: site.periods() > 1)
    before = late(site)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.0)  # ten periods
    process.send_signal(signal.SIGCONT)
    resumed = until(site.periods)
    until(lambda: site.periods() >= resumed + 2)  # the first is late, the second knows how many were left out
    assert late(site) >= before + 9
    connection = UnixConnection(site.socket)
    connection.request("GET", "/metrics")
    (sample,) = (one for one in connection.getresponse().read().decode().splitlines() if one.startswith(LATE))
    connection.close()
    assert before + 9 <= float(sample.removeprefix(LATE)) <= late(site)
    assert end(process)[0] == 0


#: Begins the command of a daemon that the kernel refuses real-time priority and a nice value below 0: it has neither
#: the capability nor a limit that allows them.
WITHOUT_PRIORITY = ("prlimit", "--rtprio=0:0", "--nice=0:0", "setpriv", "--bounding-set=-sys_nice")


@pytest.mark.parametrize("company", [False, True])
def test_for_want_of_realtime_a_group_of_its_own_gets_shares_and_loses_them_again(site: Site, company: bool) -> None:
    site.component("peer0")
    own = site.hierarchy.folder(f"{site.parent}/daemon")
    own.mkdir()
    if company:
        begin_in(own, site, "sleep", "600")
        until(lambda: (own / "cgroup.procs").read_text() != "")
    process = begin_in(own, site, *WITHOUT_PRIORITY, *site.command("run", "-c", str(site.config())))
    until(lambda: site.status() is not None)
    assert value(own / site.hierarchy.file) == (1024 if company else 8192)
    status, text = end(process)
    assert status == 0
    assert "real-time priority: " in text
    assert value(own / site.hierarchy.file) == 1024


@pytest.mark.parametrize(
    ("own", "allowed", "warned"),
    [
        ({"realtime": False}, True, False),
        ({"realtime": False}, False, True),
        ({"realtime": False, "nice": None}, False, False),
    ],
)
def test_without_realtime_a_group_of_its_own_gets_shares_whatever_its_nice_value(
    site: Site, own: dict[str, object], allowed: bool, warned: bool
) -> None:
    site.component("peer0")
    group = site.hierarchy.folder(f"{site.parent}/daemon")
    group.mkdir()
    site.changes = {"own": own}
    less = () if allowed else WITHOUT_PRIORITY
    process = begin_in(group, site, *less, *site.command("run", "-c", str(site.config())))
    until(lambda: site.status() is not None)
    assert value(group / site.hierarchy.file) == 8192
    status, text = end(process)
    assert (status, "own protection: nice -10: " in text, "own protection" in text) == (0, warned, warned)
    assert value(group / site.hierarchy.file) == 1024


@pytest.mark.parametrize("found", [1024, 4096])
def test_own_shares_are_restored_too(site: Site, found: int) -> None:
    site.component("peer0")
    own = site.hierarchy.folder(f"{site.parent}/daemon")
    own.mkdir()
    (own / site.hierarchy.file).write_text(str(found))
    site.changes = {"own": {"shares": 4096, "nice": None}}
    process = begin_in(own, site, *site.command("run", "-c", str(site.config())))
    until(lambda: site.status() is not None)
    assert value(own / site.hierarchy.file) == 4096
    status, text = end(process)
    assert (status, "own.shares" in text) == (0, False)
    assert value(own / site.hierarchy.file) == found

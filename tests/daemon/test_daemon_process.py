"""The daemon as a process: it raises, and it puts back, however it ends."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
from ports import free_port
from running import Site, end
from toy_engine import Engine
from waiting import until

from qioi.commands.check import config_facts, obstacles
from qioi.controller.levers.eevdf import Kernel, default_slice
from qioi.daemon.site import absent, means
from qioi.settings.config import load_config

#: Work of components that are woken again and again, for long and for a moment, and of a neighbour.
NAPPING = "import time\nwhile True:\n    time.sleep(0.002)\n    for i in range(20000): pass"
NIBBLING = "import time\nwhile True:\n    time.sleep(0.001)\n    for i in range(1000): pass"
BUSY = "while True: pass"
#: Throughput is known after a window of 6 s, so most of these take that long.
pytestmark = pytest.mark.slow


def value(file: object) -> int:
    return int(file.read_text())  # type: ignore[attr-defined]


def raise_one(site: Site) -> tuple[object, object]:
    """A daemon that has raised peer0."""
    share = site.component("peer0")
    process = site.start()
    original = value(share)
    site.commit_until(lambda: value(share) > original)
    return process, share


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_raised_while_below_the_threshold_and_back_at_the_end(site: Site, number: int) -> None:
    process, share = raise_one(site)
    status, text = end(process, number)  # type: ignore[arg-type]
    assert status == 0, text
    assert value(share) == 1024
    assert sorted(file.name for file in site.state.iterdir()) == ["lock"]
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


class EveryLever:
    """Components and neighbours at which shares, slices, ``cpu.idle`` and an engine's record are in force at once."""

    ORIGINALS = (700, 1024, 3000)
    CONTAINER = "ab12" * 16

    def __init__(self, site: Site) -> None:
        self.site = site
        shares = [site.component(f"peer{i}") for i in range(3)]
        for share, original in zip(shares, self.ORIGINALS, strict=True):
            share.write_text(str(original))
        self.work = [site.work(f"peer{i}", code) for i, code in enumerate((NAPPING, NAPPING, NIBBLING))]
        self.work += [site.work(f"hog{i}", BUSY) for i in range(3 * (os.cpu_count() or 1))]
        self.idle = self.folder("hog0") / "cpu.idle"
        self.hog = self.folder("hog0") / site.hierarchy.file
        self.hog.write_text("3000")
        self.idles = self.idle.exists()
        engine = self.engine()
        self.files = [self.folder(name) / site.hierarchy.file for name in ("", self.CONTAINER)] + shares
        kernel = Kernel()
        self.kernel = kernel if default_slice(kernel) is not None else None
        site.changes = {
            "channels": {"red": {"law": "adaptive"}},
            "docker": {"socket": engine},
            "slices": "required" if self.kernel else "off",
            "slices_before_6_15": True,
            "best_effort": [f"{site.parent}/hog0"] if self.idles else [],
        }
        self.found = self.now()
        self.in_force = dict.fromkeys(self.found, 0)

    def folder(self, name: str) -> Path:
        return self.site.hierarchy.folder(f"{self.site.parent}/{name}")

    def engine(self) -> str:
        """An engine with one container, an orderer that works in a group named as it."""
        orderer = self.site.work(self.CONTAINER, NAPPING)
        self.work.append(orderer)
        (log := self.site.folder / "orderer.log").touch()
        share = self.folder(self.CONTAINER) / self.site.hierarchy.file
        share.write_text("1200")
        facts = {
            "Name": "/orderer0",
            "State": {"Running": True, "Pid": orderer.pid},
            "Config": {"Image": "hyperledger/fabric-orderer", "Labels": {}},
            "HostConfig": {"LogConfig": {"Type": "json-file"}, "CpuShares": 1200},
            "LogPath": str(log),
        }
        self.toy = Engine(self.site.folder / "docker.sock", {self.CONTAINER: facts})
        self.toy.groups = {self.CONTAINER: share}
        return str(self.toy.server_address)

    def now(self) -> dict[str, object]:
        """What is in force, by lever."""
        facts = self.toy.facts[self.CONTAINER]
        assert facts is not None
        threads = [int(tid.name) for one in self.work for tid in Path(f"/proc/{one.pid}/task").iterdir()]
        return {
            "shares": [value(file) for file in self.files],
            "cpu.idle": (value(self.idle), value(self.hog)) if self.idles else None,
            "slices": [self.kernel.read(tid).slice for tid in threads] if self.kernel else None,
            "record": facts["HostConfig"]["CpuShares"],
        }

    def count(self) -> None:
        """Note which levers are in force now."""
        for lever, state in self.now().items():
            self.in_force[lever] += state != self.found[lever]

    def missing(self, kills: int) -> list[str]:
        """Levers that were in force at too few kills: a busy machine may need some more of them."""
        least = {
            lever: kills / 4 if lever == "shares" else 0 for lever, state in self.found.items() if state is not None
        }
        return [lever for lever, number in least.items() if self.in_force[lever] <= number]

    def close(self) -> None:
        self.toy.shutdown()
        self.toy.server_close()


def test_killed_at_random_moments_nothing_of_ours_outlives_it(site: Site, request: pytest.FixtureRequest) -> None:
    """Under real work that comes and goes, while it starts, recovers and acts, with every lever in force at once; put
    back by either way, or by the next start but one.
    """
    chance = random.Random(request.config.getoption("--kills-seed"))
    levers, kills = EveryLever(site), request.config.getoption("--kills")

    with closing(levers):
        for kill in range(3 * kills):
            if kill >= kills and not levers.missing(kills):
                break
            for one in levers.work:
                one.send_signal(signal.SIGCONT)
            process = site.begin()
            stop = time.monotonic() + chance.uniform(0.0, 6.5)
            while time.monotonic() < stop:
                site.commit(chance.randint(1, 40))
                if chance.random() < 0.05:
                    chance.choice(levers.work).send_signal(chance.choice([signal.SIGSTOP, signal.SIGCONT]))
                time.sleep(0.01)
            assert end(process, signal.SIGKILL)[0] == -signal.SIGKILL
            levers.count()
            for one in levers.work:
                one.send_signal(signal.SIGSTOP)
            put_back = chance.choice(["restore", "start", "later"])
            if put_back == "restore":
                assert site.qioi("restore", "--state-dir", str(site.state)).returncode == 0
                assert levers.now() == levers.found
            elif put_back == "start":
                process = site.start()  # nothing works, so it raises nothing itself
                assert levers.now() == levers.found
                end(process, signal.SIGKILL)
        process = site.start()
        assert levers.now() == levers.found
        assert end(process)[0] == 0
        left = [name for name in ("journal", "idle", "slices", "records") if (site.state / name).exists()]
        assert [name for name in left if name != "records" or any((site.state / name).iterdir())] == []
    assert levers.missing(kills) == [], f"most kills came when nothing was in force: {levers.in_force}"


def test_what_somebody_else_sets_is_left_alone(site: Site) -> None:
    process, share = raise_one(site)
    share.write_text("777")  # type: ignore[attr-defined]
    site.commit_until(lambda: site.status()["totals"]["writes"]["foreign"] > 0)  # type: ignore[index]
    component = site.status()["components"][0]  # type: ignore[index]
    assert "somebody else" in component["problem"]
    status, _ = end(process)  # type: ignore[arg-type]
    assert (status, value(share)) == (0, 777)


def test_a_dry_run_decides_and_writes_nothing(site: Site) -> None:
    share = site.component("peer0")
    process = site.start("--dry-run")
    site.commit_until(lambda: site.status()["totals"]["decisions"] > 0)  # type: ignore[index]
    component = site.status()["components"][0]  # type: ignore[index]
    assert component["wanted"] > component["share"] == 1024
    status, text = end(process)
    assert status == 0
    assert "would set 1024 -> " in text
    assert value(share) == 1024
    assert not (site.state / "journal").exists()


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


def test_a_corrupt_journal_is_said_in_one_line_and_kept(site: Site) -> None:
    process, share = raise_one(site)
    end(process, signal.SIGKILL)  # type: ignore[arg-type]
    journal = site.state / "journal"
    journal.write_bytes(journal.read_bytes() + b'0000 {"path":"half')
    done = site.qioi("restore", "--state-dir", str(site.state))
    assert done.returncode == 1
    assert "line 3: half-written or damaged: what can be read is restored" in done.stdout
    assert value(share) == 1024
    assert (site.state / "journal.damaged").exists()
    assert not journal.exists()


@pytest.mark.parametrize("content", [b"", bytes(300), b'0000 {"path":"half'], ids=["empty", "zeros", "torn"])
def test_journals_that_a_power_cut_has_damaged_stop_no_start(site: Site, content: bytes) -> None:
    """As file systems leave a file that was replaced but not yet on the disk."""
    share = site.component("peer0")
    site.state.mkdir()
    names = ("journal", "idle", "slices")
    for name in names:
        (site.state / name).write_bytes(content)
        (site.state / f"{name}.new").write_bytes(content)
    done = site.qioi("check", "-c", str(site.config()))
    assert done.returncode == 0, done.stderr
    assert "the next start restores what can be read" in done.stdout
    process = site.start()
    site.commit_until(lambda: value(share) > 1024)
    code, text = end(process)
    assert code == 0, text
    assert value(share) == 1024
    assert "Traceback" not in text
    assert [name for name in names if not (site.state / f"{name}.damaged").exists()] == []


def test_a_full_disk_under_the_journal_means_no_write(site: Site) -> None:
    """The real thing: a file system with no room left."""
    share = site.component("peer0")
    site.state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(site.state)], check=True)
    process = site.start()
    try:
        with pytest.raises(OSError, match="No space"):
            (site.state / "ballast").write_bytes(b"x" * 100_000)
        site.commit_until(lambda: site.status()["totals"]["writes"]["failed"] > 0)  # type: ignore[index]
        assert value(share) == 1024
        assert "nothing is written without it" in site.status()["components"][0]["problem"]  # type: ignore[index]
        (site.state / "ballast").unlink()
        site.commit_until(lambda: value(share) > 1024)
        with pytest.raises(OSError, match="No space"):
            (site.state / "ballast").write_bytes(b"x" * 100_000)
        assert end(process)[0] == 0
        assert value(share) == 1024
    finally:
        process.kill()
        process.wait()
        subprocess.run(["umount", str(site.state)], check=True)


@pytest.mark.parametrize("company", [False, True])
def test_for_want_of_realtime_a_group_of_its_own_gets_shares_and_loses_them_again(site: Site, company: bool) -> None:
    site.component("peer0")
    own = site.hierarchy.folder(f"{site.parent}/daemon")
    own.mkdir()
    join = f'echo $$ > {own}/cgroup.procs; exec "$@"'
    if company:
        other = subprocess.Popen(["/bin/sh", "-c", join, "sh", "sleep", "600"], text=True)
        site.processes.append(other)
        until(lambda: (own / "cgroup.procs").read_text() != "")
    words = ["/bin/sh", "-c", join, "sh", *site.command("run", "-c", str(site.config()))]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    site.processes.append(process)
    until(lambda: site.status() is not None)
    refused = os.sched_getscheduler(process.pid) == os.SCHED_OTHER
    assert value(own / site.hierarchy.file) == (8192 if refused and not company else 1024)
    status, text = end(process)
    assert status == 0
    assert ("real-time priority: " in text) == refused
    assert value(own / site.hierarchy.file) == 1024


@pytest.mark.parametrize("found", [1024, 4096])
def test_own_shares_are_restored_too(site: Site, found: int) -> None:
    site.component("peer0")
    own = site.hierarchy.folder(f"{site.parent}/daemon")
    own.mkdir()
    (own / site.hierarchy.file).write_text(str(found))
    site.changes = {"own": {"shares": 4096, "nice": None}}
    join = f'echo $$ > {own}/cgroup.procs; exec "$@"'
    process = subprocess.Popen(
        ["/bin/sh", "-c", join, "sh", *site.command("run", "-c", str(site.config()))], stderr=subprocess.PIPE, text=True
    )
    site.processes.append(process)
    until(lambda: site.status() is not None)
    assert value(own / site.hierarchy.file) == 4096
    status, text = end(process)
    assert (status, "own.shares" in text) == (0, False)
    assert value(own / site.hierarchy.file) == found


def test_status_table_and_json_and_metrics(site: Site) -> None:
    port = free_port()
    site.changes = {"metrics": {"port": port}}
    process, _ = raise_one(site)
    table = site.qioi("status", "-c", str(site.folder / "qioi.yaml"))
    assert table.returncode == 0, table.stderr
    for word in ("Channel", "red", "1000.0 tps", "peer0", "1024", "< T 1000.0"):
        assert word in table.stdout
    document = json.loads(site.qioi("status", "--socket", str(site.socket), "--output", "json").stdout)
    assert document["components"][0]["share"] > document["components"][0]["original"] == 1024
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    for line in (
        'qioi_channel_threshold_tps{channel="red"} 1000.0',
        'qioi_component_original_shares{component="peer0",role="peer"} 1024.0',
        'qioi_writes_total{result="foreign"} 0.0',
        "qioi_process_resident_memory_bytes ",
        'qioi_input_age_seconds{component="peer0",kind="log"} ',
        'qioi_loop_duration_seconds_bucket{le="+Inf"} ',
        'qioi_config_reloads_total{result="refused"} 0.0',
    ):
        assert line in text
    (periods,) = (line.split()[1] for line in text.splitlines() if line.startswith("qioi_periods_total "))
    assert f"qioi_loop_lateness_seconds_count {periods}\n" in text
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status") as answer:
        assert json.load(answer)["components"][0]["name"] == "peer0"
    with pytest.raises(urllib.error.HTTPError, match="404"):  # orders are for those who may use the socket
        urllib.request.urlopen(f"http://127.0.0.1:{port}/threshold?channel=red&tps=1", data=b"")
    assert site.socket.stat().st_mode & 0o777 == 0o600
    assert end(process)[0] == 0  # type: ignore[arg-type]


def test_status_without_a_daemon(site: Site) -> None:
    done = site.qioi("status", "--socket", str(site.folder / "none.sock"))
    assert done.returncode == 1
    assert "no daemon answers" in done.stderr


def test_check_says_what_the_host_offers_and_touches_nothing(site: Site) -> None:
    share = site.component("peer0")
    done = site.qioi("check", "-c", str(site.config()), "--output", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["problems"] == []
    assert "may raise peer0" in document["facts"]["channel red"]
    assert value(share) == 1024
    assert not site.state.exists()


def test_check_names_what_is_wrong_with_the_file_and_with_the_host_at_once(site: Site) -> None:
    site.component("peer0")
    site.log.unlink()
    (site.folder / "state").write_text("a file, not a folder")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        site.changes = {"perod": 1, "metrics": {"port": port}, "slices": "required", "slices_before_6_15": False}
        done = site.qioi("check", "-c", str(site.config()))
    assert done.returncode == 1
    assert "perod: unknown key" in done.stderr
    assert "component peer0: log:" in done.stderr
    assert "accepted is a folder that can be made and written" in done.stderr
    assert f"metrics 127.0.0.1:{port}: Address already in use" in done.stderr
    slices = re.search(r"^slices: (there|none)", done.stdout, re.MULTILINE)
    assert slices is not None
    assert ("slices: required: " in done.stderr) == (slices[1] == "none")
    assert "cpu.idle: " in done.stdout


def test_check_names_a_metrics_address_that_can_be_opened(site: Site) -> None:
    site.component("peer0")
    site.changes = {"metrics": {"listen": "::1", "port": 9464}}
    assert config_facts(load_config(site.config()))["metrics"] == "http://[::1]:9464/metrics"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_check_by_somebody_who_may_not_look_into_folders(site: Site) -> None:
    site.component("peer0")
    site.state.mkdir()
    hidden = site.folder / "hidden"
    hidden.mkdir(mode=0o700)
    site.components[0]["log"] = str(hidden / "peer0.log")
    config, (hierarchy, access) = load_config(site.config()), means(load_config(site.config()))
    os.setresuid(65534, 65534, 0)
    try:
        (state,) = obstacles(config)
        log = [*absent(config, hierarchy, access)][-1]
    finally:
        os.setresuid(0, 0, 0)
    assert "accepted is a folder that can be made and written" in state
    assert log.endswith("no such file, or no right to look: accepted is a readable file")


def test_restore_where_nothing_ever_ran(site: Site) -> None:
    done = site.qioi("restore", "--state-dir", str(site.folder / "never"))
    assert done.returncode == 0
    assert "nothing is to be restored" in done.stdout

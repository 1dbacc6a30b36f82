"""`qioi profile`: real recordings of real processes in control groups."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from running import Site, end
from waiting import DIES_WITH_TEST, PATIENCE, until

from qioi.monitor.profile.perf import TRACEFS, LateError, ProfileError, complaint, record, run_perf, within_tracefs

#: Two threads of a process and a child born meanwhile; sleeps are short, so that there is something to count.
SLEEPER = """
import sys, threading, time
def work():
    while True:
        time.sleep(0.005)
threading.Thread(target=work, daemon=True).start()
print("up", flush=True)
work()
"""
#: Two threads that hand a byte to and fro as fast as they can.
PING_PONG = """
import os, threading
there, back = os.pipe(), os.pipe()
def answer():
    while True:
        os.write(back[1], os.read(there[0], 1))
threading.Thread(target=answer, daemon=True).start()
while True:
    os.write(there[1], b"."), os.read(back[0], 1)
"""

needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf (Debian's package linux-perf)")


def populate(site: Site, name: str, program: str = SLEEPER) -> subprocess.Popen[str]:
    command = [*DIES_WITH_TEST, sys.executable, "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    site.processes.append(process)
    (site.hierarchy.folder(f"{site.parent}/{name}") / "cgroup.procs").write_text(str(process.pid))
    return process


def fake_perf(site: Site, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Have a script stand for perf."""
    perf = site.folder / "bin" / "perf"
    perf.parent.mkdir()
    perf.write_text(program)
    perf.chmod(0o755)
    monkeypatch.setenv("PATH", f"{perf.parent}:{os.environ['PATH']}")


def switches(pid: int) -> int:
    """What the kernel itself has counted, of all threads."""
    files = Path(f"/proc/{pid}/task").glob("*/status")
    lines = [line for file in files for line in file.read_text().splitlines() if "ctxt_switches" in line]
    return sum(int(line.split()[1]) for line in lines)


def event_mounts() -> list[str]:
    """Mounts of what holds the kernel's events. Others come and go with other tests beside this one."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if line.split(" ")[2] in ("tracefs", "debugfs")]


def profile(site: Site, *arguments: str) -> dict[str, Any]:
    done = site.qioi("profile", "--output", "json", *arguments)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


@needs_perf
@pytest.mark.slow
def test_a_recording_agrees_with_the_kernels_own_counters(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = site.folder / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    site.component("sleeper")
    process = populate(site, "sleeper")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    mounts = event_mounts()
    seen = 0.0
    for seconds in (1, 4, 16, 64):  # on a busy host it wakes up seldom, and perf counts wakeups late
        before = switches(process.pid)
        document = profile(site, "--cgroup", f"s={site.parent}/sleep*", "--seconds", str(seconds))
        counted = switches(process.pid) - before
        (one,) = document["components"]
        seen = one["switches_per_second"] * document["seconds"]
        assert seen <= counted + 2
        if seen > 20 and one["threads"] == 2 and one["delay"] is not None:
            break
    assert seen > 20
    assert one["threads"] == 2
    assert 0 < one["slice"] < 1
    assert one["longest"] >= one["delay"] >= 0
    assert document["rest"]["threads"] > 0
    assert list(folder.iterdir()) == []
    assert event_mounts() == mounts


@needs_perf
@pytest.mark.slow
def test_a_process_that_is_started_in_a_component_meanwhile_is_its(site: Site) -> None:
    """This test starts it outside, and moves it."""
    site.component("sleeper")
    for seconds in (2, 8, 32):  # on a busy host perf begins late
        with ThreadPoolExecutor() as pool:
            profiled = pool.submit(profile, site, "--cgroup", f"s={site.parent}/sleep*", "--seconds", str(seconds))
            time.sleep(seconds / 2)
            populate(site, "sleeper")
            document = profiled.result()
        end(site.processes[-1])
        (one,) = document["components"]
        if one["threads"] == 2:
            break
    assert one["threads"] == 2
    assert one["cores"] > 0


@needs_perf
@pytest.mark.slow
def test_a_perf_that_takes_longer_to_begin_than_to_record(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_perf(site, monkeypatch, f'#!/bin/sh\n[ "$1" != record ] || sleep 1\nexec {shutil.which("perf")} "$@"\n')
    site.component("sleeper")
    populate(site, "sleeper")
    assert profile(site, "--cgroup", f"s={site.parent}/sleeper", "-s", "0.2")["seconds"] >= 0.2


def test_a_perf_that_never_begins_is_said_to_be_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qioi.monitor.profile.perf.PATIENCE", 0.01)
    silent = tmp_path / "perf"
    silent.write_text("#!/bin/sh\necho 'Warning: kptr_restrict' >&2\nexec sleep 300\n")
    silent.chmod(0o755)
    with pytest.raises(ProfileError, match=r"perf record does not begin, 0\.01 s after it was told to$"):
        run_perf(str(silent), tmp_path / "perf.data", {}, 1000.0, 1)


def test_a_perf_that_begins_when_it_is_to_end_records_nothing(tmp_path: Path) -> None:
    late = tmp_path / "perf"
    late.write_text(LATE.format(python=sys.executable, pid=1))
    late.chmod(0o755)
    with pytest.raises(LateError, match=r"perf record began \d+\.\d s after it was to end$"):
        run_perf(str(late), tmp_path / "perf.data", {}, 1000.0, 1, until=time.monotonic())


#: A perf of which 50 slices are from before it says that all its events are enabled, and 20 from long after that.
LATE = """#!{python}
import os, re, sys, time
words, now = sys.argv[1:], time.clock_gettime(time.CLOCK_MONOTONIC)
file = words[words.index("-o" if words[0] == "record" else "-i") + 1]
if words[0] == "script":
    sys.stdout.write(open(file).read())
else:
    assert "--clockid=CLOCK_MONOTONIC" in words
    on = "{{:.6f}}: sched:sched_switch: prev_comm=p prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=p " \\
         "next_pid={pid} next_prio=120\\n"
    off = "{{:.6f}}: sched:sched_switch: prev_comm=p prev_pid={pid} prev_prio=120 prev_state=S ==> next_comm=p " \\
          "next_pid=0 next_prio=120\\n"
    begun = [now - 1 + n / 100 for n in range(50)] + [now + 1000 + n for n in range(20)]
    with open(file, "w") as out:
        for at in begun:
            out.write(on.format(at) + off.format(at + 0.005))
    commands, answers = map(int, re.search(r"--control=fd:(\\d+),(\\d+)", " ".join(words)).groups())
    assert os.read(commands, 100) == b"enable\\n"
    os.write(answers, b"ack\\n")
"""


@pytest.mark.slow
def test_only_what_comes_once_perf_has_begun_counts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.component("sleeper")
    process = populate(site, "sleeper")
    fake_perf(site, monkeypatch, LATE.format(python=sys.executable, pid=process.pid))
    document = profile(site, "--cgroup", f"s={site.parent}/sleeper", "--seconds", "600")  # it ends by itself
    (one,) = document["components"]
    assert document["seconds"] > 1000 - PATIENCE
    assert one["switches_per_second"] * document["seconds"] == pytest.approx(20)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_whatever_ends_it_ends_perf_too(site: Site, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    site.component("sleeper")
    temporary, recorder = site.folder / "temporary", site.folder / "recorder"
    temporary.mkdir()
    fake_perf(site, monkeypatch, f"#!/bin/sh\necho $$ > {recorder}.new\nmv {recorder}.new {recorder}\nexec sleep 300\n")
    monkeypatch.setenv("TMPDIR", str(temporary))
    command = site.command("profile", "--cgroup", f"s={site.parent}/sleeper", "--seconds", "600")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    site.processes.append(process)
    until(recorder.exists)
    status, said = end(process, number)
    until(lambda: not lives(int(recorder.read_text())))
    if number != signal.SIGKILL:
        assert (status, said.strip(), list(temporary.iterdir())) == (1, "Aborted!", [])


def lives(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@needs_perf
@pytest.mark.slow
def test_the_daemons_components_by_role(site: Site) -> None:
    for name, role in (("peer0", "peer"), ("peer1", "peer"), ("orderer0", "orderer")):
        site.component(name, role)
        populate(site, name)
    daemon = site.start()
    document = profile(site, "--socket", str(site.socket), "-s", "0.5", "--cgroup", f"all={site.parent}/peer0")
    assert [(one["name"], one["role"]) for one in document["components"]] == [
        ("all", "other"), ("peer0", "peer"), ("peer1", "peer"), ("orderer0", "orderer"),
    ]  # fmt: skip
    assert {one["role"]: one["components"] for one in document["roles"]} == {"other": 1, "peer": 2, "orderer": 1}
    assert end(daemon)[0] == 0
    done = site.qioi("profile", "-c", str(site.folder / "qioi.yaml"), "-s", "0.5")  # no daemon answers any more
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in ("peer1", "orderer0", "Switches/s"))
    assert re.search(r"^\d+\.\d s, \d+ events, \d+ lost\.$", done.stdout, re.MULTILINE)  # a busy host may lose some


@needs_perf
@pytest.mark.slow
def test_a_recording_that_would_grow_too_large_ends(site: Site) -> None:
    site.component("busy")
    process = populate(site, "busy", PING_PONG)
    document = profile(site, "--cgroup", f"busy={site.parent}/busy", "--max-size", "1", "--seconds", "60")
    process.kill()
    assert document["ended_by_size"]
    assert document["seconds"] < 60


@needs_perf
@pytest.mark.slow
def test_tracefs_is_mounted_for_the_recording_only(site: Site) -> None:
    site.component("sleeper")
    populate(site, "sleeper")
    words = " ".join(site.command("profile", "-s", "0.2", "--cgroup", f"s={site.parent}/sleeper"))
    bare = "for kind in tracefs debugfs; do umount -l -a -t $kind; done; ! grep -qE 'tracefs|debugfs' /proc/self/mounts"
    script = f"{bare} && {words} && ! grep -qE 'tracefs|debugfs' /proc/self/mounts"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_tracefs_mounted_by_somebody_else_meanwhile_is_no_error(tmp_path: Path) -> None:
    not_yet = tmp_path / "mounts"
    not_yet.write_text("proc /proc proc rw 0 0\n")
    recorder = shlex.join(within_tracefs(["ls", str(TRACEFS / "events" / "sched")], not_yet))
    script = f"{{ [ -e {TRACEFS}/events ] || mount -t tracefs none {TRACEFS}; }} && {recorder}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert "sched_switch" in done.stdout.split(), done.stderr


@pytest.mark.slow
def test_what_is_missing_is_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.component("peer0")
    here = f"a={site.parent}/peer0"
    monkeypatch.setenv("PATH", str(site.folder))
    for arguments, expected in (
        (("--cgroup", here), "perf is not installed: `apt-get install linux-perf`"),
        (("--cgroup", "a=nowhere"), "--cgroup a=nowhere: accepted is NAME=PATH of a group that exists below"),
        (("--cgroup", "a=/etc"), "accepted is a path below the CPU controller's mount"),
        (("--cgroup", here, "--cgroup", here), "component 'a': named twice"),
        (("--socket", str(site.socket)), "no daemon answers"),
        (("--lab", str(site.folder)), "accepted is the folder of a lab that is up"),
    ):
        done = site.qioi("profile", "-s", "0.1", *arguments)
        assert done.returncode == 1
        assert expected in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_place_without_room_for_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "perf").write_text("#!/bin/sh\n")
    (tmp_path / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "perf"))
    accepted = "Not a directory: accepted is a folder with room, which TMPDIR names$"
    with pytest.raises(ProfileError, match=rf"^{tmp_path}/perf/qioi-profile-\w+: {accepted}"):
        record({}, 1.0, 1)


def test_what_starts_perf_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProfileError, match=r"^setpriv cannot be started: No such file or directory$"):
        run_perf("/bin/true", tmp_path / "perf.data", {}, 1.0, 1)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("  Error: unknown option `control=fd:3,4'\n\n Usage: perf record [<options>]\n    -a  all\n",
         "unknown option `control=fd:3,4'"),  # perf before 5.10
        ("event syntax error: 'sched:sched_switch'\n  \\___ can't access trace events\n\n"
         "Error:\tNo permissions to read /sys/kernel/tracing/events/sched/sched_switch\nHint:\tTry 'sudo mount'\n\n"
         " Usage: perf record\n    -e, --event <event>   event selector.\n",
         "No permissions to read /sys/kernel/tracing/events/sched/sched_switch"),
        ("Error:\nAccess to performance monitoring operations is limited.\nConsider adjusting it.\n",
         "Access to performance monitoring operations is limited."),
        ("WARNING: perf not found for kernel 6.18\n\n  You may need to install linux-tools-6.18\n",
         "You may need to install linux-tools-6.18"),
        ("Error:\n", "Error:"),
        ("\n", "it said nothing"),
    ],
)  # fmt: skip
def test_of_what_perf_says_the_error_is_told(said: str, expected: str) -> None:
    assert complaint(said) == expected

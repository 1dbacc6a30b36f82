"""What `qioi status` and `qioi check` say, with a daemon and without one."""

from __future__ import annotations

import json
import os
import re
import socket
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
from ports import free_port
from raised_component import raise_one, value
from running import Site, end

from qioi.commands.check import config_facts, obstacles
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.levers.files import Files
from qioi.daemon.site import lacking, means
from qioi.discovery.told import ToldFiles
from qioi.model import Owner, OwnerKind
from qioi.settings.config import load_config

#: Throughput is known after a window of 6 s, so most of these take that long.
pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize("away", [("peer1",), ("peer0", "peer1")])
def test_check_refuses_missing_groups_only_where_the_daemon_does_not_start(site: Site, away: tuple[str, ...]) -> None:
    groups = {name: site.component(name).parent for name in ("peer0", "peer1")}
    for name in away:
        groups[name].rmdir()
    done = site.qioi("check", "-c", str(site.config()))
    if len(away) == len(groups):
        assert (done.returncode, done.stderr.count(": accepted is a group that exists")) == (1, 2)
        assert "not there yet" not in done.stdout
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert "not there yet: peer1; what comes is taken up\n" in done.stdout


def test_check_names_the_engine_without_which_the_daemon_does_not_start(site: Site) -> None:
    nowhere = {"socket": str(site.folder / "docker.sock")}
    site.changes = {"components": [], "docker": nowhere, "actuator": "docker"}
    refused = site.qioi("check", "-c", str(site.config()))
    assert refused.returncode == 1
    assert "actuator docker: " in refused.stderr
    site.changes = {"components": [], "docker": nowhere}
    assert site.qioi("check", "-c", str(site.config())).returncode == 0


@pytest.mark.parametrize(
    ("socket", "accepted"),
    [
        ("none/qioi.sock", "a path in a folder that is there and can be written"),
        ("s" * 108, "a path of at most 107 bytes"),
    ],
)
def test_check_names_a_socket_that_could_not_be_made(site: Site, socket: str, accepted: str) -> None:
    site.component("peer0")
    site.changes = {"socket": socket}
    refused = site.qioi("check", "-c", str(site.config()))
    assert refused.returncode == 1
    assert f"{socket}: accepted is {accepted}" in refused.stderr


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
        state = [*obstacles(config)]
        log = [*lacking(config, hierarchy, access)][-1].line
    finally:
        os.setresuid(0, 0, 0)
    assert state == []
    assert log.endswith("no such file, or no right to look: accepted is a readable file")


def test_restore_where_nothing_ever_ran(site: Site) -> None:
    done = site.qioi("restore", "--state-dir", str(site.folder / "never"))
    assert done.returncode == 0
    assert "nothing is to be restored" in done.stdout


def test_restore_says_that_a_mark_stays_after_what_it_has_restored(site: Site) -> None:
    share = site.component("peer0")
    found = share.read_text()
    guard = Guard(site.hierarchy, Files(site.hierarchy), Journal(site.state))
    (site.state / "kept").mkdir(parents=True)
    guard.hold(f"{site.parent}/peer0")
    guard.apply({f"{site.parent}/peer0": 4096})
    done = site.qioi("restore", "--state-dir", str(site.state))
    assert (share.read_text(), done.returncode) == (found, 1)
    assert f"{site.state}/kept: Is a directory: it stays, and says of a crash, too" in done.stdout
    assert f"{site.parent}/peer0: ok: " in done.stdout
    assert done.stderr == "Error: not everything could be restored; see above\n"


def test_restore_has_an_exit_status_for_an_owner_that_does_not_answer(site: Site) -> None:
    share = site.component("peer0")
    site.state.mkdir()
    found, journal = share.read_text(), Journal(site.state)
    guard = Guard(site.hierarchy, Files(site.hierarchy), journal)
    guard.hold(f"{site.parent}/peer0")
    guard.apply({f"{site.parent}/peer0": 4096})
    (entry,) = journal.load().entries
    owned = replace(entry, owner=Owner(OwnerKind.DOCKER, "ab12", str(site.folder / "docker.sock")))
    journal.store([owned])
    done = site.qioi("restore", "--state-dir", str(site.state))
    assert (share.read_text(), done.returncode, done.stderr) == (found, 3, "")
    assert "the record of its owner is not put back yet" in done.stdout
    assert journal.load().entries == (owned,)
    journal.file.with_name("slices").mkdir()
    done = site.qioi("restore", "--state-dir", str(site.state))
    assert (done.returncode, done.stderr) == (1, "Error: not everything could be restored; see above\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_restore_by_somebody_who_may_not_look_whether_there_is_anything(site: Site) -> None:
    """After a boot the state folder is gone, and the records are root's."""
    records = site.folder / "hidden"
    records.mkdir(mode=0o700)
    (records / "records").mkdir()
    os.setresuid(65534, 65534, 0)
    try:
        assert ToldFiles(records).any()
    finally:
        os.setresuid(0, 0, 0)
    assert not ToldFiles(records).any()


def test_a_folder_is_no_log(site: Site) -> None:
    site.component("peer0")
    site.components[0]["log"] = str(site.folder)
    config = load_config(site.config())
    (lack,) = lacking(config, *means(config))
    assert lack.line.endswith(f"log: {site.folder}: no regular file: accepted is a readable file")

"""deploy/systemd/qioi.service under a real systemd."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import Site
from systemd_machine import Machine, UnavailableError, root_file_system
from waiting import until

README = Path(__file__).parents[2] / "deploy" / "README.md"
#: linux/capability.h
DAC_OVERRIDE, DAC_READ_SEARCH, SYS_NICE = 1 << 1, 1 << 2, 1 << 23

pytestmark = [pytest.mark.slow, pytest.mark.host]


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    try:
        machine = Machine(root_file_system(), tmp_path_factory.mktemp("machine"))
    except UnavailableError as error:
        pytest.skip(f"no systemd machine here: {error}")
    yield machine
    machine.close()


@pytest.fixture
def machine(booted: Machine, site: Site) -> Iterator[Machine]:
    """The machine with a service that watches the site's peer0; the site's files are put where both see them."""
    site.log = booted.folder / "peer0.log"
    site.log.write_text("")
    site.component("peer0")
    site.components[0]["log"] = "/srv/qioi/peer0.log"
    yield booted
    booted.run("systemctl", "stop", "qioi", check=False)
    booted.run("systemctl", "reset-failed", "qioi", check=False)
    booted.run("qioi", "restore", check=False)
    booted.run("rm", "-rf", "/run/systemd/system/qioi.service.d")
    booted.run("systemctl", "daemon-reload")


def share(site: Site) -> int:
    folder: Path = site.hierarchy.folder(f"{site.parent}/peer0")
    return int((folder / site.hierarchy.file).read_text())


def configure(machine: Machine, site: Site, **changes: object) -> None:
    site.changes = {"state_dir": "/run/qioi", **changes}
    (machine.etc / "qioi.yaml").write_text(site.config().read_text())


def start(machine: Machine, site: Site, **changes: object) -> None:
    configure(machine, site, **changes)
    done = machine.run("systemctl", "start", "qioi", check=False)
    assert done.returncode == 0, done.stderr + machine.journal()
    site.commit_until(lambda: share(site) > 1024)


def rights(machine: Machine) -> tuple[int, int, str]:
    """Give the service's bounding and effective capabilities, and whether it may gain no others."""
    status = machine.run("cat", f"/proc/{machine.shown('MainPID')}/status").stdout
    held = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith(("Cap", "NoNew"))}
    return int(held["CapBnd"], 16), int(held["CapEff"], 16), held["NoNewPrivs"]


def test_it_raises_with_few_rights_and_stops_clean(machine: Machine, site: Site) -> None:
    start(machine, site)
    assert machine.shown("StatusText") == "watching 1 component and 1 channel every 0.1 s"
    few = DAC_READ_SEARCH | SYS_NICE
    assert rights(machine) == (few, few, "1")
    machine.run("systemctl", "stop", "qioi")
    assert (machine.shown("Result"), share(site)) == ("success", 1024)


def test_with_the_drop_in_of_the_page_it_raises_a_group_that_a_user_owns(machine: Machine, site: Site) -> None:
    """As groups below a user's own systemd are on cgroup v2: root needs CAP_DAC_OVERRIDE to write there."""
    os.chown(site.hierarchy.folder(f"{site.parent}/peer0") / site.hierarchy.file, 1000, 1000)
    (drop_in,) = re.findall(r"printf ('\[Service\].*') >/etc/systemd/system/qioi\.service\.d/", README.read_text())
    machine.run("mkdir", "-p", "/run/systemd/system/qioi.service.d")
    write = f"printf {drop_in} >/run/systemd/system/qioi.service.d/rootless.conf"
    machine.run("sh", "-c", f"{write}; systemctl daemon-reload")
    start(machine, site)
    three = DAC_OVERRIDE | DAC_READ_SEARCH | SYS_NICE
    assert rights(machine) == (three, three, "1")
    machine.run("systemctl", "stop", "qioi")
    assert (machine.shown("Result"), share(site)) == ("success", 1024)


def test_after_a_kill_systemd_restores_and_starts_again(machine: Machine, site: Site) -> None:
    start(machine, site)
    before = machine.shown("NRestarts")
    pid = machine.shown("MainPID")
    machine.run("systemctl", "kill", "-s", "KILL", "qioi")
    until(lambda: machine.shown("NRestarts") != before and machine.shown("ActiveState") == "active", pause=0.2)
    assert machine.shown("MainPID") != pid
    assert "its original" in machine.journal()
    site.commit_until(lambda: share(site) > 1024)


def test_a_daemon_that_hangs_is_killed_and_its_shares_are_put_back(machine: Machine, site: Site) -> None:
    machine.run("mkdir", "-p", "/run/systemd/system/qioi.service.d")
    drop_in = "printf '[Service]\\nWatchdogSec=2\\nRestart=no\\n' >/run/systemd/system/qioi.service.d/test.conf"
    machine.run("sh", "-c", f"{drop_in}; systemctl daemon-reload")
    start(machine, site)
    machine.run("kill", f"-{signal.SIGSTOP.value}", machine.shown("MainPID"))
    until(lambda: machine.shown("ActiveState") == "failed", pause=0.2)
    assert (machine.shown("Result"), share(site)) == ("watchdog", 1024)


def test_reload_refuses_a_broken_file_and_takes_a_good_one(machine: Machine, site: Site) -> None:
    start(machine, site)
    good = (machine.etc / "qioi.yaml").read_text()
    (machine.etc / "qioi.yaml").write_text(good + "perid: 1\n")
    machine.run("systemctl", "reload", "qioi")
    until(lambda: "the last reload was refused" in machine.shown("StatusText"), pause=0.2)
    assert "perid: unknown key" in machine.journal()
    assert machine.shown("ActiveState") == "active"
    assert share(site) > 1024
    configure(machine, site, period=0.3)
    machine.run("systemctl", "reload", "qioi")
    until(lambda: machine.shown("StatusText").endswith("every 0.3 s"), pause=0.2)
    document = json.loads(machine.run("qioi", "status", "--output", "json").stdout)
    assert (document["period"], document["configuration"]["refused"]) == (0.3, 1)


def test_on_exit_keep_is_respected_over_a_restart(machine: Machine, site: Site) -> None:
    start(machine, site, on_exit="keep")
    machine.run("systemctl", "stop", "qioi")
    kept = share(site)
    assert kept > 1024
    machine.run("systemctl", "start", "qioi")
    assert share(site) == kept
    assert "going on with the shares" in machine.journal()
    configure(machine, site)
    machine.run("systemctl", "reload", "qioi")
    until(lambda: "reloaded" in machine.journal(), pause=0.2)
    machine.run("systemctl", "stop", "qioi")
    assert share(site) == 1024


def test_the_unit_has_nothing_to_warn_of(machine: Machine) -> None:
    done = machine.run("systemd-analyze", "verify", "/etc/systemd/system/qioi.service", check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")

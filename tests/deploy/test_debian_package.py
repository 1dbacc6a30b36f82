"""The Debian package on a real Debian with a real systemd: installed, upgraded, removed, purged."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import Site
from systemd_machine import Machine, UnavailableError, root_file_system
from waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(900)]  # the package is built first


@pytest.fixture
def machine(debian_package: Path, tmp_path: Path) -> Iterator[Machine]:
    """A machine of its own, with the package in its /srv/qioi."""
    try:
        machine = Machine(root_file_system(), tmp_path, bare=True)
    except UnavailableError as error:
        pytest.skip(f"no systemd machine here: {error}")
    shutil.copyfile(debian_package, tmp_path / "qioi.deb")
    yield machine
    machine.close()


@pytest.fixture
def earlier(debian_package: Path, machine: Machine) -> str:
    """Give the same package as of another version, with which the machine begins: where it is inside."""
    root = machine.folder / "earlier"
    subprocess.run(["dpkg-deb", "-R", str(debian_package), str(root)], check=True)
    (metadata,) = root.glob("usr/lib/qioi/qioi-*.dist-info/METADATA")
    for file in (root / "DEBIAN/control", metadata):
        file.write_text(re.sub(r"^Version: .*", "Version: 0.1.0", file.read_text(), count=1, flags=re.MULTILINE))
    build = ["dpkg-deb", "--root-owner-group", "--build", str(root), str(machine.folder / "earlier.deb")]
    subprocess.run(build, check=True, capture_output=True)
    return "/srv/qioi/earlier.deb"


def share(site: Site) -> int:
    folder: Path = site.hierarchy.folder(f"{site.parent}/peer0")
    return int((folder / site.hierarchy.file).read_text())


def configure(machine: Machine, site: Site, **changes: object) -> None:
    """Have the service watch the site's peer0."""
    site.log = machine.folder / "peer0.log"
    site.log.touch()
    site.component("peer0")
    site.components[0]["log"] = "/srv/qioi/peer0.log"
    site.changes = {"state_dir": "/run/qioi", **changes}
    site.config()  # in the folder that the two share
    machine.run("cp", "/srv/qioi/qioi.yaml", "/etc/qioi/qioi.yaml")
    # nspawn shows its machine a boot id of its own, by a mount over the kernel's, which this setting would hide from
    # the service: its journal would be another boot's to `qioi restore`.
    drop_in = "printf '[Service]\\nProtectKernelTunables=no\\n' >/run/systemd/system/qioi.service.d/test.conf"
    machine.run("mkdir", "-p", "/run/systemd/system/qioi.service.d")
    machine.run("sh", "-c", f"{drop_in}; systemctl daemon-reload")


def test_from_installation_to_purge(machine: Machine, site: Site, earlier: str) -> None:
    machine.run("dpkg", "-i", earlier)
    # As it comes: enabled, running, and touching nothing.
    assert machine.run("systemctl", "is-enabled", "qioi").stdout.strip() == "enabled"
    assert machine.shown("ActiveState") == "active", machine.journal()
    assert "dry run" in machine.run("qioi", "status").stdout + machine.journal()
    assert machine.run("qioi", "--version").stdout == "qioi, version 0.1.0\n"
    configure(machine, site, on_exit="keep")
    assert machine.run("qioi", "check", "-c", "/etc/qioi/qioi.yaml").returncode == 0
    machine.run("systemctl", "restart", "qioi")
    site.commit_until(lambda: share(site) > 1024)
    held = machine.run("cat", f"/proc/{machine.shown('MainPID')}/status").stdout
    assert "NoNewPrivs:\t1" in held

    # Over an upgrade the operator's configuration stays, and the service is started anew, with the code that came.
    before = machine.shown("MainPID")
    upgraded = machine.run("apt-get", "install", "-y", "--no-install-recommends", "/srv/qioi/qioi.deb")
    assert "in place of this package" not in upgraded.stdout + upgraded.stderr
    assert machine.shown("MainPID") not in ("0", before)
    packaged = machine.run("dpkg-query", "-W", "-f", "${Version}", "qioi").stdout
    assert machine.run("qioi", "--version").stdout == f"qioi, version {packaged.replace('~~', '.')}\n"
    verified = machine.run("dpkg", "--verify", "qioi").stdout.splitlines()
    assert [line for line in verified if not line.endswith(" c /etc/qioi/qioi.yaml")] == []
    assert "/usr/share/doc/qioi/operating.md" in machine.run("dpkg", "-L", "qioi").stdout.split()
    assert machine.run("sh", "-c", "grep -rl direct_url /usr/lib/qioi/qioi-*.dist-info || true").stdout == ""
    assert "peer0" in machine.run("cat", "/etc/qioi/qioi.yaml").stdout
    site.commit_until(lambda: share(site) > 1024)

    # Removed, it has put back even what `on_exit: keep` would have left; its configuration stays until the purge.
    removed = machine.run("dpkg", "-r", "qioi")
    assert share(site) == 1024, removed.stdout + removed.stderr + machine.journal()
    until(lambda: machine.shown("ActiveState") == "inactive", pause=0.2)
    gone = ("/usr/lib/qioi", "/usr/bin/qioi", "/lib/systemd/system/qioi.service", "/run/qioi", "/var/lib/qioi")
    assert [path for path in gone if machine.run("test", "-e", path, check=False).returncode == 0] == []
    assert machine.run("test", "-e", "/etc/qioi/qioi.yaml", check=False).returncode == 0
    machine.run("dpkg", "-P", "qioi")
    left = machine.run("sh", "-c", "find /etc /var/lib/systemd /lib/systemd -name '*qioi*'").stdout
    assert left == ""


def test_removed_it_puts_back_what_a_killed_daemon_has_left(machine: Machine, site: Site) -> None:
    """In a state folder of its own, which the unit does not look at: it is the removal itself that does."""
    machine.run("dpkg", "-i", "/srv/qioi/qioi.deb")
    configure(machine, site, state_dir="/run/qioi/own")
    drop_in = "printf '[Service]\\nRestart=no\\n' >/run/systemd/system/qioi.service.d/restart.conf"
    machine.run("sh", "-c", f"{drop_in}; systemctl daemon-reload")
    machine.run("systemctl", "restart", "qioi")
    site.commit_until(lambda: share(site) > 1024)
    machine.run("systemctl", "kill", "-s", "KILL", "qioi")
    until(lambda: machine.shown("ActiveState") == "failed", pause=0.2)
    assert share(site) > 1024
    removed = machine.run("dpkg", "-P", "qioi")
    assert share(site) == 1024, removed.stdout + removed.stderr
    assert machine.run("test", "-e", "/etc/qioi", check=False).returncode != 0


def test_what_is_broken_can_be_removed_and_says_what_stays(machine: Machine) -> None:
    machine.run("dpkg", "-i", "/srv/qioi/qioi.deb")
    machine.run("rm", "-rf", "/usr/lib/qioi")
    removed = machine.run("dpkg", "-P", "qioi")
    assert "qioi: CPU shares may not all be put back" in removed.stderr
    assert machine.run("dpkg", "-s", "qioi", check=False).returncode != 0


def test_what_an_installation_by_hand_has_left_is_named(machine: Machine) -> None:
    """The package's own unit and command would not be used, in silence."""
    left = ("/etc/systemd/system/qioi.service", "/usr/local/bin/qioi")
    machine.run("sh", "-c", f"mkdir -p /usr/local/bin; printf '[Service]\\nExecStart=true\\n' | tee {' '.join(left)}")
    said = machine.run("dpkg", "-i", "/srv/qioi/qioi.deb").stderr
    assert [file for file in left if f"qioi: {file} is used in place of this package's own" in said] == list(left), said

"""A real systemd in a container of its own, which sees the host's CPU control groups.

The root file system is made once by debootstrap and kept outside the repository, in ``$QIOI_TEST_CACHE``
(default ``~/.cache/qioi-tests``). Each machine runs on a throw-away overlay of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import uuid
from pathlib import Path

from running import until

from qioi.controller.hierarchy import find_hierarchy

REPOSITORY = Path(__file__).resolve().parents[2]
SUITE = "bookworm"
PACKAGES = "systemd,systemd-sysv,dbus,python3,libpam-systemd,procps"
QIOI = """#!/bin/sh
PYTHONPATH=/opt/qioi/source:/opt/qioi/site exec /usr/bin/python3 -m qioi.cli "$@"
"""


class UnavailableError(Exception):
    """No such machine can be had here; the message says what is missing."""


def root_file_system() -> Path:
    """Give the cached root, made if need be (about a minute)."""
    if os.geteuid() != 0:
        raise UnavailableError("needs root")
    if find_hierarchy().version != 1:
        raise UnavailableError("needs cgroup v1, whose CPU controller the container can share with the host")
    missing = [tool for tool in ("systemd-nspawn", "debootstrap", "nsenter") if shutil.which(tool) is None]
    if missing:
        raise UnavailableError(f"not installed: {', '.join(missing)} (apt: systemd-container debootstrap util-linux)")
    cache = Path(os.environ.get("QIOI_TEST_CACHE", Path.home() / ".cache" / "qioi-tests"))
    root = cache / f"systemd-{SUITE}"
    if not root.exists():
        cache.mkdir(parents=True, exist_ok=True)
        new = cache / f"{root.name}.{os.getpid()}"
        make = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(new)]
        done = subprocess.run(make, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            shutil.rmtree(new, ignore_errors=True)
            raise UnavailableError(f"debootstrap failed: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
        new.rename(root)
    python = f"python3.{sys.version_info.minor}"
    if not (root / "usr" / "bin" / python).exists():
        raise UnavailableError(f"{SUITE} has no {python}: the installed packages could not be used in there")
    return root


class Machine:
    """A booted systemd. ``folder`` is /srv/qioi inside, ``folder/etc`` is its /etc/qioi."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self.etc = folder / "etc"
        self.etc.mkdir()
        command = folder / "qioi"
        command.write_text(QIOI)
        command.chmod(0o755)
        units = REPOSITORY / "deploy" / "systemd"
        binds = {
            f"{REPOSITORY}": "/opt/qioi/source",
            sysconfig.get_paths()["purelib"]: "/opt/qioi/site",
            f"{command}": "/usr/local/bin/qioi",
            f"{units / 'qioi.service'}": "/etc/systemd/system/qioi.service",
        }
        self._nspawn = subprocess.Popen(
            ["systemd-nspawn", "-q", "-D", str(root), "--volatile=overlay", "--register=no", "--keep-unit", "-b",
             f"--machine=qioi-{uuid.uuid4().hex[:8]}", *(f"--bind-ro={out}:{into}" for out, into in binds.items()),
             f"--bind={folder}:/srv/qioi", f"--bind={self.etc}:/etc/qioi"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until(lambda: self._nspawn.poll() is not None or self._booted(), pause=0.2)
        if self._nspawn.poll() is not None:
            raise UnavailableError(f"systemd-nspawn ended with status {self._nspawn.returncode}")
        # nspawn gives the v1 controllers read-only, as the host's they are.
        self.run("mount", "-o", "remount,rw,bind", "/sys/fs/cgroup/cpu")

    @property
    def _leader(self) -> str:
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split()
        return children[0] if children else ""

    def _booted(self) -> bool:
        if not self._leader:
            return False
        state = self.run("systemctl", "is-system-running", check=False).stdout.strip()
        return state in ("running", "degraded")

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command inside."""
        return subprocess.run(
            ["nsenter", "-t", self._leader, "-a", *command], capture_output=True, text=True, timeout=120, check=check
        )

    def shown(self, key: str) -> str:
        """Give one property of the service."""
        return self.run("systemctl", "show", "qioi", "-P", key).stdout.strip()

    def journal(self) -> str:
        """Give what the service has logged."""
        return self.run("journalctl", "-u", "qioi", "-o", "cat", "--no-pager").stdout

    def close(self) -> None:
        """Power off."""
        if self._nspawn.poll() is None and self._leader:
            self.run("systemctl", "poweroff", check=False)
        deadline = time.monotonic() + 20
        while self._nspawn.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        self._nspawn.kill()
        self._nspawn.wait()

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

from waiting import until

from qioi.kernel.hierarchy import find_hierarchy

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
    """A booted systemd. ``folder`` is /srv/qioi inside, ``folder/etc`` is its /etc/qioi.

    It sees all of the host's CPU groups, and makes none. With ``rooted`` it sees those only that are below one of its
    own, which is gone afterwards, and makes groups for its units there. With ``bare`` nothing of QiOi is in it.
    """

    def __init__(self, root: Path, folder: Path, *, rooted: bool = False, bare: bool = False) -> None:
        if find_hierarchy().version != 1:
            raise UnavailableError("needs cgroup v1, whose CPU controller the container can share with the host")
        name = f"qioi-{uuid.uuid4().hex[:8]}"
        # systemd takes the two for one: it makes no groups in either if it cannot in both.
        mounts = [Path("/sys/fs/cgroup") / controller for controller in ("cpu", "cpuacct")]
        self._groups = [mount.resolve() / name for mount in mounts] if rooted else []
        for group in self._groups:
            group.mkdir(exist_ok=True)
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
        mounted = [f"--bind-ro={out}:{into}" for out, into in binds.items()] + [f"--bind={self.etc}:/etc/qioi"]
        self._nspawn = subprocess.Popen(
            ["systemd-nspawn", "-q", "-D", str(root), "--volatile=overlay", "--register=no", "--keep-unit", "-b",
             f"--machine={name}", f"--bind={folder}:/srv/qioi", *([] if bare else mounted)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=self._enter,
        )  # fmt: skip
        try:
            self._boot(rooted)
        except BaseException:
            self.close()
            raise

    def _boot(self, rooted: bool) -> None:
        """Wait for it, and let it write where it may."""
        until(lambda: self._nspawn.poll() is not None or self._booted(), pause=0.2)
        if self._nspawn.poll() is not None:
            raise UnavailableError(f"systemd-nspawn ended with status {self._nspawn.returncode}")
        # nspawn gives the v1 controllers read-only, as the host's they are.
        for controller in ("cpu", "cpuacct") if rooted else ("cpu",):
            self.run("mount", "-o", "remount,rw,bind", f"/sys/fs/cgroup/{controller}")
        if rooted:  # at its start systemd could not write there
            self.run("systemctl", "daemon-reexec")

    def _enter(self) -> None:
        """Begin in the groups that are to be the machine's root: nspawn makes a cgroup namespace of them."""
        for group in self._groups:
            (group / "cgroup.procs").write_text("0")

    @property
    def _leader(self) -> str:
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split()
        return children[0] if children else ""

    def _booted(self) -> bool:
        if not self._leader:
            return False
        state = self.run("systemctl", "is-system-running", check=False).stdout.strip()
        return state in ("running", "degraded")

    def run(self, *command: str, check: bool = True, patience: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command inside; after ``patience`` seconds it hangs."""
        return subprocess.run(
            ["nsenter", "-t", self._leader, "-a", *command],
            capture_output=True,
            text=True,
            timeout=patience,
            check=check,
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
        for group in {one for one in self._groups if one.exists()}:
            # What ran in there dies with the machine's first process, but not at the same instant.
            until(lambda group=group: not any(file.read_text() for file in group.rglob("cgroup.procs")))  # type: ignore[misc]
            for folder, _, _ in os.walk(group, topdown=False):
                Path(folder).rmdir()

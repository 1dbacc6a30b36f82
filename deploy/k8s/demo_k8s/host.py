"""What a node makes of this machine, and the way back: also by another process, after the node's own was killed.

A record in /run names every node that is up or was killed. It goes with the boot, as do the processes, groups, mounts
and sysctls that it speaks of.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from qioi.processes.errors import LabError

CGROUPS = Path("/sys/fs/cgroup")
#: The hierarchy with the CPU controller: version 1's own, or version 2's only one.
CPU = CGROUPS / "cpu" if (CGROUPS / "cpu").is_dir() else CGROUPS
LOGS = Path("/var/log/pods")
#: Where a kubelet's device manager has its socket, whatever folder the kubelet is given.
KUBELET = Path("/var/lib/kubelet")
SYSCTL = Path("/proc/sys")
RECORDS = Path("/run/qioi-nodes")
#: What the kubelet sets for itself (setupKernelTunables in its pkg/kubelet/cm).
SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
           "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")  # fmt: skip
#: Seconds that the processes of a group may take to end after SIGKILL, and the kernel to let go of the group.
PATIENCE = 20.0


def hierarchies(mount: Path = CGROUPS) -> list[Path]:
    """Give the root of each tree of control groups that a kubelet uses: version 2's only one, or all of version 1."""
    if (mount / "cgroup.controllers").exists():
        return [mount]
    return [one for one in mount.iterdir() if one.name != "unified"]


def taken() -> str | None:
    """Say in one line why no node can be started on this machine; ``None`` if it can."""
    for one in recorded():
        if one.is_up():
            return f"a node of the demo or of the tests is up already, in {one.folder}"
        return f"a node whose process was killed is left, in {one.folder}: make demo-k8s DEMO_K8S=--clean removes it"
    found = [one for one in (LOGS, *CGROUPS.glob("kubepods*"), *CGROUPS.glob("*/kubepods*")) if one.exists()]
    return f"this machine is a Kubernetes node already: {found[0]} is there" if found else None


def remove_left() -> list[Path]:
    """Remove every node whose process was killed; give their folders. LabError if one is up."""
    left = recorded()[::-1]  # the second found the sysctls as the first's kubelet has them
    for one in left:
        if one.is_up():
            raise LabError(f"the node in {one.folder} is up: whoever has started it removes it")
    for one in left:
        one.remove()
    return [one.folder for one in left]


def recorded() -> list[Footprint]:
    """Read all records."""
    return [Footprint.read(file) for file in sorted(RECORDS.glob("*.json"))]


def read_sysctls() -> dict[str, str]:
    """Read what a kubelet would change."""
    return {name: (SYSCTL / name).read_text(encoding="utf-8") for name in SYSCTLS}


@dataclass
class Footprint:
    """What one node makes of this machine: a folder, logs, mounts, shims, a tree of control groups, and sysctls.

    ``root`` is the group above its pods' groups, empty for the hierarchy's own. ``kubelet`` says whether
    :data:`KUBELET` was there before.
    """

    name: str
    folder: Path
    root: str
    logs: Path
    sysctls: dict[str, str] = field(default_factory=read_sysctls)  # as they were found
    kubelet: bool = field(default_factory=KUBELET.exists)
    _held: IO[str] | None = field(default=None, init=False)

    @classmethod
    def read(cls, file: Path) -> Footprint:
        """Read a record."""
        found = json.loads(file.read_text(encoding="utf-8"))
        places = Path(found["folder"]), found["root"], Path(found["logs"])
        return cls(found["name"], *places, found["sysctls"], found.get("kubelet", True))

    @property
    def _file(self) -> Path:
        return RECORDS / f"{self.name}.json"

    def record(self) -> None:
        """Write the record; it is locked until this process ends. LabError if there is one already."""
        RECORDS.mkdir(mode=0o700, exist_ok=True)
        draft = RECORDS / f"{self.name}.{os.getpid()}"  # the record is there only when it is whole and locked
        draft.write_text(json.dumps({
            "name": self.name, "folder": str(self.folder), "root": self.root, "logs": str(self.logs),
            "sysctls": self.sysctls, "kubelet": self.kubelet,
        }), encoding="utf-8")  # fmt: skip
        self._held = draft.open(encoding="utf-8")
        fcntl.flock(self._held, fcntl.LOCK_EX)
        try:
            self._file.hardlink_to(draft)
        except FileExistsError:
            raise LabError(f"{self._file}: there is a node {self.name} already") from None
        finally:
            draft.unlink()

    def is_up(self) -> bool:
        """Whether the process that has recorded it lives."""
        with self._file.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def kill_pods(self) -> None:
        """Kill every process in a pod's control group."""
        kill(members([CPU / self.root / "kubepods"]))

    def remove(self) -> None:
        """Remove all of it, when its programs have ended. LabError names what is left; then the record stays, too."""
        self.kill_pods()
        kill(self._shims())
        self._unmount()
        problems = list(self._put_back_sysctls())
        for link in list(Path("/var/log/containers").glob("*.log")):
            if link.is_symlink() and str(link.readlink()).startswith(f"{self.logs}/"):
                link.unlink()
        shutil.rmtree(self.logs, ignore_errors=True)
        with contextlib.suppress(OSError):
            Path("/var/log/containers").rmdir()
        for shim in self.folder.glob("*/io.containerd.runtime.v2.task/*/*/address"):
            # A shim that is killed leaves it.
            Path(shim.read_text(encoding="utf-8").removeprefix("unix://")).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        if not self.kubelet:
            shutil.rmtree(KUBELET / "device-plugins", ignore_errors=True)
            with contextlib.suppress(OSError):
                KUBELET.rmdir()
        try:
            remove_groups(self.root or "kubepods")
        except LabError as error:
            problems.append(str(error))
        if problems:
            raise LabError("; ".join(problems))
        self._file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            RECORDS.rmdir()
        if self._held is not None:
            self._held.close()

    def _put_back_sysctls(self) -> Iterator[str]:
        """Put back what the kubelet has changed, and say what can't be. Some machines let nobody write."""
        for name, value in self.sysctls.items():
            file = SYSCTL / name
            try:
                if file.read_text(encoding="utf-8") != value:
                    file.write_text(value, encoding="utf-8")
            except OSError as error:
                yield f"{file}: {error.strerror}: it was {value.strip()}"

    def _shims(self) -> list[int]:
        """Name the runtime's shims of this folder's containerd, by the address that each was given."""
        address = f"{self.folder}/containerd.sock".encode()
        found = []
        for one in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                command = one.read_bytes()
                if b"containerd-shim" in command and address in command:
                    found.append(int(one.parent.name))
        return found

    def _unmount(self) -> None:
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        mounts = [line.split()[4] for line in table.splitlines()]
        for mount in reversed(mounts):
            if mount.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", mount], check=False, capture_output=True)


def remove_groups(name: str, patience: float = PATIENCE) -> None:
    """Kill what is in a tree of control groups, and remove it, in every hierarchy. LabError names what is left."""
    trees = [root / name for root in (CGROUPS, *CGROUPS.iterdir())]
    deadline = time.monotonic() + patience
    while left := [tree for tree in trees if tree.is_dir()]:
        kill(members(left))
        for tree in left:
            for folder in sorted((p for p in tree.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            with contextlib.suppress(OSError):
                tree.rmdir()
        if time.monotonic() > deadline:
            stay = ", ".join(map(str, sorted(members(left)))) or "none"
            raise LabError(f"control groups are left: {', '.join(map(str, left))}; processes that do not end: {stay}")
        time.sleep(0.05)


def members(trees: Iterable[Path]) -> set[int]:
    """Name every process in trees of control groups."""
    found = set()
    for tree in trees:
        for one in tree.rglob("cgroup.procs"):
            with contextlib.suppress(OSError):  # the group is gone
                found |= {int(line) for line in one.read_text(encoding="utf-8").split()}
    return found - {0}  # 0 is a process of another pid namespace; kill(2) would take it for our own group


def kill(processes: Iterable[int]) -> None:
    """Kill processes."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)

"""The machine's state, recorded beside every result, so that a reader can judge or repeat it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

import qioi
from qioi.experiment.system import NetworkSpec
from qioi.lab.machine import machine
from qioi.lab.network import find_binary

#: Programs whose versions are recorded if they are installed, with their arguments that print it.
PROGRAMS = {
    "sysbench": ("--version",),
    "stress-ng": ("--version",),
    "node": ("--version",),
    "java": ("-version",),
    "perf": ("--version",),
    "git": ("--version",),
}
#: Variables whose content `java` prints ahead of its version; they may hold secrets.
JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
#: Of real Fabric's programs those that are measured; its contracts are the bundled ledger's.
FABRIC = ("peer", "orderer")
#: Linux 7.3 and later say here which meaning a group's weight has; figures depend on it.
CGROUP_MODE = Path("/sys/kernel/debug/sched/cgroup_mode")


def describe(seed: int) -> dict[str, Any]:
    """Describe this machine now."""
    return {
        **asdict(machine()),
        "load_average": psutil.getloadavg(),
        "pressure": {kind: pressure(kind) for kind in ("cpu", "io", "memory")},
        "cgroup_mode": first_line(CGROUP_MODE) or "not shown by this kernel",
        "cgroup_hierarchies": hierarchies(),
        "hypervisor": "hypervisor" in Path("/proc/cpuinfo").read_text(encoding="utf-8"),
        "versions": versions(),
        "ledger_binary": fingerprint(find_binary()),
        "code": code(),
        "seed": seed,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def with_fabric(host: Mapping[str, Any], networks: Mapping[str, NetworkSpec]) -> dict[str, Any]:
    """Add to a description what these networks run of real Fabric: a digest of its programs, by network."""
    found: dict[str, str] = {}
    for name, network in networks.items():
        if network.binaries is not None:
            folder = Path(network.binaries) / "bin"
            programs = [folder / program for program in FABRIC]
            if all(map(Path.is_file, programs)):  # qioi.lab.systems says what is missing
                found[name] = digest(programs, folder)
    return {**host, "fabric": found}


def pressure(kind: str) -> str | None:
    """Give the first line of a PSI file, as the kernel writes it."""
    return first_line(Path("/proc/pressure", kind))


def first_line(path: Path) -> str | None:
    """Read the first line of a file of the kernel's; ``None``: there is no such file, or it may not be read."""
    try:
        return path.read_text(encoding="utf-8").splitlines()[0]
    except OSError:  # such as EPERM of debugfs where the kernel is locked down, or EOPNOTSUPP of PSI that is off
        return None


def hierarchies(mounts: Path = Path("/proc/self/mounts")) -> str:
    """Say which cgroup versions are mounted: v1, v2 or hybrid."""
    kinds = {line.split()[2] for line in mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()}
    found = [name for kind, name in (("cgroup", "v1"), ("cgroup2", "v2")) if kind in kinds]
    return "hybrid (v1 and v2)" if len(found) == 2 else found[0] if found else "none"


def versions() -> dict[str, str]:
    """Ask every installed program for its version."""
    found = {"qioi": importlib.metadata.version("qioi")}
    for program, words in PROGRAMS.items():
        if shutil.which(program):
            found[program] = version_of(program, words)
    # Spark may be any release of a series; the source pins Kafka and Caliper.
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found["pyspark"] = importlib.metadata.version("pyspark")
    commit = source_commit()
    return found | ({"commit": commit} if commit else {})


def version_of(program: str, words: Sequence[str], seconds: float = 20.0) -> str:
    """Give the first line that a program says of itself; one that says none, or hangs, has an unknown version."""
    own = {name: value for name, value in os.environ.items() if name not in JAVA_OPTIONS}
    try:
        done = subprocess.run([program, *words], env=own, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "unknown"
    return next(iter((done.stdout or done.stderr).strip().splitlines()), "unknown")


def source_commit() -> str | None:
    """Name the commit of the source tree that this runs from, if it does."""
    tree = Path(__file__).resolve().parents[2]
    if not (tree / ".git").exists() or shutil.which("git") is None:
        return None
    done = subprocess.run(
        ["git", "-C", str(tree), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None


def code(package: Path = Path(qioi.__file__).parent) -> str:
    """Digest QiOi's own modules, edits that are not committed included."""
    files: list[Path] = []
    # In a source tree some rooms are links.
    for folder, _, names in os.walk(package, followlinks=True):
        files += [Path(folder, name) for name in names if name.endswith(".py")]
    return digest(sorted(files), package)


def digest(files: Sequence[Path], below: Path) -> str:
    """Digest files, and their names below a folder, whose own place is of no use to others."""
    found = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            found.update(f"{path.relative_to(below)}\n".encode() + hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def fingerprint(binary: Path) -> dict[str, object]:
    """Give what tells one build of the ledger from another; where it stands is of no use to others."""
    with binary.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    status = binary.stat()
    built = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(status.st_mtime))
    return {"sha256": digest, "bytes": status.st_size, "built": built}

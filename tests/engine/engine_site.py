"""A real Docker engine of the tests' own: its own data, socket and processes, no network, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import docker
from waiting import DIES_WITH_TEST, PATIENCE, until

from qioi.model import Commit, Component
from qioi.monitor.logs.source import LogSource

PEER, ORDERER = "hyperledger/fabric-peer:2.5", "registry.example:5000/hyperledger/fabric-orderer:3.1"
CHAINCODE = f"dev-peer0.org1.example.com-basic_1.0-{'ab' * 32}:latest"
OTHER = "postgres:16"

#: Bytes after which every engine cuts a line: Docker and containerd at 16 KiB, Podman at 8.
LONG = 16_384

#: A static program that stands in for a peer of Fabric 2.5. `CHANNEL RATE [WORK [LONG]]`: it writes RATE commit lines a
#: second at most, each after WORK milliseconds of CPU time. With LONG a line follows each that begins with so many
#: bytes and ends in the commit of an impossible block. `hog`: it takes all the CPU time that it gets, for ten minutes:
#: it must not stay when a test is killed.
WRITER = """package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func used() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func work(span time.Duration) {
	for end := used() + span; used() < end; {
	}
}

func commit(block int) {
	fmt.Fprintf(os.Stderr, "%s UTC 002b INFO [kvledger] commit -> [%s] Committed block [%d] with 1 transaction(s) "+
		"in 1ms (state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[ab]\\n",
		time.Now().UTC().Format("2006-01-02 15:04:05.000"), os.Args[1], block)
}

func main() {
	if os.Args[1] == "hog" {
		for begun := time.Now(); time.Since(begun) < 10*time.Minute; {
			work(time.Second)
		}
		return
	}
	pause, each, long := time.Hour, 0, 0
	if len(os.Args) > 3 {
		each, _ = strconv.Atoi(os.Args[3])
	}
	if len(os.Args) > 4 {
		long, _ = strconv.Atoi(os.Args[4])
	}
	if n, _ := strconv.Atoi(os.Args[2]); n > 0 {
		pause = time.Second / time.Duration(n)
	}
	for i := 0; ; i++ {
		time.Sleep(pause)
		work(time.Duration(each) * time.Millisecond)
		commit(i)
		if long > 0 {
			time.Sleep(pause / 2)
			begun := "2026-01-01 10:00:00.000 UTC 1 INFO [endorser] call -> "
			fmt.Fprint(os.Stderr, begun, strings.Repeat("x", long-len(begun)))
			commit(1000000000 + i)
		}
	}
}
"""


class EngineSite:
    """dockerd, as long as it is wanted. ``folder`` must have a short path: sockets are limited to 107 bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self.live_restore = True

    def start(self) -> None:
        """Start it. On a busy host it may give its containerd too little time, and end: it is started again."""
        for _ in range(3):
            self._start()
            if not self.ended():
                return
            until(lambda: not self.processes("containerd"))
        raise RuntimeError((self.folder / "dockerd.log").read_text()[-500:])

    def _start(self) -> None:
        (self.folder / "pid").unlink(missing_ok=True)
        with (self.folder / "dockerd.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*DIES_WITH_TEST, "dockerd",
                 "--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec"),
                 "--host", f"unix://{self.socket}", "--pidfile", str(self.folder / "pid"),
                 *(["--live-restore"] if self.live_restore else []),
                 "--bridge=none", "--iptables=false", "--ip6tables=false"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        until(lambda: self.answers() or self.ended())

    def answers(self) -> bool:
        try:
            with contextlib.closing(self.client()) as client:
                return bool(client.ping())
        except (docker.errors.DockerException, OSError):
            return False

    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the engine; with `--live-restore` its containers go on."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE)
            self.process = None
            # containerd, its child, ends with it, but not at the same instant.
            until(lambda: not self.processes("containerd"))

    def processes(self, name: str | None = None) -> list[int]:
        """Find this engine's processes (of that name), by its folder in their command lines."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                mine = any(str(self.folder).encode() in word for word in words)
                if mine and name in (None, Path(os.fsdecode(words[0])).name):
                    found.append(int(entry.name))
        return [pid for pid in found if pid != os.getpid()]

    def client(self) -> Any:
        return docker.DockerClient(base_url=f"unix://{self.socket}", version="auto", timeout=60)

    def make_image(self, binary: Path, *names: str) -> None:
        """Make an image FROM scratch: the one program is all there is in it."""
        buffer = BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            archive.add(binary, "writer")
        with contextlib.closing(self.client()) as client:
            client.api.import_image_from_data(buffer.getvalue(), repository="qioi/scratch", tag="1")
            for name in names:
                repository, _, tag = name.rpartition(":")
                assert client.api.tag("qioi/scratch:1", repository, tag)

    def run(self, image: str, name: str, rate: int = 0, channel: str = "red", work: int = 0, **more: Any) -> str:
        """Start a container that commits, each time after so many milliseconds of work; give its id."""
        return self._run(image, name, [channel, str(rate), str(work)], **more)

    def run_with_long_lines(self, image: str, name: str, rate: int) -> str:
        """Start a container that commits, and whose other lines the engine cuts into pieces; give its id."""
        return self._run(image, name, ["red", str(rate), "0", str(LONG)])

    def run_hog(self, name: str, **more: Any) -> str:
        """Start a neighbour: a container that takes all the CPU time that it gets, and comes again with its engine."""
        return self._run(OTHER, name, ["hog"], restart_policy={"Name": "always"}, **more)

    def _run(self, image: str, name: str, arguments: list[str], **more: Any) -> str:
        with contextlib.closing(self.client()) as client:
            container = client.containers.run(
                image, ["/writer", *arguments], name=name, detach=True, network_mode="none",
                log_config={"type": "json-file", "config": {"max-size": "1m", "max-file": "3"}}, **more,
            )  # fmt: skip
            return str(container.id)

    def remove(self, *names: str) -> None:
        with contextlib.closing(self.client()) as client:
            for name in names:
                client.api.remove_container(name, force=True)

    def remove_all(self) -> None:
        with contextlib.closing(self.client()) as client:
            for one in client.api.containers(all=True):
                client.api.remove_container(one["Id"], force=True)

    def record(self, name: str) -> int:
        """What `docker inspect` says of a container's share."""
        with contextlib.closing(self.client()) as client:
            return int(client.api.inspect_container(name)["HostConfig"]["CpuShares"])

    def close(self) -> None:
        """Leave nothing behind: containers, shims, mounts, the engine's own group, the folder."""
        if self.ended():
            self.start()
        self.remove_all()
        self.stop()
        until(lambda: not self.processes())
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if line.split(" ")[1].startswith(f"{self.folder}/"):
                subprocess.run(["umount", line.split(" ")[1]], check=True)
        for group in (*Path("/sys/fs/cgroup").glob("*/docker"), Path("/sys/fs/cgroup/docker")):
            with contextlib.suppress(OSError):  # not there, or another engine's too
                group.rmdir()
        shutil.rmtree(self.folder)


def commits(component: Component, count: int) -> list[int]:
    """Follow a component's log until so many blocks were seen; give their numbers."""
    assert component.log is not None
    source, blocks = LogSource(component.log, component.name, log_format=component.log_format), []

    def enough() -> bool:
        blocks.extend(one.block for one in source.poll() if isinstance(one, Commit))
        return len(blocks) >= count

    until(enough)
    source.close()
    return blocks


def install() -> str | None:
    """Install Debian's engine where it is missing; say why it cannot be had."""
    if os.geteuid() != 0:
        return "needs root: starts a container engine"
    if shutil.which("go") is None:
        return "needs Go: builds the one program of its images"
    if shutil.which("dockerd"):
        return None
    done = subprocess.run(
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "docker.io"],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return None if done.returncode == 0 else f"docker.io cannot be installed: {done.stderr.strip()[-200:]}"


def build_writer(folder: Path) -> Path:
    (folder / "writer.go").write_text(WRITER)
    binary = folder / "writer"
    subprocess.run(
        ["go", "build", "-trimpath", "-o", str(binary), str(folder / "writer.go")],
        env={**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off"}, check=True, timeout=300,
    )  # fmt: skip
    return binary

"""A real `qioi run` over real control groups, with logs that the test writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import yaml
from commit_line import commit_line
from waiting import DIES_WITH_TEST, PATIENCE, remove_tree, until

from qioi.kernel.hierarchy import Hierarchy, find_hierarchy
from qioi.show.http import UnreachableError, get_json

#: Work of components that are woken again and again, for long and for a moment, and of a neighbour.
NAPPING = "import time\nwhile True:\n    time.sleep(0.002)\n    for i in range(20000): pass"
NIBBLING = "import time\nwhile True:\n    time.sleep(0.001)\n    for i in range(1000): pass"
BUSY = "while True: pass"


class Site:
    """A folder, a parent control group, and the daemon between them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hierarchy = find_hierarchy()
        self.parent = f"qioi-test-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        make_parent(self.hierarchy, self.parent)
        self.components: list[dict[str, Any]] = []
        self.processes: list[subprocess.Popen[str]] = []
        self.state = folder / "state"
        self.socket = self.state / "qioi.sock"
        self.log = folder / "peer0.log"
        self.log.touch()
        self.blocks = 0
        self.changes: dict[str, Any] = {}

    def weigh(self, shares: int) -> None:
        """Have all that the test runs its part of the CPUs, whatever else runs on this host."""
        weight = shares if self.hierarchy.version == 1 else min(10_000, 100 * shares // 1024)
        (self.hierarchy.folder(self.parent) / self.hierarchy.file).write_text(str(weight))

    def component(self, name: str, role: str = "peer") -> Path:
        path = f"{self.parent}/{name}"
        self.hierarchy.folder(path).mkdir()
        log = {"log": str(self.log)} if name == "peer0" else {}
        self.components.append({"name": name, "role": role, "cgroup": path, "channels": ["red"], **log})
        return self.hierarchy.folder(path) / self.hierarchy.file

    def config(self) -> Path:
        document = {
            "period": 0.1,
            "state_dir": str(self.state),
            "components": self.components,
            "channels": {"red": {"threshold": 1000, "law": "proportional"}},
            "metrics": {"port": 0},
            **self.changes,
        }
        path = self.folder / "qioi.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "qioi.cli", *arguments]

    def qioi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=PATIENCE, check=False)

    def work(self, name: str, code: str) -> subprocess.Popen[str]:
        """Run Python in a component's group, or in another one beside it."""
        group = self.hierarchy.folder(f"{self.parent}/{name}")
        group.mkdir(exist_ok=True)
        join = f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')\n"
        process = subprocess.Popen([*DIES_WITH_TEST, sys.executable, "-c", join + code], text=True)
        self.processes.append(process)
        until(lambda: str(process.pid) in (group / "cgroup.procs").read_text().split())
        return process

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the daemon, and don't wait."""
        command = [*DIES_WITH_TEST, *self.command("run", "-c", str(self.config()), *arguments)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = self.begin(*arguments)
        until(lambda: process.poll() is not None or self.status() is not None)
        return process

    def status(self) -> dict[str, Any] | None:
        try:
            document = get_json(self.socket, "/status")
        except UnreachableError:
            return None
        assert isinstance(document, dict)
        return document

    def commit(self, transactions: int = 1) -> None:
        self.blocks += 1
        with self.log.open("a") as log:
            log.write(commit_line("red", self.blocks, transactions))

    def commit_until(self, condition: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Commit slowly, far below the threshold, until the daemon has acted."""

        def step() -> bool:
            self.commit()
            return condition()

        until(step, pause=0.05, patience=patience)

    def stays(self, condition: Callable[[], bool], periods: int = 20) -> None:
        """Commit slowly, and see that something stays as it is while the daemon goes through so many periods."""
        end = self.periods() + periods

        def over() -> bool:
            assert condition(), f"it did not stay for {periods} periods"
            return self.periods() >= end

        self.commit_until(over)

    def periods(self) -> int:
        """Say how many periods the daemon has gone through."""
        status = self.status()
        return int(status["totals"]["periods"]) if status else 0

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stderr:
                process.stderr.close()
        parent = self.hierarchy.folder(self.parent)
        if not parent.exists():  # a systemd removes groups that it knows nothing of
            return
        remove_tree(parent)


def make_parent(hierarchy: Hierarchy, name: str) -> Path:
    """Make a control group for others with shares; where the kernel refuses these there is none."""
    folder = hierarchy.folder(name)
    folder.mkdir()
    if hierarchy.version == 2:
        try:
            (folder / "cgroup.subtree_control").write_text("+cpu")
        except OSError:
            folder.rmdir()
            raise
    return folder


def end(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str]:
    process.send_signal(number)
    _, text = process.communicate(timeout=PATIENCE)
    return process.returncode, text


def begin_in(group: Path, site: Site, *command: str) -> subprocess.Popen[str]:
    """Start a command in a control group."""
    join = f'echo $$ > {group}/cgroup.procs; exec "$@"'
    whole = [*DIES_WITH_TEST, "/bin/sh", "-c", join, "sh", *command]
    process = subprocess.Popen(whole, stderr=subprocess.PIPE, text=True)
    site.processes.append(process)
    return process


def unrest(
    chance: Random, longest: float, work: Sequence[subprocess.Popen[str]], commit: Callable[[int], object]
) -> None:
    """Commit, stop work and let it go on, at random and for up to ``longest`` seconds."""
    stop = time.monotonic() + chance.uniform(0.0, longest)
    while time.monotonic() < stop:
        commit(chance.randint(1, 40))
        if chance.random() < 0.05:
            chance.choice(work).send_signal(chance.choice([signal.SIGSTOP, signal.SIGCONT]))
        time.sleep(0.01)

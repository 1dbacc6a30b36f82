"""The lab's programs as containers of a real engine: what :class:`qioi.processes.tree.Tree` is for plain processes.

Each is a container of its own, in the group that the engine makes for it below its parent (``docker``), and all of them
share the host's network, since the network's addresses are loopback's. The ledger's image is its one static binary;
what else runs (sysbench, stress-ng) is the host's own program in an empty image, into which the host's programs and
libraries are mounted. What works on the host itself (the daemon, Caliper's Node processes, Spark) gets a plain group
below the same parent: a share counts among siblings only, so all must be siblings.

The engine is the source of truth: a lab's containers bear its name as a label, by which another process finds them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from qioi.discovery.cgroups import NoGroupError, container_group
from qioi.discovery.engine import NoContainerError
from qioi.discovery.recognise import CHANNEL_LABEL, ROLE_LABEL
from qioi.lab.engine import LabEngine, NoImageError, Wanted
from qioi.lab.network import BINARY_NAME, find_binary
from qioi.lab.signals import uninterrupted
from qioi.model import DEFAULT_SHARES
from qioi.processes.cgroups import Group, Mounts, wait_empty
from qioi.processes.errors import LabError
from qioi.processes.launch import Running
from qioi.processes.tree import Program, Tree

LAB_LABEL = "io.qioi.lab"
NAME_LABEL = "io.qioi.lab.name"
LEDGER_IMAGE = "qioi-lab/ledger"
#: An image of nothing: its containers run the host's own programs.
HOST_IMAGE = "qioi-lab/host:1"
#: Folders that the host's programs read.
HOST_FOLDERS = tuple(Path(one) for one in ("/usr", "/bin", "/lib", "/lib64", "/etc"))
#: Where engines make containers' groups, by their cgroup driver: cgroupfs or systemd.
PARENTS = ("docker", "system.slice")
#: Seconds that a program may take from its container's start to waiting at its gate.
GATE_PATIENCE = 60.0


class ContainerRun:
    """One container that was started here, with the interface of :class:`subprocess.Popen`.

    The kernel is asked whether it runs, not the engine, because that costs nothing.
    """

    def __init__(self, engine: LabEngine, container: str, log: Path | None) -> None:
        self._engine, self.container, self.log = engine, container, log
        self.returncode: int | None = None
        state = engine.state(container)
        self.pid = int(state["Pid"]) if state is not None else 0
        self._descriptor: int | None = None
        with contextlib.suppress(ProcessLookupError):
            self._descriptor = os.pidfd_open(self.pid) if self.pid else None

    def poll(self) -> int | None:
        """Give its exit status once it has ended; its log is then in its file."""
        if self.returncode is None and not self._alive(0):
            deadline = time.monotonic() + 10
            # The engine hears of the end a little later than the kernel, and has the whole log only then.
            while (state := self._engine.state(self.container)) and state["Running"] and time.monotonic() < deadline:
                time.sleep(0.02)
            self.save()
            self.returncode = int(state["ExitCode"]) if state and not state["Running"] else -signal.SIGKILL
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        deadline = time.monotonic() + timeout if timeout is not None else None
        while (status := self.poll()) is None:
            left = 1.0 if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(f"container {self.container[:12]}", timeout or 0)
            self._alive(min(left, 1.0))
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal to its first process, if it still runs."""
        if self._descriptor is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def save(self) -> None:
        """Write what it has logged so far to its file."""
        if self.log is not None and (text := self._engine.logs(self.container)):
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self.log.write_bytes(text)

    def _alive(self, seconds: float) -> bool:
        """Whether its process runs after waiting at most so long for its end."""
        if self._descriptor is None:
            return False
        return not select.select([self._descriptor], [], [], seconds)[0]


class Containers(Tree):
    """The containers of one lab, and plain groups beside them. ``gates`` is a folder of the lab's."""

    def __init__(self, name: str, socket: str, gates: Path, mounts: Mounts | None = None) -> None:
        super().__init__(name, mounts)
        self.socket = socket
        self._gates = gates
        self._engine: LabEngine | None = None
        self._groups: dict[str, tuple[str, str]] = {}  # name -> (container, its group)
        self._runs: dict[str, ContainerRun] = {}
        self._waiting: dict[str, Path] = {}

    @property
    def engine(self) -> LabEngine:
        """The connection, made when it is first needed."""
        if self._engine is None:
            self._engine = LabEngine(self.socket)
        return self._engine

    @property
    def parent(self) -> str:
        """The group below which the engine makes its containers' groups."""
        return next((group.rpartition("/")[0] for _, group in self._groups.values()), "docker")

    def create(self) -> None:
        """Make nothing: the engine makes a group with each container, and an image is made when it is missing."""

    @cached_property
    def _image(self) -> str:
        """Name the ledger's image after the binary, so that a new build is a new image."""
        return f"{LEDGER_IMAGE}:{hashlib.sha256(find_binary().read_bytes()).hexdigest()[:12]}"

    def group(self, name: str) -> Group:
        """Give the group of a container that is known, and a plain one's otherwise."""
        known = self._groups.get(name)
        return Group(self.mounts, known[1]) if known else self.plain_group(name)

    def plain_group(self, name: str) -> Group:
        """Name the group that a process on the host may join under that name: a sibling of the containers' own."""
        return Group(self.mounts, f"{self.parent}/{self.name}-{name}")

    def refresh(self) -> None:
        """Ask the engine which containers there are: another process may have started them."""
        self._groups = {}
        for container in self.engine.labelled(LAB_LABEL, self.name):
            with contextlib.suppress(NoContainerError, NoGroupError):
                facts = self.engine.inspect(container)
                group = container_group(int(facts["State"]["Pid"]), container, self.mounts.hierarchy.version)
                if facts["State"]["Running"] and group is not None:
                    self._groups[str(facts["Config"]["Labels"].get(NAME_LABEL))] = (container, group)

    def children(self) -> tuple[Group, ...]:
        """List the groups of all containers that run, and the plain ones."""
        self.refresh()
        return tuple(Group(self.mounts, group) for _, group in self._groups.values()) + self._plain()

    def left(self) -> bool:
        """Whether anything of the lab is there."""
        return bool(self.engine.labelled(LAB_LABEL, self.name)) or bool(self._plain())

    def pids(self) -> tuple[int, ...]:
        """List the processes in all containers and plain groups."""
        return tuple(sorted({pid for group in self.children() for pid in group.pids()}))

    def _plain(self) -> tuple[Group, ...]:
        paths = {
            f"{parent}/{entry.name}"
            for parent in {self.parent, *PARENTS}  # without containers the parent is unknown
            for directory in self.mounts.directories(parent)
            for entry in directory.glob(f"{self.name}-*")
        }
        return tuple(Group(self.mounts, path) for path in sorted(paths))

    def log_of(self, name: str) -> tuple[Path, str] | None:
        """Say where the engine keeps a container's log, and in which format."""
        if (known := self._groups.get(name)) is not None:
            with contextlib.suppress(NoContainerError):
                if path := self.engine.inspect(known[0]).get("LogPath"):
                    return Path(path), "docker-json"
        return None

    def start(self, program: Program) -> Running:
        """Start a program in a container of its own, or in the one that :meth:`prepare` has made for it.

        The whole lab ends with its parent (:meth:`qioi.lab.lab.Lab.up`), so ``die_with_parent`` has no effect.
        """
        gate = self._waiting.pop(program.name, None)
        if gate is None:
            return self._run(program)
        self._open(gate, program.argv, program.name)
        self._runs[program.name].log = program.log
        return self._runs[program.name]

    def prepare(self, name: str, shares: int = DEFAULT_SHARES, folders: Sequence[Path] = ()) -> None:
        """Make a container that waits, so that its program starts without the engine's delay."""
        self._gates.mkdir(parents=True, exist_ok=True)
        gate = self._gates / name
        gate.unlink(missing_ok=True)
        os.mkfifo(gate)
        # A shell that reads its script from a pipe waits until the script is written.
        self._run(Program(name, ["/bin/sh", str(gate)], shares=shares, folders=(self._gates, *folders)))
        self._waiting[name] = gate

    def _open(self, gate: Path, argv: Sequence[str], name: str) -> None:
        deadline = time.monotonic() + GATE_PATIENCE
        while True:
            try:
                descriptor = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError as error:  # the shell does not read yet
                if self._runs[name].poll() is not None or time.monotonic() > deadline:
                    raise LabError(f"{name} does not come: its container ended or hangs before its program") from error
                time.sleep(0.01)
        os.write(descriptor, f"exec {shlex.join(argv)}\n".encode())
        os.close(descriptor)

    def _wanted(self, program: Program) -> Wanted:
        ledger = Path(program.argv[0]) == find_binary()
        return Wanted(
            name=self._free(program.name),
            image=self._image if ledger else HOST_IMAGE,
            command=("/" + BINARY_NAME, *program.argv[1:]) if ledger else program.argv,
            shares=program.shares if program.shares != DEFAULT_SHARES else 0,  # 0: the engine's own default
            labels={LAB_LABEL: self.name, NAME_LABEL: program.name, **component_labels(program)},
            folders=tuple(dict.fromkeys(program.folders)),
            shown=() if ledger else tuple(folder for folder in HOST_FOLDERS if folder.exists()),
            cwd=program.cwd,
        )

    def _free(self, name: str) -> str:
        """Find a name for a container; one that has ended makes room for the next of its name."""
        for number in range(1, 1000):
            free = f"{self.name}-{name}" + (f"-{number}" if number > 1 else "")
            if (state := self.engine.state(free)) is None:
                return free
            if not state["Running"]:
                self.engine.remove(free)
                return free
        raise LabError(f"a thousand containers {self.name}-{name} run; `qioi lab down` ends them")

    def _run(self, program: Program) -> ContainerRun:
        wanted = self._wanted(program)
        try:
            container = self._create(wanted)
            self.engine.start(container)
            run = ContainerRun(self.engine, container, program.log)
        except BaseException:  # also ctrl-C: the container is known by its name only
            with uninterrupted():
                self.engine.remove(wanted.name)
            raise
        with contextlib.suppress(NoGroupError):  # it may have ended already, and is in the root group then
            group = container_group(run.pid, container, self.mounts.hierarchy.version) if run.pid else None
            if group is not None:
                self._groups[program.name] = (container, group)
        self._runs[program.name] = run
        return run

    def _create(self, wanted: Wanted) -> str:
        """Make a container. Its image may be missing at any time: any lab that ends removes those that none uses."""
        try:
            return self.engine.create(wanted)
        except NoImageError:
            ledger = wanted.image != HOST_IMAGE
            name, file = (BINARY_NAME, find_binary()) if ledger else ("empty", Path(os.devnull))
            self.engine.make_image(wanted.image, name, file.read_bytes(), LAB_LABEL)
            return self.engine.create(wanted)

    def save_logs(self) -> None:
        """Write the logs of all that was started here to their files."""
        for run in self._runs.values():
            run.save()

    def remove(self, groups: tuple[Group, ...] | None = None, grace: float = 5.0) -> None:
        """End what runs in the groups (default: all) and remove containers, plain groups and images."""
        if groups is None:
            self.refresh()
            plain = self._plain()
            inside = tuple(Group(self.mounts, group) for _, group in self._groups.values())
            for group in inside:
                group.signal(signal.SIGTERM)
            wait_empty(inside, grace)
            chosen = self.engine.labelled(LAB_LABEL, self.name)
        else:
            paths = {group.path for group in groups}
            names = [name for name, (_, group) in self._groups.items() if group in paths]
            chosen = [self._groups[name][0] for name in names]
            plain = tuple(group for group in groups if group in self._plain())
            for run in (self._runs[name] for name in names if name in self._runs):
                run.save()
        for container in chosen:
            self.engine.remove(container)
        self._groups = {name: known for name, known in self._groups.items() if known[0] not in chosen}
        self._forget(chosen)
        if plain:
            super().remove(plain, grace)
        if groups is None:
            self.engine.remove_images(LAB_LABEL)

    def _forget(self, containers: Sequence[str]) -> None:
        for name, run in list(self._runs.items()):
            if run.container in containers:
                run.poll()
                self._waiting.pop(name, None)

    def __repr__(self) -> str:
        return f"Containers({self.name!r}, {self.socket!r})"


def component_labels(program: Program) -> dict[str, str]:
    """Give the labels by which the daemon finds a component: its role and its channels."""
    labels = {ROLE_LABEL: program.role.value} if program.role is not None else {}
    return labels | ({CHANNEL_LABEL: ",".join(program.channels)} if program.channels else {})

"""The lab: a system under test on this machine, one process or container and one control group per node.

Everything about a lab follows from its folder: control groups and containers are named after the folder's path,
so ``down`` finds what is left even when the folder itself, or the process that made it, is gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qioi.lab.containers import Containers
from qioi.lab.engine import engine_socket
from qioi.lab.folder import MARKER, is_marked, make_folder, marker_of, remove_folder, require_empty, resolve
from qioi.lab.left_shares import restore_left
from qioi.lab.lock import exclusive
from qioi.lab.network import Network, Node, find_binary, load_network
from qioi.lab.options import LabOptions, Runtime
from qioi.lab.readiness import GLANCE, ask, refuse_busy_ports, serves
from qioi.lab.replica import Replica, replicas
from qioi.lab.signals import uninterrupted
from qioi.lab.site import PATIENCE, Manner, Say, Site, silent
from qioi.lab.systems import KILLED, SYSTEMS, System
from qioi.lab.watch import Watch, begun_at
from qioi.model import Role
from qioi.processes.after_death import AfterDeath
from qioi.processes.cgroups import Group, Mounts, find_mounts
from qioi.processes.errors import LabError
from qioi.processes.launch import Running
from qioi.processes.tree import Program, Tree
from qioi.settings.documents import read_json

#: A folder on a disk: flushing costs nothing below /run, which is mostly a tmpfs.
DEFAULT_DIRECTORY = Path("/var/lib/qioi-lab")
GROUP_PREFIX = "qioi-lab-"
#: Share of the load client's group, the same in every arm: the ledger's waiting is measured, not the client's.
CLIENT_SHARES = 65_536
CLIENT_GROUP = "client"
STATE = "lab.json"
#: The folder, in the lab's, of the state of a daemon that protects it.
DAEMON_STATE = "daemon"


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node as seen from outside. ``cpu`` is in seconds since its start, ``log`` as it is wrapped.

    ``replicas`` are an orderer's, by channel, where some orderers may lie.
    """

    node: Node
    group: Group
    pids: tuple[int, ...]
    ready: bool
    shares: int | None
    cpu: float | None
    log: Path
    replicas: Mapping[str, Replica] = field(default_factory=dict)


class Lab:
    """One lab, identified by its folder. All methods work on a lab that another process brought up."""

    def __init__(self, directory: Path = DEFAULT_DIRECTORY, mounts: Mounts | None = None) -> None:
        self.directory = resolve(directory)
        self._name = GROUP_PREFIX + digest_of(self.directory)
        self._mounts = mounts or find_mounts()
        self._site: Site | None = None
        self._watch: Watch | None = None
        self._killed: set[str] = set()
        self._elsewhere: Path | None = None
        self._orphan_cleanup: AfterDeath | None = None
        self.tree = Tree(self._name, self._mounts)
        self._choose_tree()

    def _choose_tree(self) -> None:
        """Read from the marker how the programs run; what is known of those that run so already is kept."""
        known = self.tree.socket if isinstance(self.tree, Containers) else ""
        if is_marked(self.directory) and (engine := self._marked(1)) != known:
            self.tree = self._containers(engine) if engine else Tree(self._name, self._mounts)

    def _marked(self, line: int) -> str:
        """Read a line of the marker (name, engine's socket, folder elsewhere); empty where the lab has none."""
        if not is_marked(self.directory):
            return ""
        return "".join((self.directory / MARKER).read_text(encoding="utf-8").splitlines()[line : line + 1])

    def _containers(self, socket: str) -> Containers:
        return Containers(self._name, socket, self.directory / "gates", self._mounts)

    @property
    def state_file(self) -> Path:
        """Where the daemon finds the components."""
        return self.directory / STATE

    @property
    def runtime(self) -> Runtime:
        """How its programs run."""
        return "docker" if isinstance(self.tree, Containers) else "process"

    @property
    def running(self) -> bool:
        """Whether it came up and has live processes."""
        return self.state_file.exists() and bool(self.tree.pids())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let one command at a time work on this lab: ``up``, ``down``, or one that measures it."""
        with exclusive(self._name, f"another qioi lab command is at work on {self.directory}; wait for it to end"):
            self._choose_tree()  # the command before may have brought it up otherwise
            yield

    def network(self) -> Network:
        """Read the network, which is there once :meth:`up` has begun."""
        if not is_marked(self.directory):
            raise LabError(f"no lab is running in {self.directory} (`qioi lab up --dir {self.directory}` starts one)")
        return load_network(self.directory / "network.json")

    def running_network(self) -> Network:
        """Read the network; LabError unless it is up: a reboot leaves the folder and ends all else."""
        network = self.network()
        if not self.running:
            how = f"`qioi lab up --dir {self.directory}` starts it"
            raise LabError(f"the lab in {self.directory} is not running ({how})")
        return network

    def up(
        self,
        options: LabOptions,
        *,
        timeout: float = PATIENCE,
        die_with_parent: bool = False,
        say: Say = silent,
    ) -> Network:
        """Lay the system out, start every node and wait until all serve; on any failure leave nothing.

        ``timeout`` in seconds is for all of them together to become ready.
        """
        system = SYSTEMS[options.system](self.directory, options)
        system.install(say)
        with self.locked():
            if self.running:
                raise LabError(
                    f"a lab is already running in {self.directory} "
                    f"(`qioi lab down --dir {self.directory}` ends it; `--dir` and `--base-port` start another)"
                )
            containers = self._engine_of(options.runtime)
            self._elsewhere = system.elsewhere
            self._make_empty(say)
            try:
                self._take(containers)
                return self._start(system, Manner(timeout + system.slow, die_with_parent, say))
            except BaseException:
                with uninterrupted():
                    self._remove(keep_files=False, grace=1.0)
                raise

    def _start(self, system: System, manner: Manner) -> Network:
        manner.say("making identities, channels and node configurations")
        network = system.lay_out()
        refuse_busy_ports(network)
        if manner.die_with_parent and self.runtime == "docker":
            words = ["-m", "qioi.lab.orphan_cleanup", str(self.directory), marker_of(self.directory)]
            self._orphan_cleanup = AfterDeath([sys.executable, *words])
        self.tree.create()
        self._killed.clear()
        site = self._site = Site(self.directory, self.tree, network.channels, manner)
        system.start(site, network)
        manner.say("waiting until every node serves")
        site.wait_until_served(network.nodes)
        site.wait_until_usable(network, system.lacking)
        self._write_state(network, {name: process.pid for name, (_, process) in site.started.items()})
        return network

    def check(self) -> None:
        """Raise with the end of its log if a node has ended that :meth:`kill` did not end.

        Of a lab that another process brought up, these are the nodes that its state names.
        """
        if self._site is None and self._watch is None:
            self._watch = Watch(self.network(), self.state())
        if watch := self._site or self._watch:
            watch.check(self._killed)

    def kill(self, name: str) -> None:
        """Kill a node, which :meth:`check` does not miss from then on."""
        self._killed.add(name)
        self.tree.group(name).signal(signal.SIGKILL)

    def _write_state(self, network: Network, pids: Mapping[str, int]) -> None:
        components = [
            {
                "name": node.name,
                "role": node.role.value,
                "cgroup": self.tree.group(node.name).path,
                **self._log(node),
                **({"metrics_url": node.metrics} if node.metrics else {}),
                "channels": list(network.channels),
            }
            for node in network.nodes
        ]
        # The load client is never raised, and it is no neighbour either: its work is the ledger's own.
        components.append(
            {
                "name": CLIENT_GROUP,
                "role": Role.CLIENT.value,
                "cgroup": self.client_group().path,
                "channels": list(network.channels),
            }
        )
        state = {
            "runtime": self.runtime,
            "cgroup_root": self.tree.parent if isinstance(self.tree, Containers) else self.tree.name,
            "components": components,
            "pids": dict(pids),
            "begun": {name: begun_at(pid) for name, pid in pids.items()},
        }
        temporary = self.state_file.with_suffix(".new")
        temporary.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        temporary.replace(self.state_file)

    def _log(self, node: Node) -> dict[str, str]:
        log, wrapped = self.tree.log_of(node.name) or (node.log, "plain")
        return {"log": str(log), "log_format": wrapped}

    def state(self) -> dict[str, Any]:
        """Read lab.json."""
        self.network()
        try:
            document = read_json(self.state_file)
            if not isinstance(document, dict):
                raise ValueError("no mapping")
        except ValueError as error:
            raise LabError(f"{self.state_file}: {error}: accepted is the file that `qioi lab up` writes") from None
        return document

    def down(self, *, keep_files: bool = False, provided: Callable[[], bool] = lambda: True) -> bool:
        """End every process and remove groups and files; say whether there was anything to remove.

        With ``keep_files`` ledgers, logs and keys stay, and the folder ceases to be a lab's. ``provided`` is asked when
        no other command is at work on the lab, and may refuse.
        """
        self._adopt()
        if not self._traces():
            return False
        with self.locked(), uninterrupted():
            if not provided():
                return False
            self._remove(keep_files=keep_files)
        return True

    def _adopt(self) -> None:
        """Take over containers whose lab's folder is gone, if an engine is there to ask."""
        if is_marked(self.directory):
            return
        with contextlib.suppress(LabError):
            containers = self._containers(engine_socket())
            if Path(containers.socket).exists() and containers.left():
                self.tree = containers

    def _engine_of(self, runtime: Runtime) -> Containers | None:
        """Find the engine before anything is made; ``None`` for plain processes."""
        if runtime != "docker":
            return None
        containers = self._containers(engine_socket())
        containers.left()  # raises unless the engine answers
        return containers

    def _take(self, containers: Containers | None) -> None:
        """Choose how the programs run. Other processes read from the marker what else than the folder is the lab's."""
        self.tree = containers or Tree(self._name, self._mounts)
        socket = containers.socket if containers is not None else ""
        (self.directory / MARKER).write_text(f"{self._name}\n{socket}\n{self._elsewhere or ''}\n", encoding="utf-8")

    def _traces(self) -> bool:
        """Whether anything is there that a lab in this folder has made."""
        return self.tree.left() or is_marked(self.directory)

    def _remove(self, *, keep_files: bool, grace: float = 5.0) -> None:
        if not keep_files:  # files that stay are to be those of nodes that ended by themselves
            for group in self.tree.children():
                if Path(group.path).name.startswith(KILLED):
                    group.signal(signal.SIGKILL)
        self.tree.remove(grace=grace)
        if self._site is not None:
            self._site.wait_for_ends()
            self._site = None
        if not keep_files:
            self._remove_elsewhere()
        try:
            self._restore_left()
        finally:
            # Late: if this process is killed before, the cleanup takes the lab down.
            if self._orphan_cleanup is not None:
                self._orphan_cleanup.dismiss()
                self._orphan_cleanup = None
        if not is_marked(self.directory):
            return
        if keep_files:
            self.state_file.unlink(missing_ok=True)
            (self.directory / MARKER).unlink()
        else:
            remove_folder(self.directory)

    def _remove_elsewhere(self) -> None:
        """Remove the folder that the lab, or a killed one before it, has outside of its own."""
        marked = Path(self._marked(2))
        # Somebody else may have written the marker.
        ours = marked.name.endswith(f"-{digest_of(self.directory)}")
        for folder in filter(None, (self._elsewhere, marked if ours else None)):
            shutil.rmtree(folder, ignore_errors=True)

    def _restore_left(self) -> None:
        """Restore what a killed daemon has left changed. LabError: not all could be, and its journal stays."""
        if not is_marked(self.directory):
            return
        try:
            restore_left(self.directory / DAEMON_STATE, self._mounts.hierarchy)
        except LabError as error:
            how = f"`qioi lab down --dir {self.directory}` tries again, and then removes it"
            raise LabError(f"{error}\n{self.directory} stays with the daemon's journal: {how}") from None

    def keep_logs(self, target: Path) -> None:
        """Copy the nodes' logs to a folder that outlives the lab."""
        self.tree.save_logs()
        logs = self.directory / "log"
        if logs.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            for log in logs.glob("*.log"):
                shutil.copyfile(log, target / log.name)

    def status(self) -> list[NodeStatus]:
        """Look at every node."""
        self.tree.children()
        network = self.network()
        return [self._node_status(node, network.consenter in {"bft", "zyzzyva"}) for node in network.nodes]

    def _node_status(self, node: Node, replicated: bool) -> NodeStatus:
        group = self.tree.group(node.name)
        log, _ = self.tree.log_of(node.name) or (node.log, "")
        if not group.exists:
            return NodeStatus(node, group, (), False, None, None, log)
        ready = serves(node, GLANCE)
        page = ask(node.operations, "/metrics", GLANCE) if replicated and ready and node.role is Role.ORDERER else None
        found = replicas(page or "")
        return NodeStatus(node, group, group.pids(), ready, group.shares(), group.cpu_seconds(), log, found)

    def load_command(self, arguments: Sequence[str]) -> list[str]:
        """Format a load run against this network."""
        return [str(find_binary()), "load", "--network", str(self.network().path), *arguments]

    def client_group(self) -> Group:
        """Make or find the load client's own group, which a process on the host may join."""
        return self.tree.plain_group(CLIENT_GROUP).create(CLIENT_SHARES)

    def start_client(
        self, command: Sequence[str], folders: Sequence[Path], *, log: Path | None = None, die_with_parent: bool = False
    ) -> Running:
        """Start a load run in a group, or container, of its own; ``folders`` are where it writes its results."""
        network = self.network()
        return self.tree.start(
            Program(
                CLIENT_GROUP,
                command,
                shares=CLIENT_SHARES,
                log=log,
                die_with_parent=die_with_parent,
                folders=(self.directory, *folders),
                role=Role.CLIENT,
                channels=network.channels,
            )
        )

    def _make_empty(self, say: Say) -> None:
        """Remove what a crashed lab has left; refuse a folder that holds anything else."""
        self._adopt()
        if self._traces():
            say(f"removing what an earlier lab in {self.directory} has left behind")
        self._remove(keep_files=False)
        make_folder(self.directory)
        require_empty(self.directory)
        (self.directory / MARKER).write_text(self._name + "\n", encoding="utf-8")


def digest_of(directory: Path) -> str:
    """Give what the names of all that belongs to the lab in a folder end with."""
    return hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]

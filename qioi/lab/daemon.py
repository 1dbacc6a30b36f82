"""The daemon, as a real process beside the lab it protects: `qioi run` with a generated configuration."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import yaml

from qioi.daemon.lock import LockedError, LockError, TreeLock
from qioi.lab.containers import Containers
from qioi.lab.lab import DAEMON_STATE, Lab
from qioi.lab.network import Network
from qioi.lab.systems.exporters import COUNTS
from qioi.model import DEFAULT_SHARES
from qioi.processes.cgroups import find_mounts
from qioi.processes.errors import LabError
from qioi.processes.launch import last_lines, launch
from qioi.show.http import loop_seconds

DAEMON_GROUP = "qioi"
#: The daemon must run just when CPU is short. As a service it gets this from its unit (CPUWeight).
DAEMON_SHARES = 8 * DEFAULT_SHARES
#: Seconds in which it has ended a period, and between two looks for that. Its start takes a second of a CPU.
START_SECONDS, LOOK = 60.0, 0.1
#: Seconds to put every share back and end after SIGTERM, on a host where CPU is short.
STOP_SECONDS = 60.0


def refuse_beside_another() -> None:
    """Raise, with its process id, if a daemon runs on this host, beside which no other one starts. LabError."""
    try:
        TreeLock(find_mounts().hierarchy.mount).close()
    except LockedError as error:
        raise LabError(f"{error}; stop that one first, since what is measured is a daemon of the lab's own") from None
    except LockError as error:
        raise LabError(str(error)) from None


class Daemon:
    """One daemon. Use it as a context manager: leaving it asks the daemon to restore and end.

    LabError on leaving: the daemon could not restore every value, or failed in another way.
    """

    def __init__(self, lab: Lab, config: str, directory: Path) -> None:
        self._group = lab.tree.group(DAEMON_GROUP).create(DAEMON_SHARES)
        self._tree = lab.tree
        self._socket = lab.directory / DAEMON_STATE / "qioi.sock"
        self.log = directory / "daemon.log"
        path = directory / "qioi.yaml"
        path.write_text(config, encoding="utf-8")
        command = [sys.executable, "-m", "qioi.cli", "run", "-c", str(path)]
        self._process = launch(command, self._group, log=self.log, die_with_parent=True)

    def check(self) -> None:
        """Raise with the end of its log if it has ended by itself."""
        if self._process.poll() is not None:
            raise self._ended()

    def settle(self) -> None:
        """Wait until it has ended a period: what its start costs is no part of a measurement. LabError: it has not."""
        deadline = time.monotonic() + START_SECONDS
        while not loop_seconds(self._socket):
            self.check()
            if time.monotonic() > deadline:
                raise LabError(f"the daemon has ended no period within {START_SECONDS:.0f} s; see {self.log}")
            time.sleep(LOOK)

    def stop(self) -> None:
        """Ask it to restore and end; one that does not is killed, and that is an error."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise LabError(f"the daemon did not end within {STOP_SECONDS:.0f} s of SIGTERM; see {self.log}") from None
        finally:
            self._tree.remove((self._group,), grace=0)
            self._process.wait()

    def _ended(self) -> LabError:
        status = self._process.returncode
        return LabError(f"the daemon ended (status {status}); its log {self.log} ends:\n{last_lines(self.log, 5)}")

    def __enter__(self) -> Daemon:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        # What it could not restore is raised in the next measurement too. An earlier error is the one to tell. One that
        # the signal itself has ended had not begun, and has changed nothing.
        if error is None and self._process.returncode not in (0, -signal.SIGTERM):
            raise self._ended()


def daemon_config(
    lab: Lab, network: Network, *, law: str, threshold: float, period: float = 1.0, slices: str = "off"
) -> str:
    """Format a configuration for the lab's daemon; ``threshold`` in transactions per second, for each channel.

    Its state stays in the lab's folder. It does not start beside a daemon that protects the host itself
    (:func:`refuse_beside_another`).
    """
    # Containers are found by their labels; plain processes are listed in the lab's folder.
    where = (
        {"docker": {"socket": lab.tree.socket, "fabric": False}}
        if isinstance(lab.tree, Containers)
        else {"lab": str(lab.directory)}
    )
    # A database's commits are counted on its exporter's page; a ledger logs them.
    counted = {"throughput": COUNTS[network.mode]} if any(node.metrics for node in network.nodes) else {}
    document = {
        **where,
        "state_dir": str(lab.directory / DAEMON_STATE),
        "period": period,
        "slices": slices,
        "defaults": {"law": law},
        "channels": {channel: {"threshold": threshold, **counted} for channel in network.channels},
        "metrics": {"port": 0},
    }
    return yaml.safe_dump(document, sort_keys=False)

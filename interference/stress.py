"""stress-ng as an interferer: memory or I/O, N processes, each in a control group of its own.

It counts its own "bogo operations" and prints them at its end, so its work is known over its whole life, not over a
window. Memory workers write and read back 128 MB each. I/O workers write, sync and remove files in a folder.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Literal

from qioi.interference.instances import Instances
from qioi.model import DEFAULT_SHARES
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree

Kind = Literal["memory", "io"]
ARGUMENTS: dict[Kind, tuple[str, ...]] = {
    "memory": ("--vm", "1", "--vm-bytes", "128M", "--vm-keep"),
    "io": ("--hdd", "1", "--hdd-bytes", "64M", "--hdd-opts", "wr-rnd,fdatasync"),
}
#: stress-ng 0.15: `stress-ng: metrc: [1] vm  1234  2.00 ...`, bogo ops and real time of each stressor.
_METRICS = re.compile(r"(?:metrc|info): +\[\d+\] (?:vm|hdd) +(\d+) +(\d+\.\d+) ")
#: Seconds that it has to end and print what it did; a slow disk or a busy host delays that.
PATIENCE = 60.0


def stress_binary() -> str:
    """Find stress-ng, or name the package that brings it."""
    found = shutil.which("stress-ng")
    if found is None:
        raise LabError("stress-ng is not installed: `apt-get install stress-ng` (package stress-ng) brings it")
    return found


class StressNg(Instances):
    """N instances of one kind below ``tree``. Their files go to ``scratch``, by default beside their logs."""

    unit = "bogo ops/s"

    def __init__(
        self,
        tree: Tree,
        kind: Kind,
        count: int,
        directory: Path,
        shares: int = DEFAULT_SHARES,
        scratch: Path | None = None,
    ) -> None:
        super().__init__(tree, f"stress-{kind}", count, directory, shares)
        self._kind = kind
        self._files = scratch or directory

    def command(self, name: str) -> list[str]:
        """Give what one runs: it writes into a folder of its own."""
        return [stress_binary(), *ARGUMENTS[self._kind], "--metrics-brief", "--temp-path", str(self._scratch(name))]

    def folders(self, name: str) -> tuple[Path, ...]:
        """Give the folder that one writes into."""
        return (self._scratch(name),)

    def prepare(self) -> None:
        """Prepare a place for each instance. LabError: stress-ng is not installed."""
        stress_binary()
        for name in self.names:
            self._scratch(name).mkdir(parents=True, exist_ok=True)
        super().prepare()

    def stop(self) -> None:
        """Tell all to end and print what they did; kill those that do not end."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE
        for process in self._processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        super().stop()
        for name in self.names:
            shutil.rmtree(self._scratch(name), ignore_errors=True)

    def work(self, since: float, until: float) -> float | None:
        """Bogo operations per second of all, over their whole life; ``None`` unless each has ended and said its own."""
        rates = [parse_metrics(self._log(name)) for name in self.names]
        said = [rate for rate in rates if rate is not None]
        return sum(said) if len(said) == len(rates) else None

    def over_time(self) -> tuple[tuple[float, float], ...]:
        """Give nothing: its work is not known over time."""
        return ()

    def _scratch(self, name: str) -> Path:
        return self._files / f"{name}.tmp"


def parse_metrics(log: Path) -> float | None:
    """Read bogo operations per second of real time; ``None`` if it printed nothing of them, as one that was killed."""
    found = _METRICS.search(log.read_text(errors="replace", encoding="utf-8")) if log.exists() else None
    if found is None:
        return None
    return int(found[1]) / float(found[2]) if float(found[2]) > 0 else 0.0

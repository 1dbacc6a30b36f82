"""Apache Spark as an interferer: a real standalone cluster that sorts, each worker in a control group of its own.

Master, workers and the job's driver are processes of pyspark's own distribution; executors are children of their
worker and stay in its group. The job (:mod:`qioi.interference.terasort`) generates, sorts and validates records again
and again. It sorts once before the measurement, so that the virtual machines have warmed up.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import secrets
import shutil
import socket
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from qioi.interference.instances import Processes
from qioi.kernel.extras import installs
from qioi.model import DEFAULT_SHARES
from qioi.processes.errors import LabError
from qioi.processes.launch import last_lines, launch
from qioi.processes.tree import Tree

#: Those of a cluster's processes that hand work out: the sorting is done below the workers.
MASTER, DRIVER = "spark-master", "spark-driver"
#: Threads of each worker, as in the paper; its memory, and its executor's.
WORKER_THREADS = 2
WORKER_MEMORY = "1g"
EXECUTOR_MEMORY = "640m"
#: Records of 100 bytes that a round sorts for each worker: seconds on two cores (the paper: 47 GB in all).
RECORDS_PER_WORKER = 300_000
#: Seconds for the cluster to come up and to sort once.
PATIENCE = 240.0


def spark_home() -> Path:
    """Find Spark ($SPARK_HOME, or pyspark's own) and Java, or say what installs them."""
    home = os.environ.get("SPARK_HOME")
    spec = importlib.util.find_spec("pyspark") if home is None else None
    found = Path(home) if home else Path(spec.origin).parent if spec is not None and spec.origin else None
    if found is None or not (found / "bin" / "spark-class").exists():
        raise LabError(f"Spark is not installed: {what_brings_it()}")
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise LabError(f"Java, which Spark needs, is not installed: {what_brings_it()}")
    return found


def what_brings_it() -> str:
    """Name the commands that install Spark and Java."""
    return f"`make spark` (or `{installs('spark')}` and `apt-get install openjdk-17-jre-headless`) brings it"


@dataclass(frozen=True, slots=True)
class Round:
    """One round of the job: generated, sorted, validated. Epoch seconds."""

    records: int
    start: float
    end: float


class Spark(Processes):
    """A cluster of ``count`` workers below ``tree`` and its job."""

    unit = "records/s"

    def __init__(self, tree: Tree, count: int, directory: Path, records: int | None = None) -> None:
        self._workers = tuple(f"spark-worker{index + 1}" for index in range(count))
        super().__init__(tree, (MASTER, *self._workers, DRIVER), directory)
        self._records = records or RECORDS_PER_WORKER * count
        self._scratch = directory / "spark"

    def prepare(self) -> None:
        """Start the cluster and wait until the job has sorted once; it then waits for :meth:`start`."""
        home = spark_home()
        self._temporary.mkdir(parents=True, exist_ok=True)
        self._done.unlink(missing_ok=True)  # rounds of an earlier run
        self._write_secret()
        for group in self.groups:
            group.create(DEFAULT_SHARES)
        port, page = free_ports(2)
        self._launch(home, MASTER, "org.apache.spark.deploy.master.Master", "--port", port, "--webui-port", page)
        master = f"spark://127.0.0.1:{port}"
        self._wait(lambda: alive_workers(page) is not None, "Spark's master does not answer", MASTER)
        for name in self._workers:
            folder = str(self._scratch / name)
            size = ("--cores", str(WORKER_THREADS), "--memory", WORKER_MEMORY, "--work-dir", folder)
            webui = ("--webui-port", free_ports(1)[0])
            self._launch(home, name, "org.apache.spark.deploy.worker.Worker", *size, *webui, master)
        count = len(self._workers)
        self._wait(lambda: alive_workers(page) == count, f"not all of {count} Spark workers came", self._workers[-1])
        self._submit(home, master)
        self._wait(lambda: bool(self.rounds()), "the Spark job does not finish its first round", DRIVER)

    def start(self) -> None:
        """Let the job go on, round after round."""
        (self._scratch / "go").touch()

    def stop(self) -> None:
        """Kill all, and remove groups and data; logs and the list of rounds stay."""
        super().stop()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def rounds(self) -> list[Round]:
        """List the rounds that are finished and validated."""
        if not self._done.exists():
            return []
        text = self._done.read_text(encoding="utf-8")
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [Round(**json.loads(line)) for line in lines]

    def work(self, since: float, until: float) -> float | None:
        """Records per second of the rounds within [since, until]; ``None`` if too few of them are finished."""
        return records_per_second(self.rounds(), since, until)

    def over_time(self) -> tuple[tuple[float, float], ...]:
        """Records per second of each round, at its end."""
        return tuple((one.end, one.records / (one.end - one.start)) for one in self.rounds()[1:])

    @property
    def _done(self) -> Path:
        return self._directory / "spark-rounds.jsonl"

    @property
    def _temporary(self) -> Path:
        return self._scratch / "local"

    @property
    def _settings(self) -> Path:
        return self._scratch / "conf"

    def _write_secret(self) -> None:
        """Have the cluster's processes take each other alone: any user of this host could have it run their own jobs.

        Source: Spark's "Security" (spark.authenticate), for a standalone cluster.
        """
        self._settings.mkdir(exist_ok=True)
        file = self._settings / "spark-defaults.conf"
        file.unlink(missing_ok=True)  # of an earlier run
        file.touch(mode=0o600)
        secret = f"spark.authenticate true\nspark.authenticate.secret {secrets.token_hex(32)}\n"
        file.write_text(secret, encoding="utf-8")

    def _launch(self, home: Path, name: str, *arguments: str) -> None:
        which, *rest = arguments
        host = ("--host", "127.0.0.1")
        self._start(name, [str(home / "bin" / "spark-class"), which, *host, *rest], home)

    def _submit(self, home: Path, master: str) -> None:
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.sql.warehouse.dir": str(self._scratch / "warehouse"),
        }
        flags = [text for key, value in settings.items() for text in ("--conf", f"{key}={value}")]
        job = Path(__file__).with_name("terasort.py").resolve()
        partitions = str(WORKER_THREADS * len(self._workers))
        words = [str(job), str(self._scratch), str(self._done), str(self._records), partitions]
        command = [str(home / "bin" / "spark-submit"), "--master", master, "--driver-memory", "512m", *flags, *words]
        self._start(DRIVER, command, home)

    def _start(self, name: str, command: list[str], home: Path) -> None:
        # What is killed leaves its temporary files. A worker tells its executors where they keep theirs, and goes by
        # its environment: an application's `spark.local.dir` is not asked.
        java = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} '-Djava.io.tmpdir={self._temporary}'"
        environment = {
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(self._settings),
            "SPARK_LOCAL_DIRS": str(self._temporary),
            "JAVA_TOOL_OPTIONS": java.lstrip(),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
        }
        group = self._tree.group(name)
        self._processes[name] = launch(
            command, group, log=self._log(name), cwd=self._scratch, environment=environment, die_with_parent=True
        )

    def _wait(self, condition: object, complaint: str, name: str) -> None:
        assert callable(condition)
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise LabError(f"{complaint} after {PATIENCE:.0f} s; its log ends:\n{last_lines(self._log(name), 5)}")
            time.sleep(0.2)


def records_per_second(rounds: list[Round], since: float, until: float) -> float | None:
    """Take each finished round's own records per second for as long as it lay in the window.

    ``None`` if finished rounds fill less than half of the window: what the others would do is not known.
    """
    within = [(one, max(0.0, min(one.end, until) - max(one.start, since))) for one in rounds]
    known = sum(seconds for _, seconds in within)
    if known < (until - since) / 2:
        return None
    return sum(one.records / (one.end - one.start) * seconds for one, seconds in within) / known


def alive_workers(page: str) -> int | None:
    """Ask the master how many workers it has; ``None`` while it does not answer."""
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever http_proxy says
    try:
        with directly.open(f"http://127.0.0.1:{page}/json/", timeout=2) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError, http.client.HTTPException, KeyError):  # a page that is only half there
        return None


def free_ports(count: int) -> list[str]:
    """Find free loopback ports."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [str(one.getsockname()[1]) for one in sockets]

"""Arms of a measurement on a cluster: as on a lab (qioi.lab.arms), with pods for processes."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.request
from dataclasses import asdict
from pathlib import Path

from demo_k8s.cluster import Cluster
from demo_k8s.ledger import Ledger, LoadJob, QiOi, SysbenchPods
from qioi.lab.arms import PROBE_SECONDS, Arm, Evidence, Tick, condense, probe_plan
from qioi.lab.daemon import DAEMON_GROUP
from qioi.lab.figures import ArmFigures
from qioi.lab.flush_probe import FlushProbe
from qioi.lab.lab import CLIENT_GROUP
from qioi.lab.machine import machine
from qioi.lab.network import Network
from qioi.lab.sampler import PERIOD, Sampler, window, write_samples


class ClusterRunner:
    """Runs arms on a ledger of pods. ``state`` is the host's folder for the daemon's journal."""

    def __init__(
        self, cluster: Cluster, ledger: Ledger, network: Network, directory: Path, state: Path, *, burstable: bool
    ) -> None:
        self._cluster, self._ledger, self._network = cluster, ledger, network
        self._directory, self._state, self._burstable = directory, state, burstable
        self._roles = {node.name: node.role for node in network.nodes}
        self._cores = machine().cores

    def maximum(self, tick: Tick = lambda _seconds: None) -> float:
        """Find what the ledger commits per second at most, roughly: many closed-loop clients for a few seconds."""
        directory = self._folder("probe")
        with LoadJob(self._cluster, probe_plan(self._network), self._ledger.hosts, directory) as load:
            began = time.monotonic()
            while load.running():
                self._ledger.check()
                tick(min(PROBE_SECONDS, time.monotonic() - began))
                time.sleep(0.2)
            return load.result().figures.throughput

    def run(self, arm: Arm, tick: Tick = lambda _seconds: None) -> ArmFigures:
        """Run one arm from start to end; what it started is gone afterwards, also after an error."""
        directory = self._folder(arm.name)
        with contextlib.ExitStack() as stack:
            neighbours = SysbenchPods(self._cluster, arm.sysbench, burstable=self._burstable)
            stack.callback(neighbours.stop)
            daemon = None
            if arm.config is not None:
                daemon = stack.enter_context(QiOi(self._cluster, arm.config, directory, self._state))
            load = stack.enter_context(LoadJob(self._cluster, arm.load, self._ledger.hosts, directory))
            others = {CLIENT_GROUP: load.group} | ({DAEMON_GROUP: daemon.group} if daemon else {})
            sampler = Sampler(self._ledger.groups, others)
            stack.callback(sampler.close)
            probe = stack.enter_context(FlushProbe(self._ledger.files))
            self._watch(arm, load, sampler, neighbours, daemon, tick)
            result = load.result()
            reports = neighbours.reports()
            if daemon is not None:
                (directory / "metrics.txt").write_bytes(daemon_metrics())
        write_samples(directory / "samples.csv", sampler.samples, self._roles)
        cut = window(sampler.samples, result.start - arm.load.warmup, result.start, result.end)
        evidence = Evidence(arm, self._roles, result, cut, tuple(neighbours.groups), reports, probe.flushes)
        figures = condense(evidence, self._cores)
        (directory / "arm.json").write_text(json.dumps(asdict(figures), indent=2) + "\n", encoding="utf-8")
        return figures

    def _watch(
        self, arm: Arm, load: LoadJob, sampler: Sampler, neighbours: SysbenchPods, daemon: QiOi | None, tick: Tick
    ) -> None:
        began = due = time.monotonic()
        arrived = False
        while load.running():
            if not arrived and time.monotonic() >= began + arm.arrival:
                neighbours.start()
                sampler.follow(neighbours.groups)
                arrived = True
            sampler.sample()
            self._ledger.check()
            neighbours.check()
            if daemon is not None:
                daemon.check()
            tick(time.monotonic() - began)
            due = max(due + PERIOD, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))

    def _folder(self, name: str) -> Path:
        directory = self._directory / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory


def daemon_metrics() -> bytes:
    """Ask the daemon for its metrics: among them how often it spoke to the API server."""
    with urllib.request.urlopen(f"http://127.0.0.1:{QiOi.PORT}/metrics", timeout=10) as answer:
        content: bytes = answer.read()
    return content

"""The demo on a Kubernetes node: the same load, conditions and page as on a plain host (qioi.lab.demo)."""

from __future__ import annotations

from pathlib import Path

import yaml

from demo_k8s.arms import ClusterRunner
from demo_k8s.cluster import Cluster
from demo_k8s.ledger import LEDGER, Ledger
from qioi.lab.demo import UP_SECONDS, Demo, DemoOptions, DemoResult, Progress, Setting
from qioi.lab.machine import machine
from qioi.lab.signals import uninterrupted


class ClusterDemo(Demo):
    """Runs the three arms on a ledger of its own. Ledger and neighbours are all Burstable, or all BestEffort."""

    def __init__(
        self, options: DemoOptions, directory: Path, progress: Progress, cluster: Cluster, *, burstable: bool
    ) -> None:
        super().__init__(options, directory, progress)
        self._cluster, self._burstable = cluster, burstable

    def run(self) -> DemoResult:
        """Measure. The ledger is gone when this returns or raises."""
        host = machine()
        self._step("bringing the ledger's pods up", 0)
        ledger = Ledger(self._cluster, self._directory, burstable=self._burstable)
        try:
            network = ledger.up(self._options.lab)
            self._done += UP_SECONDS
            state = self._options.directory / "qioi"
            runner = ClusterRunner(self._cluster, ledger, network, self._directory, state, burstable=self._burstable)
            (channel,) = network.channels
            return self._measure(runner, lambda threshold: policy(channel, self._options.law, threshold), host)
        finally:
            with uninterrupted():
                try:
                    ledger.keep_logs(self._directory / "logs")
                finally:
                    ledger.down()

    def _files(self) -> str:
        """Say where the ledgers stand."""
        return "volumes of the pods in memory (emptyDir, medium Memory), so that CPU is what is compared"


def policy(channel: str, law: str, threshold: float) -> str:
    """Format what the channel is owed; ``threshold`` in transactions per second."""
    document = {
        "apiVersion": "qioi.io/v1alpha1",
        "kind": "IsolationPolicy",
        "metadata": {"name": channel, "namespace": LEDGER},
        "spec": {"channel": channel, "law": law, "threshold": f"{threshold:g}"},
    }
    return yaml.safe_dump(document, sort_keys=False)


def setting(*, burstable: bool) -> Setting:
    """Say for the page where the demo ran."""
    qos = "Burstable (cpu request 50m, shares 51)" if burstable else "BestEffort (shares 2)"
    return Setting(
        place="as pods of a Kubernetes node",
        neighbours="pods of sysbench",
        groups=f"the kubelet's; all pods are {qos}; the load client's share is 65,536 in every arm",
    )

"""The bundled ledger as pods, its load as a Job, sysbench as neighbours, and QiOi as its DaemonSet."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import yaml

from demo_k8s import MANIFESTS
from demo_k8s.cluster import (
    Cluster,
    Pod,
    PodGroup,
    best_effort,
    groups_of,
    on_the_nodes_network,
)
from demo_k8s.control_plane import until
from demo_k8s.objects import IS_SERVED
from qioi.interference import Report, parse_reports
from qioi.lab.kubernetes_secrets import Document, network_secrets
from qioi.lab.lab import CLIENT_SHARES
from qioi.lab.load import LoadPlan, LoadResult, parse_result
from qioi.lab.network import Network, load_network
from qioi.lab.options import LabOptions
from qioi.lab.readiness import leaderless, serves
from qioi.processes.errors import LabError

LEDGER, NEIGHBOURS, QIOI = "ledger", "neighbours", "qioi"
#: Seconds that a load may take beyond its plan.
SLACK = 90.0
#: Seconds until what a container has written last stands in its log.
RESULT_PATIENCE = 5.0


class Ledger:
    """The ledger's pods. With ``burstable`` they have their manifests' requests, else none."""

    def __init__(self, cluster: Cluster, folder: Path, *, burstable: bool) -> None:
        self._cluster, self._folder, self._burstable = cluster, folder, burstable
        self._documents: list[Document] = []
        self.hosts: tuple[str, ...] = ()
        self.groups: dict[str, PodGroup] = {}
        self._pods: list[Pod] = []

    def up(self, options: LabOptions) -> Network:
        """Make network and pods and wait until all serve."""
        secrets = network_secrets(options, LEDGER)
        network = self._read(secrets)
        documents = self._cluster.render(MANIFESTS / "ledger")
        if not self._burstable:
            documents = best_effort(documents)
        documents = on_the_nodes_network(documents, self.hosts)
        self._documents = [*documents, *secrets]
        namespaces = [one for one in documents if one["kind"] == "Namespace"]
        self._cluster.apply(namespaces)
        self._cluster.apply([*secrets, *(one for one in documents if one not in namespaces)])
        self._pods = self._cluster.running(LEDGER, "app.kubernetes.io/name=ledger", len(network.nodes))
        self.groups = groups_of(self._pods)
        waiting = list(network.nodes)

        def ready() -> bool:
            waiting[:] = [node for node in waiting if not serves(node)]
            return not waiting and not leaderless(network)

        until(ready, lambda: f"{', '.join(node.name for node in waiting) or 'an orderer that leads'}")
        return network

    def _read(self, secrets: list[Document]) -> Network:
        """Read the network, with addresses as they are on the node's own network."""
        text = next(one for one in secrets if one["kind"] == "ConfigMap")["data"]["network.json"]
        path = self._folder / "network.json"
        path.write_text(text, encoding="utf-8")
        network = load_network(path)
        self.hosts = tuple(node.address.partition(":")[0] for node in network.nodes)
        nodes = tuple(
            replace(node, address=on_loopback(node.address), operations=on_loopback(node.operations))
            for node in network.nodes
        )
        return replace(network, nodes=nodes)

    def check(self) -> None:
        """Raise if one of its containers has ended."""
        for pod in self._pods:
            if not self.groups[pod.name].pids():
                raise LabError(f"{pod.name} has ended; its log ends:\n{pod.log()[-1000:]}")

    @property
    def files(self) -> Path:
        """Where on this host an orderer keeps its ledger."""
        pod = next(one for one in self._pods if one.name == "orderer-0")
        return self._cluster.kubelet_root / "pods" / pod.uid / "volumes/kubernetes.io~empty-dir/data"

    def keep_logs(self, target: Path) -> None:
        """Copy the pods' logs."""
        target.mkdir(parents=True, exist_ok=True)
        for pod in self._pods:
            (target / f"{pod.name}.log").write_text(pod.log(), encoding="utf-8")

    def down(self) -> None:
        """Remove it."""
        if self._documents:
            self._cluster.delete(one for one in self._documents if one["kind"] != "Namespace")
            self._cluster.gone(LEDGER, "app.kubernetes.io/name=ledger")


def on_loopback(address: str) -> str:
    """Give where a pod on the node's own network is reached."""
    return f"127.0.0.1:{address.rpartition(':')[2]}" if address else ""


class LoadJob:
    """One run of the load client. Use it as a context manager: leaving it removes the Job."""

    def __init__(self, cluster: Cluster, plan: LoadPlan, hosts: Iterable[str], directory: Path) -> None:
        self._cluster, self._directory = cluster, directory
        (job,) = on_the_nodes_network(cluster.render(MANIFESTS / "ledger/load"), hosts)
        container = job["spec"]["template"]["spec"]["containers"][0]
        container["args"] = ["load", "--network", "/network/network.json", *plan.arguments(Path("-"))]
        self._job = job
        self._deadline = time.monotonic() + plan.warmup + plan.duration + SLACK
        cluster.apply([job])
        try:
            (self._pod,) = cluster.running(LEDGER, "app.kubernetes.io/name=ledger-load", 1)
            self.group = groups_of([self._pod])[self._pod.name]
            # A real client runs on another host. Here its share keeps its own waiting out of the measurement.
            self.group.set_shares(CLIENT_SHARES)
        except BaseException:
            self._remove()
            raise

    def running(self) -> bool:
        """Whether it still sends or drains; raise if it takes far too long."""
        if not self.group.pids():
            return False
        if time.monotonic() > self._deadline:
            raise LabError(f"the load is {SLACK:.0f} s late; its log ends:\n{self._pod.log()[-500:]}")
        return True

    def result(self) -> LoadResult:
        """Read what it found, once it has ended."""
        path = self._directory / "load.json"
        document: Document = {}

        def written() -> bool:
            # The runtime copies what a container has written, and may be a moment behind its end.
            with contextlib.suppress(ValueError):
                document.update(json.loads(self._pod.log("stdout")))
            return bool(document)

        until(written, lambda: f"the load's result; its log ends:\n{self._pod.log()[-500:]}", RESULT_PATIENCE)
        path.write_text(json.dumps(document, indent=1), encoding="utf-8")
        return parse_result(document, path)

    def __enter__(self) -> LoadJob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        self._cluster.delete([self._job])
        self._cluster.gone(LEDGER, "app.kubernetes.io/name=ledger-load")


class SysbenchPods:
    """Neighbours that take CPU time."""

    def __init__(self, cluster: Cluster, count: int, *, burstable: bool) -> None:
        documents = on_the_nodes_network(cluster.render(MANIFESTS / "ledger/sysbench"), ())
        self._documents = documents if burstable else best_effort(documents)
        for one in self._documents:
            if one["kind"] == "Deployment":
                one["spec"]["replicas"] = count
        self._cluster, self._count = cluster, count
        self._pods: list[Pod] = []
        self.groups: dict[str, PodGroup] = {}

    def start(self) -> None:
        """Start them and wait until all run."""
        if self._count:
            self._cluster.apply(one for one in self._documents if one["kind"] == "Namespace")
            self._cluster.apply(self._documents)
            self._pods = self._cluster.running(NEIGHBOURS, "app.kubernetes.io/name=sysbench", self._count)
            self.groups = groups_of(self._pods)

    def check(self) -> None:
        """Raise if one of them has ended by itself."""
        for pod in self._pods:
            if not self.groups[pod.name].pids():
                raise LabError(f"{pod.name} has ended; it said: {pod.log('stdout')[-300:]}")

    def reports(self) -> list[Report]:
        """Every report so far, in the order of time."""
        found = [report for pod in self._pods for report in parse_reports(pod.log("stdout"), pod.name, began(pod))]
        return sorted(found, key=lambda report: report.time)

    def stop(self) -> None:
        """End them."""
        if self._count:
            self._cluster.delete(one for one in self._documents if one["kind"] != "Namespace")
            self._cluster.gone(NEIGHBOURS, "app.kubernetes.io/name=sysbench")


def began(pod: Pod) -> float:
    """Give when its container was started, in epoch seconds."""
    text = pod.document["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    return float(yaml.safe_load(text).timestamp())


class QiOi:
    """The DaemonSet of deploy/k8s with its one policy. Use it as a context manager: leaving it uninstalls."""

    #: Where its metrics are on a node without a pod network; in seconds, how long it has to begin and to restore.
    PORT = 18_990
    BEGIN = 60.0

    def __init__(self, cluster: Cluster, policy: str, directory: Path, state: Path) -> None:
        self._cluster, self._directory = cluster, directory
        (directory / "policy.yaml").write_text(policy, encoding="utf-8")
        documents = on_the_nodes_network(cluster.render(MANIFESTS / "base"), ())
        for one in documents:
            if one["kind"] == "ConfigMap":
                settings = yaml.safe_load(one["data"]["qioi.yaml"])
                settings["metrics"] = {"listen": "127.0.0.1", "port": self.PORT}
                one["data"]["qioi.yaml"] = yaml.safe_dump(settings)
            if one["kind"] == "DaemonSet":
                self._adapt(one["spec"]["template"]["spec"], state)
        self._kept = [one for one in documents if one["kind"] in ("Namespace", "CustomResourceDefinition")]
        self._documents = [one for one in documents if one not in self._kept]
        self._policy = policy
        try:
            cluster.apply(self._kept)
            cluster.run(*IS_SERVED)
            cluster.apply(self._documents)
            cluster.run("apply", "-f", "-", text=policy)
            (self._pod,) = cluster.running(QIOI, "app.kubernetes.io/name=qioi", 1)
            self.group = groups_of([self._pod])[self._pod.name]
            until(lambda: "watching" in self._pod.log(), lambda: f"QiOi: {self._pod.log()[-500:]}", self.BEGIN)
        except BaseException:
            self._remove()
            raise

    def _adapt(self, spec: Document, state: Path) -> None:
        """Without a pod network its port is the host's, and the API server at the node's own address."""
        (container,) = spec["containers"]
        container["ports"][0] |= {"containerPort": self.PORT, "hostPort": self.PORT}
        for probe in ("startupProbe", "livenessProbe"):
            container[probe]["httpGet"]["host"] = "127.0.0.1"
        container["env"] += [
            {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
            {"name": "KUBERNETES_SERVICE_PORT", "value": str(self._cluster.api_port)},
        ]
        for volume in spec["volumes"]:
            if volume["name"] == "state":
                volume["hostPath"]["path"] = str(state)

    def check(self) -> None:
        """Raise if it has ended."""
        if not self.group.pids():
            raise LabError(f"the daemon has ended; its log ends:\n{self._pod.log()[-1000:]}")

    def __enter__(self) -> QiOi:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            status = self._cluster.run("get", "isolationpolicies", "-A", "-o", "yaml")
            (self._directory / "policy-status.yaml").write_text(status, encoding="utf-8")
        finally:
            self._remove()

    def _remove(self) -> None:
        """Uninstall as a user does, and keep the daemon's log, which says what it has put back."""
        self._cluster.run("delete", "daemonset", "qioi", "-n", QIOI, "--ignore-not-found", "--wait=false")
        log = ""

        def ended() -> bool:
            nonlocal log
            if hasattr(self, "_pod"):
                log = self._pod.log() or log
            return not self._cluster.run("get", "pods", "-n", QIOI, "-o", "name").strip()

        until(ended, "QiOi ends")
        (self._directory / "daemon.log").write_text(log, encoding="utf-8")
        self._cluster.run("delete", "--ignore-not-found", "-f", "-", text=self._policy)
        self._cluster.delete(self._documents)

#!/usr/bin/env python3
"""How what QiOi asks of an API server and its etcd grows with nodes and policies.

    python benchmarks/bench_growth_kubernetes.py [--over nodes ...] [--most 1000] [--seconds 15] [--output DIR]

The API server and its etcd are real (`make k8s-server`). Every node is the part of the daemon that follows the cluster
and reports to it, with connections of its own; many share a process. Its pods are objects without a kubelet, one for
each policy that it serves, and all of them see their channel's commits at a steady rate.

- ``nodes``: every policy has pods on four nodes, in a namespace of its own, and so policies grow with nodes.
- ``policy``: one policy has a pod on every node.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import ssl
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psutil
from prometheus_client.parser import text_string_to_metric_families

from qioi.kubernetes.client import Access, Api
from qioi.kubernetes.cluster import Cluster
from qioi.kubernetes.pods import read_pod
from qioi.kubernetes.reporter import Reporter
from qioi.kubernetes.reports import SETTLED, Row, Sight
from qioi.lab.signals import ending_signals_interrupt
from qioi.show.snapshot import ChannelState, ComponentState

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "deploy" / "k8s"))
from demo_k8s.control_plane import ControlPlane, lacking, until  # noqa: E402
from demo_k8s.objects import add_policy, admit_pods, install_kind, policies_path, start_pod  # noqa: E402

#: Nodes that serve a policy, where policies grow with nodes.
TOGETHER = 4
#: Sizes by kind of growth, and how many nodes serve one policy (0: all).
GROWTH = {"nodes": ((4, 32, 256, 1000), TOGETHER), "policy": ((1, 8, 64), 0)}
#: The bucket of events' sizes, in bytes, that bookmarks fall into, and no policy.
BOOKMARK = "1024"
#: Processes that nodes share: a node's threads must not wait for a thousand others'.
WORKERS = 4
#: Seconds between two looks at what a node sees, and those that all nodes have to settle.
LOOK, SETTLE = 5.0, 15.0
#: Seconds between the starts of two nodes of a process. A thousand that begin at once have more to ask than two cores,
#: which are theirs too, can answer before they ask again.
PACE = 0.25


@dataclass(frozen=True)
class Shape:
    """A cluster: ``together`` nodes serve each policy."""

    nodes: int
    together: int

    def serves(self, node: int) -> str:
        """Name the namespace, and so the policy, that a node serves."""
        return f"tenant{node // self.together}"

    @property
    def tenants(self) -> list[str]:
        return sorted({self.serves(node) for node in range(self.nodes)})


class ReportingNode:
    """What a node's daemon asks of the API server."""

    def __init__(self, access: Access, name: str, mount: Path) -> None:
        self.name = name
        self._api, self._writing = Api(access), Api(access)
        self._cluster = Cluster(self._api, name, mount, "/var/log/pods")
        self._reporter = Reporter(self._writing, name)
        self._cluster.start()
        self._reporter.start()

    def look(self) -> None:
        """Report of the policies that this node serves, as a daemon does whose channels commit."""
        pods = [one for one in map(read_pod, self._cluster.objects_by_uid().values()) if one is not None]
        sights = {}
        for judged in self._cluster.view().judged:
            state = ComponentState("", "peer", "g", share=1024, original=1024, waiting_share=0.1)
            rows = tuple(Row(pod.name, "peer", "Burstable", "pod", state) for pod in pods if judged.serves(pod))
            if rows:
                rate = 100.0 * random.uniform(0.99, 1.01)
                channel = ChannelState(judged.key, "adaptive", 120.0, rate, 0.5, 7)
                alive = self._cluster.reports.alive(judged.key, time.monotonic())
                sights[judged.path] = Sight(
                    self.name, "files", judged, channel, rows, committing=True, active_for=SETTLED, alive=alive
                )
        self._reporter.offer(sights)

    def close(self) -> None:
        for one in (self._reporter, self._cluster, self._api, self._writing):
            one.close()


def run_nodes(access: Access, names: Sequence[str], mount: Path, end: Any) -> None:
    """Run nodes until ``end`` is set; a process of its own."""
    threading.stack_size(256 * 1024)
    nodes: list[ReportingNode] = []
    looked = 0.0
    while not end.wait(PACE):
        if len(nodes) < len(names):
            nodes.append(ReportingNode(access, names[len(nodes)], mount))
        if time.monotonic() - looked > LOOK:
            looked = time.monotonic()
            for node in nodes:
                node.look()


@contextmanager
def running(access: Access, shape: Shape, mount: Path) -> Iterator[list[psutil.Process]]:
    """Run all nodes; give their processes."""
    context = multiprocessing.get_context("fork")
    end = context.Event()
    names = [node_name(node) for node in range(shape.nodes)]
    parts = [names[first::WORKERS] for first in range(min(WORKERS, shape.nodes))]
    workers = [context.Process(target=run_nodes, args=(access, part, mount, end), daemon=True) for part in parts]
    for worker in workers:
        worker.start()
    try:
        yield [psutil.Process(worker.pid) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()  # what they have said stays; the namespaces are removed with it
            worker.join()


def node_name(node: int) -> str:
    return f"node{node:04}"


def populate(plane: ControlPlane, shape: Shape) -> None:
    """Make namespaces with a policy each, and a pod for every node, as a kubelet would have started it."""
    for tenant in shape.tenants:
        plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": tenant}})
        admit_pods(plane, tenant)
        add_policy(plane, tenant, "payments", threshold=120)
    for node in range(shape.nodes):
        labels = {"qioi.io/role": "peer"}
        start_pod(plane, shape.serves(node), f"peer{node:04}", node_name(node), labels=labels)


def policies(plane: ControlPlane) -> list[dict[str, Any]]:
    return list(plane.call("GET", policies_path())["items"])


def all_have_spoken(plane: ControlPlane, shape: Shape) -> bool:
    time.sleep(1.0)  # to list everything costs the server, too
    return sum(len(one.get("status", {}).get("nodes", ())) for one in policies(plane)) == shape.nodes


def counters(plane: ControlPlane) -> dict[str, float]:
    """Read what the API server has counted of policies: requests, and changes sent to watches.

    A bookmark, which each watch gets about once a minute, counts as an event there; unlike a policy it is small.
    """
    page = plane.call("GET", "/metrics", raw=True).decode()
    found = dict.fromkeys(("requests", "changes"), 0.0)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if "isolationpolicies" not in sample.labels.values():
                continue
            if sample.name == "apiserver_request_total":
                found["requests"] += sample.value
            elif sample.name == "apiserver_watch_events_total":
                found["changes"] += sample.value
            elif sample.name == "apiserver_watch_events_sizes_bucket" and sample.labels["le"] == BOOKMARK:
                found["changes"] -= sample.value
    return found


def etcd_puts(plane: ControlPlane) -> float:
    """Read the bytes that etcd has been given to keep."""
    context = ssl.create_default_context(cafile=str(plane.ca))
    context.load_cert_chain(*plane.pair)
    etcd = f"https://127.0.0.1:{plane.port + 1}/metrics"
    with urllib.request.urlopen(etcd, context=context, timeout=10) as answer:
        page = answer.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "etcd_debugging_mvcc_total_put_size_in_bytes"
    )


def cpu(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)


def measure(plane: ControlPlane, access: Access, shape: Shape, seconds: float, mount: Path) -> dict[str, float]:
    """Let all nodes settle, then account for ``seconds``."""
    populate(plane, shape)
    server, etcd = (psutil.Process(plane.processes.running[name].pid) for name in ("apiserver", "etcd"))
    with running(access, shape, mount) as nodes:
        until(lambda: all_have_spoken(plane, shape), "every node has spoken")
        time.sleep(SETTLE)
        before, put = counters(plane), etcd_puts(plane)
        used = [cpu([server]), cpu([etcd]), cpu(nodes)]
        begun = time.monotonic()
        time.sleep(seconds)
        used = [now - then for now, then in zip([cpu([server]), cpu([etcd]), cpu(nodes)], used, strict=True)]
        elapsed = time.monotonic() - begun
        grown = {name: value - before[name] for name, value in counters(plane).items()}
        put = etcd_puts(plane) - put
        largest = max(len(json.dumps(one, separators=(",", ":"))) for one in policies(plane))
    return {
        "requests": grown["requests"] / elapsed,
        "changes": grown["changes"] / elapsed,
        "object_kb": largest / 1e3,
        "put_kb": put / elapsed / 1e3,
        "server_cpu": used[0] / elapsed,
        "etcd_cpu": used[1] / elapsed,
        "node_cpu": used[2] / elapsed / shape.nodes,
    }


@contextmanager
def api_server(folder: Path, port: int) -> Iterator[tuple[ControlPlane, Access]]:
    """Run a fresh API server with the policies' kind; give it, and an administrator's access."""
    plane = ControlPlane(folder / "plane", port)
    plane.folder.mkdir()
    with closing(plane):
        plane.start()
        install_kind(plane)
        token = folder / "token"
        token.write_text(plane.token(), encoding="utf-8")
        yield plane, Access(plane.server, plane.ca, token)


def said(one: Mapping[str, float]) -> str:
    return (
        f"{one['requests']:.2f} requests/s, {one['changes']:.1f} changes sent/s, object "
        f"{one['object_kb']:.1f} KB, API server {100 * one['server_cpu']:.1f} %, etcd {100 * one['etcd_cpu']:.1f} %, "
        f"a node {100 * one['node_cpu']:.2f} %"
    )


def lacks() -> str | None:
    """Say in one line why it can't be measured here; ``None`` if it can."""
    return lacking(["kube-apiserver", "kubectl"], ["etcd", "openssl"])


@click.command()
@click.option("--over", "kinds", type=click.Choice(list(GROWTH)), multiple=True, default=list(GROWTH))
@click.option("--most", type=click.IntRange(1), default=1000, show_default=True, help="Leave larger sizes out.")
@click.option("--seconds", type=float, default=15.0, show_default=True, help="Measured per size.")
@click.option("--base-port", type=int, default=19_000, show_default=True)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path))
@ending_signals_interrupt()
def main(kinds: tuple[str, ...], most: int, seconds: float, base_port: int, output: Path | None) -> None:
    """Measure, and write growth.json."""
    if why := lacks():
        raise click.ClickException(why)
    directory = (output or Path("results") / f"growth-kubernetes-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[int, dict[str, float]]] = {}
    for kind in kinds:
        sizes, together = GROWTH[kind]
        for size in (one for one in sizes if one <= most):
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                plane, access = stack.enter_context(api_server(folder, base_port))
                one = measure(plane, access, Shape(size, together or size), seconds, folder)
            found.setdefault(kind, {})[size] = one
            click.echo(f"{kind} {size}: {said(one)}")
    (directory / "growth.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    click.echo(f"written to {directory}")


if __name__ == "__main__":
    main()

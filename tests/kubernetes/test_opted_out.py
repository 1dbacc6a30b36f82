"""Requests that the daemon before left raised, at a node whose daemon moves shares by other means."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from demo_k8s.control_plane import ControlPlane, until
from demo_k8s.objects import add_policy, admit_pods, pods_path, start_pod
from k8s_account import account
from k8s_node import stop_server
from test_kubectl import run
from waiting import PATIENCE

import qioi.kubernetes.resizer
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.levers.files import Files
from qioi.kernel.hierarchy import Hierarchy
from qioi.kubernetes.actuators import resize_offer
from qioi.kubernetes.choice import Choice
from qioi.kubernetes.client import Api
from qioi.kubernetes.reporter import Reporter
from qioi.kubernetes.reports import NO_RIGHT
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION
from qioi.kubernetes.resizer import Resizer
from qioi.kubernetes.roster import ClusterRoster
from qioi.kubernetes.service import make_roster
from qioi.settings.config import load_config
from qioi.show.snapshot import ConfigState, Snapshot

pytestmark = pytest.mark.slow


class Node:
    """A node with a pod whose request a daemon that is gone has raised from 100m to 2."""

    def __init__(self, plane: ControlPlane, namespace: str, folder: Path, cleanup: ExitStack) -> None:
        self.plane, self.namespace, self.folder, self.cleanup = plane, namespace, folder, cleanup
        self.pod = f"{pods_path(namespace)}/peer0"
        admit_pods(plane, namespace)
        start_pod(plane, namespace, "peer0", namespace, labels={"qioi.io/role": "peer"},
                  resources={"requests": {"cpu": "2"}})  # fmt: skip
        change = {"metadata": {"annotations": {ORIGINAL_ANNOTATION: "100m"}}}
        plane.call("PATCH", self.pod, change, kind="application/merge-patch+json")
        add_policy(plane, namespace, "red")

    @property
    def request(self) -> tuple[str, str | None]:
        """The pod's request, and the original one if it is noted."""
        one = self.plane.call("GET", self.pod)
        noted = (one["metadata"].get("annotations") or {}).get(ORIGINAL_ANNOTATION)
        return str(one["spec"]["containers"][0]["resources"]["requests"]["cpu"]), noted

    def start(self, installation: str) -> ClusterRoster:
        """Start the next daemon's roster, which has not chosen to resize, with the rights of an installation."""
        access = account(self.plane, installation, installation.replace("/", "-"), self.folder)
        section = {"node": self.namespace, "server": access.server, "ca": str(access.ca), "token": str(access.token)}
        file = self.folder / "qioi.yaml"
        file.write_text(json.dumps({"state_dir": str(self.folder), "kubernetes": section}))
        config, hierarchy = load_config(file), Hierarchy(1, self.folder)
        assert config.kubernetes is not None
        guard = Guard(hierarchy, Files(hierarchy), Journal(self.folder))
        return make_roster(config.kubernetes, config, guard, hierarchy, None, self.cleanup)[0]


@pytest.fixture
def node(plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Node]:
    with ExitStack() as cleanup:
        yield Node(plane, namespace, tmp_path, cleanup)


def actuator(roster: ClusterRoster, now: float) -> str:
    """Say what the node's entry in the policy's status says of its means."""
    roster.attend(now)
    roster.tell(now, Snapshot("1", 1, now, 1.0, False, "files", 1, (), (), ConfigState("qioi.yaml", 0.0)), ())
    return next(one.actuator for one in roster._reporter._sights.values())


def test_the_next_daemon_puts_back_by_whatever_means_it_moves_shares(node: Node) -> None:
    roster = node.start("overlays/resize")
    until(lambda: node.request == ("100m", None), "the request is back")
    assert actuator(roster, 0.0).startswith("files: ")


def test_without_the_right_it_says_so_and_whoever_has_it_restores(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qioi.kubernetes.resizer, "FORBIDDEN_PAUSE", 0.5)
    roster = node.start("base")
    until(lambda: "requests" in roster.problems(), "that it is left is said")
    assert actuator(roster, 0.0).startswith(f"{NO_RIGHT}files: ")
    told = [one.message for one in caplog.records if "no right to put it back" in one.message]
    assert len(told) == 1
    assert "kubectl qioi restore" in told[0]
    assert run(node.plane, "restore", "-n", node.namespace).exit_code == 0
    assert node.request == ("100m", None)
    until(lambda: "requests" not in roster.problems(), "that it is back is seen")
    assert actuator(roster, 1.0).startswith("files: ")


def test_a_limit_that_refuses_what_was_found_is_no_missing_right(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """The server answers 403 for either."""
    limit = {"type": "Container", "min": {"cpu": "200m"}}
    where = f"/api/v1/namespaces/{node.namespace}/limitranges"
    node.plane.call("POST", where, {"metadata": {"name": "least"}, "spec": {"limits": [limit]}})
    roster = node.start("overlays/resize")
    until(lambda: "not restored" in caplog.text, "that it is refused is said")
    assert "403 " in caplog.text
    assert "requests" not in roster.problems()
    node.plane.call("DELETE", f"{where}/least")
    until(lambda: node.request == ("100m", None), "the request is back")


def test_without_the_right_the_end_waits_for_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qioi.kubernetes.resizer, "ENDING", 4 * PATIENCE)
    roster = node.start("base")
    resizer = roster._resizer
    assert resizer is not None
    until(lambda: resizer.powerless, "it has no right")
    ended = threading.Thread(target=resizer.close, daemon=True)
    ended.start()
    ended.join(PATIENCE)
    assert not ended.is_alive()


def test_the_end_of_what_is_asked_comes_before_that_of_what_is_put_back(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All go over one connection, and a question may wait for its answer for longer than the end may take."""
    ended: list[str] = []
    for kind in (Choice, Resizer, Reporter):

        def close(self: Any, name: str = kind.__name__, genuine: Callable[[Any], None] = kind.close) -> None:
            ended.append(name)
            genuine(self)

        monkeypatch.setattr(kind, "close", close)
    node.start("base")
    node.cleanup.close()
    assert ended == ["Choice", "Resizer", "Reporter"]


def test_a_server_that_comes_back_at_the_start_is_asked_again(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    access = account(plane, "overlays/resize", "overlays-resize", tmp_path)
    stop_server(plane)
    with closing(Api(access)) as api, ThreadPoolExecutor(1) as pool:
        try:
            asked = pool.submit(resize_offer, True, api, 2 * PATIENCE)
            until(lambda: api.requests["get", "unreachable"], "it was asked in vain")
        finally:
            plane.start_server()  # not by a thread of its own: what is started ends with the thread that has started it
        assert asked.result().works

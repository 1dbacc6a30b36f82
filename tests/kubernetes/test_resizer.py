"""Pods' CPU requests moved and put back against a real API server; what a kubelet would say is written by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from demo_k8s.control_plane import ControlPlane, until
from demo_k8s.objects import MERGE, add_policy, admit_pods, pods_path, start_pod, write_pod_status
from k8s_account import account
from k8s_policy_objects import write_policy_status
from test_kubectl import run

from qioi.kernel.hierarchy import Hierarchy
from qioi.kubernetes.actuators import Means, choose, offers
from qioi.kubernetes.client import Access, Api, Object
from qioi.kubernetes.cluster import Cluster
from qioi.kubernetes.pods import Pod, read_pod, slim
from qioi.kubernetes.reports import stamp
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION
from qioi.kubernetes.resizer import Resizer
from qioi.kubernetes.resizes import PAUSE
from qioi.settings.kubernetes import KubernetesConfig

pytestmark = pytest.mark.slow


class Site:
    """One node's pods in one namespace, and a resizer with the rights of the installation."""

    def __init__(self, plane: ControlPlane, namespace: str, api: Api, folder: Path) -> None:
        self.plane, self.namespace, self.api, self.folder = plane, namespace, api, folder
        self.node = f"{namespace}-node"
        self.pods = pods_path(namespace)
        admit_pods(plane, namespace)
        self.cluster = Cluster(api, self.node, folder, "/var/log/pods")
        self.cluster.start()
        self.resizer = self.make()

    def make(self) -> Resizer:
        resizer = Resizer(self.api, self.folder, self.cluster.objects_by_uid, self.cluster.followed)
        resizer.start()
        return resizer

    def pod(self, name: str = "peer0", resources: dict[str, Any] | None = None) -> Pod:
        """Make a pod that a kubelet would have started."""
        labels = {"qioi.io/role": "peer"}
        start_pod(self.plane, self.namespace, name, self.node, labels=labels, resources=resources)
        return until(lambda: self.seen(name), "the pod is seen")  # type: ignore[no-any-return]

    def write_status(self, name: str, **status: Any) -> None:
        write_pod_status(self.plane, self.namespace, name, **status)

    def seen(self, name: str) -> Pod | None:
        found = map(read_pod, self.cluster.objects_by_uid().values())
        return next((one for one in found if one and (one.namespace, one.name) == (self.namespace, name)), None)

    def object(self, name: str = "peer0") -> dict[str, Any]:
        found: dict[str, Any] = self.plane.call("GET", f"{self.pods}/{name}")
        return found

    def request(self, name: str = "peer0") -> str:
        return str(self.object(name)["spec"]["containers"][0]["resources"]["requests"]["cpu"])

    def original(self, name: str = "peer0") -> str | None:
        return (self.object(name)["metadata"].get("annotations") or {}).get(ORIGINAL_ANNOTATION)

    def label(self, name: str, labels: dict[str, str | None]) -> None:
        self.plane.call("PATCH", f"{self.pods}/{name}", {"metadata": {"labels": labels}}, kind=MERGE)

    def resize(self, request: str, name: str = "peer0") -> None:
        """Somebody else's."""
        change = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": request}}}]}}
        self.plane.call("PATCH", f"{self.pods}/{name}/resize", change, kind="application/strategic-merge-patch+json")

    @property
    def journal(self) -> Path:
        return self.folder / "requests"


@pytest.fixture(scope="module")
def access(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Access:
    return account(plane, "overlays/resize", "qioi-resize", tmp_path_factory.mktemp("token"))


@pytest.fixture
def site(plane: ControlPlane, namespace: str, api: Api, tmp_path: Path) -> Iterator[Site]:
    site = Site(plane, namespace, api, tmp_path)
    yield site
    site.resizer.close()
    site.cluster.close()


def test_a_request_is_moved_on_record_and_put_back(site: Site) -> None:
    pod = site.pod()
    site.resizer.want(pod, 4096)
    until(lambda: site.request() == "4", "the request is what makes 4096 shares")
    assert site.original() == "100m"
    assert site.journal.exists()
    assert site.object()["status"]["qosClass"] == "Burstable"
    site.resizer.want(pod, None)
    until(lambda: site.request() == "100m", "it is back")
    until(lambda: site.original() is None and not site.journal.exists(), "nothing of ours is left")
    asked = {key: count for key, count in site.api.requests.items() if key[0] in ("resize", "annotate")}
    assert asked == {("resize", "200"): 2, ("annotate", "200"): 2}


def test_the_end_puts_everything_back(site: Site) -> None:
    for name in ("peer0", "peer1"):
        site.resizer.want(site.pod(name), 2048)
    until(lambda: site.request() == site.request("peer1") == "2", "both are moved")
    site.resizer.close()
    assert [site.request(name) for name in ("peer0", "peer1")] == ["100m", "100m"]
    assert [site.original(name) for name in ("peer0", "peer1")] == [None, None]
    assert not site.journal.exists()


@pytest.mark.parametrize("journal", [True, False])
def test_what_a_killed_daemon_has_left_is_put_back(site: Site, journal: bool) -> None:
    """By the journal, and where that is lost by the annotation."""
    site.resizer.want(site.pod(), 2048)
    until(lambda: site.request() == "2", "the request is moved")
    site.resizer._stop.set()  # no more than what a kill leaves
    site.resizer._thread.join()
    if not journal:
        site.journal.unlink()
    site.resizer = site.make()
    until(lambda: site.request() == "100m" and site.original() is None, "it is back")


def test_what_somebody_else_has_asked_for_is_left_alone(site: Site) -> None:
    pod = site.pod()
    site.resizer.want(pod, 2048)
    until(lambda: site.request() == "2", "the request is moved")
    site.resize("300m")
    until(lambda: site.original() is None, "it is given up")
    until(lambda: "somebody else" in str(site.resizer.takes(pod)), "it is said")
    site.resizer.close()
    assert site.request() == "300m"


class Behind:
    """What is seen of the pods, held back for as long as a test wants: a watch may be behind."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.pods: Mapping[str, Object] | None = None

    def hold(self) -> None:
        self.pods = self.site.cluster.objects_by_uid()

    def __call__(self) -> Mapping[str, Object]:
        return self.site.cluster.objects_by_uid() if self.pods is None else self.pods

    def resizer(self) -> Resizer:
        """Give one whose rounds are ours."""
        self.site.resizer.close()
        self.site.resizer = Resizer(self.site.api, self.site.folder, self, lambda: True)
        return self.site.resizer


def test_a_watch_that_is_behind_leaves_nothing_of_ours_behind(site: Site) -> None:
    """It still shows the original when ours is in force: nothing is forgotten before the server says that it is not."""
    pod, behind = site.pod(), Behind(site)
    resizer = behind.resizer()
    behind.hold()
    resizer.want(pod, 2048)
    resizer.round(0.0)
    assert site.request() == "2"
    resizer.want(pod, None)
    resizer.round(2 * PAUSE)
    assert (site.request(), site.original(), site.journal.exists()) == ("2", "100m", True)
    behind.pods = None
    until(lambda: (seen := site.seen("peer0")) and seen.cpu.asked == "2", "the watch has caught up")
    resizer.close()
    assert (site.request(), site.original(), site.journal.exists()) == ("100m", None, False)


def test_what_somebody_else_has_taken_back_is_still_ours(site: Site) -> None:
    pod, behind = site.pod(), Behind(site)
    resizer = behind.resizer()
    resizer.want(pod, 2048)
    resizer.round(0.0)
    site.resize("300m")
    until(lambda: (seen := site.seen("peer0")) and seen.cpu.asked == "300m", "theirs is seen")
    behind.hold()
    site.resize("2")
    resizer.round(PAUSE)
    assert (site.request(), site.original(), site.journal.exists()) == ("2", "100m", True)
    behind.pods = None
    until(lambda: (seen := site.seen("peer0")) and seen.cpu.asked == "2", "the watch has caught up")
    resizer.close()
    assert (site.request(), site.original(), site.journal.exists()) == ("100m", None, False)


def test_an_annotation_that_somebody_has_taken_off_is_not_missed(site: Site) -> None:
    pod = site.pod()
    site.resizer.want(pod, 2048)
    until(lambda: site.request() == "2", "the request is moved")
    site.plane.call("PATCH", f"{site.pods}/peer0", {"metadata": {"annotations": {ORIGINAL_ANNOTATION: None}}},
                    kind=MERGE)  # fmt: skip
    until(lambda: (seen := site.seen("peer0")) and seen.cpu.original is None, "that is seen")
    site.resizer.close()
    assert (site.request(), site.original(), site.journal.exists()) == ("100m", None, False)


def test_what_nobody_is_left_to_put_back_is_put_back_by_hand(site: Site) -> None:
    """As after everything of QiOi's was removed at once: the daemon had no rights any more when it ended."""
    site.resizer.want(site.pod(), 2048)
    site.resizer.want(site.pod("peer1"), 2048)
    site.resizer.want(site.pod("peer2"), 2048)
    names = ("peer0", "peer1", "peer2")
    until(lambda: {site.request(name) for name in names} == {"2"}, "all are moved")
    site.resizer._stop.set()
    site.resizer._thread.join()
    site.journal.unlink()
    site.write_status("peer1", containerStatuses=None)  # its containers do not run
    site.label("peer2", {"qioi.io/role": None})
    done = run(site.plane, "restore", "-n", site.namespace)
    said = "".join(f"{site.namespace}/{name}: request 2 -> 100m\n" for name in names)
    assert (done.exit_code, done.stdout, done.stderr) == (0, said, "")
    assert {(site.request(name), site.original(name)) for name in names} == {("100m", None)}
    again = run(site.plane, "restore", "-n", site.namespace)
    assert (again.exit_code, again.output) == (0, "nothing is to be restored\n")


def test_an_annotation_that_names_more_than_is_asked_for_is_not_believed(site: Site) -> None:
    """By nobody: else a tenant, who may write there, could have its request raised."""
    pod = site.pod()
    site.resizer.close()
    change = {"metadata": {"annotations": {ORIGINAL_ANNOTATION: "4"}}}
    site.plane.call("PATCH", f"{site.pods}/peer0", change, kind=MERGE)
    done = run(site.plane, "restore", "-n", site.namespace)
    assert (done.exit_code, "QiOi only raises, and it asks for 100m" in done.stderr) == (1, True)
    assert (site.request(), site.original()) == ("100m", "4")
    site.resizer = site.make()
    until(lambda: site.original() is None, "it is given up")
    assert site.request() == "100m"
    until(lambda: "somebody else" in str(site.resizer.takes(pod)), "it is said")


def test_what_a_daemon_that_lives_has_changed_is_left_to_it(site: Site) -> None:
    """Unless one insists; then what it raises again is on record again."""
    pod, resizer = site.pod(), Behind(site).resizer()
    add_policy(site.plane, site.namespace, "red")

    def say(when: float) -> None:
        status = {"nodes": [{"name": site.node, "observedAt": stamp(when)}]}
        write_policy_status(site.plane, site.namespace, "red", status)

    resizer.want(pod, 2048)
    resizer.round(0.0)
    say(time.time())
    refused = run(site.plane, "restore", "-n", site.namespace)
    assert (refused.exit_code, f"node {site.node}'s daemon" in refused.stderr) == (1, True)
    assert (site.request(), site.original()) == ("2", "100m")
    assert run(site.plane, "restore", "-n", site.namespace, "--force").exit_code == 0
    assert (site.request(), site.original()) == ("100m", None)
    until(lambda: (seen := site.seen("peer0")) and seen.cpu.asked == "100m" and seen.cpu.original is None, "it is seen")
    resizer.round(2 * PAUSE)
    assert (site.request(), site.original()) == ("2", "100m")
    say(time.time() - 3600)
    assert run(site.plane, "restore", "-n", site.namespace).exit_code == 0
    assert (site.request(), site.original()) == ("100m", None)


def test_the_end_waits_no_longer_than_it_has_to(site: Site) -> None:
    """By a clock of its own: a change is followed by the next look at it, a second later."""
    pod, ticks = site.pod(), count(step=0.2)

    def current() -> Mapping[str, Object]:
        return {pod.uid: slim(site.object())}

    site.resizer.close()
    site.resizer = Resizer(site.api, site.folder, current, lambda: True, lambda: next(ticks))
    site.resizer.want(pod, 2048)
    site.resizer.round(next(ticks))
    assert site.request() == "2"
    began = next(ticks)
    site.resizer.close()
    assert next(ticks) - began < PAUSE
    assert (site.request(), site.original(), site.journal.exists()) == ("100m", None, False)


def test_a_request_is_raised_to_just_below_the_limit(site: Site) -> None:
    """At the limit the pod would be Guaranteed, which the server refuses."""
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}}
    pod = site.pod(resources=resources)
    site.resizer.want(pod, 4096)
    until(lambda: site.request() == "499m" or site.resizer.takes(pod), "the server takes or refuses it")
    assert (site.request(), site.resizer.takes(pod)) == ("499m", None)


@pytest.mark.parametrize("reason", ["Infeasible", "Deferred"])
def test_a_kubelet_that_refuses_is_believed(site: Site, reason: str) -> None:
    pod = site.pod()
    assert site.resizer.takes(pod) is None
    site.resizer.want(pod, 262144)
    until(lambda: site.original() == "100m" and site.request() == "256", "the request is moved")
    pending = {"type": "PodResizePending", "status": "True", "reason": reason, "message": "Node didn't have enough"}
    site.write_status("peer0", conditions=[pending])
    until(lambda: site.request() == "100m", "it is back")
    until(lambda: str(site.resizer.takes(pod)).startswith(f"{reason}: Node didn't"), "it is said")


def test_a_server_that_refuses_is_believed(site: Site) -> None:
    """By a quota: it counts requests, which is why policies have to opt in."""
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1"}}}
    where = f"/api/v1/namespaces/{site.namespace}/resourcequotas"
    site.plane.call("POST", where, quota)
    site.plane.call("PATCH", f"{where}/q/status", {"status": {"hard": quota["spec"]["hard"],  # type: ignore[index]
                                                              "used": {"requests.cpu": "0"}}}, kind=MERGE)  # fmt: skip
    pod = site.pod()
    site.resizer.want(pod, 8192)
    why = until(lambda: site.resizer.takes(pod), "it is left to the files")
    assert "exceeded quota" in why
    until(lambda: site.original() is None, "nothing of ours is left")
    assert site.request() == "100m"


def test_of_a_pod_that_is_gone_nothing_is_left(site: Site) -> None:
    site.resizer.want(site.pod(), 2048)
    until(lambda: site.request() == "2", "the request is moved")
    site.plane.call("DELETE", f"{site.pods}/peer0", {"gracePeriodSeconds": 0})
    until(lambda: not site.journal.exists(), "it is forgotten")


@pytest.mark.parametrize("labels", [{"qioi.io/ignore": "true"}, {"qioi.io/role": None}, None])
def test_of_a_pod_that_is_no_component_any_more_the_request_comes_back(
    site: Site, labels: dict[str, str | None] | None
) -> None:
    """It is labelled so, or its containers crash; only a pod that is gone is forgotten."""
    site.resizer.want(site.pod(), 2048)
    until(lambda: site.request() == "2", "the request is moved")
    if labels is None:
        site.write_status("peer0", containerStatuses=None)
    else:
        site.label("peer0", labels)
    until(lambda: site.seen("peer0") is None, "it is no component")
    site.resizer.keep_only(set())  # as in each period
    until(lambda: (site.request(), site.original()) == ("100m", None), "it is back")
    until(lambda: not site.journal.exists(), "the journal is removed")


def test_the_end_puts_back_what_is_no_component_any_more(site: Site) -> None:
    site.resizer.want(site.pod(), 2048)
    until(lambda: site.request() == "2", "the request is moved")
    site.label("peer0", {"qioi.io/ignore": "true"})
    until(lambda: site.seen("peer0") is None, "it is no component")
    site.resizer.close()
    assert (site.request(), site.original(), site.journal.exists()) == ("100m", None, False)


def test_what_is_left_alone_is_so_after_a_restart_of_its_container(site: Site) -> None:
    pod = site.pod()
    resizer = Behind(site).resizer()
    resizer.want(pod, 2048)
    resizer.round(0.0)
    site.resize("300m")
    until(lambda: (seen := site.seen("peer0")) and seen.cpu.asked == "300m", "theirs is seen")
    resizer.round(2 * PAUSE)
    assert "somebody else" in str(resizer.takes(pod))
    site.write_status("peer0", containerStatuses=None)
    until(lambda: site.seen("peer0") is None, "its container does not run")
    resizer.round(3 * PAUSE)
    assert "somebody else" in str(resizer.takes(pod))


def test_what_works_is_chosen_in_order(plane: ControlPlane, api: Api, access: Access, tmp_path: Path) -> None:
    hierarchy = Hierarchy(1, tmp_path)
    found = offers(KubernetesConfig(resize=True, nri=str(tmp_path / "none")), api, hierarchy, 0.0)
    assert [(one.means, one.works) for one in found] == [
        (Means.NRI, False), (Means.RESIZE, True), (Means.FILES, True),
    ]  # fmt: skip
    assert choose(found).means is Means.RESIZE
    assert "No such file" in found[0].text
    assert choose(offers(KubernetesConfig(), api, hierarchy, 0.0)).means is Means.FILES
    accounts = "/api/v1/namespaces/qioi/serviceaccounts"
    plane.call("POST", accounts, {"metadata": {"name": "without-rights"}})
    answer = plane.call("POST", f"{accounts}/without-rights/token", {"spec": {"expirationSeconds": 600}})
    (tmp_path / "token").write_text(answer["status"]["token"])
    with closing(Api(Access(access.server, access.ca, tmp_path / "token"))) as poor:
        refused = offers(KubernetesConfig(resize=True), poor, hierarchy, 0.0)[1]
    assert (refused.works, "no right to patch pods/resize" in refused.text) == (False, True)

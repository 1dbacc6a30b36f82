"""Requests whose restore a server or a kubelet refuses: each is said once, and asked for ever more rarely."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from k8s_objects import pod_object
from k8s_toy_server import Quiet, answering

from qioi.commands.kubectl import KubectlError, put_back
from qioi.controller.guard.journal import Journal
from qioi.kubernetes.client import Api, Object
from qioi.kubernetes.pod_states import FAILED_PAUSE
from qioi.kubernetes.pods import Pod, read_pod, slim
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION, PENDING
from qioi.kubernetes.resizer import FORBIDDEN_PAUSE, NAME, REFUSED_PAUSE, Resizer
from qioi.kubernetes.resizes import PAUSE, entry_of, left_over

#: A minimum of the namespace's LimitRange; a webhook's words may be any.
LIMITED = 403, 'pods "peer0" is forbidden: minimum cpu usage per Container is 200m, but request is 100m'
INVALID = 422, 'Pod "peer0" is invalid: spec: Forbidden: pod resize is not allowed'
OUTDATED = 422, "the server rejected our request due to an error in our request"
#: A webhook that does not answer, or that takes a code of its own choice.
FAILING = 500, 'Internal error occurred: failed calling webhook "w": context deadline exceeded'
SLOW = 504, "Timeout: request did not complete within requested timeout"
DENIED = 422, 'admission webhook "w" denied the request: no resizes here'


class Server:
    """Refuses each resize with ``status`` and ``message``, and takes all else.

    ``forbidden``: it refuses each change of a pod, and says that there is no right to any. ``all``: the status of all
    changes, if there is one.
    ``untold``: it does not say whether there is. ``later``: when to come back (Retry-After).
    """

    def __init__(self) -> None:
        self.status, self.message = INVALID
        self.forbidden = self.untold = False
        self.all: int | None = None
        self.later = ""


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def api(server: Server) -> Iterator[Api]:
    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            status = server.status if self.path.endswith("/resize") else 200
            self.answer({"message": server.message}, 403 if server.forbidden else server.all or status, server.later)

        def do_POST(self) -> None:
            self.answer({"status": {"allowed": not server.forbidden}}, 503 if server.untold else 200)

    with answering(Answer) as api:
        yield api


def raised(name: str, original: str = "100m", cpu: str = "400m", **more: Any) -> Object:
    """Give a pod whose request was 100m, as its annotation says or hides."""
    noted = {ORIGINAL_ANNOTATION: original}
    made = pod_object(name, uid=name, **{"annotations": noted, "labels": {"qioi.io/role": "peer"}, **more})
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return slim(made)


class Node:
    """The raised pods of one node, and a resizer that restores them, by a clock of the test's."""

    def __init__(self, api: Api, folder: Path, *names: str) -> None:
        self.api, self.now, self._folder = api, 0.0, folder
        self.pods = {name: raised(name) for name in names}
        self.followed = True
        self.resizer = Resizer(api, folder, lambda: self.pods, lambda: self.followed, lambda: self.now)

    def leave_in_journal(self, name: str) -> None:
        """Have a daemon before this one left a raised pod."""
        known = left_over(self.pods[name])
        assert known is not None
        Journal(self._folder, name=NAME).store([entry_of(known)])
        self.resizer.load()

    def asked(self) -> int:
        """Count the resizes that were asked for."""
        return sum(count for (verb, _), count in self.api.requests.items() if verb == "resize")

    def times(self, end: float) -> list[float]:
        """Have a round in each second up to ``end``, and say in which of them a resize was asked for."""
        found = []
        while self.now < end:
            before = self.asked()
            self.resizer.round(self.now)
            found += [self.now] * (self.asked() - before)
            self.now += 1.0
        return found


@pytest.mark.parametrize("refusal", [INVALID, LIMITED, DENIED])
def test_a_restore_that_is_refused_for_good_is_asked_for_ever_more_rarely(
    api: Api, server: Server, tmp_path: Path, refusal: tuple[int, str]
) -> None:
    server.status, server.message = refusal
    node = Node(api, tmp_path, "peer0")
    times = node.times(8 * REFUSED_PAUSE)
    assert times[:5] == [0.0, PAUSE, 3 * PAUSE, 7 * PAUSE, 15 * PAUSE]
    assert times[-1] - times[-2] == REFUSED_PAUSE
    assert not node.resizer.powerless


@pytest.mark.parametrize("failure", [FAILING, SLOW])
def test_a_restore_that_fails_is_asked_for_ever_more_rarely(
    api: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, failure: tuple[int, str]
) -> None:
    """Nobody has refused it, so it is not said, and tried again within a minute."""
    server.status, server.message = failure
    times = Node(api, tmp_path, "peer0").times(300.0)
    assert times[:5] == [0.0, PAUSE, 3 * PAUSE, 7 * PAUSE, 15 * PAUSE]
    assert times[-1] - times[-2] == FAILED_PAUSE
    assert not caplog.records


def wanting(api: Api, folder: Path) -> tuple[Node, Pod]:
    """Give a node with one pod, whose request is as it was found and is to be raised."""
    node = Node(api, folder)
    node.pods["peer0"] = raised("peer0", cpu="100m", annotations={})
    pod = read_pod(node.pods["peer0"])
    assert pod is not None
    node.resizer.want(pod, 8192)
    return node, pod


@pytest.mark.parametrize(("failure", "most"), [(FAILING, 4), (SLOW, 4), (DENIED, 1)])
def test_a_raise_that_fails_is_given_up_within_a_minute(
    api: Api, server: Server, tmp_path: Path, failure: tuple[int, str], most: int
) -> None:
    """Files are written for its pod then."""
    server.status, server.message = failure
    node, pod = wanting(api, tmp_path)
    times = node.times(60.0)
    assert failure[1] in str(node.resizer.takes(pod))
    assert len(times) == most
    assert node.resizer.record("peer0") is None
    assert not (tmp_path / "requests").exists()


def test_a_raise_that_may_be_in_force_is_not_given_up(api: Api, server: Server, tmp_path: Path) -> None:
    """The server refuses what follows because its pod is not as seen: the watch is behind."""
    server.status, server.message = OUTDATED
    node, pod = wanting(api, tmp_path)
    node.times(60.0)
    assert node.resizer.takes(pod) is None
    server.status, server.message = FAILING
    node.pods["peer0"] = raised("peer0", cpu="8")
    node.resizer.want(pod, 16384)
    assert len(node.times(240.0)) < 8
    assert node.resizer.takes(pod) is None


def test_a_raise_that_failed_for_a_moment_is_made(api: Api, server: Server, tmp_path: Path) -> None:
    server.status, server.message = FAILING
    node, pod = wanting(api, tmp_path)
    node.times(2 * PAUSE)
    server.status = 200
    node.times(4 * PAUSE)
    assert node.resizer.takes(pod) is None
    assert node.resizer.problem("peer0") is None
    server.status, server.message = FAILING
    node.times(node.now + 5 * PAUSE)
    assert node.resizer.takes(pod) is None  # the time in which it fails has begun anew


def test_where_nothing_was_asked_for_the_files_are_free_at_once(api: Api, server: Server, tmp_path: Path) -> None:
    """The annotation fails, too, so that nothing can be taken back, and nothing need be."""
    server.message, server.all = FAILING[1], FAILING[0]
    node, pod = wanting(api, tmp_path)
    node.times(60.0)
    assert FAILING[1] in str(node.resizer.takes(pod))
    assert node.resizer.record("peer0") is None
    assert node.asked() == 0


def test_while_the_server_is_away_no_pod_is_taken_on(api: Api, tmp_path: Path) -> None:
    node, pod = wanting(api, tmp_path)
    assert node.resizer.takes(pod) is None
    node.followed = False
    node.times(1.0)
    assert node.resizer.takes(pod) == "the API server is away"
    assert node.resizer.record("peer0") is None
    node.followed = True
    assert node.resizer.takes(pod) is None


def test_while_the_server_is_away_what_is_moved_stays_so(api: Api, tmp_path: Path) -> None:
    node = Node(api, tmp_path, "peer0")
    node.leave_in_journal("peer0")
    node.followed = False
    node.times(1.0)
    assert node.resizer.record("peer0") is not None
    pod = read_pod(node.pods["peer0"])
    assert pod is not None
    assert node.resizer.takes(pod) is None


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_busy_is_left_alone_for_as_long_as_it_asks(
    api: Api, server: Server, tmp_path: Path, status: int
) -> None:
    server.status, server.message, server.later = status, "too many requests, please try again later", "12"
    node = Node(api, tmp_path, "peer0", "peer1")
    assert node.times(20.0) == [0.0, 12.0]  # the first answer holds for all pods
    server.status, server.later = 200, ""
    assert node.times(30.0)[:2] == [24.0, 24.0]


def test_the_end_waits_for_no_server_that_asks_for_longer(api: Api, server: Server, tmp_path: Path) -> None:
    server.status, server.message, server.later = 503, "shutting down", "60"
    node = Node(api, tmp_path, "peer0", "peer1")
    node.leave_in_journal("peer0")
    node.resizer.close()  # its clock stands still
    assert node.asked() == 1


def test_a_restore_that_is_refused_for_good_is_said_once_for_each_pod(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Node(api, tmp_path, "peer0", "peer1").times(10 * PAUSE)
    said = [one.getMessage() for one in caplog.records]
    assert {one.partition(": ")[0] for one in said} == {"fab/peer0", "fab/peer1"}
    assert len(said) == 2
    assert all("pod resize is not allowed" in one and "not restored" in one for one in said)


def test_a_pod_that_is_seen_too_late_is_asked_for_as_often_as_before(
    api: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.status, server.message = OUTDATED
    assert Node(api, tmp_path, "peer0").times(4 * PAUSE) == [0.0, PAUSE, 2 * PAUSE, 3 * PAUSE]
    assert not caplog.records


def test_what_was_restored_after_all_is_said_anew_when_it_is_refused_again(
    api: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(api, tmp_path, "peer0")
    node.times(1.0)
    server.status = 200
    node.times(2 * PAUSE)
    server.status = INVALID[0]
    times = node.times(5 * PAUSE)
    assert (times, len(caplog.records)) == ([2 * PAUSE, 3 * PAUSE], 2)


def test_a_pod_whose_restore_was_refused_is_raised_as_soon_as_any_other(
    api: Api, server: Server, tmp_path: Path
) -> None:
    node = Node(api, tmp_path, "peer0")
    assert node.times(8 * PAUSE)[-1] == 7 * PAUSE
    server.status = 200
    pod = read_pod(node.pods["peer0"])
    assert pod is not None
    node.resizer.want(pod, 8192)
    assert node.times(16 * PAUSE)[0] == 8 * PAUSE


def test_a_pod_whose_restore_was_refused_is_forgotten_as_soon_as_it_is_gone(api: Api, tmp_path: Path) -> None:
    node = Node(api, tmp_path, "peer0")
    node.times(1.0)
    node.pods.clear()
    node.times(2.0)
    assert node.resizer.record("peer0") is None


def test_a_server_that_is_away_meanwhile_changes_neither(
    api: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(api, tmp_path, "peer0")
    node.times(4 * PAUSE)
    server.status = 503
    assert node.times(8 * PAUSE) == [7 * PAUSE]
    server.status = INVALID[0]
    assert (node.times(12 * PAUSE), len(caplog.records)) == ([11 * PAUSE], 1)


@pytest.mark.parametrize("original", ["4", "much", "-1"])
def test_an_annotation_that_is_not_believed_is_no_request_left_without_the_right(
    api: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, original: str
) -> None:
    """Nobody could put back what it names, so nobody is asked to."""
    server.forbidden = True
    node = Node(api, tmp_path)
    node.pods["peer0"] = raised("peer0", original)
    node.times(3 * FORBIDDEN_PAUSE)
    assert not node.resizer.powerless
    assert node.resizer.record("peer0") is None
    assert dict(api.requests) == {("annotate", "403"): 1}
    assert ["left alone" in one.getMessage() for one in caplog.records] == [True]
    assert not (tmp_path / "requests").exists()


def test_a_right_that_is_missing_is_said_until_it_is_granted(
    api: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.forbidden = True
    node = Node(api, tmp_path, "peer0")
    assert node.times(3 * FORBIDDEN_PAUSE) == [0.0, FORBIDDEN_PAUSE, 2 * FORBIDDEN_PAUSE]
    assert node.resizer.powerless
    assert ["no right to put it back" in one.getMessage() for one in caplog.records] == [True]
    server.forbidden = False
    server.status, server.message = LIMITED
    node.times(node.now + 1)
    assert not node.resizer.powerless
    assert ["not restored" in one.getMessage() for one in caplog.records] == [False, True]


def test_a_right_that_is_missing_stays_so_while_nobody_tells(
    api: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.forbidden = True
    node = Node(api, tmp_path, "peer0")
    node.times(1.0)
    server.untold = True
    assert node.times(3 * FORBIDDEN_PAUSE) == [FORBIDDEN_PAUSE, 2 * FORBIDDEN_PAUSE]
    assert node.resizer.powerless
    assert len(caplog.records) == 1


def test_a_refusal_is_no_missing_right_while_nobody_tells(
    api: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The pause neither begins anew nor grows."""
    server.status, server.message = LIMITED
    node = Node(api, tmp_path, "peer0")
    node.times(4 * PAUSE)
    server.untold = True
    assert node.times(12 * PAUSE) == [7 * PAUSE, 11 * PAUSE]
    assert not node.resizer.powerless
    server.untold = False
    assert node.times(24 * PAUSE) == [15 * PAUSE, 23 * PAUSE]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("journal", [False, True])
def test_a_pod_of_no_ledger_raises_no_alarm_by_its_annotation_alone(
    api: Api, server: Server, tmp_path: Path, journal: bool
) -> None:
    """Anyone may write such an annotation on a pod of its own."""
    server.forbidden = True
    node = Node(api, tmp_path, "peer0")
    if journal:
        node.leave_in_journal("peer0")
    node.pods["peer0"] = raised("peer0", labels={})
    assert node.times(3 * FORBIDDEN_PAUSE)[0] == 0.0
    assert node.resizer.powerless == journal
    assert (tmp_path / "requests").exists() == journal


def test_somebody_elses_value_is_left_alone_after_a_restart_too(
    api: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the annotation cannot be erased, it alone would say that 700m are ours."""
    monkeypatch.setattr(Resizer, "_run", lambda resizer: None)  # the rounds are the test's
    server.status = 200
    node = Node(api, tmp_path)
    node.pods["peer0"] = raised("peer0", cpu="100m")
    pod = read_pod(node.pods["peer0"])
    assert pod is not None
    node.resizer.want(pod, 512)
    assert node.times(1.0) == [0.0]
    server.forbidden = True
    node.pods["peer0"] = raised("peer0", cpu="700m")
    node.resizer.keep_only(set())
    for _ in range(2):
        caplog.clear()
        tried = api.requests["annotate", "403"]
        assert node.times(2 * FORBIDDEN_PAUSE) == []
        assert api.requests["annotate", "403"] - tried == 2
        assert ["left alone" in one.getMessage() for one in caplog.records] == [True]
        assert str(node.resizer.takes(pod)).endswith("left alone")
        assert (node.resizer.record("peer0"), node.resizer.problem("peer0")) == (None, None)
        assert not node.resizer.powerless
        node.resizer.close()
        assert len(caplog.records) == 1
        known, node = node.pods, Node(api, tmp_path)
        node.pods |= known
        node.resizer.start()
    server.forbidden = False
    assert node.times(2.0) == []
    assert not (tmp_path / "requests").exists()


def test_a_value_of_ours_that_somebody_else_sets_again_stays_theirs(api: Api, server: Server, tmp_path: Path) -> None:
    server.forbidden = True
    node = Node(api, tmp_path, "peer0")
    node.leave_in_journal("peer0")
    for cpu in ("700m", "400m", "100m"):
        node.pods["peer0"] = raised("peer0", cpu=cpu)
        assert node.times(node.now + 2 * FORBIDDEN_PAUSE) == []
        assert not node.resizer.powerless


def test_a_restored_request_that_its_kubelet_does_not_apply_stays_on_record(
    api: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It applies a pod's resources together, and somebody has asked for more memory than the node has."""
    server.status = 200
    node = Node(api, tmp_path, "peer0")
    node.leave_in_journal("peer0")
    node.times(1.0)
    restored = raised("peer0", cpu="100m")
    status = restored["status"]
    status["containerStatuses"][0]["resources"] = {"requests": {"cpu": "400m"}}
    status["conditions"] = [{"type": PENDING, "reason": "Infeasible", "message": "Node didn't have enough: memory"}]
    node.pods["peer0"] = restored
    assert node.times(4 * PAUSE) == []
    assert (tmp_path / "requests").exists()
    said = "request: restored, but its kubelet keeps 400m: Infeasible: Node didn't have enough: memory"
    assert [one.getMessage() for one in caplog.records] == [f"fab/peer0: {said}"]
    assert node.resizer.problem("peer0") == said
    for asked in ("100m", "400m"):
        (tmp_path / "asked").unlink(missing_ok=True)
        restored["spec"]["containers"][0]["resources"]["requests"]["cpu"] = asked
        with pytest.raises(KubectlError, match="its kubelet keeps 400m: Infeasible"):
            put_back(["sh", "-c", f'echo "$*" >> {tmp_path}/asked', "kubectl"], restored)
        told = (tmp_path / "asked").read_text() if asked == "400m" else ""
        assert (told.count("patch pod"), "annotations" in told) == (int(asked == "400m"), False)
    restored["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"
    status["conditions"] = []
    node.times(5 * PAUSE)
    assert (node.resizer.record("peer0"), node.resizer.problem("peer0")) == (None, None)
    assert not (tmp_path / "requests").exists()


def test_a_kubelet_that_has_applied_it_meanwhile_is_no_problem_any_more(
    api: Api, server: Server, tmp_path: Path
) -> None:
    """Whatever is wanted then, if it is too little to be asked for."""
    server.status = 200
    node = Node(api, tmp_path, "peer0")
    node.leave_in_journal("peer0")
    node.times(1.0)
    node.pods["peer0"] = raised("peer0", cpu="100m")
    status = node.pods["peer0"]["status"]
    status["containerStatuses"][0]["resources"] = {"requests": {"cpu": "400m"}}
    status["conditions"] = [{"type": PENDING, "reason": "Deferred", "message": "memory"}]
    node.times(2 * PAUSE)
    assert "keeps 400m" in str(node.resizer.problem("peer0"))
    pod = read_pod(node.pods["peer0"])
    assert pod is not None
    node.resizer.want(pod, 110)
    status["containerStatuses"][0]["resources"] = {"requests": {"cpu": "100m"}}
    assert node.times(3 * PAUSE) == []
    assert node.resizer.problem("peer0") is None

"""Requests whose restore a server or a kubelet refuses: each is said once, and asked for ever more rarely."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from k8s_refusals import DENIED, FAILING, INVALID, LIMITED, OUTDATED, SLOW, Node, Server, raised, refusing

from qioi.commands.kubectl import KubectlError, put_back
from qioi.kubernetes.client import Api
from qioi.kubernetes.pod_states import FAILED_PAUSE
from qioi.kubernetes.pods import read_pod
from qioi.kubernetes.requests import PENDING
from qioi.kubernetes.resizer import FORBIDDEN_PAUSE, REFUSED_PAUSE, Resizer
from qioi.kubernetes.resizes import PAUSE


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def api(server: Server) -> Iterator[Api]:
    with refusing(server) as api:
        yield api


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


@pytest.mark.parametrize("refusal", [DENIED, LIMITED, FAILING])
def test_a_pod_whose_annotation_alone_cannot_be_erased_has_its_files_written(
    api: Api, server: Server, tmp_path: Path, refusal: tuple[int, str]
) -> None:
    """Its request is as it was found. The annotation is tried until it goes, and a later raise counts as any other."""
    node = Node(api, tmp_path)
    node.pods["peer0"] = raised("peer0", cpu="100m", annotations={})
    pod = read_pod(node.pods["peer0"])
    assert pod is not None
    node.resizer.want(pod, 512)
    assert node.times(1.0) == [0.0]
    node.pods["peer0"] = raised("peer0", cpu="100m")
    server.all, server.message = refusal
    node.times(PAUSE - 1)
    assert node.resizer.record("peer0") is not None  # a change may still be on its way
    node.times(PAUSE + 2)
    assert node.resizer.record("peer0") is None
    assert str(node.resizer.takes(pod)).startswith("its resize was refused")
    assert (tmp_path / "requests").exists()
    node.resizer.want(pod, 512)
    assert node.resizer.record("peer0") is not None
    node.resizer.keep_only(set())
    server.all = None
    node.times(node.now + 2 * FORBIDDEN_PAUSE)
    assert (node.resizer.record("peer0"), (tmp_path / "requests").exists()) == (None, False)


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


@pytest.mark.parametrize("labels", [{}, {"qioi.io/role": "peer"}])
@pytest.mark.parametrize(("journal", "covered"), [(False, False), (True, False), (False, True)])
def test_a_pod_of_no_ledger_raises_no_alarm_by_its_annotation_alone(
    api: Api, server: Server, tmp_path: Path, journal: bool, covered: bool, labels: dict[str, str]
) -> None:
    """Anyone may write such an annotation, and a role, on a pod of its own."""
    server.forbidden = True
    node = Node(api, tmp_path, "peer0")
    if journal:
        node.leave_in_journal("peer0")
    node.covered = {"peer0"} if covered else set()
    node.pods["peer0"] = raised("peer0", labels=labels)
    assert node.times(3 * FORBIDDEN_PAUSE)[0] == 0.0
    assert node.resizer.powerless == (journal or covered)
    assert (tmp_path / "requests").exists() == (journal or covered)


def test_a_pod_whose_policy_is_seen_later_raises_the_alarm_then(api: Api, server: Server, tmp_path: Path) -> None:
    """As at a start, where the pods may be listed before the policies."""
    server.forbidden = True
    node = Node(api, tmp_path, "peer0")
    node.covered = set()
    node.times(PAUSE)
    assert not node.resizer.powerless
    node.covered = {"peer0"}
    node.times(FORBIDDEN_PAUSE)
    assert node.resizer.powerless


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
        assert (told.count("patch pod"), '"remove"' in told) == (int(asked == "400m"), False)
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

"""What is told on pods, and how few requests that makes of it."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from k8s_objects import pod_object
from msgspec.structs import replace

from qioi.kubernetes.correlator import KEPT, NODE, NODE_REFILL, POD, POD_REFILL, WAITING, Correlator, Key
from qioi.kubernetes.events import Teller, Telling
from qioi.kubernetes.pods import Pod, read_pod
from qioi.show.snapshot import ComponentState

NAME = "fab/peer0"
#: What an object's name may be (RFC 1123).
SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def pod(name: str = "peer0", uid: str | None = None) -> Pod:
    found = read_pod(pod_object(name, labels={"qioi.io/role": "peer"}, uid=uid))
    assert found is not None
    return found


def state(share: int, problem: str | None = None) -> ComponentState:
    return ComponentState(NAME, "peer", "g", share=share, original=100, reason="waits", problem=problem)


def told(*shares: int) -> list[tuple[int, str, str]]:
    """Let a pod have these shares for a second each; give what was told, and at which second."""
    teller, pods = Teller(), {NAME: pod()}
    return [
        (second, one.reason, one.message)
        for second, share in enumerate(shares)
        for one in teller.step([state(share)], pods, float(second), 1.8e9 + second)
    ]


def test_one_interference_is_told_three_times_however_many_steps_it_takes() -> None:
    up, down = [200, 400, 800, 1600], [1500, 1200, 900, 600, 300]
    assert told(100, *up, *[1600] * 20, *down, *[100] * 12) == [
        (1, "InterferenceDetected", "shares 100 -> 200: waits"),
        (14, "SharesRaised", "shares 200 -> 1600: waits"),
        (40, "InterferenceReleased", "shares 1600 -> 100, as found"),
    ]


def test_what_comes_back_at_once_is_the_same_interference() -> None:
    assert [reason for _, reason, _ in told(*[200, 100, 100, 100] * 20)] == ["InterferenceDetected"]


def test_a_share_that_hardly_grows_or_never_stands_is_not_told() -> None:
    assert len(told(150, *[200] * 30, *range(300, 30_300, 1000))) == 1


def test_what_somebody_else_sets_is_no_interference() -> None:
    teller, pods = Teller(), {NAME: pod()}
    assert teller.step([state(5000, "somebody else has changed its share: left alone")], pods, 0.0, 1.8e9) == []
    assert teller.step([replace(state(5000), original=None)], pods, 1.0, 1.8e9) == []


def test_the_end_tells_of_each_pod_that_is_put_back_once() -> None:
    teller = Teller()
    teller.step([state(200)], {NAME: pod()}, 0.0, 1.8e9)
    teller.step([state(800)], {NAME: pod()}, 1.0, 1.8e9)
    (told,) = teller.end(1.8e9 + 2)
    assert (told.reason, told.message) == ("InterferenceReleased", "shares 800 -> as found: the daemon ends")
    assert (told.pod, told.wall, teller.end(1.8e9 + 2)) == (pod(), 1.8e9 + 2, [])


@pytest.mark.parametrize("again", [False, True])
def test_the_end_tells_nothing_of_a_share_that_somebody_else_has_set(again: bool) -> None:
    """It stays, unless it was taken up again."""
    teller, pods = Teller(), {NAME: pod()}
    teller.step([state(200)], pods, 0.0, 1.8e9)
    teller.step([state(5000, "somebody else has changed its share: left alone")], pods, 1.0, 1.8e9)
    if again:
        teller.step([state(300)], pods, 2.0, 1.8e9)
    assert len(teller.end(1.8e9)) == again


def test_a_pod_made_anew_is_another_one() -> None:
    teller = Teller()
    for uid in ("a", "b"):
        (one,) = teller.step([state(200)], {NAME: pod(uid=uid)}, 0.0, 1.8e9)
        assert (one.pod.uid, one.reason) == (uid, "InterferenceDetected")
    assert teller.step([], {}, 60.0, 1.8e9) == []
    (again,) = teller.step([state(200)], {NAME: pod(uid="b")}, 61.0, 1.8e9)
    assert again.reason == "InterferenceDetected"


@pytest.mark.parametrize("runs", [True, False])
def test_a_pod_that_no_policy_covers_any_more_is_released_if_it_runs(runs: bool) -> None:
    teller, one = Teller(), pod(uid="a")
    for second, share in enumerate((200, 400)):
        teller.step([state(share)], {NAME: one}, float(second), 1.8e9, {"a"})
    told = teller.step([], {}, 2.0, 1.8e9, {"a"} if runs else {"b"})
    assert [(one.reason, one.message) for one in told] == (
        [("InterferenceReleased", "shares 400 -> as found: no policy covers the pod")] if runs else []
    )
    assert teller.step([], {}, 3.0, 1.8e9, {"a"}) == []


# ---- tellings -> requests


def telling(of: Pod, reason: str = "R", message: str = "m") -> Telling:
    return Telling(of, reason, message, 1.8e9)


def send(correlator: Correlator, now: float) -> list[tuple[str, int]]:
    """Send all that may be sent now."""
    sent = []
    while (write := correlator.next(now)) is not None:
        correlator.sent(write, now)
        sent.append((write.method, write.body["count"]))
    return sent


@pytest.mark.parametrize("end", ["-", "--", "."])
def test_an_event_on_a_pod_with_a_long_name_has_a_name_that_the_server_takes(end: str) -> None:
    """A pod's name has up to 253 characters."""
    correlator = Correlator("n")
    correlator.take(telling(pod("p" * (200 - len(end)) + end + "q" * 50, uid="a")))
    write = correlator.next(0.0)
    assert write is not None
    assert SUBDOMAIN.fullmatch(write.body["metadata"]["name"])


def test_a_pod_is_told_of_in_a_series_and_ever_more_rarely() -> None:
    correlator, one = Correlator("n"), pod()
    seen = []
    for second in range(1200):
        correlator.take(telling(one))
        seen += [(second, *sent) for sent in send(correlator, float(second))]
    assert seen[:POD] == [(0, "POST", 1), *((at, "PATCH", at + 1) for at in range(1, POD))]
    assert [at for at, _, _ in seen[POD:]] == pytest.approx([POD_REFILL * number for number in (1, 2, 3)], abs=POD + 1)
    assert all(count == at + 1 for at, _, count in seen)


def test_a_node_is_heard_of_all_its_pods_at_once_and_then_slowly() -> None:
    correlator = Correlator("n")
    for number in range(NODE + 10):
        correlator.take(telling(pod(f"p{number}")))
    assert len(send(correlator, 0.0)) == NODE
    assert [len(send(correlator, second)) for second in (NODE_REFILL - 1, NODE_REFILL, 3 * NODE_REFILL)] == [0, 1, 2]


def test_an_event_that_the_server_has_forgotten_is_made_anew() -> None:
    correlator, one = Correlator("n"), pod()
    for now in (0.0, KEPT - 1, 2 * KEPT - 1):
        correlator.take(telling(one))
        (sent,) = send(correlator, now)
        assert sent == (("POST", 1) if now != KEPT - 1 else ("PATCH", 2))
    correlator.take(telling(one))
    write = correlator.next(2 * KEPT)
    assert write is not None
    assert write.method == "PATCH"
    correlator.lost(write)  # somebody has deleted it
    assert send(correlator, 2 * KEPT) == [("POST", 1)]


def test_an_event_may_be_added_to_until_the_server_forgets_it() -> None:
    """The server's answer to the last request is after that."""
    correlator = Correlator("n")
    correlator.take(telling(pod()))
    send(correlator, 0.0)
    correlator.take(telling(pod()))
    write = correlator.next(KEPT - 0.1)
    assert write is not None
    assert write.method == "PATCH"
    correlator.sent(write, KEPT + 0.1)
    correlator.take(telling(pod()))
    assert send(correlator, KEPT + 1.0) == [("PATCH", 3)]


def test_what_waits_is_bounded_and_the_oldest_goes_first() -> None:
    correlator = Correlator("n")
    for number in range(WAITING + 1):
        correlator.take(telling(pod(f"p{number}")))
    write = correlator.next(0.0)
    assert write is not None
    assert write.body["involvedObject"]["name"] == "p1"


def test_what_the_server_has_not_taken_comes_after_all_others() -> None:
    correlator = Correlator("n")
    for name in ("p0", "p1", "p2"):
        correlator.take(telling(pod(name)))
    failed = correlator.next(0.0)
    assert failed is not None
    correlator.put_off(failed)
    correlator.take(telling(pod("p0")))
    asked = []
    while (write := correlator.next(0.0)) is not None:
        correlator.sent(write, 0.0)
        asked.append((write.key[0], write.body["count"]))
    assert asked == [("uid-of-p1", 1), ("uid-of-p2", 1), ("uid-of-p0", 2)]


def test_an_event_is_asked_for_again_by_its_name() -> None:
    """The server may have made it, where its answer was lost."""
    correlator = Correlator("n")
    correlator.take(telling(pod()))
    first = correlator.next(0.0)
    assert first is not None
    correlator.put_off(first)
    correlator.take(telling(pod()))
    again = correlator.next(1.0)
    assert again is not None
    assert again.body["metadata"]["name"] == first.body["metadata"]["name"]
    assert again.body["count"] == 2


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ABC"), st.floats(0, 10)), max_size=300))
def test_nothing_is_lost_and_no_bound_exceeded(steps: list[tuple[int, str, float]]) -> None:
    correlator, now = Correlator("n"), 0.0
    counted: dict[Key, int] = {}
    news: Counter[Key] = Counter()
    requests: Counter[str] = Counter()

    def send_all() -> None:
        while (write := correlator.next(now)) is not None:
            correlator.sent(write, now)
            before = counted.get(write.key, 0) if write.method == "PATCH" else 0
            counted[write.key] = write.body["count"]
            news[write.key] += write.body["count"] - before
            requests[write.key[0]] += 1

    for number, reason, pause in steps:
        now += pause
        correlator.take(telling(pod(f"p{number}"), reason))
        send_all()
    assert all(made <= POD + now / POD_REFILL for made in requests.values())
    assert requests.total() <= NODE + now / NODE_REFILL
    for _ in range(3 * POD):
        now += POD_REFILL
        send_all()
    assert news == Counter((f"uid-of-p{number}", reason) for number, reason, _ in steps)

"""What is to be done about a pod's CPU request: tables, and every order of events by chance."""

from __future__ import annotations

from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from k8s_objects import pod_object
from k8s_toy_server import Quiet, answering

from qioi.controller.guard.journal import Journal
from qioi.kubernetes.client import Access, Api, Object
from qioi.kubernetes.pods import MAX_KEPT, Pod, read_pod, slim
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION, CpuRequest, read_request, shares_of
from qioi.kubernetes.resizer import NAME, Resizer
from qioi.kubernetes.resizes import (
    PAUSE,
    Do,
    Record,
    after_resize,
    begin,
    entry_of,
    in_force,
    is_raised,
    left_over,
    record_of,
    refused,
    replacement,
    request_for,
    step,
)
from qioi.model import MAX_SHARES


def cpu(asked: str = "100m", **more: object) -> CpuRequest:
    return CpuRequest(asked=asked, **more)  # type: ignore[arg-type]


def pod(asked: str = "100m", **more: object) -> Pod:
    found = read_pod(slim(pod_object(labels={"qioi.io/role": "peer"})))
    assert found is not None
    return replace(found, cpu=cpu(asked, **more))


def raw(asked: str = "100m", limit: str | None = None, **more: Any) -> Object:
    """Give a pod as the API does."""
    made = pod_object(**{"labels": {"qioi.io/role": "peer"}, **more})
    limits = {} if limit is None else {"limits": {"cpu": limit}}
    for one in made["spec"]["containers"]:
        one["resources"] = {"requests": {"cpu": asked}, **limits}
    return slim(made)


def record(wanted: int | None = None, ours: tuple[int, ...] = (), **more: object) -> Record:
    made = begin(pod())
    assert made is not None
    return replace(made, wanted=wanted, ours=ours, **more)  # type: ignore[arg-type]


#: More labels than are kept of a pod.
MANY = {"qioi.io/role": "peer", **{f"label-{number}": "v" for number in range(5_000)}}


@given(st.integers(2, 262144))
def test_a_request_makes_the_shares_that_it_is_for(shares: int) -> None:
    asked = request_for(record(), cpu(), shares)
    assert shares_of(asked) in (max(102, shares), max(102, shares) + 1)


def test_a_request_stays_below_the_limit_and_above_the_original() -> None:
    assert request_for(record(), cpu(limit="500m"), 4096) == 499
    assert request_for(record(), cpu(limit="100m"), 4096) == 100
    assert request_for(record(), cpu(), 50) == 100


def test_in_force_is_what_the_kubelet_has_applied() -> None:
    assert in_force(record(), cpu("200m", actual="100m", pending="Deferred: no room")) == 102


@given(st.integers(0, 100_000), st.integers(1, 110_000))
def test_a_request_that_may_be_moved_can_be_raised(asked: int, limit: int) -> None:
    """A pod that is taken, but whose request never moves, would have neither lever."""
    seen = pod(f"{asked}m", limit=f"{max(asked, limit)}m")
    if (known := begin(seen)) is not None:
        target = request_for(known, seen.cpu, MAX_SHARES)
        assert step(replace(known, wanted=target), seen.cpu, now=0.0) == (Do.RECORD, target)
        assert asked < target < limit


@pytest.mark.parametrize(
    ("known", "seen", "expected"),
    [
        (record(400), cpu(), (Do.RECORD, 400)),  # the original goes on record first
        (record(400, noted=True), cpu(original="100m"), (Do.RESIZE, 400)),
        (record(400, (100, 400), noted=True), cpu(), (Do.RECORD, 400)),  # put back by hand: it is on no record now
        (record(400, (100, 400), noted=True), cpu("400m"), (Do.NOTHING, None)),
        (record(430, (100, 400), noted=True), cpu("400m"), (Do.NOTHING, None)),  # too little to be worth a request
        (record(800, (100, 400), noted=True, changed=9.0), cpu("400m"), (Do.NOTHING, None)),  # too soon
        (record(800, (100, 400), noted=True), cpu("400m", original="100m"), (Do.RESIZE, 800)),
        (record(None, (100, 400), noted=True, changed=9.0), cpu("400m"), (Do.RESIZE, 100)),  # back: at once
        (record(None, (400, 100), noted=True, changed=9.0), cpu(), (Do.NOTHING, None)),  # what is seen may be old
        (record(None, (400, 100), noted=True), cpu(), (Do.ERASE, None)),
        (record(None, (400, 100), noted=True), cpu(actual="400m", pending="Infeasible: memory"), (Do.NOTHING, None)),
        (record(None, (400, 100), noted=True), cpu(actual="100m", pending="Infeasible: memory"), (Do.ERASE, None)),
        (record(None, (400, 100), noted=True), cpu(actual="50m", pending="Infeasible: another's"), (Do.ERASE, None)),
        (record(None, (400, 100), noted=True), cpu(actual="400m"), (Do.ERASE, None)),  # the kubelet is about to
        (record(None, noted=True), cpu(actual="400m", pending="Deferred: another's"), (Do.ERASE, None)),
        (record(400, (100, 400), noted=True), cpu("250m"), (Do.GIVE_UP, None)),  # somebody else
        (record(None, (100, 400), noted=True), cpu("250m"), (Do.GIVE_UP, None)),
        (record(400, (100, 400), noted=True), cpu(""), (Do.GIVE_UP, None)),
        (record(400, (100, 400), noted=True), None, (Do.FORGET, None)),
    ],
)
def test_what_is_next(known: Record, seen: CpuRequest | None, expected: tuple[Do, int | None]) -> None:
    assert step(known, seen, now=10.0) == expected


@pytest.mark.parametrize(
    ("original", "asked", "expected"),
    [
        ("100m", "400m", (Do.RESIZE, 100)),
        ("100m", "100m", (Do.ERASE, None)),
        ("4", "400m", (Do.GIVE_UP, None)),  # a tenant would have its request raised
        ("much", "400m", (Do.GIVE_UP, None)),
        ("-1", "400m", (Do.GIVE_UP, None)),
        ("100m", "", (Do.GIVE_UP, None)),
    ],
)
def test_an_annotation_is_believed_where_it_can_be_true(
    original: str, asked: str, expected: tuple[Do, int | None]
) -> None:
    seen = raw(asked, annotations={ORIGINAL_ANNOTATION: original})
    known = left_over(seen)
    assert known is not None
    cpu = read_request(seen, known.container)
    assert step(known, cpu, now=0.0) == expected
    assert is_raised(cpu) == (expected[0] is not Do.GIVE_UP)


@pytest.mark.parametrize(
    ("labels", "containers", "container"),
    [
        ({}, ("main",), "main"),
        ({"qioi.io/role": "peer", "qioi.io/ignore": "true"}, ("couchdb", "peer"), "peer"),
        ({"qioi.io/container": "second"}, ("first", "second"), "second"),
        ({"qioi.io/role": "peer"}, ("first", "second"), "first"),
        ({}, ("first", "second"), None),
        ({"qioi.io/container": "third"}, ("first", "second"), None),
        ({"qioi.io/role": "boss"}, ("couchdb", "peer"), None),
        (MANY, ("couchdb", "peer"), "peer"),
    ],
)
def test_the_container_that_an_annotation_speaks_of(
    labels: dict[str, str], containers: tuple[str, ...], container: str | None
) -> None:
    """Whatever has become of the pod: it may crash, and its labels may have changed."""
    seen = raw("400m", labels=labels, containers=containers, running=False, annotations={ORIGINAL_ANNOTATION: "100m"})
    known = left_over(seen)
    assert (None if known is None else known.container) == container
    if known is not None:
        assert known == Record("fab", "peer0", "uid-of-peer0", known.container, "100m", (400,), noted=True)


def test_what_was_asked_for_stays_ours_until_it_is_seen() -> None:
    first = after_resize(record(400, noted=True), 100, 400, 0.0)
    assert first.ours == (100, 400)
    behind = after_resize(replace(first, wanted=800), 100, 800, PAUSE)  # the watch still shows the original
    assert step(behind, cpu("400m", original="100m"), now=2 * PAUSE) == (Do.RESIZE, 800)
    assert step(replace(behind, wanted=None), cpu("400m"), now=2 * PAUSE) == (Do.RESIZE, 100)
    assert after_resize(behind, 800, 900, 3 * PAUSE).ours == (800, 900)


def test_whatever_is_asked_for_unseen_what_is_in_force_stays_ours() -> None:
    """The watch still shows the original, by which the server refuses all that follows, again and again."""
    known = after_resize(record(400, noted=True), 100, 400, 0.0)
    for number in range(100):
        known = replace(known, wanted=1000 + 200 * number)
        do, target = step(known, cpu(original="100m"), now=(number + 1) * PAUSE)
        assert (do, target is None) == (Do.RESIZE, False)
        known = after_resize(known, 100, target or 0, (number + 1) * PAUSE)
    assert len(known.ours) < 12
    assert step(known, cpu("400m", original="100m"), now=200 * PAUSE) == (Do.RESIZE, known.ours[-1])
    assert step(replace(known, wanted=None), cpu("400m", original="100m"), now=200 * PAUSE) == (Do.RESIZE, 100)
    assert step(known, cpu(f"{known.ours[-1]}m", original="100m"), now=200 * PAUSE) == (Do.RESIZE, known.wanted)


def test_a_refusal_counts_while_something_of_ours_is_asked_for() -> None:
    pending = cpu("400m", pending="Infeasible: too much")
    assert refused(record(400, (100, 400)), pending) == "Infeasible: too much"
    assert refused(record(None, (100, 400)), pending) is None
    assert refused(record(400), cpu(pending="Deferred: another's")) is None
    assert refused(record(400, (100, 400)), replace(pending, actual="200m")) == "Infeasible: too much"
    assert refused(record(400, (100, 400)), replace(pending, actual="400m")) is None  # it is about another resource


def leave_in_journal(resizer: Resizer, folder: Path, known: Record) -> None:
    """Have a daemon before this one left this."""
    Journal(folder, name=NAME).store([entry_of(known)])
    resizer.load()


def test_a_server_that_does_not_answer_is_asked_only_now_and_then(tmp_path: Path) -> None:
    api, seen, now = Api(Access("http://127.0.0.1:9")), pod(), 0.0
    resizer = Resizer(api, tmp_path, lambda: {seen.uid: raw()}, lambda: True, lambda: now)
    resizer.want(seen, 2048)
    for _ in range(10):
        resizer.round(now)
        now += 1.0
    assert dict(api.requests) == {("annotate", "unreachable"): 2}
    assert "127.0.0.1:9" in str(resizer.problem(seen.uid))


@pytest.mark.parametrize("change", [{"labels": {"qioi.io/role": "peer", "qioi.io/ignore": "true"}}, {"labels": {}},
                                    {"running": False}, {"qos": ""}, {"labels": MANY}])  # fmt: skip
def test_a_request_is_restored_whatever_has_become_of_its_pod(tmp_path: Path, change: dict[str, Any]) -> None:
    """Nobody answers here, so it is tried again and again, and it stays on record."""
    api, objects, now = Api(Access("http://127.0.0.1:9")), {"uid-of-peer0": raw()}, 0.0
    resizer = Resizer(api, tmp_path, lambda: objects, lambda: True, lambda: now)
    resizer.want(pod(), 400)
    resizer.round(now)  # the journal has it
    objects["uid-of-peer0"] = raw("400m", annotations={ORIGINAL_ANNOTATION: "100m"}, **change)
    leave_in_journal(resizer, tmp_path, record(None, (100, 400)))
    now += PAUSE
    resizer.round(now)
    assert api.requests["resize", "unreachable"] == 1
    assert resizer.record("uid-of-peer0") is not None
    del objects["uid-of-peer0"]
    now += PAUSE
    resizer.round(now)
    assert resizer.record("uid-of-peer0") is None
    assert not (tmp_path / "requests").exists()


def test_a_request_of_which_nothing_is_known_stays_on_record(tmp_path: Path) -> None:
    """Its pod's annotations are longer than what is kept of a pod, so it may still be ours."""
    api, now = Api(Access("http://127.0.0.1:9")), 0.0
    objects = {"uid-of-peer0": raw("400m", annotations={ORIGINAL_ANNOTATION: "1" * MAX_KEPT})}
    resizer = Resizer(api, tmp_path, lambda: objects, lambda: True, lambda: now)
    known = record(None, (100, 400), noted=True)
    leave_in_journal(resizer, tmp_path, known)
    resizer.round(now)
    assert (resizer.record(known.uid), dict(api.requests)) == (known, {})
    objects["uid-of-peer0"] = raw("400m", annotations={ORIGINAL_ANNOTATION: "100m"})
    resizer.round(now)
    assert api.requests["resize", "unreachable"] == 1


def test_a_change_whose_answer_is_lost_is_no_problem_once_it_is_seen(tmp_path: Path) -> None:
    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            if not self.path.endswith("/resize"):  # there, it hangs up
                self.answer({})

    seen, now = pod(), 0.0
    objects = {seen.uid: raw()}
    with answering(Answer) as api:
        resizer = Resizer(api, tmp_path, lambda: objects, lambda: True, lambda: now)
        resizer.want(seen, 2048)
        resizer.round(now)
        assert (api.requests["annotate", "200"], api.requests["resize", "unreachable"]) == (1, 1)
        assert str(resizer.problem(seen.uid)).startswith("request: ")
        objects[seen.uid] = raw("2", annotations={ORIGINAL_ANNOTATION: "100m"})  # the server has carried it out
        now += PAUSE
        resizer.round(now)
        assert resizer.problem(seen.uid) is None
        assert api.requests.total() == 2


def test_what_nothing_tells_of_is_left_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    api, seen = Api(Access("http://127.0.0.1:9")), raw(labels={}, containers=("a", "b"),
                                                       annotations={ORIGINAL_ANNOTATION: "100m"})  # fmt: skip
    resizer = Resizer(api, tmp_path, lambda: {"uid-of-peer0": seen}, lambda: True, lambda: 0.0)
    for _ in range(3):
        resizer.round(0.0)
    assert [one.getMessage() for one in caplog.records] == [
        "fab/peer0: qioi.io/original-cpu-request: nothing tells of which container: left as it is"
    ]
    assert not api.requests


def test_a_request_is_restored_before_that_of_another_container_is_moved(tmp_path: Path) -> None:
    api = Api(Access("http://127.0.0.1:9"))
    resizer, seen = Resizer(api, tmp_path, dict, lambda: True, lambda: 0.0), pod()
    resizer.want(seen, 400)
    assert (known := resizer.record(seen.uid)) is not None
    assert known.wanted is not None
    resizer.want(replace(seen, main="another"), 400)
    assert (known := resizer.record(seen.uid)) is not None
    assert (known.container, known.wanted) == ("main", None)


@pytest.mark.parametrize(("original", "guarded"), [("100m", True), (None, False)])
def test_a_change_counts_only_while_the_annotation_tells_of_it(original: str | None, guarded: bool) -> None:
    """A server may get to it long after we have given it up and erased the annotation. One that is gone guards none."""
    patch = replacement(record(200), cpu(original=original), "200m")
    path = "/metadata/annotations/qioi.io~1original-cpu-request"
    assert ({"op": "test", "path": path, "value": original} in patch) is guarded
    assert patch[-1]["op"] == "replace"
    assert {one["op"] for one in patch[:-1]} == {"test"}


def test_the_journal_knows_it_again() -> None:
    known = record(400, (100, 400))
    assert record_of(entry_of(known)) == replace(known, wanted=None, noted=True)


@given(st.lists(st.one_of(st.none(), st.integers(100, 8000)), max_size=30))
def test_whatever_was_wanted_the_original_comes_back(wishes: list[int | None]) -> None:
    """The API's side is a number that changes when it is asked to."""
    known, current, now = record(), 100, 0.0

    def settle(known: Record, current: int, now: float) -> tuple[Record, int, Do]:
        do, target = step(known, cpu(f"{current}m", original="100m" if known.noted else None), now)
        if do is Do.RECORD:
            known = replace(known, noted=True)
        if target is not None:
            assert known.noted  # never a change without a record of the original
            known, current = after_resize(known, current, target, now), target
        return known, current, do

    for wish in wishes:
        known = replace(known, wanted=wish)
        known, current, do = settle(known, current, now)
        assert do is not Do.GIVE_UP
        now += PAUSE
    known = replace(known, wanted=None)
    for _ in range(2):
        known, current, do = settle(known, current, now)
        now += PAUSE
    assert (current, do) == (100, Do.ERASE)


@given(st.lists(st.tuples(st.one_of(st.none(), st.integers(100, 8000)), st.sampled_from([False] * 9 + [True])),
                max_size=60))  # fmt: skip
def test_whatever_a_watch_shows_too_late_the_original_comes_back(wishes: list[tuple[int | None, bool]]) -> None:
    """The server refuses what is asked by an old view; what is seen is one of the values that were in force."""
    known, current, seen, now = record(), 100, 100, 0.0

    def go_on(known: Record, current: int) -> tuple[Record, int, Do]:
        do, target = step(known, cpu(f"{seen}m", original="100m" if known.noted else None), now)
        known = replace(known, noted=known.noted or do is Do.RECORD)
        if target is not None:
            known, current = after_resize(known, seen, target, now), target if seen == current else current
        return known, current, do

    for wish, shown in wishes:
        known, current, do = go_on(replace(known, wanted=wish), current)
        assert do is not Do.GIVE_UP
        now += PAUSE
        seen = current if shown else seen
    known, do = replace(known, wanted=None), Do.NOTHING
    for _ in range(3):
        seen = current
        known, current, do = go_on(known, current)
        now += PAUSE
    assert (current, do) == (100, Do.ERASE)

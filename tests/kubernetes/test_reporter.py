"""What a node's reporter writes again, when, and what it says meanwhile, beside a server that refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from k8s_objects import pod_object, policy_object
from k8s_toy_server import Quiet, answering

import qioi.kubernetes.reporter
from qioi.kubernetes.absence import LOOK, LOST, SPREAD
from qioi.kubernetes.client import Api
from qioi.kubernetes.events import Telling
from qioi.kubernetes.pods import read_pod
from qioi.kubernetes.policies import Judged, judge
from qioi.kubernetes.reporter import EVENTS_PAUSE_MAX, REFUSED_PAUSE, Reporter, manager_of
from qioi.kubernetes.reports import HEARTBEAT, PAUSE, Sight, condition, due, words


class Site:
    """A node's reporter by a clock of the test's, and a server that refuses what the test has it refuse.

    ``refusals`` are HTTP statuses by a part of the path and query. Each takes ``wait`` seconds, and says to come back
    after ``later`` seconds, if these are any. ``asked`` are all requests, with their times.
    """

    def __init__(self, api: Api, refusals: dict[str, int], asked: list[str]) -> None:
        self.refusals, self._asked = refusals, asked
        self.now = self.wait = 0.0
        self.later = ""
        self.asked: list[tuple[float, str]] = []
        self.reporter = Reporter(api, "n1", lambda: self.now)

    def offer(self, *names: str, nodes: tuple[str, ...] = (), problem: str | None = "p", settled: bool = True) -> None:
        """Have policies of these names, with these nodes' entries, a verdict if settled, and a problem here."""
        raw: list[dict[str, Any]] = [policy_object(name, channel=name) for name in names]
        for one, verdict in zip(raw, sorted(judge(raw), key=lambda each: names.index(each.name)), strict=True):
            one["status"] = {"nodes": [{"name": node, "observedAt": "t"} for node in nodes]}
            if settled:
                one["status"]["conditions"] = [condition(verdict, 0.0)]
        judged = judge(raw)
        by_name = {one.name: Sight("n1", "files", one, None, problem=problem, looked=self.now) for one in judged}
        self.reporter.offer({by_name[name].judged.path: by_name[name] for name in names})

    def tell(self, *namespaces: str) -> None:
        """Have one event for a pod of each namespace."""
        for namespace in namespaces:
            pod = read_pod(pod_object(namespace=namespace, labels={"qioi.io/role": "peer"}, uid=namespace))
            assert pod is not None
            self.reporter.tell([Telling(pod, "SharesRaised", "m", 1.8e9)])

    def rounds_until(self, end: float) -> None:
        """Have a round in each second up to ``end``."""
        while self.now < end:
            self.now += 1.0
            self.reporter._round()
            self.note()

    def note(self) -> None:
        """Note what was asked for at the time that it is now."""
        self.asked += [(self.now, path) for path in self._asked]
        self._asked.clear()

    def times(self, part: str) -> list[float]:
        """Say when something was asked for whose path or query has this part."""
        return [at for at, path in self.asked if part in path]


@pytest.fixture
def site() -> Iterator[Site]:
    refusals: dict[str, int] = {}
    asked: list[str] = []

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            status = next((status for part, status in refusals.items() if part in self.path), 200)
            made.now += 0.0 if status == 200 else made.wait
            self.answer({"message": "so it is"}, status, made.later if status != 200 else "")

        def do_PATCH(self) -> None:
            self.do_POST()

    with answering(Answer) as api:
        made = Site(api, refusals, asked)
        yield made


@pytest.mark.parametrize("length", [1, 123])
def test_a_nodes_field_manager_has_its_name_where_that_fits(length: int) -> None:
    assert manager_of("n" * length) == "qioi-" + "n" * length


def test_long_names_that_begin_alike_are_two_field_managers() -> None:
    """A node's name has up to 253 characters."""
    names = ["n" * 123 + end for end in ("a", "b", "b.example", "b" * 130)]
    managers = {manager_of(one) for one in names}
    assert (len(managers), {len(one) for one in managers}) == (4, {128})


def test_of_policies_that_are_gone_nothing_is_kept(site: Site) -> None:
    site.offer("pay", "bill")
    site.rounds_until(1)
    site.offer("bill")
    site.rounds_until(2)
    assert [path.rpartition("/")[2] for path in site.reporter._said] == ["bill"]


@pytest.mark.parametrize("status", [401, 403, 408, 409])
def test_a_status_that_is_refused_for_now_is_written_later(site: Site, status: int) -> None:
    """Ever more rarely, and the others at once: a channel's rate is forgotten after a minute."""
    site.refusals["/pay/"] = status
    site.offer("pay", "bill")
    for _ in range(190):
        site.rounds_until(site.now + 1)
        assert f"{status} so it is" in str(site.reporter.problem)
    site.refusals.clear()
    site.rounds_until(200)
    assert site.times("/pay/") == [1.0, 6.0, 16.0, 36.0, 76.0, 76.0 + REFUSED_PAUSE, 76.0 + 2 * REFUSED_PAUSE]
    assert (site.times("/bill/"), site.reporter.problem) == ([1.0], None)


def test_after_a_status_that_was_taken_the_next_refusal_is_the_first_again(site: Site) -> None:
    site.refusals["/pay/"] = 403
    site.offer("pay", problem="one")
    site.rounds_until(20)
    site.refusals.clear()
    site.rounds_until(40)
    site.refusals["/pay/"] = 403
    site.offer("pay", problem="another")
    site.rounds_until(50)
    assert site.times("/pay/") == [1.0, 6.0, 16.0, 36.0, 41.0, 41.0 + PAUSE]


@pytest.mark.parametrize(("asked", "again"), [("/pay/", 19.0), ("/events", 18.0)])
def test_a_server_that_wants_to_be_left_alone_is(site: Site, asked: str, again: float) -> None:
    """By all that this node would write, for as long as it says; the policy that was refused comes after the others."""
    site.refusals[asked], site.later = 429, "17"
    site.offer("pay", "bill")
    site.tell("fab")
    site.rounds_until(1)
    before = len(site.asked)
    site.refusals.clear()
    site.offer("pay", "bill", "play")
    site.rounds_until(17)
    assert len(site.asked) == before
    site.rounds_until(30)
    assert (site.times("/play/"), site.times(asked)[-1], site.reporter.problem) == ([18.0], again, None)


def test_an_event_that_the_server_has_made_already_is_added_to(site: Site) -> None:
    """Its answer was lost, and the same one asked for again."""
    site.tell("fab")
    site.refusals["/events"] = 504
    site.rounds_until(2)
    site.refusals["/events"] = 409
    site.rounds_until(10)
    assert site.reporter.problem is None
    site.refusals.clear()
    site.tell("fab")
    site.rounds_until(20)
    assert len(site.times("/events")) == 3
    assert len(site.times("/events/")) == 1


def test_a_server_that_has_too_much_to_do_is_asked_for_nothing_else(site: Site) -> None:
    site.refusals["/pay/"] = 429
    site.offer("pay", "bill")
    site.tell("fab")
    site.rounds_until(1)
    assert len(site.asked) == 1
    site.refusals.clear()
    site.rounds_until(2 * PAUSE)
    assert (site.times("/pay/"), site.reporter.problem) == ([1.0, 1.0 + PAUSE], None)


def test_statuses_that_time_out_keep_nothing_else_from_being_written(site: Site) -> None:
    site.refusals |= {"/pay/": 504, "/play/": 504}
    site.wait = 10.0
    site.offer("pay", "play", "bill")
    site.tell("fab")
    site.rounds_until(60)
    assert (site.times("/bill/"), site.times("/events")) == ([23.0], [23.0])
    assert (site.times("/pay/"), site.times("/play/")) == ([11.0, 34.0, 57.0], [22.0, 45.0, 68.0])


class Seconds:
    """A request to stop, which comes when a site's clock has gone on to ``end``."""

    def __init__(self, site: Site, end: float) -> None:
        self.site, self.end = site, end

    def wait(self, timeout: float) -> bool:
        self.site.note()
        self.site.now += timeout
        return self.site.now > self.end

    def is_set(self) -> bool:
        return False


def test_an_error_about_one_policy_keeps_no_other_from_being_written(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The others come in the round after it, and the log has room for more."""

    def broken(sight: Sight, *others: Any) -> dict[str, Any] | None:
        if sight.judged.name == "pay":
            raise ValueError("it makes no sense")
        return due(sight, *others)

    monkeypatch.setattr(qioi.kubernetes.reporter, "due", broken)
    site.offer("pay", "bill")
    site.tell("fab")
    monkeypatch.setattr(site.reporter, "_stop", Seconds(site, 30.0))
    site.reporter._run()
    assert (site.times("/bill/"), site.times("/events")) == ([1.0 + PAUSE], [1.0 + PAUSE])
    assert len(caplog.records) == 5


def test_what_is_told_while_no_status_is_taken_is_bounded(site: Site) -> None:
    site.refusals["/pay/"] = 504
    site.offer("pay")
    site.tell("fab", "bill")
    site.rounds_until(1)
    assert site.times("/events") == []
    assert not site.reporter._told  # the correlator has it, which keeps no more than it may


def test_a_status_that_is_refused_for_good_is_said_and_not_written_again(site: Site) -> None:
    site.refusals["/pay/"] = 422
    site.offer("bill", "pay")
    site.rounds_until(2 * REFUSED_PAUSE)
    assert (site.times("/pay/"), site.reporter.problem is not None) == ([1.0], True)
    site.offer("bill")
    site.rounds_until(site.now + 1)
    assert site.reporter.problem is None


def test_a_policy_that_is_gone_before_its_status_is_written_is_no_problem(site: Site) -> None:
    site.refusals["/pay/"] = 404
    site.offer("pay")
    site.rounds_until(2 * REFUSED_PAUSE)
    assert (site.times("/pay/"), site.reporter.problem) == ([1.0], None)


@pytest.mark.parametrize(("status", "removed"), [(401, 0), (403, 1), (408, 2), (409, 2), (422, 2), (503, 0)])
def test_what_lost_nodes_have_said_is_removed_whatever_else_is_refused(site: Site, status: int, removed: int) -> None:
    """Unless others may not have been able to write, there or at all: then it may be what a living node has said."""
    site.refusals["/pay/status?fieldManager=qioi-n1&"] = status
    for _ in range(2):
        site.offer("bill", "pay", nodes=("n2",))
        site.rounds_until(site.now + 1)
        site.now += LOST + SPREAD
    assert site.reporter.problem
    assert len(site.times("fieldManager=qioi-n2&")) == removed


def test_what_other_nodes_say_of_policies_that_are_none_of_this_nodes_is_read_rarely(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand policies of a hundred nodes are half a million entries."""
    read: list[str] = []

    def counted(judged: Judged) -> dict[str, str]:
        read.append(judged.name)
        return words(judged)

    for module in ("absence", "reporter", "reports"):
        monkeypatch.setattr(f"qioi.kubernetes.{module}.words", counted)
    known = [{**policy_object(one, channel=one), "status": {"nodes": [{"name": "n2", "observedAt": "t"}]}}
             for one in ("pay", "bill")]  # fmt: skip
    for raw, verdict in zip(known, judge(known), strict=True):
        raw["status"]["conditions"] = [condition(verdict, 0.0)]
    judged = judge(known)
    for _ in range(int(10 * LOOK)):
        site.reporter.offer({one.path: Sight("n1", "files", one, None, looked=site.now) for one in judged})
        site.rounds_until(site.now + 1)
    assert site.asked == []
    assert 0 < len(read) <= (10 + 2) * len(judged)
    left = {**known[0], "status": {**known[0]["status"], "components": [{"name": "p", "node": "n1"}]}}
    site.reporter.offer({one.path: Sight("n1", "files", one, None, looked=site.now) for one in judge([left, known[1]])})
    site.rounds_until(site.now + 1)
    assert [path.partition("fieldManager=")[2] for _, path in site.asked] == ["qioi&force=true", "qioi-n1&force=true"]
    assert len(site.times("/pay/")) == 2  # what the daemon before has left may hold the verdict, too


def test_the_end_posts_what_was_told_last_after_it_has_removed_its_entries(site: Site) -> None:
    site.offer("pay")
    site.rounds_until(1)
    site.tell("fab")
    site.reporter.close()
    site.note()
    assert [path.partition("?")[0].rpartition("/")[2] for _, path in site.asked] == ["status", "status", "events"]


@pytest.mark.parametrize(("status", "kept"), [(401, 1), (403, 1), (408, 1), (409, 1), (422, 1), (429, 2), (503, 2)])
def test_entries_that_the_server_does_not_let_the_end_remove_are_named(
    site: Site, status: int, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a server that has too much to do none of the rest is asked."""
    site.offer("bill", "pay", "play")
    site.rounds_until(1)
    site.refusals["/pay/"] = status
    site.reporter.close()
    site.note()
    (said,) = caplog.messages
    assert said.startswith(f"kubernetes status: {kept} policies may keep this node's entries")
    assert said.endswith(f": {status} so it is")
    assert [len(site.times(f"/{name}/")) for name in ("bill", "pay", "play")] == [2, 2, 3 - kept]


def test_a_first_status_whose_answer_is_lost_is_removed_at_the_end() -> None:
    """The server may have applied it."""
    applied: list[dict[str, Any]] = []

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            applied.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if len(applied) > 1:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"{}")

    with answering(Answer) as api:
        site = Site(api, {}, [])
        site.offer("pay")
        site.rounds_until(1)
        site.reporter.close()
    assert ["status" in one for one in applied] == [True, False]


@pytest.mark.parametrize(("first", "writes"), [(403, 2), (503, 3)])
def test_of_a_status_that_was_only_refused_the_end_removes_nothing(
    site: Site, first: int, writes: int, caplog: pytest.LogCaptureFixture
) -> None:
    """One that the server has not answered in time may have been applied, whatever was refused later."""
    site.refusals["/pay/"] = first
    site.offer("pay")
    site.rounds_until(1)
    site.refusals["/pay/"] = 403
    site.rounds_until(1 + PAUSE)
    assert len(site.asked) == 2
    site.refusals.clear()
    site.reporter.close()
    site.note()
    assert (len(site.asked), caplog.messages) == (writes, [])


def test_an_event_that_fails_is_tried_ever_more_rarely_and_after_all_others(site: Site) -> None:
    site.refusals["/namespaces/bad/"] = 503
    site.tell("bad", "fab")
    while site.now < 201:
        site.rounds_until(site.now + 1)
        assert "503 so it is" in str(site.reporter.problem)
    assert site.times("/bad/") == [1.0, 6.0, 11.0, 21.0, 41.0, 81.0, 141.0, 201.0]
    assert site.times("/fab/") == [6.0]
    site.refusals.clear()
    site.rounds_until(site.now + EVENTS_PAUSE_MAX)
    assert (site.times("/bad/")[-1], site.reporter.problem) == (site.now, None)
    site.refusals["/namespaces/bad/"] = 503
    site.tell("bad")
    site.rounds_until(site.now + 6)
    assert site.times("/bad/")[-2:] == [262.0, 267.0]  # what has come through counts


def test_an_event_that_is_forbidden_is_dropped(site: Site) -> None:
    """As in a namespace that ends."""
    site.refusals["/namespaces/bad/"] = 403
    site.tell("fab", "bad", "pay")
    site.rounds_until(1)
    assert "403 so it is" in str(site.reporter.problem)
    site.rounds_until(100)
    assert (site.reporter.problem, len(site.asked)) == (None, 3)


def test_a_verdict_is_of_one_manager_for_all_nodes(site: Site) -> None:
    """A node without the policy's pods writes nothing as itself: nobody would remove its manager once it is lost."""
    site.offer("pay", problem=None, settled=False)
    site.rounds_until(HEARTBEAT)
    assert [path.partition("fieldManager=")[2].partition("&")[0] for _, path in site.asked] == ["qioi"]
    site.rounds_until(HEARTBEAT + 1)
    assert site.times("/pay/") == [1.0, 1.0 + HEARTBEAT]  # somebody has removed it
    site.offer("pay", problem=None)
    site.rounds_until(3 * HEARTBEAT)
    site.reporter.close()
    site.note()
    assert len(site.asked) == 2


def test_a_node_whose_pods_have_moved_removes_its_entries_once(site: Site) -> None:
    site.offer("pay")
    site.rounds_until(1)
    site.offer("pay", nodes=("n1",), problem=None)
    site.rounds_until(2 * HEARTBEAT)
    assert site.times("fieldManager=qioi-n1&") == [1.0, 1.0 + PAUSE]
    site.reporter.close()
    site.note()
    assert len(site.asked) == 2


def test_a_verdict_that_is_refused_keeps_no_entry_from_being_written(site: Site) -> None:
    site.refusals["fieldManager=qioi&"] = 403
    site.offer("pay", settled=False)
    site.rounds_until(1)
    assert "403 so it is" in str(site.reporter.problem)
    site.offer("pay")
    site.rounds_until(2 * PAUSE)
    assert (site.times("fieldManager=qioi&"), site.times("fieldManager=qioi-n1&")) == ([1.0], [1.0])
    assert site.reporter.problem is None

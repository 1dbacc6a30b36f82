"""The means of a node whose API server was away when its daemon started."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from k8s_objects import pod_object
from k8s_toy_server import Quiet, answering
from test_roster import GROUP, Node
from waiting import until

import qioi.kubernetes.choice
from qioi.controller.guard.journal import Journal
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.kubernetes.actuators import Means, Offer, choose, resize_offer
from qioi.kubernetes.choice import Choice
from qioi.kubernetes.client import Access, Api
from qioi.kubernetes.resizer import Resizer
from qioi.kubernetes.roster import ClusterRoster
from qioi.model import Decision

AWAY = Api(Access("http://127.0.0.1:9"))
NRI, NO_NRI = Offer(Means.NRI, True, "containerd"), Offer(Means.NRI, False, "no socket")
FILES = Offer(Means.FILES, True, "cpu.shares")
UNANSWERED = resize_offer(True, AWAY, 0.0)
RESIZE = Offer(Means.RESIZE, True, "requests")


@contextmanager
def server(allowed: bool) -> Iterator[Api]:
    """Serve what is asked about the subresource `resize`, and the right to it."""

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer({"resources": [{"name": "pods/resize"}]})

        def do_POST(self) -> None:
            self.answer({"status": {"allowed": allowed}})

    with answering(Answer) as api:
        yield api


@pytest.mark.parametrize(
    ("found", "is_open"),
    [
        ((NO_NRI, UNANSWERED, FILES), True),
        ((NRI, UNANSWERED, FILES), False),  # it is preferred, whatever the server says
        ((NO_NRI, replace(UNANSWERED, unanswered=False), FILES), False),
        ((NO_NRI, RESIZE, FILES), False),
    ],
)
def test_a_choice_is_open_while_an_answer_may_change_it(found: tuple[Offer, ...], is_open: bool) -> None:
    assert Choice(found, AWAY).is_open is is_open


@pytest.mark.parametrize(("allowed", "means"), [(True, Means.RESIZE), (False, Means.FILES)])
def test_the_first_answer_decides(allowed: bool, means: Means, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qioi.kubernetes.choice, "AGAIN", 0.01)
    with server(allowed) as api, closing(Choice((NO_NRI, UNANSWERED, FILES), api)) as choice:
        choice.start()
        until(lambda: not choice.is_open)
        choice._thread.join()
        assert choose(choice.offers).means is means
        assert [one.means for one in choice.offers] == [Means.NRI, Means.RESIZE, Means.FILES]
        assert api.requests.total() == (3 if allowed else 2)


def test_the_end_cuts_a_question_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests and entries are taken back over the same connection."""
    monkeypatch.setattr(qioi.kubernetes.choice, "AGAIN", 0.01)
    monkeypatch.setattr("qioi.kubernetes.client.TIMEOUT", 600.0)
    begun, over = threading.Event(), threading.Event()

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            begun.set()
            over.wait()

    with answering(Answer) as api:
        choice = Choice((NO_NRI, UNANSWERED, FILES), api)
        choice.start()
        try:
            assert begun.wait(60.0)
            choice.close()
            choice._thread.join(60.0)
            assert (choice._thread.is_alive(), choice.is_open) == (False, True)
        finally:
            over.set()


def test_a_server_that_is_still_away_decides_nothing() -> None:
    choice = Choice((NO_NRI, UNANSWERED, FILES), AWAY)
    before = choice.offers
    choice.look()
    assert choice.offers is before


class Site(Node):
    """A node whose server was away at the start."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        super().__init__(folder, journal)
        self.choice = Choice((NO_NRI, UNANSWERED, FILES), AWAY)
        resizer = Resizer(AWAY, folder, dict, lambda: True)
        self.roster = ClusterRoster(self.cluster, self.channels, self.reporter, self.choice, resizer)

    def moves_requests(self) -> bool:
        """Look for ourselves whether the loop would have requests moved."""
        (one,) = self.components
        return self.roster.other_lever.in_force(one, InForce(102, 102, Placement((GROUP,), ""))).by_request

    def answer(self) -> None:
        self.choice.offers = NO_NRI, RESIZE, FILES


@pytest.fixture
def site(tmp_path: Path, journal: Journal) -> Iterator[Site]:
    site = Site(tmp_path, journal)
    pod = pod_object(labels={"qioi.io/role": "peer"})
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    site.show(0.0, [pod])
    site.cluster.told = replace(site.cluster.told, resized=frozenset({"fab/payments"}))
    site.roster.attend(0.0)
    yield site
    site.close()


def test_the_means_are_chosen_again_once_the_server_answers(site: Site) -> None:
    assert site.retaken(0.0) == []
    assert not site.moves_requests()
    decision = Decision("fab/peer0", 102, 400, "r", channel="fab/payments")
    assert not site.roster.other_lever.take([decision]).components
    site.answer()
    site.retaken(1.0)
    assert site.moves_requests()
    assert site.roster.other_lever.take([decision]).components == {"fab/peer0"}


def test_the_means_stay_while_something_is_raised(site: Site) -> None:
    site.raise_to(400)
    site.answer()
    site.retaken(0.0)
    assert not site.moves_requests()
    site.raise_to(102)
    site.retaken(1.0)
    assert site.moves_requests()

"""States without protection: each is found, told once it lasts, counted in the metrics, and over when it is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from toy_daemon import ToySite, peer

from qioi.controller.findings.bottleneck import Bottleneck, Kind
from qioi.controller.findings.limits import Limit, Reason
from qioi.model import MAX_SHARES, Working
from qioi.monitor.commits.sources import SourceState
from qioi.show.footnotes import TROUBLES, footnotes
from qioi.show.metrics import render
from qioi.show.publisher import Orders, Publisher, tell
from qioi.show.snapshot import ChannelState, ComponentState, ConfigState, Snapshot
from qioi.show.trouble import Trouble
from qioi.show.trouble import TroubleKind as K
from qioi.show.troubles import LASTS, Lasting, find

WELL = ComponentState(
    "peer0", "peer", "docker/p", share=2048, original=1024, delay=0.001, waiting_share=0.1, cores=0.4, channel="red",
    working=Working("raise", 2048.0, 1024, 16384), threads=15,
)  # fmt: skip
LOG = SourceState("peer0", "/log", None, lines=100, commits=7, leader_changes=0)
RED = ChannelState("red", "adaptive", 100.0, throughput=50.0, age=0.5)
LIMIT = Working("raise", 20000.0, 1024, 16384)


def snapshot(
    *components: ComponentState, channels: tuple[ChannelState, ...] = (RED,), sources: tuple[SourceState, ...] = (LOG,)
) -> Snapshot:
    config = ConfigState("qioi.yaml", 0.0)
    return Snapshot("1", 1, 0.0, 1.0, False, "files", 2, channels, components or (WELL,), config, sources)


def kinds(of: Snapshot) -> dict[K, str]:
    return {one.kind: one.about for one in find(of)}


def well(**changes: Any) -> ComponentState:
    return replace(WELL, **changes)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (snapshot(), {}),
        (snapshot(sources=(replace(LOG, commits=0),)), {K.NO_COMMIT_LINES: "peer0"}),
        (snapshot(well(cores=0.01), sources=(replace(LOG, commits=0),)), {}),  # idle
        (snapshot(well(cores=None), sources=(replace(LOG, commits=0),)), {}),
        (snapshot(well(role="orderer"), sources=(replace(LOG, commits=0),)), {}),  # orderers log no commit
        (snapshot(sources=(replace(LOG, commits=0, problem="no such file"),)), {}),  # said as what it is
        (snapshot(sources=(replace(LOG, commits=0), replace(LOG, kind="metrics"))), {}),
        (
            snapshot(sources=(replace(LOG, commits=0), replace(LOG, kind="metrics", commits=0, problem="refused"))),
            {K.NO_COMMIT_LINES: "peer0"},
        ),
        (
            snapshot(channels=(replace(RED, age=None),), sources=(replace(LOG, commits=0),)),
            {K.NO_COMMIT_LINES: "peer0", K.NEVER_COMMITS: "red"},
        ),
        (
            snapshot(well(role="orderer"), channels=(replace(RED, age=None),), sources=()),
            {K.NEVER_COMMITS: "red"},
        ),
        (snapshot(well(role="client"), channels=(replace(RED, age=None),), sources=()), {}),
        (snapshot(well(cores=0.0), channels=(replace(RED, age=None),), sources=()), {}),
        (snapshot(channels=(replace(RED, age=None),)), {}),  # it commits on another channel
        (snapshot(well(threads=0)), {K.NO_THREADS: "peer0"}),
        (snapshot(well(threads=0, role="client"), well()), {}),  # a load that is not running
        (snapshot(well(threads=None, delay=None)), {}),  # not looked at yet
        (snapshot(well(delay=None)), {K.NO_SCHEDULING: "peer0"}),
        (snapshot(well(delay=None, cores=0.0)), {}),  # asleep
        (snapshot(well(share=16384, waiting_share=0.6, working=LIMIT)), {K.AT_CEILING: "peer0"}),
        (snapshot(well(share=16384, waiting_share=0.1, working=LIMIT)), {}),  # it is enough
        (snapshot(well(share=8192, waiting_share=0.6, working=LIMIT)), {}),  # on its way
        (snapshot(well(share=16384, waiting_share=0.6, working=None)), {}),
        (snapshot(well(taken=("docker/p",)), well(name="peer1")), {K.FOREIGN_SHARE: "peer0"}),
        (snapshot(well(taken=("docker/p",))), {K.FOREIGN_SHARE: "peer0", K.NOTHING_OURS: ""}),
        (
            snapshot(well(taken=("docker/p",)), well(name="client0", working=None)),
            {K.FOREIGN_SHARE: "peer0", K.NOTHING_OURS: ""},
        ),
        (snapshot(well(working=None)), {}),
        (snapshot(well(limit=Limit(Reason.BURNS, "burns", 0))), {K.BURNS: "peer0"}),
        (snapshot(well(limit=Limit(Reason.QUOTA, "stopped"))), {K.QUOTA: "peer0"}),
        (snapshot(well(limit=Limit(Reason.NO_EFFECT, "waits as long", 0))), {K.NO_EFFECT: "peer0"}),
        (snapshot(well(limit=Limit(Reason.TRIED, "is tried", 4096))), {}),
        (snapshot(well(limit=Limit(Reason.DISK, "waits"))), {}),  # the channel's bottleneck says it
        (snapshot(channels=(replace(RED, bottleneck=Bottleneck(Kind.CPU, "")),)), {K.OUT_OF_REACH: "red"}),
        (snapshot(channels=(replace(RED, bottleneck=Bottleneck(Kind.LEDGER, "")),)), {K.OUT_OF_REACH: "red"}),
        (snapshot(channels=(replace(RED, bottleneck=Bottleneck(Kind.DISK, "")),)), {}),
        (snapshot(channels=(replace(RED, throughput=96.0, bottleneck=Bottleneck(Kind.CPU, "")),)), {}),
        (snapshot(channels=(replace(RED, threshold=None, bottleneck=Bottleneck(Kind.CPU, "")),)), {}),
    ],
)
def test_what_a_snapshot_shows(seen: Snapshot, expected: dict[K, str]) -> None:
    assert kinds(seen) == expected


@given(st.lists(st.tuples(st.floats(0, 30), st.sets(st.sampled_from(K))), max_size=30))
def test_a_trouble_is_told_when_it_was_there_all_the_time(steps: list[tuple[float, set[K]]]) -> None:
    lasting, now = Lasting(), 0.0
    since: dict[K, float] = {}
    for pause, found in steps:
        now += pause
        since = {kind: since.get(kind, now) for kind in found}
        lasting, told = lasting.step(now, [Trouble(kind, "x") for kind in found])
        assert {one.kind for one in told} == {kind for kind, begun in since.items() if now - begun >= LASTS[kind]}


def test_every_kind_has_its_words() -> None:
    assert set(TROUBLES) == set(LASTS) == set(K)


@pytest.mark.parametrize("kind", K)
def test_that_a_trouble_is_no_more_is_said_by_what_was_seen(kind: K, caplog: pytest.LogCaptureFixture) -> None:
    """Not by a name that the log never had, and without what would help; why it is no more is another line's matter."""
    caplog.set_level("INFO")
    one = Trouble(kind, "peer0")
    tell([], [one])
    tell([one], [])
    warned, over = caplog.messages
    seen = over.removeprefix("peer0: no longer so: ")
    assert warned.startswith(f"peer0: not protected: {seen}")
    assert warned.removeprefix(f"peer0: not protected: {seen}")[:2] in {": ", "; "}


def test_a_higher_ceiling_is_advised_only_as_far_as_one_is_accepted() -> None:
    advice = TROUBLES[K.AT_CEILING].partition(": ")[2]
    assert f"below {MAX_SHARES}" in advice
    assert "would" not in advice


def test_a_peer_whose_commits_are_not_seen_is_told_and_well_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    orders = Orders(print, lambda _: None, print)
    publisher = Publisher(site.snapshot, site.hierarchy, orders, clock=lambda: site.now)
    site.toy.waits = {"peer0": (0.4, 0.3)}
    site.toy.sources = lambda: [replace(LOG, commits=0)]

    def told(seconds: int) -> list[str]:
        for _ in range(seconds):
            publisher.publish(site.run(1))
        return [one for one in footnotes(publisher.snapshot.document()) if "peer0: not protected" in one]

    assert told(30) == []
    (line,) = told(40)
    assert "no line on a commit" in line
    assert [one.message for one in caplog.records if one.levelname == "WARNING" and "no line on" in one.message] == [
        line
    ]
    assert b'qioi_unprotected{kind="no-commit-lines"} 1.0' in render(publisher.snapshot)
    site.toy.sources = lambda: [LOG]
    assert told(5) == []
    over = "its log is followed and has no line on a commit, although it works"
    assert f"peer0: no longer so: {over}" in caplog.messages
    assert b'qioi_unprotected{kind="no-commit-lines"} 0.0' in render(publisher.snapshot)


def test_a_share_that_somebody_else_changed_is_a_trouble(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.1, 0.9)}
    site.run(3)
    (site.hierarchy.mount / "docker/p/cpu.weight").write_text("77\n")
    assert {one.kind for one in find(site.run(2))} >= {K.FOREIGN_SHARE, K.NOTHING_OURS}
    publisher = Publisher(site.snapshot, site.hierarchy, Orders(print, lambda _: None, print), clock=lambda: site.now)
    for _ in range(40):
        publisher.publish(site.run(1))
    assert (
        "host: not protected: somebody else has changed the share of every component: this host protects nothing"
        in footnotes(publisher.snapshot.document())
    )

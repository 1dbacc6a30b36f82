"""Whose word counts for a channel: that of this node's peers, or another node's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from k8s_objects import pod_object
from k8s_site import KEY, WALL, Site

from qioi.controller.acting import Change
from qioi.controller.findings.leaders import Leadership
from qioi.controller.laws.thresholds import Threshold
from qioi.kubernetes.policy_watch import Looks
from qioi.kubernetes.remote import FORGET
from qioi.kubernetes.reports import HEARTBEAT, IDLE, RENEW, stamp
from qioi.model import ChannelReading, Decision
from qioi.show.snapshot import NOT_LOOKED_AT, ChannelState
from qioi.show.states import channel_after

PEER = pod_object("peer0", labels={"qioi.io/role": "peer"})
CHAINCODE = pod_object("cc0", labels={"qioi.io/role": "chaincode"})
ORDERER = pod_object("orderer0", labels={"qioi.io/role": "orderer"})


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Site]]:
    made: list[Site] = []

    def make(node: str) -> Site:
        made.append(Site(tmp_path, node))
        return made[-1]

    yield make
    for one in made:
        one.close()


def status(at: float, throughput: float = 90.0, age: float = 0.5, node: str = "n0") -> dict[str, Any]:
    entry = {"name": node, "observedAt": stamp(WALL + at), "throughput": throughput, "commitAgeSeconds": age}
    return {"nodes": [entry]}


def busy(site: Site, *pods: dict[str, Any], seconds: int = 10) -> None:
    """Have the peer commit ten transactions a second, from 0 on."""
    for now in range(seconds):
        site.show(now, pods)
        if now:
            site.commit()
        site.read(now)


def test_what_a_peer_that_has_left_has_logged_is_over(make: Callable[[str], Site]) -> None:
    """An orderer that stays has a log as well, but there are no commits in it."""
    site = make("n1")
    busy(site, PEER, ORDERER)
    assert site.read(10.0).height == 9
    site.show(11.0, [ORDERER], status(11.0))
    assert site.read(11.0) == ChannelReading(KEY, 90.0, 0.5)
    site.show(12.0, [ORDERER])
    assert site.read(12.0) == ChannelReading(KEY, None, None)
    assert "throughput" not in site.entry(12.0, site.read(12.0))


def shown(site: Site, now: float, before: ChannelState) -> ChannelState:
    """Give the channel's row after a period at that time."""
    return channel_after(before, site.channels.read(now).get(KEY), Threshold(None, "none"), NOT_LOOKED_AT, Leadership())


def test_what_nobody_tells_of_a_channel_is_not_shown(make: Callable[[str], Site]) -> None:
    """The last component with a log leaves this node; later another node's report is too old."""
    site = make("n1")
    busy(site, PEER, CHAINCODE)
    row = shown(site, 10.0, ChannelState(KEY, "adaptive", None))
    assert (row.height, row.age) == (9, 1.0)
    site.show(11.0, [CHAINCODE])
    row = shown(site, 11.0, row)
    assert (row.throughput, row.age, row.height) == (None, None, None)
    site.show(12.0, [CHAINCODE], status(12.0))
    row = shown(site, 12.0, row)
    assert (row.throughput, row.age) == (90.0, 0.5)
    row = shown(site, 12.0 + FORGET + 0.1, row)
    assert (row.throughput, row.age, row.height) == (None, None, None)


def test_a_peer_that_stalls_says_nothing_about_its_channel(make: Callable[[str], Site]) -> None:
    site = make("n1")
    busy(site, PEER)
    for now in range(10, 40):
        site.show(now, [PEER], status(now))
        reading = site.read(now)
        assert (reading.height is None) == (now > 9 + IDLE)
        if reading.height is None:
            assert (reading.throughput, reading.age) == (90.0, 0.5)
            assert "throughput" not in site.entry(now, reading)
    site.commit()
    assert site.read(40.0).height is not None
    assert "throughput" in site.entry(40.0, site.read(40.0))


@pytest.mark.parametrize("late", [0.0, 2.0, IDLE - 1.0])
def test_an_idle_channel_is_seen_by_ones_own_peer(make: Callable[[str], Site], late: float) -> None:
    """Another node's last report is of the same commits, however long it took, and must not hide that they are over."""
    site = make("n1")
    busy(site, PEER)
    told = 9.0 + late
    for now in range(10, int(HEARTBEAT)):
        if now >= told:
            site.show(now, [PEER], status(told, age=0.1))
        reading = site.read(now)
        assert (reading.height, reading.age) == (9, now - 9)
        assert "throughput" in site.entry(now, reading)


def test_a_report_that_is_not_renewed_hides_nothing_for_long(make: Callable[[str], Site]) -> None:
    site = make("n1")
    busy(site, PEER)
    told = 9.0 + RENEW
    site.show(told, [PEER], status(told))
    assert site.read(told).height is None
    assert site.read(told + FORGET).height is None
    assert site.read(told + FORGET + 1).height == 9


def test_how_long_a_channel_is_active_counts_anew_after_a_pause(make: Callable[[str], Site]) -> None:
    site = make("n1")
    busy(site, PEER)
    for now in range(10, 40):
        site.show(now, [PEER])
        if now >= 20:
            site.commit()
        active_for = site.sight(now, site.read(now)).active_for
        assert active_for == (max(0, now - 20) if now >= 9 + IDLE else now - 10)


@pytest.mark.parametrize("dry", [False, True])
def test_a_node_says_that_its_daemon_is_a_dry_run(make: Callable[[str], Site], dry: bool) -> None:
    site = make("n1")
    site.dry_run = dry
    site.show(0.0, [PEER])
    assert site.sight(0.0, site.read(0.0)).actuator == ("dry run: " if dry else "") + "files: cpu.shares"


@pytest.mark.parametrize(("looks", "looked"), [(None, None), (Looks(5.0), 5.0), (Looks(5.0, frozenset({"fab"})), 9.0)])
def test_a_policy_was_looked_at_when_its_copy_was_made(
    make: Callable[[str], Site], looks: Looks | None, looked: float | None
) -> None:
    site = make("n1")
    site.show(9.0, [PEER])
    site.cluster.told = dataclasses.replace(site.cluster.told, looks=looks)
    site.roster.attend(9.0)
    assert site.sight(9.0, site.read(9.0)).looked == looked


def test_a_policy_that_is_made_again_has_no_change_that_its_predecessor_led_to(make: Callable[[str], Site]) -> None:
    site = make("n1")
    site.show(0.0, [PEER])
    change = Change(Decision("fab/peer0", 1024, 2048, "waits", channel=KEY), 2000)
    decision = site.sight(0.0, site.read(0.0), [change]).decision
    assert decision is not None
    assert (decision.component, decision.message) == ("peer0", "shares 1024 -> 2000: waits")
    site.show(1.0, [PEER], uid="another")
    assert site.sight(1.0, site.read(1.0)).decision is None
    assert not site.roster._last


def test_nodes_do_not_say_each_others_rates_again(make: Callable[[str], Site]) -> None:
    """One node's peer stalls, then the channel is idle: no rate is believed after that, nor is the stalled node's."""
    sites, stalls = {name: make(name) for name in ("a", "b")}, {"a": 20, "b": 60}
    entries: dict[str, dict[str, Any]] = {}
    seen: dict[str, ChannelReading] = {}
    for now in range(200):
        for name, site in sites.items():
            site.show(now, [PEER], {"nodes": list(entries.values())})
            if 0 < now < stalls[name]:
                site.commit()
            seen[name] = site.read(now)
            entries[name] = site.entry(now, seen[name])
        if 30 < now < 60:
            assert seen["a"].throughput == pytest.approx(10.0, rel=0.2)
            assert "throughput" not in entries["a"]
            assert entries["b"]["throughput"] == pytest.approx(10.0, rel=0.2)
        if now > 60 + 2 * IDLE:
            assert {one.throughput for one in seen.values()} == {0.0}
            assert not any(entry.get("throughput") for entry in entries.values())

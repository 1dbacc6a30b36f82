"""A channel that made no commit since the daemon's start: raised on what its components do, on trial, and not beside
channels that did.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from running import Site, end
from toy_daemon import ToySite, peer
from waiting import until

from qioi.controller.best_effort import HOLD
from qioi.controller.findings.presumed import Presumed
from qioi.controller.laws.unheard import LASTS, TRIAL
from qioi.controller.period import Period
from qioi.daemon.observer import ELSEWHERE
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, Role

STARVED, IDLE = (0.1, 0.9), (0.004, 0.8)  # CPUs that a component uses, and threads that wait


def make(folder: Path, **keys: object) -> ToySite:
    """Two peers, of which one starves, and a ledger that made no commit. ``keys`` are of both peers."""
    site = ToySite(folder, [{**peer("peer0", "g/p"), **keys}, {**peer("peer1", "g/q"), **keys}], channels={"red": {}})
    site.toy.tps, site.toy.ages = {"red": 0.0}, {"red": None}  # type: ignore[dict-item]
    site.toy.waits = {"peer0": STARVED, "peer1": IDLE}
    return site


def test_what_starves_before_the_first_commit_is_raised_and_stays_when_that_brings_commits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = make(tmp_path)
    with caplog.at_level(logging.INFO, "qioi"):
        site.run(int(LASTS))
        assert (site.weight("g/p"), site.weight("g/q")) == (100, 100)
        site.run(4)
        assert site.weight("g/p") > 300
        assert site.weight("g/q") > 300  # by its own need, as when commits are seen
        assert site.component("peer0").reason.startswith("no commit is seen, but its channel works; waits 8")
        site.toy.ages, site.toy.waits = {}, {"peer0": (0.9, 0.1), "peer1": IDLE}
        site.run(int(TRIAL) + 30)
    assert site.weight("g/p") > 300
    assert not site.component("peer0").reason.startswith("no commit")
    assert [one.message for one in caplog.records if "trial" in one.message] == [
        "channel red: no commit is seen, but its components work and wait: a trial begins"
    ]


def test_a_trial_that_brings_no_commit_ends_and_all_goes_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = make(tmp_path)
    with caplog.at_level(logging.INFO, "qioi"):
        site.run(10)
        assert site.weight("g/p") > 300
        site.run(int(TRIAL) + 30)
    assert (site.weight("g/p"), site.weight("g/q")) == (100, 100)
    assert "channel red: the trial has brought no commit: nobody sends, or no share helps" in caplog.text
    site.run(60)
    assert (site.weight("g/p"), site.weight("g/q")) == (100, 100)


def test_neighbours_stay_idle_while_the_ledger_is_starved_into_silence(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {}}, best_effort=["batch"])
    site.group("batch")
    idle = site.hierarchy.mount / "batch/cpu.idle"
    idle.write_text("0")
    site.toy.tps, site.toy.ages, site.toy.waits = {"red": 0.0}, {"red": None}, {"peer0": STARVED}  # type: ignore[dict-item]
    site.run(int(LASTS))
    assert idle.read_text() == "0"
    site.run(int(HOLD) + 5)
    assert idle.read_text() == "1"
    site.run(int(TRIAL) + int(HOLD))  # which brings no commit
    assert idle.read_text() == "0"


def test_a_channel_without_a_policy_counts_as_long_as_it_commits(tmp_path: Path) -> None:
    """The components may be working for it. One that committed months ago has no say."""
    site = make(tmp_path, channels=[])
    site.toy.elsewhere = {"old": site.now - 2 * ELSEWHERE, "blue": site.now}
    for _ in range(int(ELSEWHERE) - 5):
        site.run(1)
        assert site.weight("g/p") == 100
    site.run(int(LASTS) + 10)
    assert site.weight("g/p") > 300


def test_an_idle_ledger_is_left_alone(tmp_path: Path) -> None:
    site = make(tmp_path)
    site.toy.waits = {"peer0": IDLE, "peer1": IDLE}
    for _ in range(60):
        site.run(1)
        assert (site.weight("g/p"), site.weight("g/q")) == (100, 100)


def test_the_papers_law_is_not_concerned() -> None:
    assert watch(Presumed(lambda name: name == "red"), (), None, None, ()) == {"blue"}


def watch(
    known: Presumed, channels: tuple[str, ...], red: float | None, blue: float | None, seen: tuple[str, ...]
) -> frozenset[str]:
    """Have a component of these channels starve, and a client, for some seconds."""
    one = Component("peer0", Role.PEER, "g/p", channels)
    client = Component("client", Role.CLIENT, "g/c", ("red", "blue"))
    readings = {"red": ChannelReading("red", None, red), "blue": ChannelReading("blue", None, blue)}
    delays = {name: DelayReading(name, *STARVED, 10, 1.0) for name in ("peer0", "client")}
    found: frozenset[str] = frozenset()
    for second in range(10):
        found = known.step(Period(float(second), (one, client), readings, delays, HostLoad(0.0, 0.9), heard=seen))
    return found


@pytest.mark.parametrize(
    ("channels", "red", "blue", "seen", "presumed"),
    [
        (("red",), None, 0.1, (), {"red"}),
        (("red",), 0.1, None, (), set()),
        (("red", "blue"), None, 0.1, (), set()),  # what it does may be for blue
        ((), None, 0.1, (), set()),
        (("red", "blue"), None, None, (), {"red", "blue"}),
        ((), None, None, (), {"red", "blue"}),
        ((), None, None, ("red",), {"red", "blue"}),  # an endpoint shows what was before the start
        (("red", "other"), None, None, ("other",), set()),  # one without a policy
    ],
)
def test_work_says_something_only_of_whom_nothing_else_does(
    channels: tuple[str, ...], red: float | None, blue: float | None, seen: tuple[str, ...], presumed: set[str]
) -> None:
    assert watch(Presumed(lambda _: False), channels, red, blue, seen) == presumed


@pytest.mark.slow
def test_real_work_that_starves_is_raised_without_a_commit_and_an_idle_component_beside_it_is_not(site: Site) -> None:
    """Neighbours and work are there before the daemon.

    All of them together have their part of the CPUs, whatever else runs on this host: what gets next to nothing is
    not seen to work. What idles wakes up ten times a second: on a busy host it may wait for hundreds of milliseconds
    each time, and what waits nearly always is believed to work.
    """
    site.weigh(8192)
    share = site.component("peer0")
    share.write_text("512")
    site.changes = {"channels": {"red": {"law": "adaptive"}}}
    sleeper = site.work("peer0", "import time\nwhile True: time.sleep(0.1)")
    for number in range(2 * (os.cpu_count() or 1)):
        site.work(f"hog{number}", "while True: pass")
    process = site.start()

    def is_believed_idle() -> bool:
        assert int(share.read_text()) == 512
        return site.periods() >= 10 * (LASTS + 5)

    until(is_believed_idle)
    sleeper.kill()
    site.work("peer0", "while True: pass")
    until(lambda: int(share.read_text()) > 512)
    status, text = end(process)
    assert status == 0, text
    assert "a trial begins" in text
    assert int(share.read_text()) == 512

"""Components that come and go leave nothing behind in the daemon's memory, however many there were."""

from __future__ import annotations

import gc
import hashlib
import logging
import shutil
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from deciding import decide
from toy_daemon import ToySite, peer

from qioi.controller.deciding import Controller
from qioi.controller.policy import Policy
from qioi.model import Component, Role
from qioi.monitor.commits.sources import SourceState

#: Components that come and go before the count begins; then, in each of so many counts.
FIRST, THEN, COUNTS = 20, 80, 3
#: Bytes that may stay of one: less than a name with its place in a dictionary.
STAYS = 200


def come_and_go(site: ToySite, number: int) -> None:
    """Have one container be found, raised beside neighbours, and go."""
    name, group = f"peer{number}", f"docker/{hashlib.sha256(b'%d' % number).hexdigest()}"
    site.group(group)
    come = Component(name, Role.PEER, group, ("red",), str(site.folder / "peer.log"))
    kept = site.config.components
    site.toy.used[group], site.toy.waits[name] = 0.1, (0.1, 0.9)
    site.snapshot = site.daemon.adopt(replace(site.config, components=(*kept, come)), site.snapshot)
    site.run(2)
    assert site.weight(group) > 100
    shutil.rmtree(site.hierarchy.mount / group)
    site.run(1)
    del site.toy.used[group], site.toy.waits[name]
    site.snapshot = site.daemon.adopt(site.config, site.snapshot)
    site.run(1)


@pytest.mark.slow
def test_components_that_come_and_go_leave_nothing_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "qioi")  # what is logged is kept, by pytest
    site = ToySite(tmp_path, [peer("stays", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.used, site.toy.tps = {"": 2.0, "docker": 1.9, "docker/p": 0.1}, {"red": 50.0}
    for number in range(FIRST):
        come_and_go(site, number)
    tracemalloc.start()
    try:
        kept = [memory()]
        for begin in range(FIRST, FIRST + COUNTS * THEN, THEN):
            for number in range(begin, begin + THEN):
                come_and_go(site, number)
            kept.append(memory())
    finally:
        tracemalloc.stop()
    # What components leave behind is there in every count; a table of the interpreter's that was made larger, in one.
    assert min(after - before for before, after in pairwise(kept)) < STAYS * THEN


def test_groups_above_components_are_let_go_of_with_them(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("stays", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.tps = {"red": 200.0}
    site.group("pods/pod1/c")
    come = Component("comes", Role.PEER, "pods/pod1/c", ("red",), str(site.folder / "peer.log"))
    site.toy.used = {"": 2.0, "docker": 0.1, "docker/p": 0.1, "pods": 1.9, "pods/pod1": 0.1, "pods/pod1/c": 0.1}
    site.toy.waits = {"stays": (0.1, 0.0), "comes": (0.1, 0.0)}
    config = replace(site.config, components=(*site.config.components, come))
    site.snapshot = site.daemon.adopt(config, site.snapshot)
    site.run(2)
    assert site.component("comes").placement.groups == ("pods/pod1",)  # type: ignore[union-attr]
    assert site.guard.holds("pods/pod1")
    shutil.rmtree(site.hierarchy.mount / "pods")
    site.snapshot = site.daemon.adopt(site.config, site.snapshot)
    site.run(1)
    assert not site.guard.holds("pods/pod1")


def test_a_group_above_one_component_that_is_anothers_own_stays_held(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("outer", "ledger"), peer("inner", "ledger/p")], channels={"red": {"threshold": 100}})
    site.toy.tps = {"red": 200.0}
    site.toy.used = {"": 2.0, "ledger": 0.2, "ledger/p": 0.1}
    site.toy.waits = {"outer": (0.1, 0.0), "inner": (0.1, 0.0)}
    site.run(2)
    assert site.component("inner").placement.groups == ("ledger",)  # type: ignore[union-attr]
    site.toy.used[""] = 0.2
    site.run(60)
    assert site.component("inner").placement.groups == ("ledger/p",)  # type: ignore[union-attr]
    assert site.guard.holds("ledger")


def test_what_was_said_of_a_log_goes_with_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "qioi")
    site = ToySite(tmp_path, [peer("stays", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.sources = lambda: [SourceState("gone", "/no/such.log", "/no/such.log: No such file", 0, 0, 0)]
    site.run(2)
    site.toy.sources = list
    site.run(1)
    site.toy.sources = lambda: [SourceState("gone", "/no/such.log", "/no/such.log: No such file", 0, 0, 0)]
    site.run(1)
    said = [one.getMessage() for one in caplog.records if "log of gone" in one.getMessage()]
    assert said == ["log of gone: /no/such.log: No such file"] * 2


def test_laws_of_channels_that_come_and_go_are_forgotten() -> None:
    controller = Controller({})
    tracemalloc.start()
    try:
        kept = []
        for number in range(3 * THEN):
            channel = f"channel{number}"
            component = Component(f"peer{number}", Role.PEER, "docker/p", (channel,))
            controller.adopt({channel: Policy(channel, "adaptive")})
            decide(controller, 1.0, component, 1024, 1024, {}, None, None)
            controller.adopt({})
            controller.forget(component.name)
            if number % THEN == THEN - 1:
                kept.append(memory())
    finally:
        tracemalloc.stop()
    assert min(after - before for before, after in pairwise(kept)) < STAYS * THEN


def memory() -> int:
    """Give the bytes that are in use."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]

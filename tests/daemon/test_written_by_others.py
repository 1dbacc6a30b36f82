"""Shares that somebody else writes while they are raised: the original, or another value."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from toy_daemon import ToySite, peer

from qioi.controller.guard.writer import PAUSE
from qioi.model import HostLoad
from qioi.show.http import RefusedError
from qioi.show.metrics import render
from qioi.show.publisher import Orders, Publisher

TAKEN = 'qioi_component_taken{component="peer0",role="peer"}'


def write(site: ToySite, weight: int, group: str = "g/p") -> None:
    (site.hierarchy.mount / group / "cpu.weight").write_text(str(weight))


@pytest.fixture
def site(tmp_path: Path) -> ToySite:
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {"threshold": 100, "law": "proportional"}})
    site.toy.tps = {"red": 50.0}
    site.run(2)
    assert site.weight("g/p") == 300
    return site


def test_configuration_management_that_writes_the_original_back_takes_protection_for_a_pause_only(
    site: ToySite, caplog: pytest.LogCaptureFixture
) -> None:
    write(site, 100)
    with caplog.at_level(logging.WARNING, "qioi"):
        site.run(int(PAUSE))
    assert site.weight("g/p") == 100
    assert site.component("peer0").problem == "somebody else has put its original back: left alone for 60 s"
    assert [one.message for one in caplog.records] == [f"peer0: {site.component('peer0').problem}"]
    assert f"{TAKEN} 0.0" in render(site.snapshot).decode()
    site.run(3)
    assert (site.weight("g/p"), site.component("peer0").problem) == (300, None)


def test_another_value_is_left_alone_and_alerted_of_until_it_is_adopted(site: ToySite) -> None:
    write(site, 150)
    site.run(100)
    assert site.weight("g/p") == 150
    assert site.component("peer0").taken == ("g/p",)
    assert f"{TAKEN} 1.0" in render(site.snapshot).decode()
    site.daemon.take_up("peer0")
    site.run(2)
    assert (site.weight("g/p"), site.component("peer0").taken) == (450, ())
    assert f"{TAKEN} 0.0" in render(site.snapshot).decode()
    site.guard.restore()
    assert site.weight("g/p") == 150


def test_the_order_names_components_that_are_watched(site: ToySite) -> None:
    write(site, 150)
    site.run(2)
    ordered: list[str] = []
    publisher = Publisher(site.snapshot, site.hierarchy, Orders(print, lambda _: None, ordered.append))
    adopt = publisher.routes()["POST /adopt"][1]
    assert b"peer0: taken up again from the next period on" in adopt({"component": "peer0"})
    with pytest.raises(RefusedError, match="component 'peer9': not watched: accepted are peer0"):
        adopt({"component": "peer9"})
    assert ordered == ["peer0"]
    assert "POST /adopt" not in publisher.shown("127.0.0.1")


def test_a_component_that_nobody_else_has_changed_has_nothing_to_be_taken_up(site: ToySite) -> None:
    publisher = Publisher(site.snapshot, site.hierarchy, Orders(print, lambda _: None, site.daemon.take_up))
    adopt = publisher.routes()["POST /adopt"][1]
    nothing = b"peer0: nothing to take up: none of its shares was left alone in the last period"
    assert nothing in adopt({"component": "peer0"})
    write(site, 100)  # back to the original: left alone for a pause
    site.run(2)
    publisher.publish(site.snapshot)
    assert b"peer0: taken up again" in adopt({"component": "peer0"})
    site.run(2)
    publisher.publish(site.snapshot)
    assert nothing in adopt({"component": "peer0"})
    assert site.weight("g/p") == 300


def test_a_group_above_that_somebody_else_has_set_is_adopted_with_its_component(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {"threshold": 100, "law": "proportional"}})
    site.toy.tps, site.toy.used = {"red": 50.0}, {"": 2.0, "g": 0.2, "g/p": 0.1}
    site.run(2)
    assert site.weight("g") == 300
    write(site, 150, "g")
    site.run(2)
    assert site.component("peer0").problem == "somebody else has changed g's share: left alone"
    site.daemon.take_up("peer0")
    site.run(2)
    assert (site.weight("g"), site.component("peer0").problem) == (450, None)


def test_an_adopted_share_is_not_multiplied_by_what_was_learned_before(tmp_path: Path) -> None:
    """Somebody sets four times the original, and has it adopted: QiOi had made sixteen times of it at once."""
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {}})
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.1, 0.9)}
    site.run(5)
    assert site.weight("g/p") > 400
    site.toy.waits = {"peer0": (0.1, 0.0)}
    write(site, 400)
    site.run(3)
    assert site.component("peer0").taken == ("g/p",)
    site.daemon.take_up("peer0")
    site.run(5)
    assert (site.weight("g/p"), site.component("peer0").taken) == (400, ())


def test_a_full_run_stops_no_way_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The neighbours go while nothing can be journalled: their CPU time is not held for the ledger until the end."""
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {}})
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.1, 0.9)}
    site.run(5)
    raised = site.weight("g/p")
    assert raised > 100

    def full(entries: object, *, durable: bool) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(site.guard._journal, "store", full)
    site.toy.waits, site.toy.host = {"peer0": (0.1, 0.0)}, HostLoad(0.9, 0.0)
    site.run(120)
    assert site.weight("g/p") == 100

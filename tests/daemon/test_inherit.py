"""What a daemon takes over from the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_daemon import ToySite, peer

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.handover import keep, mark
from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.owners import Nobody
from qioi.controller.levers.files import Files
from qioi.controller.levers.idle import IDLE, Idle
from qioi.controller.levers.lever import Identity
from qioi.daemon.daemon import LISTING_PATIENCE, Daemon
from qioi.daemon.inherit import inherit
from qioi.discovery.base import Found
from qioi.kernel.errors import CgroupError
from qioi.model import Component, Owner, Role
from qioi.roster import FoundRoster


def test_shares_kept_on_purpose_keep_nothing_else(tmp_path: Path) -> None:
    """A neighbour that could not be made an ordinary group again at the stop is so at the next start."""
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}}, on_exit="keep")
    site.group("batch")
    idle = site.hierarchy.mount / "batch" / "cpu.idle"
    idle.write_text("1\n")
    entry = Entry("batch", "cpu.idle", Idle(site.hierarchy, Files(site.hierarchy)).identity("batch"), 100, (IDLE,))
    Journal(site.config.state_dir, name="idle").store([entry])
    mark(site.config.state_dir).touch()
    assert inherit(site.config, site.guard, site.hierarchy) == ()
    assert idle.read_text() == "0"
    assert not (site.config.state_dir / "idle").exists()


class Listed:
    """A discovery that shows what the test has put in; nothing has an owner, as with containerd and Podman."""

    def __init__(self) -> None:
        self.now = Found(complete=False)

    def found(self) -> Found:
        return self.now

    def close(self) -> None: ...


@pytest.fixture
def site(tmp_path: Path) -> ToySite:
    """Two peers that a daemon has found, and raised together with the group above them, up to its stop."""
    peers = [peer("peer0", "pods/p0"), peer("peer1", "pods/p1")]
    site = ToySite(tmp_path, peers, channels={"red": {}}, on_exit="keep")
    site.toy.waits = {"peer0": (0.1, 0.9), "peer1": (0.1, 0.9)}
    site.toy.tps = {"red": 10.0}
    site.toy.used = {"": 2.0, "pods": 1.2, "pods/p0": 0.1, "pods/p1": 0.1, "batch": 0.8}
    site.group("batch")
    site.run(5)
    keep(site.config.state_dir, site.guard, None)
    return site


def weights(site: ToySite) -> Mapping[str, int]:
    return {group: site.weight(group) for group in ("pods", "pods/p0", "pods/p1")}


def start(site: ToySite, discovery: Listed, **sections: Any) -> None:
    """Start the next daemon, whose components are to be found."""
    site.configure(**(sections or {"components": [], "containerd": {"state": str(site.folder / "tasks")}}))
    site.guard = Guard(site.hierarchy, Files(site.hierarchy), Journal(site.config.state_dir), clock=lambda: site.now)
    kept = inherit(site.config, site.guard, site.hierarchy)
    instruments, roster = site.toy.as_instruments(site.guard, site.hierarchy), FoundRoster(site.config, discovery, None)
    site.daemon = Daemon(site.config, site.guard, instruments, roster, kept)
    site.snapshot = site.daemon.blank("files", 2)


def test_shares_of_components_that_are_found_are_not_felt_to_go_over_to_the_next_daemon(site: ToySite) -> None:
    raised, discovery = weights(site), Listed()
    assert min(raised.values()) > 100
    both = site.config.components
    start(site, discovery)
    site.run(5)
    assert weights(site) == raised
    discovery.now = Found(both, complete=True)
    for _ in range(5):
        site.run(1)
        assert min(weights(site).values()) > 100
    site.guard.restore()
    assert set(weights(site).values()) == {100}


UNNAMED = {"components": [], "channels": {}, "containerd": {"state": "/run/tasks"}}


def test_shares_of_components_whose_channels_only_logs_name_wait_for_a_commit(site: ToySite) -> None:
    """Logs are read from their ends on, so that after a start no channel is known: all kept shares went back."""
    raised, discovery = weights(site), Listed()
    unnamed = tuple(replace(one, channels=()) for one in site.config.components)
    start(site, discovery, **UNNAMED)
    discovery.now = Found(unnamed[:1], complete=True)
    site.run(3)
    discovery.now = Found(unnamed, complete=True)  # another listing, before the first commit
    site.run(3)
    assert weights(site) == raised
    site.toy.seen = ("red",)
    for _ in range(5):
        site.run(1)
        assert min(weights(site).values()) > 100
    site.guard.restore()
    assert set(weights(site).values()) == {100}


def test_kept_shares_of_a_ledger_that_commits_no_more_go_back(site: ToySite) -> None:
    discovery = Listed()
    discovery.now = Found(tuple(replace(one, channels=()) for one in site.config.components), complete=True)
    raised = weights(site)
    start(site, discovery, **UNNAMED)
    site.run(int(LISTING_PATIENCE))
    assert weights(site) == raised
    site.run(1)
    assert set(weights(site).values()) == {100}


def test_a_kept_share_that_an_owner_has_on_record_goes_back_where_this_daemon_tells_none(site: ToySite) -> None:
    """Its record would hold the raised share for good. What no owner was told of is gone on with."""
    journal = Journal(site.config.state_dir)
    first, *others = journal.load().entries
    unreached = Owner("docker", "0123abc", str(site.folder / "no.sock"))
    journal.store([replace(first, owner=unreached), *others])
    site.configure(actuator="files")
    site.guard = Guard(site.hierarchy, Files(site.hierarchy), journal, Nobody(), clock=lambda: site.now)
    inherit(site.config, site.guard, site.hierarchy)
    assert set(weights(site).values()) == {100}
    site.guard.record()
    assert [str(one.owner) for one in journal.load().entries if one.owner] == [str(unreached)]
    said = [one.message for one in site.guard.restore() if one.path == first.path]
    assert ["its owner is not put back yet: this daemon tells no owner" in one for one in said] == [True]
    assert [str(one.owner) for one in journal.load().entries] == [str(unreached)]  # for who can put it back


def test_a_client_beside_kept_shares_delays_nothing(site: ToySite) -> None:
    """It never gets a policy, so that nothing is to be waited for."""
    discovery = Listed()
    start(site, discovery)
    client = Component("client", Role.CLIENT, "pods/client")
    site.group("pods/client")
    discovery.now = Found((client,), complete=True)
    site.run(2)
    assert set(weights(site).values()) == {100}


def test_what_the_first_complete_list_does_not_want_is_put_back(site: ToySite) -> None:
    raised, discovery = weights(site), Listed()
    first = site.config.components[0]
    start(site, discovery)
    discovery.now = Found((first,), complete=False)
    site.run(3)
    assert site.weight("pods/p1") == raised["pods/p1"]
    discovery.now = Found((first,), complete=True)
    site.run(1)
    assert (site.weight("pods/p0") > 100, site.weight("pods/p1")) == (True, 100)
    discovery.now = Found((), complete=True)
    site.run(1)
    assert set(weights(site).values()) == {100}


def test_a_daemon_that_stops_before_the_list_is_complete_leaves_nothing_behind(site: ToySite) -> None:
    start(site, Listed())
    site.run(2)
    site.guard.restore()
    assert set(weights(site).values()) == {100}


def test_a_source_that_never_answers_holds_no_share_for_good(site: ToySite, caplog: pytest.LogCaptureFixture) -> None:
    raised, discovery = weights(site), Listed()
    start(site, discovery)
    discovery.now = Found(problems={"engine": "asked again"}, complete=False)
    site.run(int(LISTING_PATIENCE))
    assert weights(site) == raised
    assert site.snapshot.problems == {"engine": "asked again"}
    site.run(1)
    assert set(weights(site).values()) == {100}
    assert "not every source of components has answered" in caplog.text


def test_where_only_clients_are_found_what_is_not_listed_is_put_back_at_once(site: ToySite) -> None:
    discovery = Listed()
    discovery.now = Found()
    start(site, discovery, components=[peer("peer0", "pods/p0")], mine=["batch"])
    site.run(1)
    assert (site.weight("pods/p0") > 100, site.weight("pods/p1")) == (True, 100)


def test_what_could_not_be_restored_after_a_crash_is_tried_again(
    site: ToySite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mark(site.config.state_dir).unlink()
    discovery = Listed()
    discovery.now = Found((), complete=True)

    def refuse(self: Files, path: str, value: int, identity: Identity) -> None:
        raise CgroupError(f"{path}: Read-only file system")

    raised = weights(site)
    with monkeypatch.context() as patch:
        patch.setattr(Files, "write", refuse)
        start(site, discovery)
        site.run(3)
    assert weights(site) == raised
    assert len([one for one in caplog.messages if one.startswith("pods/p0: let go: failed: ")]) == 1
    site.run(1)
    assert set(weights(site).values()) == {100}

"""Components that burn: named and not raised on; starved, busy and queried ones are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from toy_daemon import ToySite, peer

from qioi.commands.explain import lines
from qioi.commands.status import notes
from qioi.controller.findings.burners import Burner, Burners
from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.period import Period
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, Role
from qioi.show.explain import explain

PARTS = tuple(
    Component(name, role, f"g/{name}", ("red",))
    for name, role in (("peer0", Role.PEER), ("cc0", Role.CHAINCODE), ("orderer0", Role.ORDERER))
)
#: CPUs that each uses for a hundred transactions per second.
USUAL = {"peer0": 0.4, "cc0": 0.1, "orderer0": 0.2}


class Ledger:
    """A ledger that does ``tps``; each component uses and waits for CPU time as the test says."""

    def __init__(self) -> None:
        self.burners, self.now = Burners(), 0.0

    def run(
        self, seconds: int, tps: float = 100.0, more: dict[str, float] | None = None, waits: float = 0.0, **age: float
    ) -> dict[str, Limit]:
        limits: dict[str, Limit] = {}
        for _ in range(seconds):
            self.now += 1.0
            used = {name: cores * tps / 100 + (more or {}).get(name, 0.0) for name, cores in USUAL.items()}
            delays = {name: DelayReading(name, cores, waits, 100, 1.0) for name, cores in used.items()}
            readings = {"red": ChannelReading("red", tps, age.get("age", 0.1))}
            limits = self.burners.step(Period(self.now, PARTS, readings, delays))
        return limits


def test_a_runaway_chaincode_burns_and_goes_back() -> None:
    ledger = Ledger()
    assert not ledger.run(60)
    assert not ledger.run(12, more={"cc0": 1.0})  # garbage collection is no finding
    assert not ledger.run(30)
    limits = ledger.run(20, more={"cc0": 1.0})
    assert {name: one.reason for name, one in limits.items()} == {"cc0": Reason.BURNS}
    assert "11 times the CPU time that is usual" in limits["cc0"].text
    assert limits["cc0"].allows(16_384, 1024) == 1024
    assert ledger.run(30, tps=20.0, more={"cc0": 1.0})  # what it keeps from the others does not clear it
    assert not ledger.run(40)


@pytest.mark.parametrize(
    "what",
    [
        lambda ledger: ledger.run(60, tps=200.0),  # more load
        lambda ledger: ledger.run(60, tps=5.0, waits=3.0),  # starved
        lambda ledger: ledger.run(60, more={"peer0": 1.6, "cc0": 0.5}),  # queries: a peer and its chaincode
        lambda ledger: ledger.run(60, more={"cc0": 0.2}),  # little
        lambda ledger: ledger.run(60, tps=0.0, more=dict.fromkeys(USUAL, 0.3), waits=2.0, age=60.0),  # a siege
        lambda ledger: ledger.run(60, tps=0.0, age=60.0),  # nobody sends
    ],
)
def test_what_is_no_burning(what: Callable[[Ledger], dict[str, Limit]]) -> None:
    ledger = Ledger()
    ledger.run(60)
    assert not what(ledger)


def test_one_that_works_alone_in_a_silent_channel_burns() -> None:
    limits = Ledger().run(20, tps=0.0, more={"cc0": 1.0}, age=60.0)
    assert limits["cc0"].text == "burns 1.0 CPUs, and nothing is committed"


@pytest.mark.parametrize("role", [Role.PEER, Role.REPLICA])
@pytest.mark.parametrize("silence", [0.1, 60.0])
def test_what_has_nothing_to_be_compared_with_does_not_burn(role: Role, silence: float) -> None:
    """A database's only node went back as soon as it was read from, and an idle exporter stood for its others."""
    burners = Burners()
    parts = Component("db1", role, "g/db1", ("red",)), Component("exporter", Role.SUPPORT, "g/e", ("red",))
    for second in range(120):
        used = {"db1": 0.3 if second < 60 else 1.2, "exporter": 0.01}
        delays = {name: DelayReading(name, cores, 2 * cores, 100, 1.0) for name, cores in used.items()}
        age = 0.1 if second < 60 else silence
        readings = {"red": ChannelReading("red", 100.0 if age < 1 else 0.0, age)}
        assert not burners.step(Period(float(second), parts, readings, delays))


def test_a_database_whose_one_node_is_read_from_does_not_burn() -> None:
    burners = Burners()
    parts = tuple(Component(name, Role.REPLICA, f"g/{name}", ("red",)) for name in ("db1", "db2"))
    for second in range(120):
        used = {"db1": 0.3 if second < 60 else 1.2, "db2": 0.2}
        delays = {name: DelayReading(name, cores, 2 * cores, 100, 1.0) for name, cores in used.items()}
        readings = {"red": ChannelReading("red", 100.0, 0.1)}
        assert not burners.step(Period(float(second), parts, readings, delays))


def test_where_nothing_usual_is_known_nothing_is_unusual() -> None:
    """A daemon that comes to a chaincode that burns already has nothing to compare it with."""
    ledger = Ledger()
    assert not ledger.run(10)
    assert not ledger.run(60, more={"peer0": 1.5})


def test_a_reading_of_no_time_a_client_and_components_of_other_channels_say_nothing() -> None:
    burners = Burners()
    others = (
        Component("client", Role.CLIENT, "g/client"),
        Component("everywhere", Role.PEER, "g/everywhere"),
        Component("blue", Role.PEER, "g/blue", ("blue",)),
        Component("gone", Role.PEER, "g/gone", ("red",)),
    )
    for second in range(20):
        delays = {one.name: DelayReading(one.name, 1.0, 0.5, 100, float(second > 0)) for one in others[:3]}
        delays["cc0"] = DelayReading("cc0", 1.0, 0.0, 100, 1.0)
        limits = burners.step(Period(float(second), (*PARTS, *others), {}, delays))
    assert not limits  # `everywhere` works for every channel, so that none of them works alone


def test_cpu_time_per_transaction_is_not_learned_from_what_is_unusual() -> None:
    one = Burner()
    for _ in range(100):
        one = one.add(1.0, 1.0, 100.0, 1.0)
    usual = one.usual
    for _ in range(100):
        one = one.add(9.0, 9.0, 100.0, 1.0)
    assert usual == pytest.approx(0.01)
    assert one.usual is not None
    assert one.usual < 0.0105
    assert one.times > 8
    assert Burner(usual=0.0, rate=5.0).times == 1.0


@pytest.mark.parametrize(("cores", "hours"), [(0.6, 2), (6.0, 3.5)])
def test_what_transactions_take_for_hours_becomes_usual(cores: float, hours: float) -> None:
    """A new contract of the same name needs more. It was held down until the daemon was started anew."""
    one, other = Burner(), Burner()
    for _ in range(60):
        one, other = one.add(0.1, 0.95, 100.0, 1.0), other.add(0.4, 0.95, 100.0, 1.0)
    burnt = 0
    for second in range(6 * 3600):
        one, other = one.add(cores, 0.95, 100.0, 1.0), other.add(0.4, 0.95, 100.0, 1.0)
        one = one.after(float(second), one.is_hot and one.is_burning([other], silent=False))
        burnt += one.burns
    assert not one.burns
    assert 0.9 * hours < burnt / 3600 < 1.1 * hours


def test_a_runaway_chaincode_goes_back_while_the_others_are_raised_against_it(tmp_path: Path) -> None:
    names = {"peer0": "peer", "orderer0": "orderer", "cc0": "chaincode"}
    site = ToySite(tmp_path, [peer(name, f"g/{name}", role=role) for name, role in names.items()])
    site.toy.tps, site.toy.host = {"red": 100.0}, HostLoad(0.3, 0.0)
    site.toy.waits = {name: (0.2, 0.01) for name in names}
    site.run(60)
    site.toy.tps, site.toy.host = {"red": 60.0}, HostLoad(0.0, 0.0)
    site.toy.waits = {"peer0": (0.12, 0.5), "orderer0": (0.12, 0.5), "cc0": (1.5, 0.5)}
    site.run(40)
    assert {name: site.weight(f"g/{name}") > 100 for name in names} == {"peer0": True, "orderer0": True, "cc0": False}
    document = explain(site.snapshot, "cc0", site.hierarchy)
    assert document.limit is not None
    assert ("finding", document.limit.text) in list(lines(document))
    assert any(note.startswith("cc0: burns: a committed transaction takes") for note in notes(site.snapshot.document()))

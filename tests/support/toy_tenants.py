"""Two tenants of one host: channels red and blue, each with a threshold and a peer; an orderer of both; a client."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from toy_daemon import ToySite
from toy_host import ToyHost

from qioi.controller.findings.channels import look_at_all
from qioi.controller.findings.contention import Contention, Rivals
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce, Want
from qioi.controller.period import Period
from qioi.model import ChannelReading, Component, Decision, DelayReading, HostLoad, Role

FULL, ROOM = HostLoad(0.0, 0.0), HostLoad(0.5, 0.0)
PARTS = (
    Component("red0", Role.PEER, "g/red0", ("red",)),
    Component("blue0", Role.PEER, "g/blue0", ("blue",)),
    Component("both", Role.ORDERER, "g/both", ("red", "blue")),
    Component("client", Role.CLIENT, "g/client"),
)


def period(
    red: float | None, blue: float | None, host: HostLoad | None = FULL, source: str = "configuration"
) -> Period:
    rates = {"red": red, "blue": blue}
    readings = {name: ChannelReading(name, rate, 0.1) for name, rate in rates.items() if rate is not None}
    owed = {name: Threshold(100.0, source) for name in rates}
    delays = {one.name: DelayReading(one.name, 0.8, 0.8, 10, 1.0) for one in PARTS}
    return Period(0.0, PARTS, readings, delays, host, owed)


def step(contention: Contention, one: Period, burning: Collection[str] = (), presumed: Container[str] = ()) -> Rivals:
    """Have a contention take a period in, in which nobody sends to channels that are silent and not ``presumed``."""
    return contention.step(one, burning, look_at_all(one, presumed))


def pins(**cpus: Iterable[int]) -> dict[str, frozenset[int]]:
    """The CPUs that these components may run on; one without any may run on all."""
    return {name: frozenset(each) for name, each in cpus.items() if each}


def in_force(share: int, original: int = 1024, *, kept_back: bool = True) -> InForce:
    return InForce(share, original, Placement(("g",), "", kept_back=kept_back))


def wanted(name: str, before: int, shares: int, *, shown: bool = False) -> Want:
    return Want(Decision(name, before, shares, "", None, name[:-1]), f"g/{name}", Placement((), ""), shown=shown)


def tenants_run(site: ToySite, host: ToyHost, inside: str, prompt: float = 1.0) -> tuple[int, int]:
    """One period of two tenants who compete at the groups above their own; give the weights there.

    Their own are at ``inside`` below them. Rates move by the part ``prompt`` of the way to what was done in the period.
    """
    shares = {name: site.weight(f"g/{name}") * 1024 // 100 for name in host.demand}
    delays, site.toy.host, _ = host.period(shares)
    done = {name[:-1]: 100 * delays[name].run / demand for name, demand in host.demand.items()}
    before = site.toy.tps or done
    site.toy.tps = {name: before[name] + prompt * (tps - before[name]) for name, tps in done.items()}
    site.toy.waits = {name: (one.run, one.wait) for name, one in delays.items()}
    all_of_it = sum(one.run for one in delays.values())
    its = {f"g/{name}{part}": one.run for name, one in delays.items() for part in {"", inside}}
    site.toy.used = {"": all_of_it, "g": all_of_it, **its}
    site.run(1)
    return site.weight("g/red0"), site.weight("g/blue0")

"""The plain values that the rooms of QiOi exchange.

``qioi.monitor`` produces commits and readings, ``qioi.controller`` turns readings into
decisions; neither imports the other. Everything here is immutable and does no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from qioi.values import frozen

#: The default weight of a CPU control group in cgroup v1 units
#: (kernel: Documentation/scheduler/sched-design-CFS.rst, "cpu.shares").
DEFAULT_SHARES = 1024
#: The kernel's own bounds on ``cpu.shares`` (kernel/sched/sched.h, MIN_SHARES and MAX_SHARES).
MIN_SHARES = 2
MAX_SHARES = 262_144


class Role(StrEnum):
    """What a component is to the ledger."""

    PEER = "peer"
    ORDERER = "orderer"
    CHAINCODE = "chaincode"
    BROKER = "broker"
    CLIENT = "client"


@frozen
class Credentials:
    """Files of PEM for a TLS connection: whom to believe (``None``: the system's authorities), and who we are."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


#: The system's authorities are believed, and nothing is shown.
ANYBODY = Credentials()


@dataclass(frozen=True, slots=True)
class Component:
    """One process group of the ledger with a cgroup of its own.

    ``cgroup`` is the group's path below the CPU controller's mount, without a leading slash.
    ``channels`` are the channels that it serves; empty means every channel.
    ``log`` is the file its commits are read from (peers only), ``log_format`` how that file wraps lines.
    ``metrics_url`` is where its Prometheus metrics can be asked for, as a second source of commits, ``metrics_tls``
    what that takes where it is https.
    ``owner`` names who has the group's share on a record of its own (a container engine); empty if nobody has.
    """

    name: str
    role: Role
    cgroup: str
    channels: tuple[str, ...] = ()
    log: str | None = None
    log_format: str = "plain"
    owner: str = ""
    metrics_url: str | None = None
    metrics_tls: Credentials = ANYBODY


@frozen
class Commit:
    """One block that one peer committed: a commit line of its log.

    ``time`` is the peer's own time stamp of the commit, in seconds since the epoch, UTC;
    ``None`` where the line carries none. ``transactions`` counts invalid and configuration
    transactions too, as Fabric's line does.
    """

    channel: str
    block: int
    transactions: int
    time: float | None
    peer: str = ""


@frozen
class LeaderChange:
    """A Raft leader change that one orderer logged; leader 0 means that there is none.

    ``channel`` is ``None`` where the line does not name one; ``time`` as in :class:`Commit`.
    """

    old: int
    new: int
    time: float | None
    channel: str | None = None
    orderer: str = ""


@frozen
class ChannelReading:
    """What one period's look at a channel found.

    ``throughput`` is in transactions per second, ``None`` before the first window is full.
    ``age`` is the seconds since the channel's last commit was seen, ``None`` if there was none.
    ``committed`` counts the transactions since the daemon began to look, ``None`` where they are not counted.
    ``source`` says who counts: counts of two sources can't be compared.
    """

    channel: str
    throughput: float | None
    age: float | None
    height: int | None = None
    committed: int | None = None
    source: str = "log"


@frozen
class DelayReading:
    """What the scheduler did to one component since the reading before.

    ``run`` and ``wait`` are seconds that its threads ran and were runnable but waited, summed over
    threads; ``slices`` is how often they were put on a CPU; ``interval`` is the wall time covered.
    Source: ``/proc/PID/task/TID/schedstat`` (kernel: Documentation/scheduler/sched-stats.rst).
    """

    component: str
    run: float
    wait: float
    slices: int
    interval: float
    threads: int = 0

    @property
    def delay(self) -> float | None:
        """Mean scheduling delay per time slice, in seconds; ``None`` if nothing ran."""
        return self.wait / self.slices if self.slices else None

    @property
    def waiting_share(self) -> float | None:
        """Share of runnable time that was spent waiting, 0..1; ``None`` if nothing was runnable."""
        runnable = self.run + self.wait
        return self.wait / runnable if runnable > 0 else None


@frozen
class Working:
    """How a law came to its shares: the rule it applied, what that asked for, and the bounds put on it.

    ``wanted`` is in cgroup v1 units, before rounding and before ``floor`` and ``ceiling``.
    """

    rule: str
    wanted: float
    floor: int
    ceiling: int


@frozen
class Decision:
    """What a control law wants for one component, and why.

    ``shares`` and ``previous`` are in cgroup v1 units. ``reason`` is one clause for people;
    ``error`` is diff/T where the law computed one. ``asks`` are, of all channels that the component
    serves, the priority and the shares that its law asked for: the most is ``shares``.
    """

    component: str
    previous: int
    shares: int
    reason: str
    error: float | None = None
    channel: str | None = None
    working: Working | None = None
    asks: tuple[tuple[int, int], ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the decision asks for another value than before."""
        return self.shares != self.previous

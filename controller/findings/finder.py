"""All findings about one period, in one value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from qioi.controller.findings.bottleneck import Bottleneck
from qioi.controller.findings.burners import Burners
from qioi.controller.findings.channels import look_at_all, sent_to
from qioi.controller.findings.contention import Contention
from qioi.controller.findings.diagnoses import Diagnoses
from qioi.controller.findings.effect import Effects
from qioi.controller.findings.just_enough import JustEnough
from qioi.controller.findings.leaders import Leaders, Leadership
from qioi.controller.findings.limits import Limit, strictest
from qioi.controller.findings.minimum import Minimum
from qioi.controller.findings.outside import out_of_reach
from qioi.controller.findings.presumed import Presumed
from qioi.controller.laws.need import commits, has_room
from qioi.controller.levels.placement import KeptBack
from qioi.controller.levels.wants import Want
from qioi.controller.period import Period
from qioi.model import HostLoad


class Findings(Struct, frozen=True):
    """What a period comes to.

    ``bottlenecks`` say what a channel waits for, ``leaders`` which Raft leaders it lost. Channels in ``presumed`` make
    no commits, but are taken to be sent to. To those in ``sent_to`` somebody sends: they commit, are presumed to be
    sent to, or lost a leader. ``limits`` bound the shares of components, by name; ``enough`` those of components whose
    channels are not bounded to T. ``outweighs`` are the shares, in v1 units, that outweigh the neighbours of components
    where these are heavy. ``floors`` are the least shares of a channel's orderers after lost leaders, in defaults.
    ``disturbed``: foreign work keeps the host full while commits are made. Channels in ``lacking`` do less than they
    are owed for want of the CPU, components in ``waiting`` wait for it. ``trying``: shares are moved to see what that
    does. ``loads`` is the host's load for components that others of the ledger keep back, and ``kept_back`` says, by
    their groups, who these are.
    """

    bottlenecks: Mapping[str, Bottleneck]
    leaders: Mapping[str, Leadership]
    presumed: frozenset[str] = frozenset()
    limits: Mapping[str, Limit] = field(default_factory=dict)
    floors: Mapping[str, float] = field(default_factory=dict)
    sent_to: frozenset[str] = frozenset()
    disturbed: bool = False
    lacking: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    loads: Mapping[str, HostLoad] = field(default_factory=dict)
    kept_back: Mapping[str, KeptBack] = field(default_factory=dict)
    trying: bool = False
    enough: Mapping[str, Limit] = field(default_factory=dict)
    outweighs: Mapping[str, int] = field(default_factory=dict)


class Finder:
    """Remembers, from period to period, what findings rest on."""

    def __init__(
        self,
        rest: Callable[[str, int], int],
        is_literal: Callable[[str], bool],
        neighbours_keep: float = 0.0,
        weigh: Callable[[str], int | None] = lambda _group: None,
    ) -> None:
        """Begin; ``rest`` gives a channel's default for a share found, ``is_literal`` knows channels of Algorithm 1.

        ``neighbours_keep`` is a part of the host's CPUs, 0..1. ``weigh`` gives the weight that a group that is held was
        found with, in the unit of its file.
        """
        self._diagnoses = Diagnoses()
        self._leaders = Leaders(rest, is_literal)
        self._presumed = Presumed(is_literal)
        self._burners = Burners()
        self._contention = Contention()
        self._minimum = Minimum(neighbours_keep)
        self._enough = JustEnough(weigh)
        self._effects = Effects(is_literal)

    def adopt(self, neighbours_keep: float) -> None:
        """Go on with another part of the host's CPUs that neighbours keep."""
        self._minimum.part = neighbours_keep

    def answer(self, wants: Collection[Want], capped: Container[str] = ()) -> None:
        """Take in what was asked for in this period within the limits; some were ``capped`` afterwards."""
        self._contention.answer(wants, capped)

    def step(self, period: Period, tried: bool = False) -> Findings:
        """Take one period in. ``tried``: something else than shares is on trial."""
        presumed = self._presumed.step(period)
        seen = look_at_all(period, presumed)
        found = self._diagnoses.step(period, seen)
        leaders = self._leaders.step(period)
        burning = self._burners.step(period)
        rivals = self._contention.step(period, burning, seen)
        enough = self._enough.step(period, seen)
        minimum, outside = self._minimum.step(period), out_of_reach(period)
        limits = strictest(period.forces, rivals.limits, minimum, outside, found.limits, burning)
        floors = {channel: one.factor for channel, one in leaders.items() if one.factor > 1}
        tried = tried or self._enough.is_trying(period.now)
        return Findings(
            found.channels,
            leaders,
            presumed,
            limits={**self._effects.step(period, limits, not tried, seen), **limits},
            enough=enough,
            outweighs=self._enough.outweighs,
            floors=floors,
            sent_to=sent_to(seen) | floors.keys(),
            disturbed=is_disturbed(period),
            lacking=found.lacking,
            waiting=found.waiting,
            loads=rivals.loads,
            kept_back=rivals.kept_back,
            trying=self._effects.trying,
        )


def is_disturbed(period: Period, presumed: Container[str] = ()) -> bool:
    """Say whether foreign work keeps the host full while commits are made, from its first moment to its last.

    So it does where it keeps the CPUs full that a pinned component may run on. A channel in ``presumed`` makes none,
    but is taken to be sent to.
    """
    sent_to = any(name in presumed or commits(one) for name, one in period.channels.items())
    host = period.host
    loads = () if host is None else (host, *host.pinned.values())
    return sent_to and not all(has_room(one) and has_room(replace(one, lasting=None)) for one in loads)

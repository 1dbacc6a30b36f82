"""All findings about one period, in one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from qioi.controller.findings.bottleneck import HOPELESS, Bottleneck, Kind
from qioi.controller.findings.diagnoses import Diagnoses, anybody_lacks
from qioi.controller.findings.leaders import Leaders, Leadership
from qioi.controller.laws.need import ACTIVE, has_room
from qioi.controller.laws.unheard import AllUnheard
from qioi.controller.period import Period


class Findings(Struct, frozen=True):
    """What a period comes to, by channel.

    ``bottlenecks`` say what a channel waits for, ``leaders`` which Raft leaders it lost. ``presumed`` made no commit
    yet, but are taken to be sent to. ``hopeless`` are those that no share can help, with the reason. ``floors`` are
    the least shares of orderers after lost leaders, in defaults. ``disturbed``: foreign work keeps the host full while
    commits are made. ``lacking``: a channel does less than it is owed for want of the CPU. ``waits``: one waits for it.
    """

    bottlenecks: Mapping[str, Bottleneck]
    leaders: Mapping[str, Leadership]
    presumed: frozenset[str] = frozenset()
    hopeless: Mapping[str, str] = field(default_factory=dict)
    floors: Mapping[str, float] = field(default_factory=dict)
    disturbed: bool = False
    lacking: bool = False
    waits: bool = False


class Finder:
    """Remembers, from period to period, what findings rest on."""

    def __init__(self, rest: Callable[[str, int], int], is_literal: Callable[[str], bool]) -> None:
        """Begin; ``rest`` gives a channel's default for a share found, ``is_literal`` knows channels of Algorithm 1."""
        self._diagnoses = Diagnoses()
        self._leaders = Leaders(rest)
        self._unheard = AllUnheard(is_literal)

    def step(self, period: Period) -> Findings:
        """Take one period in."""
        now, components, channels = period.now, period.components, period.channels
        found = self._diagnoses.step(now, components, channels, period.owed, period.delays, period.host, period.stalls)
        leaders = self._leaders.step(now, period.owed, components, period.elections, period.host, period.forces)
        presumed = self._unheard.step(now, components, channels, period.seen, period.delays, period.host)
        return Findings(
            found,
            leaders,
            presumed,
            hopeless={channel: one.text for channel, one in found.items() if one.kind in HOPELESS},
            floors={channel: one.factor for channel, one in leaders.items() if one.losses},
            disturbed=is_disturbed(period),
            lacking=anybody_lacks(now, channels, period.owed, found),
            waits=any(one.kind is Kind.CPU for one in found.values()),
        )


def is_disturbed(period: Period) -> bool:
    """Say whether foreign work keeps the host full while commits are made, from its first moment to its last.

    So it does where it keeps the CPUs full that a pinned component may run on.
    """
    commits = any(one.silence is not None and one.silence <= ACTIVE for one in period.channels.values())
    host = period.host
    loads = () if host is None else (host, *host.pinned.values())
    return commits and not all(has_room(one) and has_room(replace(one, lasting=None)) for one in loads)

"""From readings to decisions: every channel's policy looks at every component that serves it.

Each pair of component and channel has a law of its own, with its own memory. A component that serves
several channels gets the most that any of them asks for: a tenant at or above its threshold asks for
no raise, and takes none away from another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qioi.controller.adaptive import Adaptive
from qioi.controller.law import Bounds, HostLoad, Law, Seen
from qioi.controller.proportional import Proportional
from qioi.types import ChannelReading, Component, Decision, DelayReading, Role

#: The paper raises orderers (with their brokers) and peers alike; chaincode keeps the default.
PROPORTIONAL_ROLES = frozenset({Role.PEER, Role.ORDERER, Role.BROKER})
#: Acting by each component's own need, ours may raise a chaincode too. A client is nobody's to raise.
ADAPTIVE_ROLES = PROPORTIONAL_ROLES | {Role.CHAINCODE}


@dataclass(frozen=True, slots=True)
class Policy:
    """What one channel is owed, and by which law.

    ``default`` is S_default; ``None`` takes the share that the component was found with. So does ``floor``.
    """

    channel: str
    law: str
    threshold: float | None = None
    k: float = 4.0
    default: int | None = None
    floor: int | None = None
    ceiling: int = 16_384

    @property
    def roles(self) -> frozenset[Role]:
        """Roles that this policy's law may raise."""
        return PROPORTIONAL_ROLES if self.law == "proportional" else ADAPTIVE_ROLES

    def start(self, found: int) -> Law:
        """Make the law for one component that was found with that share."""
        default = self.default or found
        floor = self.floor or default
        bounds = Bounds(floor, max(floor, self.ceiling))
        if self.law == "proportional":
            return Proportional(bounds.clamp(default), self.k, default, bounds)
        return Adaptive.start(default, bounds)


class Controller:
    """All laws of all components, by name."""

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self._policies = dict(policies)
        self._laws: dict[str, dict[str, Law]] = {}

    def policies_for(self, component: Component) -> list[Policy]:
        """Policies that may raise this component; a component without channels serves all of them."""
        return [
            policy
            for channel, policy in self._policies.items()
            if component.role in policy.roles and (not component.channels or channel in component.channels)
        ]

    def decide(
        self,
        now: float,
        component: Component,
        share: int,
        found: int,
        channels: Mapping[str, ChannelReading],
        delay: DelayReading | None,
        host: HostLoad | None,
    ) -> Decision | None:
        """Ask every policy, take the largest share; ``None`` where no policy may raise the component.

        ``share`` is the one in force now, ``found`` the one that the component was found with.
        """
        laws = self._laws.setdefault(component.name, {})
        best: Decision | None = None
        for policy in self.policies_for(component):
            law = laws.get(policy.channel) or policy.start(found)
            reading = channels.get(policy.channel)
            seen = Seen(
                now=now,
                throughput=reading.throughput if reading else None,
                threshold=policy.threshold,
                commit_age=reading.age if reading else None,
                delay=delay,
                host=host,
            )
            laws[policy.channel], verdict = law.step(seen)
            if best is None or verdict.shares > best.shares:
                best = Decision(
                    component.name,
                    share,
                    verdict.shares,
                    verdict.reason,
                    verdict.error,
                    policy.channel,
                    verdict.working,
                )
        return best

    def forget(self, component: str) -> None:
        """Drop what is remembered of a component that is gone, or was made anew."""
        self._laws.pop(component, None)

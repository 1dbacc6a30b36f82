"""The laws of one component: one for each channel that it serves, with what it was made for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from qioi.controller.laws.law import Law
from qioi.controller.policy import Policy

#: What policies have asked for: the priority of each, and the shares.
Asks = tuple[tuple[int, int], ...]


class Made(NamedTuple):
    """What a law was made for: its policy, the share found, and the share that outweighs the neighbours."""

    policy: Policy
    found: int
    outweighs: int


class ComponentLaws:
    """The laws of a component, by channel, and what they have asked for last. Shares are in v1 units."""

    def __init__(self) -> None:
        """Begin without a law."""
        self.laws: dict[str, Law] = {}
        self._made: dict[str, Made] = {}
        #: The policies, and the two shares of :class:`Made`, that all of them were made for.
        self._made_for: tuple[tuple[Policy, ...], int, int] | None = None
        self._asked: tuple[tuple[Policy, ...], Asks] = ((), ())

    def prepare(
        self, policies: tuple[Policy, ...], found: int, outweighs: int, begin: Callable[[str], float]
    ) -> dict[str, Law]:
        """Find the laws to ask, by channel; make those that are new, and drop those of channels not served any more.

        ``found`` is the share that the component was found with, ``outweighs`` the one that outweighs its neighbours.
        Where there is no law yet, an earlier daemon, or another policy, has set the share in force: ``begin`` gives the
        share that a channel's law goes on from.
        """
        if self._made_for == (policies, found, outweighs):
            return self.laws
        self.keep({policy.channel for policy in policies})
        new = not self.laws
        for policy in policies:
            share = begin(policy.channel) if new else found
            made = Made(policy, found, outweighs if policy.follows else 0)
            self.laws[policy.channel] = self._law_for(made, share)
        self._made_for = policies, found, outweighs
        return self.laws

    def _law_for(self, now: Made, share: float) -> Law:
        """Give the law that is known, unless its policy or its shares have changed.

        A new law, or one of a component whose share somebody else set before our first write, goes on from ``share``.
        """
        policy, found, outweighs = now
        before = self._made.get(policy.channel)
        if before is None:
            self._made[policy.channel] = now
            return policy.start(found, outweighs) if share == found else policy.resume(None, found, share, outweighs)
        law = self.laws[policy.channel]
        if before == now:
            return law
        self._made[policy.channel] = now
        return policy.resume(law, found, law.share if before.found == found else share, outweighs)

    def keep(self, channels: Collection[str]) -> None:
        """Drop the laws of all other channels."""
        for channel in [one for one in self.laws if one not in channels]:
            del self.laws[channel], self._made[channel]
            self._made_for = None

    def note(self, policies: tuple[Policy, ...], asks: Asks) -> None:
        """Remember what each of the policies has asked for; 0 where it was not given that for being idle."""
        self._asked = policies, asks

    def asked_shares(self) -> Iterator[tuple[str, int]]:
        """Give the shares that each channel has asked for last."""
        policies, asks = self._asked
        return ((policy.channel, shares) for policy, (_, shares) in zip(policies, asks, strict=True))

    def shares(self) -> dict[str, float]:
        """Give the shares that the laws have come to, by channel."""
        return {channel: law.share for channel, law in self.laws.items()}

    def go_on_from(self, shares: Mapping[str, float]) -> None:
        """Have the laws of these channels go on from these shares."""
        self.laws |= {channel: self.laws[channel].at(shares[channel]) for channel in shares.keys() & self.laws.keys()}

    def limit(self, shares: int, before: int) -> None:
        """Tell the laws that only ``shares`` were given, while ``before`` was in force.

        Laws that are one object stay one.
        """
        after = {id(law): law.limited(shares, before) for law in self.laws.values()}
        self.laws |= {channel: after[id(law)] for channel, law in self.laws.items()}

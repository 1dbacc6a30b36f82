"""Which channels are bounded to their T, and what that makes of a law's verdict."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set

from msgspec.structs import replace

from qioi.controller.laws.beyond import Beyond, State
from qioi.controller.laws.law import Effect, Verdict
from qioi.controller.laws.need import room_for
from qioi.controller.period import Period
from qioi.controller.policy import Policy
from qioi.model import Bounds, Role
from qioi.model.serving import Serving


class Bounding:
    """Every channel's search for the factor that leaves what is beyond T to the neighbours."""

    def __init__(self) -> None:
        self._channels: dict[str, Beyond] = {}
        self._bounded: frozenset[str] = frozenset()
        self._serving = Serving(frozenset(Role))

    def step(self, period: Period, bounded: Mapping[str, Policy], outweighs: Mapping[str, int]) -> None:
        """Take one period in. ``bounded`` are the policies of channels that leave what is beyond T.

        ``outweighs`` are shares that outweigh heavy neighbours, by component.
        """
        before, self._channels = self._channels, {}
        states: dict[Hashable, State | None] = {}  # channels of the same components and bounds have it in common
        for channel, policy in bounded.items():
            reading, owed = period.channels.get(channel), period.owed[channel]
            if reading is None or owed.value is None or owed.is_learned:
                continue
            its = self._serving.names(channel, period.components)
            common = its, policy.default, policy.floor, policy.ceiling
            if common not in states:
                states[common] = state_of(period, its, policy, outweighs)
            if (state := states[common]) is not None:
                known = before.get(channel, Beyond())
                self._channels[channel] = known.step(period.now, owed.value, reading, state)
        self._bounded = frozenset(name for name, one in self._channels.items() if one.factor is not None)

    @property
    def channels(self) -> Set[str]:
        """The channels that have a factor."""
        return self._bounded

    def factor(self, channel: str) -> float | None:
        """Give what a channel's components have of their default share; ``None``: as much as they need."""
        known = self._channels.get(channel)
        return known.factor if known else None


def state_of(period: Period, components: Iterable[str], policy: Policy, outweighs: Mapping[str, int]) -> State | None:
    """Say how a channel's components stand; ``None`` where there is none of them."""
    its = [name for name in components if name in period.forces]
    if not its:
        return None
    shares: dict[tuple[int, int], int] = {}  # the largest of those with the same frame, which nearly all are
    for name in its:
        force = period.forces[name]
        key = force.original, outweighs.get(name, 0)
        shares[key] = max(force.share, shares.get(key, 0))
    frames = [(share, *policy.frame(*key)) for key, share in shares.items()]
    return State(
        room_for(period.host, its),
        max(share / default for share, default, _ in frames),
        max(bounds.ceiling / default for _, default, bounds in frames),
    )


def bound(verdict: Verdict, factor: float, default: int, bounds: Bounds, in_force: int) -> Verdict:
    """Give a component of a bounded channel its part, except where a rule lets go of it."""
    wanted = default * factor
    shares = bounds.clamp(wanted)
    working = verdict.working and replace(verdict.working, rule="beyond T", wanted=wanted)
    if _stands(verdict, shares):
        return verdict if verdict.shares <= shares else replace(verdict, shares=shares, working=working)
    if shares > in_force:
        return replace(
            verdict, shares=shares, cause="T is owed beside neighbours", effect=Effect.RAISED, working=working
        )
    cause = "what is beyond T is the neighbours'"
    effect = Effect.HELD if shares == in_force else Effect.LOWERED
    return replace(verdict, shares=shares, cause=cause, effect=effect, working=working)


def _stands(verdict: Verdict, shares: int) -> bool:
    """Whether a rule of ``adaptive`` goes on though the channel is bounded: nobody sends, or the neighbour is gone.

    That nothing waits at the default share ends where the channel's part is more.
    """
    rule = verdict.working and verdict.working.rule
    if rule == "room" and verdict.effect is Effect.DEFAULT:
        return shares <= verdict.shares
    return rule in {"no input", "room"}

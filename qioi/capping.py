"""Who is busy beside boosted groups, and the cap on what these may hold together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from qioi.accounts import Accounts
from qioi.acting import Want, groups_of
from qioi.controller.cap import Boost, limit, part_held
from qioi.controller.guard import Guard
from qioi.controller.hierarchy import Hierarchy
from qioi.controller.levels import branches
from qioi.types import Decision

#: CPUs that a group must have used since the last look to count as busy.
BUSY = 0.01


@dataclass(frozen=True, slots=True)
class Held:
    """What part of the host boosted groups hold, 0..1, and the cap on it."""

    part: float
    cap: float


class Capper:
    """Shrinks wishes until they fit. Looks at the host only while there is anything to cap."""

    def __init__(self, guard: Guard, hierarchy: Hierarchy, accounts: Accounts) -> None:
        self._guard = guard
        self._hierarchy = hierarchy
        self._accounts = accounts
        self._before: dict[str, tuple[float, float]] = {}

    def apply(self, now: float, wants: tuple[Want, ...], cap: float) -> tuple[tuple[Want, ...], Held]:
        """Give the wishes under the cap, and what they hold."""
        raised = [one for one in wants if one.decision.shares > self._guard.found(one.cgroup)]
        if not raised:
            return wants, Held(0.0, cap)
        busy = self._busy(now, raised)

        def held(shares: Mapping[str, int]) -> float:
            weights: dict[str, int] = {}
            for want in raised:
                for group, value in groups_of(self._guard, want, shares[want.decision.component]):
                    weight = self._guard.raw(group, value)
                    if value > self._guard.found(group) and not self._guard.is_foreign(group):
                        weights[group] = max(weight, weights.get(group, 0))
            return part_held(weights, busy)

        boosts = [Boost(one.decision.component, self._guard.found(one.cgroup), asks(one.decision)) for one in raised]
        shares = limit(boosts, held, cap)
        return tuple(under(one, shares.get(one.decision.component), cap) for one in wants), Held(held(shares), cap)

    def _busy(self, now: float, raised: Iterable[Want]) -> dict[str, dict[str, int]]:
        """Give the weights of the groups at each level that used CPU lately; where that is not known, all count."""
        busy: dict[str, dict[str, int]] = {}
        seen: dict[str, tuple[float, float]] = {}
        for parent in branches(want.cgroup for want in raised):
            children = busy[parent] = {}
            for child, weight in weights_below(self._hierarchy, parent):
                total = self._accounts.seconds(child)
                if total is not None:
                    seen[child] = now, total
                    at, before = self._before.get(child, (now, total))
                    if now > at and (total - before) / (now - at) < BUSY:
                        continue
                children[child] = weight
        self._before = seen
        return busy


def asks(decision: Decision) -> tuple[tuple[int, int], ...]:
    """Give what channels of each priority ask for, as far as it is left in the decision."""
    return tuple((priority, min(shares, decision.shares)) for priority, shares in decision.asks)


def weights_below(hierarchy: Hierarchy, parent: str) -> Iterable[tuple[str, int]]:
    """Read the weight of every group directly below one, in the file's own unit; one that vanishes is left out."""
    folder = hierarchy.folder(parent)
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    except OSError:
        return
    for name in names:
        try:
            yield f"{parent}/{name}" if parent else name, int((folder / name / hierarchy.file).read_text())
        except (OSError, ValueError):
            continue


def under(want: Want, shares: int | None, cap: float) -> Want:
    """Give a wish with what the cap leaves of it."""
    if shares is None or shares >= want.decision.shares:
        return want
    reason = f"{want.decision.reason}; boost_cap {cap:g} leaves {shares} of {want.decision.shares}"
    return replace(want, decision=replace(want.decision, shares=shares, reason=reason))

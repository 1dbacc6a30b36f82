"""How one component's share was decided: inputs, rule, error, step, clamp, result, and the level where it counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from qioi.controller.levels.placement import Placement
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Working
from qioi.model.names import few
from qioi.show.explanation import Clamp, Explanation, ForeignWork, Inputs, Leadership, Move, Standing, ThreadSlice
from qioi.show.foreign import busiest, folder_of
from qioi.show.snapshot import ChannelState, ComponentState, Snapshot

#: Siblings named at one level; the others are counted.
NAMED = 8
#: Names that a refusal offers.
ACCEPTED = 20


def accepted(names: Iterable[str]) -> str:
    """List what is watched, for somebody who named what is not."""
    return few(names, ACCEPTED) or "none: nothing is watched"


def explain(snapshot: Snapshot, name: str, hierarchy: Hierarchy) -> Explanation:
    """Explain the last decision about a component; KeyError says which names are accepted."""
    state = next((one for one in snapshot.components if one.name == name), None)
    if state is None:
        known = accepted(one.name for one in snapshot.components)
        raise KeyError(f"component {name!r}: not watched: accepted are {known}")
    channel = next((one for one in snapshot.channels if one.name == state.channel), None)
    return Explanation(
        component=state.name,
        role=state.role,
        time=snapshot.time,
        period=snapshot.period,
        early=snapshot.early,
        snapshot_age=snapshot.snapshot_age,
        inputs=inputs(snapshot, state, channel, hierarchy),
        bottleneck=channel.bottleneck if channel else None,
        limit=state.limit,
        leadership=Leadership(lost=channel.leaders_lost, orderer_floor=channel.orderer_floor) if channel else None,
        law=channel.law if channel else None,
        rule=state.working.rule if state.working else None,
        reason=state.reason,
        error=state.error,
        step=step(state),
        clamp=clamp(state.working) if state.working else None,
        idle_groups=snapshot.idle_groups,
        slices=ThreadSlice(
            mode=snapshot.slices.mode, text=snapshot.slices.text, nanoseconds=snapshot.slices.slices.get(name)
        ),
        boosts=snapshot.boosts,
        result=Move(
            previous=state.previous,
            decided=state.wanted,
            in_force=state.share,
            original=state.original,
            dry_run=snapshot.dry_run,
            problem=state.problem,
        ),
        acted_at=state.placement.groups if state.placement else (state.cgroup,),
        actuator=actuator(snapshot, name),
        level_reason=state.placement.why if state.placement else None,
        levels=tuple(levels(hierarchy, state.cgroup, state.placement)),
    )


def inputs(snapshot: Snapshot, state: ComponentState, channel: ChannelState | None, hierarchy: Hierarchy) -> Inputs:
    """Give what the decision rests on; the groups of foreign work are looked into now."""
    host = snapshot.host
    load = host.of(state.name) if host is not None else None
    return Inputs(
        channel=state.channel,
        throughput=channel.throughput if channel else None,
        threshold=channel.threshold if channel else None,
        threshold_source=channel.source if channel else None,
        evidence=channel.evidence if channel else None,
        commit_age=channel.age if channel else None,
        delay=state.delay,
        waiting_share=state.waiting_share,
        cores=state.cores,
        host_idle=load.idle if load is not None else None,
        host_foreign=load.foreign if load is not None else None,
        pinned=host is not None and state.name in host.pinned,
        foreign_with_rivals=state.foreign_with_rivals,
        foreigners=tuple(
            ForeignWork(group=one.group, cores=one.cores, processes=tuple(busiest(folder_of(one.group, hierarchy))))
            for one in snapshot.foreigners
        ),
        io_pressure=snapshot.io_pressure,
    )


def clamp(working: Working) -> Clamp:
    """Say how a law's bounds met what its rule asked for."""
    bounded = not working.floor <= working.wanted <= working.ceiling
    return Clamp(floor=working.floor, ceiling=working.ceiling, wanted=working.wanted, bounded=bounded)


def actuator(snapshot: Snapshot, name: str) -> str | None:
    """Say by which means a pod's shares are moved, and its class; ``None`` outside of a cluster."""
    pods = snapshot.kubernetes.pods if snapshot.kubernetes is not None else ()
    return next(
        (f"{one.actuator}; {one.qos} pod, moved at: {one.level}" for one in pods if one.component == name), None
    )


def step(state: ComponentState) -> float | None:
    """Give what the rule asked for beyond the share that was in force, before the clamp."""
    if state.working is None or state.previous is None:
        return None
    return state.working.wanted - state.previous


def levels(hierarchy: Hierarchy, cgroup: str, placement: Placement | None = None) -> Iterator[Standing]:
    """Look at every level from the component up: a weight counts among its siblings only.

    A group that vanishes meanwhile is left out.
    """
    foreign = {level.group: level.foreign for level in placement.levels} if placement else {}
    for path in (PurePosixPath(cgroup), *PurePosixPath(cgroup).parents):
        if str(path) == ".":
            return
        own = read(hierarchy.folder(str(path)) / hierarchy.file)
        if own is None:
            continue
        siblings = dict(weights(hierarchy, hierarchy.folder(str(path)).parent, path.name))
        largest = sorted(siblings, key=lambda name: -siblings[name])[:NAMED]
        yield Standing(
            group=str(path),
            file=hierarchy.file,
            value=own,
            siblings={name: siblings[name] for name in largest},
            others=len(siblings) - len(largest),
            part=own / max(1, own + sum(siblings.values())),  # a group that is idle may have no weight
            foreign=foreign.get(str(path)),
            acted=str(path) in (placement.groups if placement else (cgroup,)),
        )


def weights(hierarchy: Hierarchy, parent: Path, but: str) -> Iterator[tuple[str, int]]:
    """Give the weight of every group directly below ``parent`` but one."""
    try:
        names = [entry.name for entry in parent.iterdir() if entry.is_dir() and entry.name != but]
    except OSError:
        return
    for name in names:
        value = read(parent / name / hierarchy.file)
        if value is not None:
            yield name, value


def read(file: Path) -> int | None:
    """Read one weight; ``None`` where there is none."""
    try:
        return int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None

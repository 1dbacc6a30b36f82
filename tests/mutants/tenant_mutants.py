"""Mistakes of what decides between tenants, and of what neighbours keep."""

from __future__ import annotations

from mutants import Sources

TENANTS = Sources(
    "controller/findings", tuple(f"tests/controller/findings/test_{name}.py" for name in ("contention", "going_back"))
).mutants

CONTENTION = TENANTS(
    "contention.py",
    (
        "contention: it looks at a host with room",
        "            if self._has_room(period.now, one.name, load):",
        "            if False:",
    ),
    ("contention: a moment's room is room", "room = (load.lasting or load).idle > IDLE", "room = load.idle > IDLE"),
    ("contention: a moment of room lets go", "elif now - self._held[name] >= ROOM_FOR:", "else:"),
    ("contention: tenants come before foreign work", "alone = load.foreign < FOREIGN", "alone = True"),
    (
        "contention: who sends less than its own is raised",
        "starves = lacks and need_of(all_beside.period.delays[one.name], None) > QUIET",
        "starves = lacks",
    ),
    (
        "contention: nothing is held",
        "        if given:\n            self._held[one.name] = all_beside.period.now\n",
        "",
    ),
    (
        "contention: a step is taken before the level is known",
        "if force.placement.kept_back and not its.waits:",
        "if not its.waits:",
    ),
    (
        "contention: who waits for others to go back is raised",
        "if force.placement.kept_back and not its.waits:",
        "if force.placement.kept_back:",
    ),
    ("contention: each step is a whole one", "max(LEAST, its.spare))", "1.0)"),
    ("contention: what is in a group is counted twice", "own[around] = max(0.0, own[around] - cores[name])", "pass"),
    (
        "contention: one with a channel in common is a rival",
        "if set(channels).isdisjoint(mine):\n            sums",
        "if True:\n            sums",
    ),
    ("contention: what serves all is held where inherited", " and not stated.issubset(one.channels):", ":"),
    ("contention: what is raised later is held as well", "period.raised() if name in new}", "period.raised()}"),
    (
        "contention: squeezed neighbours are nobody",
        "if load.foreign < NOBODY and not",
        "if load.foreign < FOREIGN and not",
    ),
    (
        "contention: one that comes back is inherited",
        "self._seen = (self._seen & there) | new",
        "self._seen = (self._seen & period.forces.keys()) | new",
    ),
    ("contention: what is inherited is looked at for good", "and now - at < ROOM_FOR}", "}"),
    ("contention: what is inherited is looked at once", "and now - at < ROOM_FOR}", "and now - at < 0}"),
    (
        "contention: nothing inherited is held",
        "                    self._held[one.name] = now\n",
        "                    pass\n",
    ),
    (
        "contention: what has no T any longer is held",
        "names = {one.name for one in period.components if not stated.isdisjoint(one.channels)}",
        "names = {one.name for one in period.components}",
    ),
)
GOING_BACK = TENANTS(
    "going_back.py",
    ("going back: who lacks as much goes back", "most = max(0.0, lacks - LESS)", "most = max(0.0, lacks)"),
    ("going back: who serves a channel of mine goes back", "if set(theirs).isdisjoint(mine)}", "}"),
    ("going back: wherever it runs", "if place[0] in better and meet(place[1], cpus)]", "if place[0] in better]"),
    ("going back: a dry run holds others up", "(want.shown or decision.shares > most)", "(decision.shares > most)"),
    ("going back: who goes no further holds others up", "(want.shown or decision.shares > most)", "want.shown"),
    ("going back: who rests is never asked again", "if period.now - firm.at < AGAIN}", "}"),
    (
        "going back: a share of somebody else's counts",
        "or force.foreign or force.taken or force.problem:",
        "or force.problem:",
    ),
)
MINIMUM = Sources("controller/findings", ("tests/controller/findings/test_minimum.py",)).mutants(
    "minimum.py",
    (
        "minimum: tenants count as neighbours",
        "are_met = SMOOTH <= period.now - self._met_at <= FORGET and self._used >= FOREIGN",
        "are_met = SMOOTH <= period.now - self._met_at <= FORGET",
    ),
    (
        "minimum: neighbours beside raised shares want nothing",
        "are_met = SMOOTH <= period.now - self._met_at <= FORGET and self._used >= FOREIGN",
        "are_met = False",
    ),
    (
        "minimum: a moment of foreign work is judged",
        "are_met = SMOOTH <= period.now - self._met_at <= FORGET and self._used >= FOREIGN",
        "are_met = period.now - self._met_at <= FORGET and self._used >= FOREIGN",
    ),
    (
        "minimum: neighbours that show later are not met",
        "are_met = SMOOTH <= period.now - self._met_at <= FORGET and self._used >= FOREIGN",
        "are_met = SMOOTH <= period.now - self._met_at < SMOOTH + 1 and self._used >= FOREIGN",
    ),
    (
        "minimum: neighbours are never gone",
        "if self._most and max(self._used, host.foreign) < FOREIGN and not any(period.raised()):",
        "if False:",
    ),
    (
        "minimum: neighbours are gone before all is back",
        "if self._most and max(self._used, host.foreign) < FOREIGN and not any(period.raised()):",
        "if self._most and max(self._used, host.foreign) < FOREIGN:",
    ),
    (
        "minimum: neighbours that get little are gone",
        "if self._most and max(self._used, host.foreign) < FOREIGN and not any(period.raised()):",
        "if self._most and not any(period.raised()):",
    ),
    (
        "minimum: a moment at the default tells that they are gone",
        "max(self._used, host.foreign) < FOREIGN",
        "self._used < FOREIGN",
    ),
    ("minimum: what goes on has no bound", "min(MAX_SHARES, most * factor)", "most * factor"),
    ("minimum: a long period has no bound", "ON ** min(seconds, FORGET)", "ON**seconds"),
    (
        "minimum: pinned components squeeze",
        "any(name not in host.pinned for name, _ in period.raised())",
        "any(period.raised())",
    ),
    ("minimum: all neighbours want it", "if period.now - self._wanted_at <= FORGET:", "if True:"),
    ("minimum: nothing goes on again", "most * factor)", "most)"),
    (
        "minimum: it goes below what was found",
        "max(force.original, LAG * force.share, most)",
        "max(LAG * force.share, most)",
    ),
    ("minimum: no share lags", "max(force.original, LAG * force.share, most)", "max(force.original, most)"),
    ("minimum: a moment of room forgets all", "if self._room.step(period.now, room) or (", "if room or ("),
)
STATED = Sources("controller/findings", ("tests/controller/findings/test_tenants.py",)).mutants(
    "tenants.py",
    (
        "tenants: a silent channel lacks its T",
        "[name for name in channels if name not in self.silent] or channels",
        "channels",
    ),
    (
        "tenants: what is silent alone lacks nothing",
        "if name not in self.silent] or channels",
        "if name not in self.silent]",
    ),
    ("tenants: a learned T is stated", "return bool(owed.value) and owed.source != AUTO", "return bool(owed.value)"),
)
CONTENDERS = [*CONTENTION, *GOING_BACK, *MINIMUM, *STATED]

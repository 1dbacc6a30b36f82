"""What the scheduler did to each component: time slice, scheduling delay, context switches (the paper's Table 2).

The input is the text of `perf script`, one line an event, read once from front to back. A *slice* lasts from a thread's
being put on a CPU to its being taken off. Its *delay* is what it waited for that CPU: from its wakeup, or, where it was
taken off while it could have gone on, from then. perf's own `perf sched latency` leaves the second kind out on kernels
since 4.14, in versions before 6.9 (it does not know the state `R+`), so CPU-bound tasks would seem not to wait at all.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: Fields of `perf script -F time,event,trace`. A thread's name is at most 15 bytes, too short to forge what follows it.
_SWITCH = re.compile(
    r"\s*(\d+\.\d+):\s+sched:sched_switch: prev_comm=.* prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> "
    r"next_comm=.* next_pid=(\d+) next_prio=-?\d+$"
)
_WAKING = re.compile(r"\s*(\d+\.\d+):\s+sched:sched_waking: comm=.* pid=(\d+) prio=-?\d+ target_cpu=\d+$")
_FORK = re.compile(r"\s*(\d+\.\d+):\s+sched:sched_process_fork: comm=.* pid=(\d+) child_comm=.* child_pid=(\d+)$")
_LOST = re.compile(r"PERF_RECORD_LOST\D*(\d+)")
#: The idle threads of all CPUs share this number. They belong to no group.
_IDLE = 0


@dataclass(slots=True)
class Account:
    """Sums over threads. ``run``, ``wait`` and ``longest`` in seconds.

    ``waits`` counts the slices whose delay is known, which are all but a thread's first in the recording.
    """

    run: float = 0.0
    slices: int = 0
    wait: float = 0.0
    waits: int = 0
    longest: float = 0.0
    threads: set[int] = field(default_factory=set)

    def add(self, other: Account) -> None:
        """Take another's sums in."""
        self.run += other.run
        self.slices += other.slices
        self.wait += other.wait
        self.waits += other.waits
        self.longest = max(self.longest, other.longest)
        self.threads |= other.threads


@dataclass(slots=True)
class _Thread:
    """One thread's state: ``since`` when it runs, or waits for a CPU; ``None`` if neither, or not known."""

    running: bool = False
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording's accounts. Threads that belong to no component are under the name ``None``."""

    seconds: float
    events: int
    lost: int
    accounts: Mapping[str | None, Account]


class Accountant:
    """Reads events in the order of time. ``owners`` names whose each thread is; children are their parents'.

    ``looks`` are what was seen of that meanwhile, each from a time on, in their order: a process that is started in a
    component is most often forked outside, by a runtime, and moved.

    What counts begins at ``since`` and ends at ``until``, in seconds of the events' clock: by default with the first
    event and the last. Events before that say who waits at the beginning, and whose each child is.
    """

    def __init__(
        self,
        owners: Mapping[int, str],
        since: float | None = None,
        until: float | None = None,
        looks: Iterable[tuple[float, Mapping[int, str]]] = (),
    ) -> None:
        self._owners = dict(owners)
        self._looks = deque(looks)
        self._threads: dict[int, _Thread] = {}
        self._accounts: dict[str | None, Account] = {}
        self._begin, self._end = since, until
        self._last = 0.0
        self._counts = False  # whether the event that is read does
        self._events = 0
        self._lost = 0

    def read(self, lines: Iterable[str]) -> Recording:
        """Read all of it. A line that is no event of ours is passed over."""
        for line in lines:
            if match := _SWITCH.match(line):
                now = self._tick(match[1])
                self._off(int(match[2]), now, runnable=match[3].startswith("R"))
                self._on(int(match[4]), now)
            elif match := _WAKING.match(line):
                self._wake(int(match[2]), self._tick(match[1]))
            elif match := _FORK.match(line):
                self._fork(int(match[2]), int(match[3]), self._tick(match[1]))
            elif match := _LOST.search(line):
                self._lost += int(match[1])
        end = self._last if self._end is None else self._end
        for tid, thread in self._threads.items():
            self._run_until(tid, thread, end)
        seconds = max(0.0, end - self._begin) if self._begin is not None else 0.0
        return Recording(seconds, self._events, self._lost, self._accounts)

    def _tick(self, stamp: str) -> float:
        """Give an event's time, at most that of the end."""
        now = float(stamp)
        while self._looks and self._looks[0][0] <= now:
            self._owners |= self._looks.popleft()[1]
        if self._begin is None:
            self._begin = now
        self._counts = self._begin <= now and (self._end is None or now <= self._end)
        self._events += self._counts
        self._last = now if self._end is None else min(now, self._end)
        return self._last

    def _account(self, tid: int) -> Account:
        account = self._accounts.setdefault(self._owners.get(tid), Account())
        account.threads.add(tid)
        return account

    def _off(self, tid: int, now: float, *, runnable: bool) -> None:
        if tid == _IDLE:
            return
        thread = self._threads.setdefault(tid, _Thread())
        self._run_until(tid, thread, now)
        thread.running, thread.since = False, now if runnable else None

    def _run_until(self, tid: int, thread: _Thread, now: float) -> None:
        """Count what a thread ran in its slice. One that began before what counts is left out."""
        if thread.running and thread.since is not None and (self._begin or 0.0) <= thread.since < now:
            self._account(tid).run += now - thread.since

    def _on(self, tid: int, now: float) -> None:
        if tid == _IDLE:
            return
        thread = self._threads.setdefault(tid, _Thread())
        if self._counts:
            account = self._account(tid)
            account.slices += 1
            if not thread.running and thread.since is not None:
                waited = now - thread.since
                account.wait += waited
                account.waits += 1
                account.longest = max(account.longest, waited)
        thread.running, thread.since = True, now

    def _wake(self, tid: int, now: float) -> None:
        """Note when a sleeping thread became runnable; one that runs or waits already is not concerned."""
        thread = self._threads.setdefault(tid, _Thread())
        if not thread.running and thread.since is None:
            thread.since = now

    def _fork(self, parent: int, child: int, now: float) -> None:
        """Add a new thread, which waits for its first slice from now on."""
        owner = self._owners.get(parent)
        if owner is None:
            self._owners.pop(child, None)
        else:
            self._owners[child] = owner
        self._threads[child] = _Thread(False, now)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. Times in seconds, ``None`` where nothing was seen; ``cores`` is CPU used."""

    name: str
    role: str
    slice: float | None
    delay: float | None
    longest: float
    switches_per_second: float
    cores: float
    threads: int
    components: int = 1


def row(name: str, role: str, account: Account, seconds: float, components: int = 1) -> Row:
    """Make one line; of several components together, switches and cores are those of one of them, on average."""
    return Row(
        name,
        role,
        account.run / account.slices if account.slices else None,
        account.wait / account.waits if account.waits else None,
        account.longest,
        account.slices / seconds / components if seconds else 0.0,
        account.run / seconds / components if seconds else 0.0,
        len(account.threads),
        components,
    )


def by_component(recording: Recording, roles: Mapping[str, str]) -> list[Row]:
    """Give a line per component, in the order of ``roles`` (name -> role)."""
    none = Account()
    return [row(name, role, recording.accounts.get(name, none), recording.seconds) for name, role in roles.items()]


def by_role(recording: Recording, roles: Mapping[str, str]) -> list[Row]:
    """Give a line per role: slices and delays over all slices of all its components."""
    sums: dict[str, tuple[Account, int]] = {}
    for name, role in roles.items():
        account, count = sums.get(role, (Account(), 0))
        account.add(recording.accounts.get(name, Account()))
        sums[role] = account, count + 1
    return [row(role, role, account, recording.seconds, count) for role, (account, count) in sums.items()]

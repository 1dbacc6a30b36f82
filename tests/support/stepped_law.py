"""The law ``adaptive``, stepped through given inputs."""

from __future__ import annotations

from msgspec.structs import replace

from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.law import Seen
from qioi.model import Bounds, DelayReading, HostLoad

LIMITS = Bounds(1024, 16384)
CROWDED = HostLoad(idle=0.0, foreign=0.6)
ROOMY = HostLoad(idle=0.4, foreign=0.0)


def delay(need: float, *, run: float = 0.2, interval: float = 1.0) -> DelayReading:
    """A reading whose waiting share is ``need`` if all busy time was foreign."""
    return DelayReading("peer0", run * interval, run * interval * need / (1 - need), 100, interval)


def seen(now: float, need: float | None = 0.0, *, host: HostLoad | None = None, age: float | None = 0.1,
         a: float | None = 100.0, t: float | None = None) -> Seen:  # fmt: skip
    return Seen(now, a, t, age, None if need is None else delay(need), host)


def law_at(share: float, **memory: object) -> Adaptive:
    start = Adaptive.start(bounds=LIMITS)
    return replace(start, memory=start.memory._replace(share=share, **memory))


def run(law: Adaptive, *inputs: Seen) -> tuple[Adaptive, str]:
    reason = ""
    for one in inputs:
        law, verdict = law.step(one)
        assert verdict.shares == LIMITS.clamp(law.memory.share)
        reason = verdict.reason
    return law, reason

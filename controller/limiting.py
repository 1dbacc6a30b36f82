"""What findings make of a law's verdict: a limit keeps it down, a lost leader of Raft up."""

from __future__ import annotations

from msgspec.structs import replace

from qioi.controller.findings.limits import Limit
from qioi.controller.laws.law import Effect, Law, Verdict, rest_of


def at_most(limit: Limit, law: Law, verdict: Verdict, force: int) -> tuple[Law, Verdict]:
    """Keep a law and its verdict within a finding's limit; the share ``force`` is in force."""
    rest = rest_of(law)
    most = limit.allows(force, rest)
    if verdict.shares <= most:
        return law, verdict
    effect = Effect.RAISED if most > force else Effect.HELD if most == force else Effect.RELEASED
    effect = Effect.DEFAULT if most == rest else effect
    working = replace(verdict.working, rule=str(limit.reason), wanted=float(most)) if verdict.working else None
    if effect is Effect.RAISED:  # the law's reason is why, and the limit why not as far
        verdict = replace(verdict, added=f", and no further: {limit.text}{verdict.added}")
    else:
        verdict = replace(verdict, cause=limit.text)
    verdict = replace(verdict, shares=most, effect=effect, working=working)
    return law.limited(most, force), verdict


def at_least(verdict: Verdict, floor: int) -> Verdict:
    """Raise a verdict to the floor that a lost leader of Raft set."""
    working = replace(verdict.working, floor=floor) if verdict.working else None
    if verdict.shares >= floor:
        return replace(verdict, working=working)
    added = f"; floor {floor}: a Raft leader was lost beside interference"
    return replace(verdict, shares=floor, added=added, working=working)

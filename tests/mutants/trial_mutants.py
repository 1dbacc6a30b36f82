"""Mistakes of the trial that tells whether a raise has an effect."""

from __future__ import annotations

from mutants import Sources

TESTS = tuple(f"tests/controller/findings/test_effect{end}.py" for end in ("_course", "", "_properties"))

TRIALS = Sources("controller/findings", TESTS).mutants(
    "effect.py",
    (
        "effect: what it waits behind the ledger counts",
        "return min(1.0 - self.ran, self.part)",
        "return min(1.0, self.part)",
    ),
    ("effect: an idle one works", "return self.run + self.wait >= WORKS", "return True"),
    (
        "effect: any raise is looked at",
        "return self.share >= FACTOR * self.original",
        "return self.share > self.original",
    ),
    ("effect: a look never ends", "if seen.seconds >= length else", "if seen.seconds >= math.inf else"),
    (
        "effect: a share that moves is not looked at anew",
        "return replace(self, share=seen.share, since=now, late=Looks())",
        "return replace(self, share=seen.share, since=now)",
    ),
    ("effect: it does not wait until a share has settled", "now - self.since >= SETTLED and ", ""),
    (
        "effect: without a look before a raise, some waiting is enough",
        "return late.need >= VERY_HIGH",
        "return late.need >= HIGH",
    ),
    ("effect: who waits little is suspect", "return late.need >= HIGH and same", "return same"),
    ("effect: who runs more is suspect", " and late.run <= MORE * rest.run + SLACK", ""),
    (
        "effect: who waits less is suspect",
        "strength(late) >= LEFT * strength(rest) and late.run",
        "late.run",
    ),
    (
        "effect: a quarter that is rounded up does not follow",
        "if phase is Phase.QUARTER:\n                enough",
        "if False:\n                enough",
    ),
    ("effect: harm does not end a trial", "and is_worse(look.last, self.more):", "and False:"),
    (
        "effect: the default is not compared",
        "return replace(after, less=look) if is_alike(look, self.more) else None",
        "return replace(after, less=look)",
    ),
    (
        "effect: a raise again is not compared",
        "return replace(after, more=look) if is_alike(self.less, look) else None",
        "return replace(after, more=look)",
    ),
    (
        "effect: who was not seen is judged",
        "        if look is None:\n            return None\n",
        "        if look is None:\n            return self\n",
    ),
    ("effect: harm to one leaves the others on trial", "if len(members) < len(stepped) and", "if False and"),
    ("effect: a phase that is not carried out goes on", "return None if late else self", "return self"),
    ("effect: who was let go of stays so", "or any(one.has_changed for one in members)", ""),
    ("effect: a look begins during a trial", "(alone or self.moves) and ", ""),
    ("effect: a trial puts off no other", "self._tries.hurt(now, FIRST, LONGEST)", "self._tries"),
    (
        "effect: a look at who was let go of comes once a minute",
        "looks=self.looks.hurt(now, FIRST, LOOKS)",
        "looks=self.looks.hurt(now, FIRST, FIRST)",
    ),
    (
        "effect: it is tried while another trial is under way",
        "if free and not self.trying",
        "if not self.trying",
    ),
    ("effect: Algorithm 1 is limited", "not any(map(self._is_literal, one.channels or channels)) and ", ""),
    ("effect: a channel that has its T is tried", " and not is_served(one, channels)", ""),
    (
        "effect: room on the host does not end a trial",
        "            and not (period.host is not None and has_room(period.host.of(one.name)))\n",
        "",
    ),
    (
        "effect: it begins before all have settled",
        "if members and all(one.is_settled(now) for one in courses.values()):",
        "if members:",
    ),
    (
        "effect: who runs less is not worse",
        "due = max(more.run, more.ran * (less.run + less.wait))",
        "due = more.ran * (less.run + less.wait)",
    ),
    ("effect: who waits more is not worse", "due = max(more.run, more.ran * (less.run + less.wait))", "due = more.run"),
    ("effect: who waits otherwise is alike", " and within(one.ran, other.ran, SAME_PART)", ""),
    ("effect: who runs otherwise is alike", "within(one.run, other.run, SAME_RUN) and ", ""),
)

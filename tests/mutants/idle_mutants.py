"""Mistakes of what an idle ledger holds for its next load, and of what burns."""

from __future__ import annotations

from mutants import Sources

ANCESTORS = Sources(
    "controller/levels", ("tests/controller/levels/test_ancestors.py", "tests/controller/test_acting.py")
).mutants(
    "ancestors.py",
    ("ancestors: a group is tried with less while nobody sends", "age = math.inf if ask.idle else 0.0", "age = 0.0"),
    (
        "ancestors: one idle component is enough",
        "all(name in idle for name in names)",
        "any(name in idle for name in names)",
    ),
    ("ancestors: who asks for less winds up", "laws[group] = law.limited(most[group], ask.share)", "laws[group] = law"),
    ("ancestors: a level that is not known goes back", "max(ask.found, min(ask.share, ask.most))", "ask.found"),
)
BOUNDS = Sources("controller", ("tests/controller/test_bounding.py",)).mutants(
    "deciding.py",
    ("deciding: an idle channel undoes another's bound", "if bounded.isdisjoint(sent_to):", "if True:"),
    (
        "deciding: an idle channel is lowered where nobody is bounded",
        "if bounded.isdisjoint(sent_to):",
        "if not sent_to:",
    ),
)
SENT_TO = Sources(
    "controller/findings", ("tests/controller/findings/test_finder.py", "tests/controller/test_bounding.py")
).mutants(
    "channels.py",
    ("sent to: who is presumed to be is idle", "name in presumed)", "False)"),
) + Sources("controller/findings", ("tests/controller/findings/test_finder.py",)).mutants(
    "finder.py",
    ("sent to: who lost a leader is idle", "sent_to=sent_to(seen) | floors.keys()", "sent_to=sent_to(seen)"),
)
BURNERS = Sources("controller/findings", ("tests/controller/findings/test_burners.py",)).mutants(
    "burners.py",
    ("burners: what is far more is never usual", "self.usual * after.times ** weight(interval, LASTING)", "self.usual"),
    ("burners: what is far more is usual soon", "weight(interval, LASTING)", "weight(interval, USUAL)"),
    ("burners: one garbage collection burns", "burns = burning and now - since >= LASTS", "burns = burning"),
    ("burners: a queried peer burns", "TIMES * max(one.times for one in others)", "TIMES"),
    (
        "burners: a starved one burns",
        "if silent:\n            return sum(one.runnable for one in others) <= ALONE * self.runnable",
        "if silent:\n            return True",
    ),
)
IDLE = [*ANCESTORS, *BOUNDS, *SENT_TO, *BURNERS]

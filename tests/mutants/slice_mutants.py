"""Mistakes of what sets threads' slices and puts them back."""

from __future__ import annotations

from mutants import Sources

of = Sources("controller", ("tests/controller/guard", "tests/controller/levers")).mutants

SLICES = of(
    "guard/thread_slices.py",
    ("slices: an inherited one is the original", "if entry.original in given:", "if False:"),
    ("slices: heirs keep theirs", "heirs(slices, group, listed, known, given)", "()"),
    ("slices: looks for heirs for ever", "for _ in range(PASSES):", "while True:"),
    ("slices: new threads of a group below are heirs", "or tid in others)", ")"),
    ("slices: heirs of heirs keep theirs", "if all(one.result is not Result.OK for one in outcomes):", "if True:"),
    ("slices: only the last one is inherited", "last((*self._given[group], value))", "(value,)"),
    ("slices: what cannot be listed is gone", "threads = self._members.get(group, set())", "threads = set()"),
    ("slices: threads that left keep theirs", "for tid in members - its:", "for tid in ():"),
    (
        "slices: threads that left and ended stay",
        "            self._forget_gone(tid)\n            outcomes",
        "            outcomes",
    ),
    (
        "slices: groups that are named no more keep theirs",
        "for group in sorted(self._members.keys() - wanted.keys(), key=len):",
        "for group in ():",
    ),
    ("slices: one has a thread of the innermost", "taken |= lists[group]", "pass"),
    ("slices: what goes on is put back", "self._members[group] -= listed", "pass"),
    ("slices: a thread that moves stays where it was", "if entry.path != group:", "if False:"),
    (
        "slices: a held thread is an heir",
        "if tid in members or not (writer.holds(tid) or tid in others)]",
        "if tid not in others]",
    ),
    ("slices: released in any order", "in sorted(self._members, key=len) for", "in sorted(self._members)[::-1] for"),
    ("slices: what could not be listed is forgotten", "if one.ours and not writer.holds(int(one.place))]", "if False]"),
    ("slices: foreign threads that ended stay", "                self._forget_gone(tid)\n", "                pass\n"),
    ("slices: what failed is given up", "            writer.take(entry)\n", ""),
    ("slices: every slice is remembered", "[GIVEN - 1 :: -1]", "[::-1]"),
    ("slices: the default is ours", " if value != entry.original))", "))"),
)

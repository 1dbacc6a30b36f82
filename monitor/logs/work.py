"""What it takes to read logs, so that neither one log nor all of them keep the loop from its period.

Whoever writes a log chooses what stands in it, and a line about a commit takes a hundred times as long as another. So
the work of a look is counted before it is done, and only the newest lines are read that it is enough for. It is counted
in lines about commits, of some 20 us each: no clock decides what is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from qioi.monitor.commits.parser import COMMIT_MARKER, LEADER_MARKER
from qioi.monitor.commits.records import MAX_RECORD

#: Work of one look at all logs: a fifth of a second.
MOST = 10_000
#: What takes as long as a line about a commit: bytes that are searched, bytes of marked lines, and an engine's records.
SEARCHED, MARKED, RECORDS = 8192, 512, 4

#: What was passed over before a run of complete lines, in bytes, and these lines.
Part = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Effort:
    """What it takes to read one log, which an engine may have wrapped, and in which elections may be searched for."""

    is_wrapped: bool
    elections: bool

    def of(self, lines: bytes, start: int = 0) -> int:
        """Count the work of these lines from a place on, once they have been searched."""
        marked = lines.count(COMMIT_MARKER, start)
        if self.elections:
            marked += lines.count(LEADER_MARKER, start)
        size = len(lines) - start
        records = lines.count(b"\n", start) if self.is_wrapped else 0
        return marked + min(size, marked * MAX_RECORD) // MARKED + records // RECORDS

    def newest(self, parts: list[Part], most: int) -> tuple[list[Part], int, int]:
        """Keep the newest lines that the work is enough for; say how many bytes are left out, and what all takes."""
        searched = sum(len(lines) for _, lines in parts) // SEARCHED
        left = max(0, most - searched)
        most = searched + left
        for place, (_, lines) in reversed(list(enumerate(parts))):
            start = 0
            while (work := self.of(lines, start)) > left:
                start = lines.find(b"\n", (start + len(lines)) // 2) + 1 or len(lines)
            left -= work
            if start:
                passed = start + sum(len(older) for _, older in parts[:place])
                gap = passed + sum(gap for gap, _ in parts[: place + 1])
                return [(gap, lines[start:]), *parts[place + 1 :]], passed, most - left
        return parts, 0, most - left


class Shares:
    """The work of one look, shared by all logs: half of it in equal parts, half by those that need more.

    Of that second half one log takes no more than half of what is left, so that a flood leaves some to the next one.
    """

    def __init__(self, logs: int) -> None:
        self._each = MOST // 2 // max(1, logs)
        self._spare = MOST // 2

    @property
    def next(self) -> int:
        """The work that the next log may take."""
        return self._each + self._spare // 2

    def take(self, work: int) -> None:
        """Take in what a log has taken."""
        self._spare -= max(0, work - self._each)

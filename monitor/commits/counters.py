"""What a log source has read, and what it skipped and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Skip(StrEnum):
    """Why something in a log was not counted. The values are shown to people and to Prometheus."""

    #: Speaks of a commit, but some other module said it, or at another level than INFO
    #: (gossip says it at DEBUG; a chaincode may say anything).
    NOT_KVLEDGER = "not-kvledger-info"
    #: Speaks of a commit, but is not one of the messages that Fabric is known to log.
    NOT_A_COMMIT = "not-a-commit-line"
    #: A commit message without Fabric's header, in a log whose lines have one.
    NO_HEADER = "no-header"
    #: A block or transaction number that does not fit its type in Fabric.
    OUT_OF_RANGE = "number-out-of-range"
    #: Longer than what is kept in memory of one line.
    TOO_LONG = "line-too-long"
    #: Not in the wrapping format (Docker json-file, CRI) that the file is said to have.
    BAD_WRAPPER = "bad-wrapper"
    #: A part of the log that was passed over, because it was written faster than it is read.
    BACKLOG = "backlog"
    #: A commit of a channel that the component does not serve.
    FOREIGN_CHANNEL = "foreign-channel"


@dataclass(slots=True)
class SourceCounters:
    """Running totals of one log source."""

    lines: int = 0
    bytes: int = 0
    #: Bytes that were passed over, because more was written than is read.
    skipped_bytes: int = 0
    commits: int = 0
    leader_changes: int = 0
    #: The file was truncated, or truncated and written anew (copytruncate).
    truncations: int = 0
    #: The file's name came to point to another file.
    rotations: int = 0
    #: Files that were given up with something unread in them: rotated away faster than they are read.
    lost_files: int = 0
    skipped: dict[Skip, int] = field(default_factory=dict)

    def skip(self, reason: Skip, count: int = 1) -> None:
        """Count something that was passed over."""
        self.skipped[reason] = self.skipped.get(reason, 0) + count

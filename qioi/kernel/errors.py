"""What can go wrong with a control group. Both are expected answers, not programming errors."""

from __future__ import annotations


class CgroupError(Exception):
    """A control group could not be read or written; the message says what and where."""


class CgroupGoneError(CgroupError):
    """The control group does not exist (any more)."""

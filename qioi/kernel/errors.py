"""What can go wrong with what the kernel has for us. All are expected answers, not programming errors."""

from __future__ import annotations


class KernelError(Exception):
    """Something of the kernel's could not be read or written; the message says what and where."""


class GoneError(KernelError):
    """It does not exist, or another one has its name."""


class CgroupError(KernelError):
    """A control group could not be read or written."""


class CgroupGoneError(CgroupError, GoneError):
    """The control group does not exist, or another one has its path."""

"""The base of all levers of control groups: it identifies a group by device and inode."""

from __future__ import annotations

import os

from qioi.controller.levers.lever import GroupId, Identity, Lever
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.files import is_gone
from qioi.kernel.hierarchy import Hierarchy


class GroupLever(Lever[str]):
    """A lever whose places are paths of groups, relative to the CPU controller's mount."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy

    def identity(self, path: str) -> GroupId:
        """Identify the group that has the path now. CgroupGoneError, CgroupError."""
        return identify(self.hierarchy, path)

    def gone(self, path: str) -> CgroupGoneError:
        """Make the error that says that another group has the path."""
        return another(self.hierarchy, path)


def identify(hierarchy: Hierarchy, path: str) -> GroupId:
    """Identify the group that has the path now. CgroupGoneError, CgroupError."""
    folder = f"{hierarchy.mount}/{path}"  # making a Path takes longer than the call, once for every group
    try:
        found = os.stat(folder)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        raise CgroupGoneError(f"{folder}: no such control group") from None
    except OSError as error:
        raise CgroupError(f"{folder}: {error.strerror}") from error
    return GroupId(found.st_dev, found.st_ino)


def another(hierarchy: Hierarchy, path: str) -> CgroupGoneError:
    """Make the error that says that another group has the path."""
    return CgroupGoneError(f"{hierarchy.folder(path)}: another group has that path now")


def write_number(hierarchy: Hierarchy, path: str, file: str, value: int, identity: Identity) -> None:
    """Write into a file of the group with this identity, and of no other that has its path. OSError, CgroupError.

    An open folder is its group's for good. Once that is removed, no file is found there, and an open one takes nothing.
    """
    group = os.open(hierarchy.folder(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(group)
        if GroupId(found.st_dev, found.st_ino) != identity:
            raise another(hierarchy, path)
        descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, dir_fd=group)
        try:
            os.write(descriptor, b"%d" % value)
        finally:
            os.close(descriptor)
    except OSError as error:
        # Where the group was removed meanwhile, its path may be another's, which does not lack the file.
        if is_gone(error) and identify(hierarchy, path) != identity:
            raise another(hierarchy, path) from None
        raise
    finally:
        os.close(group)

"""The base of all levers of control groups: it identifies a group by device and inode."""

from __future__ import annotations

import os

from qioi.controller.levers.lever import GroupId, Lever
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.hierarchy import Hierarchy


class GroupLever(Lever[str]):
    """A lever whose places are paths of groups, relative to the CPU controller's mount."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy

    def identity(self, path: str) -> GroupId:
        """Identify the group that has the path now. CgroupGoneError, CgroupError."""
        folder = f"{self.hierarchy.mount}/{path}"  # making a Path takes longer than the call, once for every group
        try:
            found = os.stat(folder)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            raise CgroupGoneError(f"{folder}: no such control group") from None
        except OSError as error:
            raise CgroupError(f"{folder}: {error.strerror}") from error
        return GroupId(found.st_dev, found.st_ino)

    def gone(self, path: str) -> CgroupGoneError:
        """Make the error that says that another group has the path."""
        return CgroupGoneError(f"{self.hierarchy.folder(path)}: another group has that path now")

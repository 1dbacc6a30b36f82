"""What the levers of control groups have in common: how a group is known again."""

from __future__ import annotations

import os

from qioi.controller.levers.lever import GroupId, Lever
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.hierarchy import Hierarchy


class GroupLever(Lever[str]):
    """A lever whose places are groups' paths below the CPU controller's mount."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy

    def identity(self, path: str) -> GroupId:
        """Tell which group has the path now. CgroupGoneError, CgroupError."""
        folder = f"{self.hierarchy.mount}/{path}"  # a Path takes longer than the call; done for every group
        try:
            found = os.stat(folder)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            raise CgroupGoneError(f"{folder}: no such control group") from None
        except OSError as error:
            raise CgroupError(f"{folder}: {error.strerror}") from error
        return GroupId(found.st_dev, found.st_ino)

    def gone(self, path: str) -> CgroupGoneError:
        """Say that another group has the path."""
        return CgroupGoneError(f"{self.hierarchy.folder(path)}: another group has that path now")

"""Choose how shares are read and written on this host: through libcgroup or the files."""

from __future__ import annotations

from qioi.controller.levers.files import Access, Files
from qioi.controller.levers.libcgroup import Libcgroup, LibcgroupMissingError
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy


def choose_access(name: str, hierarchy: Hierarchy) -> Access:
    """Give the access that the configuration names: ``libcgroup``, ``files``, or ``auto`` for the first that works."""
    if name == "files":
        return Files(hierarchy)
    try:
        return Libcgroup(hierarchy)
    except LibcgroupMissingError as error:
        if name == "auto":
            return Files(hierarchy)
        raise CgroupError(f"actuator libcgroup: {error}; accepted are auto, files") from None

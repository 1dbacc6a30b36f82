"""The lever of a group's CPU share: the weight by which it competes with its siblings, in the file's own unit."""

from __future__ import annotations

from qioi.controller.levers.files import Access, explain
from qioi.controller.levers.groups import GroupLever
from qioi.controller.levers.idle import IDLE_WEIGHT, is_idle
from qioi.controller.levers.lever import Identity
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.files import NUMBER, KernelFiles, is_gone
from qioi.kernel.hierarchy import MIN_WEIGHT, Hierarchy

#: Groups whose files' names are remembered, also of those that went.
REMEMBERED = 16_384


class Shares(GroupLever):
    """The lever of groups' shares. ``files`` keeps cgroup files open, which makes reading cheap."""

    def __init__(self, hierarchy: Hierarchy, access: Access, files: KernelFiles | None = None) -> None:
        super().__init__(hierarchy)
        self.access = access
        self.file = hierarchy.file
        self._files = files
        self._names: dict[str, str] = {}  # by path: each file is named once, and not in every look

    def read(self, path: str) -> int:
        """Read the weight. CgroupError."""
        return self.access.read(path)

    def write(self, path: str, value: int, identity: Identity) -> None:
        """Write the weight. CgroupError."""
        self.access.write(path, value, identity)

    def original(self, path: str, value: int) -> int:
        """Refuse the value of an idle group, which has no weight and takes none. CgroupError."""
        if value < MIN_WEIGHT or (value == IDLE_WEIGHT[self.hierarchy.version] and is_idle(self.hierarchy, path)):
            where = f"{self.hierarchy.folder(path)}/{self.file}"
            raise CgroupError(f"{where} is {value}: the group is idle (cpu.idle): nothing raises it")
        return value

    def raw(self, wanted: int, original: int) -> int:
        """Convert from v1 units."""
        return self.hierarchy.raw(wanted, original)

    def shown(self, value: int, original: int) -> int:
        """Convert into v1 units."""
        return self.hierarchy.shares(value, original)

    # ---- reading through files that stay open

    def keeps(self, path: str) -> bool:
        """Whether the group's file is open, so that the next look reads the same group as the last one, or fails."""
        return self._files is not None and self._files.keeps(self._names.get(path) or self._name(path))

    def _name(self, path: str) -> str:
        if len(self._names) >= REMEMBERED:
            self._names.clear()
        name = self._names[path] = f"{self.hierarchy.mount}/{path}/{self.file}"
        return name

    def look(self, path: str, identity: Identity) -> int:
        """Read the weight of the group with this identity. CgroupGoneError: it is gone, or another one has its path."""
        if self._files is None:
            self.check(path, identity)
            return self.access.read(path)
        file = self._names.get(path) or self._name(path)
        kept = self._files.keeps(file)
        try:
            current = int(self._files.read(file, NUMBER))
        except OSError as error:
            if kept and is_gone(error):
                raise CgroupGoneError(f"{self.hierarchy.folder(path)}: the control group is gone") from None
            raise explain(error.errno or 0, self.hierarchy, path) from error
        except ValueError:
            raise CgroupError(f"{file}: no number") from None
        if not kept:  # opened just now, so it may belong to another group that has the path
            try:
                self.check(path, identity)
            except CgroupError:
                self._files.forget(file)  # else the next look would take it for this group's
                raise
        return current

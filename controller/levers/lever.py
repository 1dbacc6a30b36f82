"""The protocol of levers: a lever reads and writes a value at a place.

A place is a group's path or a thread's number. Both are recycled, so a place is held together with its identity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct

from qioi.kernel.errors import GoneError

Place = TypeVar("Place", bound=str | int)


class GroupId(Struct, frozen=True):
    """A control group's identity: inodes of cgroup folders are not recycled within a boot, paths are."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class ThreadId:
    """A thread's identity: its number, and its start time in clock ticks after boot."""

    tid: int
    started: int


@dataclass(frozen=True, slots=True)
class PodId:
    """A pod's identity, which outlives a boot; ``asked`` is its main container's request as it was first written."""

    uid: str
    asked: str


Identity = GroupId | ThreadId | PodId


class Lever(ABC, Generic[Place]):
    """One kind of lever. Values are whole numbers in its own unit. KernelError: a value cannot be read or written."""

    #: The lever's name in journals.
    file: str
    #: The consequence, for an outcome's message, where the journal cannot be written.
    undone: ClassVar[str] = "nothing is written"
    #: Whether somebody else who writes the original back releases the place; if not, it is left alone for good.
    released: ClassVar[bool] = True
    #: Whether reading is costly; if so, a value is compared only right before it is written.
    costly: ClassVar[bool] = False

    @abstractmethod
    def identity(self, place: Place) -> Identity:
        """Identify what is at a place now. GoneError."""

    @abstractmethod
    def gone(self, place: Place) -> GoneError:
        """Make the GoneError that says that something else is at a place now."""

    @abstractmethod
    def read(self, place: Place) -> int:
        """Read the value in force."""

    @abstractmethod
    def write(self, place: Place, value: int, identity: Identity) -> None:
        """Write a value at the place, which had this identity a moment ago.

        The caller reads it back to see whether the kernel took it.
        """

    def check(self, place: Place, identity: Identity) -> None:
        """Check that the place still has this identity. GoneError."""
        if self.identity(place) != identity:
            raise self.gone(place)

    @abstractmethod
    def original(self, place: Place, value: int) -> int:
        """Return a value that was found, if it can be restored later. KernelError."""

    def raw(self, wanted: int, original: int) -> int:
        """Convert a wanted value into the lever's own unit."""
        return wanted

    def shown(self, value: int, original: int) -> int | None:
        """Convert a value into v1 units; ``None`` if the lever does not move shares."""
        return None

    def left_by_us(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """Give all values that may be in force after ``ours`` were written, those that the kernel sets included."""
        return ours

    def says(self, value: int) -> str:
        """Describe a value in force for an outcome's message."""
        return f"{self.file} = {value}"

"""What a lever is: something of the kernel's that may be moved, at a place, from a value to another.

A place is a group's path or a thread's number. Both are recycled, so what is held at a place is known by its identity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct

from qioi.kernel.errors import GoneError

Place = TypeVar("Place", bound=str | int)


class GroupId(Struct, frozen=True):
    """A control group: inodes of cgroup folders are not recycled within a boot, paths are."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class ThreadId:
    """A thread: its number, and when it began, in clock ticks after boot."""

    tid: int
    started: int


@dataclass(frozen=True, slots=True)
class PodId:
    """A pod, which outlives a boot; ``asked`` is its main container's request as it was first written."""

    uid: str
    asked: str


Identity = GroupId | ThreadId | PodId


class Lever(ABC, Generic[Place]):
    """One kind of lever. Values are whole numbers in its own unit. KernelError: it can't be read or moved."""

    #: Its name in journals.
    file: str
    #: What is said where the journal can't be written.
    undone: ClassVar[str] = "nothing is written"
    #: Who writes the original back has released it; otherwise he has ended what we do, and it is left alone for good.
    released: ClassVar[bool] = True
    #: Reading is dear, and no disk is waited for: a value is compared only right before it is written.
    costly: ClassVar[bool] = False

    @abstractmethod
    def identity(self, place: Place) -> Identity:
        """Tell what is at a place now. GoneError."""

    @abstractmethod
    def gone(self, place: Place) -> GoneError:
        """Make the GoneError that says that another one is at a place now."""

    @abstractmethod
    def read(self, place: Place) -> int:
        """Read the value in force."""

    @abstractmethod
    def write(self, place: Place, value: int) -> None:
        """Write a value. That it was taken is the caller's to check, by reading it back."""

    def check(self, place: Place, identity: Identity) -> None:
        """Refuse what only has the same place. GoneError."""
        if self.identity(place) != identity:
            raise self.gone(place)

    @abstractmethod
    def original(self, place: Place, value: int) -> int:
        """Give back a value that was found, if it can be gone back to. KernelError."""

    def raw(self, wanted: int, original: int) -> int:
        """Convert what is wanted into the lever's own unit."""
        return wanted

    def shown(self, value: int, original: int) -> int | None:
        """Convert a value into v1 units; ``None`` for what is no share."""
        return None

    def left_by_us(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """Give all values that may be in force where ``ours`` were written, by the kernel's own doing too."""
        return ours

    def says(self, value: int) -> str:
        """Put a value that is in force into words."""
        return f"{self.file} = {value}"

"""The ``schedstat`` files of one group's threads, kept open and read together; and a thread's file, read once.

A busy group's threads have all run since the last look, so what counts is what one thread costs: a system call, and
next to nothing in Python, since all texts together are taken apart by few calls.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Set
from itertools import repeat

from msgspec.json import Decoder

#: Time on a CPU (ns), time waiting for one (ns), and how often put on one.
Sums = tuple[int, int, int]
NOTHING: Sums = (0, 0, 0)
#: Bytes of three numbers of 64 bits, and more.
_LENGTH = 96
_decode = Decoder(list[int]).decode


class ThreadFiles:
    """Files by thread. A file belongs to its thread, not to the number: reading it after the thread's end fails."""

    __slots__ = ("_descriptors", "_sums", "_texts")

    def __init__(self) -> None:
        self._descriptors: dict[bytes, int] = {}
        self._texts: list[bytes] = []  # as they were last read, in the same order
        self._sums = NOTHING  # of these

    def __len__(self) -> int:
        return len(self._descriptors)

    @property
    def threads(self) -> Set[bytes]:
        """The threads' numbers."""
        return self._descriptors.keys()

    def add(self, thread: bytes, descriptor: int, text: bytes) -> None:
        """Keep an open file, from what was read in it just now on; it is closed here."""
        self._descriptors[thread] = descriptor
        self._texts.append(text)
        run, wait, slices = sums([text])
        self._sums = self._sums[0] + run, self._sums[1] + wait, self._sums[2] + slices

    def read(self) -> Sums:
        """Say what the threads did since the last call; forget those that have ended."""
        while True:
            try:
                # By map(), without a step of the interpreter for each thread.
                texts = list(map(os.pread, self._descriptors.values(), repeat(_LENGTH), repeat(0)))
                break
            except OSError:
                self.forget(self._ended())
        if texts == self._texts:
            return NOTHING
        before, now = self._sums, sums(texts)
        self._texts, self._sums = texts, now
        return now[0] - before[0], now[1] - before[1], now[2] - before[2]

    def _ended(self) -> list[bytes]:
        ended = []
        for thread, descriptor in self._descriptors.items():
            try:
                os.pread(descriptor, _LENGTH, 0)
            except OSError:
                ended.append(thread)
        return ended

    def forget(self, threads: Iterable[bytes]) -> None:
        """Close the files of some threads."""
        texts = dict(zip(self._descriptors, self._texts, strict=True))
        for thread in threads:
            os.close(self._descriptors.pop(thread))
            del texts[thread]
        self._texts = list(texts.values())
        self._sums = sums(self._texts)

    def close(self) -> None:
        """Close all."""
        self.forget(list(self._descriptors))


def sums(texts: Iterable[bytes]) -> Sums:
    """Add up the threads' numbers."""
    # As one list of JSON: int() takes twice as long for a text.
    numbers = _decode(b"[%s]" % b",".join(texts).replace(b" ", b","))
    return sum(numbers[0::3]), sum(numbers[1::3]), sum(numbers[2::3])


def read_once(file: bytes, folder: int | None = None) -> bytes:
    """Read a short file of the kernel's, perhaps below an open folder, by plain system calls. OSError.

    A file object takes three times as long.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)

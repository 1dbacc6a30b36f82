"""Who keeps a record of a group's share beside the kernel, as a value.

Journals hold an owner as one line of text, so that `qioi restore` finds the record without the daemon. That text is
made and read here alone: ``docker ID SOCKET``, ``nri ID FORMULA:SHARES SOCKET``, ``systemd UNIT CPUWeight=100+ ...``
(``+``: a file keeps that property).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OwnerKind(StrEnum):
    """Who keeps records."""

    DOCKER = "docker"
    NRI = "nri"
    SYSTEMD = "systemd"


@dataclass(frozen=True, slots=True)
class OnRecord:
    """What a record said before anything of ours: a property, or the formula by which its number becomes a weight.

    ``value`` is ``None`` where it is not set or not known; ``kept``: a file of the owner's keeps it.
    """

    name: str
    value: int | None
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Owner:
    """One record: of the container or unit ``name``, with what answers at the socket ``where``.

    ``kind`` is one of :class:`OwnerKind`, or what a journal says that is none of them.
    """

    kind: str
    name: str
    where: str = ""
    found: tuple[OnRecord, ...] = ()

    def __str__(self) -> str:
        """Give the text that stands in journals."""
        sign = "=" if self.kind == OwnerKind.SYSTEMD else ":"
        words = []
        for one in self.found:
            value = "" if one.value is None else str(one.value)
            words.append(f"{one.name}{sign}{value}{'+' if one.kept else ''}")
        return " ".join(word for word in (self.kind, self.name, *words, self.where) if word)

    @classmethod
    def read(cls, text: str) -> Owner:
        """Read a journal's text. What is of another shape is an owner all the same, whom nobody can reach."""
        kind, _, rest = text.partition(" ")
        name, _, rest = rest.partition(" ")
        try:
            if kind == OwnerKind.SYSTEMD:
                return cls(kind, name, "", tuple(read_word(word, "=") for word in rest.split()))
            if kind == OwnerKind.NRI:
                formula, _, where = rest.partition(" ")
                return cls(kind, name, where, (read_word(formula, ":"),))
        except ValueError:
            pass
        return cls(kind, name, rest)


def read_word(word: str, sign: str) -> OnRecord:
    """Read one word of what a record said. ValueError."""
    name, _, value = word.partition(sign)
    number = value.rstrip("+")
    return OnRecord(name, int(number) if number else None, value.endswith("+"))

"""The file that keeps a piece's figures: docs/figures/data/NAME.json."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import msgspec
from msgspec import Struct

from qioi.experiment.calibration import Calibration

#: Version of the files' form.
FORM = 1


class Form(Enum):
    """How a column's values are written. Ratios are kept as numbers: 1.0 is alone's."""

    COUNT = "count"
    PERCENT = "percent"
    TIMES = "times"
    MILLISECONDS = "milliseconds"
    SECONDS = "seconds"
    NUMBER = "number"


class Column(Struct, frozen=True, forbid_unknown_fields=True):
    """One quantity: its key, its heading, and how its values are written."""

    key: str
    title: str
    form: Form


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """One condition: by column, the value of every repeat in the order in which they were taken.

    ``None`` stands for a repeat that has no such value.
    """

    key: str
    title: str
    values: dict[str, tuple[float | None, ...]]


class LeftOut(Struct, frozen=True, forbid_unknown_fields=True):
    """A repeat (from 1) that was taken and does not count, and why. Its values stand in the file all the same."""

    repeat: int
    reason: str


class Code(Struct, frozen=True, forbid_unknown_fields=True):
    """What the figures depend on: Git's path specifications, and the digest of what they named when measured."""

    paths: tuple[str, ...]
    digest: str


class Machine(Struct, frozen=True):
    """Where it was measured."""

    kernel: str
    cpu: str
    cores: int
    memory_gib: float
    cgroup_version: int


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """One piece, measured once. ``calibration`` was taken before and after; ``beside`` names real Fabric's version."""

    name: str
    title: str
    command: str
    commit: str
    date: str
    code: Code
    machine: Machine
    calibration: tuple[Calibration, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...] = ()
    beside: str = ""
    form: int = FORM

    def values(self, row: str, column: str) -> list[float | None]:
        """Give the values of the repeats that count; KeyError says which row or column there is not."""
        apart = {one.repeat for one in self.left_out}
        every = self.row(row).values.get(self.column(column).key, ())
        return [value for number, value in enumerate(every, 1) if number not in apart]

    def row(self, key: str) -> Row:
        """Find a row; KeyError names those that there are."""
        for row in self.rows:
            if row.key == key:
                return row
        raise KeyError(f"{self.name} has no row {key!r}, but {', '.join(row.key for row in self.rows)}")

    def column(self, key: str) -> Column:
        """Find a column; KeyError names those that there are."""
        for column in self.columns:
            if column.key == key:
                return column
        raise KeyError(f"{self.name} has no column {key!r}, but {', '.join(column.key for column in self.columns)}")


def load(file: Path) -> Record:
    """Read one file; ValueError names it when it is not as it should be."""
    try:
        record = msgspec.json.decode(file.read_bytes(), type=Record)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{file}: {error}") from error
    if record.form != FORM or record.name != file.stem:
        raise ValueError(f"{file}: form {record.form} of {record.name}; form {FORM} of {file.stem} is expected")
    return record


def load_all(folder: Path) -> dict[str, Record]:
    """Read every file of a folder, by name."""
    return {file.stem: load(file) for file in sorted(folder.glob("*.json"))}


def save(record: Record, folder: Path) -> Path:
    """Write a record whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{record.name}.json"
    part = file.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    part.replace(file)
    return file

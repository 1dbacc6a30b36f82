"""Containers' shares on their engine's record, by the engine's update call. Source: Docker Engine API, `CpuShares`.

The record is on a disk. So nothing is told that is not on a disk before (told.py), and nothing over what somebody else
has put there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from qioi.controller.guard.journal import Entry
from qioi.controller.guard.rule import Whose, whose
from qioi.discovery.engine import Engine, EngineError, EngineUnsuitableError, NoContainerError, OnEngine
from qioi.discovery.records import RecordError, RefusedError
from qioi.discovery.told import Told, ToldFiles
from qioi.discovery.weights import Conversion, conversion, linear, quadratic, shares_for
from qioi.model import Owner

#: Names of Docker's own runc, whose version the engine tells; older engines name none. Other names are runtimes that
#: its configuration adds: also where one of them is a runc, it is another file.
ENGINES_RUNC = ("", "runc", "io.containerd.runc.v2")
UNTOLD = "the engine is told of no share that is not on a disk before"
#: Values of ours that are remembered of one record while no update of it is known to have come through.
REMEMBERED = 16


class EngineRecords:
    """All containers' records, in any number of engines."""

    def __init__(self, told: ToldFiles) -> None:
        self._told = told
        self._engines: dict[str, Engine] = {}
        self._on_record: dict[Owner, int] = {}  # what an update is known to have put there

    def update(self, entry: Entry, wanted: int, only_from: frozenset[int] | None) -> set[int]:
        """Speak to the engine; return what of ours is on the record after it."""
        assert entry.owner is not None  # it was told of this one
        socket = entry.owner.where
        if not socket:
            raise RecordError(f"record {entry.owner}: accepted are a container and an engine's socket")
        engine = self._engines.get(socket)
        try:
            if engine is None:
                engine = self._engines[socket] = Engine(socket)
            if only_from is None:
                return self._tell(engine, entry.owner, entry, wanted)
            return self._put_back(engine, entry.owner, entry, only_from)
        except NoContainerError:
            self._forget(entry.owner)
            raise
        except RefusedError:
            raise
        except EngineError:
            dropped = self._engines.pop(socket, None)
            if dropped is not None:
                dropped.close()
            raise

    def _tell(self, engine: Engine, owner: Owner, entry: Entry, wanted: int) -> set[int]:
        """Put a share on record, unless what is there is neither ours nor what was found."""
        on_record = engine.record(owner.name)
        told = self._read(owner) or Told(replace(entry, ours=()), on_record.shares)
        if whose(on_record.shares, told.found, possible(told.entry, told.entry.ours)) is Whose.FOREIGN:
            self._forget(owner)
            return set()
        sure = self._on_record.get(owner)
        before = told.entry.ours[-REMEMBERED:] if sure is None else (sure,)
        shares = shares_to_tell(engine, on_record, told, wanted)  # before anything is written: it may not be known
        try:
            ours = tuple(dict.fromkeys((*before, wanted)))
            self._told.store(replace(told, entry=replace(told.entry, ours=ours)))
        except OSError as error:
            raise RecordError(f"{self._told.folder}: {error.strerror}: {UNTOLD}") from None
        self._on_record.pop(owner, None)
        engine.set_shares(owner.name, shares)
        self._on_record[owner] = wanted
        if wanted == told.entry.original:
            self._forget(owner)
        return {wanted}

    def _put_back(self, engine: Engine, owner: Owner, entry: Entry, only_from: Iterable[int]) -> set[int]:
        """Put the original on record, unless what is there is not ours: never told, or changed by somebody else."""
        told = self._read(owner) or Told(entry, 0)
        on_record = engine.record(owner.name)
        if on_record.shares in possible(told.entry, {*only_from, *told.entry.ours}):
            engine.set_shares(owner.name, shares_to_tell(engine, on_record, told, entry.original))
        self._forget(owner)
        return set()

    def _read(self, owner: Owner) -> Told | None:
        try:
            return self._told.of(owner)
        except OSError as error:
            raise RecordError(f"{self._told.folder}: {error.strerror}: {UNTOLD}") from None
        except ValueError as error:
            raise RecordError(f"{self._told.folder}: record {owner}: {error}: {UNTOLD}") from None

    def _forget(self, owner: Owner) -> None:
        self._told.forget(owner)
        self._on_record.pop(owner, None)

    def close(self) -> None:
        """Close all connections."""
        for engine in self._engines.values():
            engine.close()


def possible(entry: Entry, values: Iterable[int]) -> set[int]:
    """Give the engine's numbers that may have made these values, whichever runc it has or had."""
    if entry.file == "cpu.shares":
        return set(values)
    return {shares_for(one, convert) for one in values for convert in (linear, quadratic)}


def shares_to_tell(engine: Engine, on_record: OnEngine, told: Told, value: int) -> int:
    """Convert from the control group's unit to the engine's: to the number that was found, if it makes this value."""
    if told.entry.file == "cpu.shares":
        return value
    convert = conversion_of(engine, on_record.runtime)
    return told.found if told.found and convert(told.found) == value else shares_for(value, convert)


def conversion_of(engine: Engine, runtime: str) -> Conversion:
    """Say how a container's runtime makes weights of shares. EngineUnsuitableError: it is not known."""
    own = runtime not in ENGINES_RUNC
    convert = None if own else conversion(engine.runc_version())
    if convert is None:
        subject = f"a container's runtime is {runtime}," if own else "its runtime is"
        raise EngineUnsuitableError(f"{engine.socket}: {subject} not runc: how it makes weights of shares is unknown")
    return convert

"""What a repeat that failed leaves: the logs that say why."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from qioi.experiment.plan import Plan, make_smoke
from qioi.experiment.session import Session
from qioi.experiment.spec import ExperimentSpec
from qioi.experiment.store import Store
from qioi.experiment.summary import Summary
from qioi.lab.network import find_binary
from qioi.processes.errors import LabError


@pytest.fixture
def alone(spec: ExperimentSpec) -> Plan:
    """One arm of the toy, without neighbours, for a second."""
    plan = make_smoke(spec, cores=2)
    return replace(plan, cells=plan.cells[:1])


def failing_client(folder: Path) -> Path:
    """Make a ledger whose load client fails until a file ``healed`` is beside it."""
    file = folder / "ledger"
    fails = f'[ "$1" = load ] && [ ! -e {folder}/healed ]'
    file.write_text(f'#!/bin/sh\nif {fails}; then echo spoilt >&2; exit 3; fi\nexec {find_binary()} "$@"\n')
    file.chmod(0o755)
    return file


@pytest.mark.slow
def test_the_last_failure_keeps_its_logs_and_is_no_repeat(
    alone: Plan, base_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QIOI_LEDGER", str(failing_client(tmp_path)))
    store = Store(tmp_path / "run" / "toy")
    session = Session(alone, store, tmp_path / "lab", base_port, lambda *_: None)
    with pytest.raises(LabError, match="spoilt"):
        session.run()
    failed = store.folder(1)
    assert (failed / "logs-tiny" / "orderer1.log").stat().st_size > 0
    assert (failed / "tiny.slow.alone" / "load.log").read_text() == "spoilt\n"
    assert store.repeats() == []
    (failed / "first").touch()
    with pytest.raises(LabError, match="spoilt"):
        session.run(resume=True)
    assert failed.with_name("1.failed").joinpath("first").exists()
    assert failed.joinpath("logs-tiny").exists()
    (tmp_path / "healed").touch()
    session.run(resume=True)
    assert not failed.with_name("1.failed").joinpath("first").exists()
    assert failed.with_name("1.failed").joinpath("logs-tiny").exists()
    assert [repeat.number for repeat in Summary(store).repeats] == [1]


@pytest.mark.parametrize("why", ["ENOSPC", "EDQUOT", "EIO", "EROFS", "EMFILE"])
def test_of_the_systems_errors_a_full_disk_alone_takes_the_logs(
    alone: Plan, base_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    number = getattr(errno, why)

    def fails(folder: Path) -> None:
        (folder / "log").write_text("why")
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("qioi.experiment.session.calibrate", fails)
    store = Store(tmp_path / "run" / "toy")
    session = Session(replace(alone, smoke=False), store, tmp_path / "lab", base_port, lambda *_: None)
    with pytest.raises(OSError, match=os.strerror(number)):
        session.run()
    assert (store.folder(1) / "log").exists() == (why not in {"ENOSPC", "EDQUOT"})


def test_a_failure_of_another_repeat_takes_the_place_of_the_last(tmp_path: Path) -> None:
    store = Store(tmp_path / "toy")
    for number in (1, 2):
        store.fresh(number)
        store.fresh(number)
    assert sorted(path.name for path in (store.directory / "repeats").iterdir()) == ["1", "2", "2.failed"]

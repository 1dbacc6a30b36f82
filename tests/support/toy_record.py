"""A record of a piece that nobody measured."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from published import code
from published.record import Code, Column, Form, LeftOut, Machine, Record, Row

from qioi.experiment.calibration import Calibration

SPEED = Calibration(49.0, 22.0, 300.0, 2.0, 360.0)


def made(repository: Path, **changed: object) -> Record:
    columns = (Column("tps", "tps", Form.COUNT), Column("slower", "p95 to alone", Form.TIMES))
    rows = (
        Row("alone", "alone", {"tps": (1000.0, 1010.0, 990.0), "slower": (1.0, 1.0, 1.0)}),
        Row("qioi", "16 sysbench, QiOi", {"tps": (1001.0, 2000.0, 999.0), "slower": (1.1, 9.9, None)}),
    )
    its = Record(
        name="lab",
        title="the lab",
        command="python benchmarks/bench_laws.py",
        commit="0123456789",
        date="2026-11-22",
        code=Code((".",), code.digest(repository, ["."])),
        machine=Machine("6.18", "a CPU", 2, 24.0, 1),
        calibration=(SPEED,),
        columns=columns,
        rows=rows,
        left_out=(LeftOut(2, "others used the machine"),),
    )
    return replace(its, **changed)

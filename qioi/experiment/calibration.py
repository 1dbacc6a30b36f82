"""How fast the machine is. It differs by half from day to day, so every absolute figure has it beside it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from qioi.lab.network import find_binary
from qioi.processes.errors import LabError


@dataclass(frozen=True, slots=True)
class Calibration:
    """The machine's speed, in microseconds (`qioi-ledger calibrate`).

    One P-256 verification and one signature, an fsync of 4 KiB, a byte through a pipe to a thread that sleeps, and the
    signatures that a transaction costs at the least.
    """

    verify_us: float
    sign_us: float
    fsync_us: float
    wake_up_us: float
    signature_us: float


def calibrate(folder: Path) -> Calibration:
    """Measure it for two seconds; the fsync is of the disk that ``folder`` is on. LabError with the reason."""
    command = [str(find_binary()), "calibrate", "--dir", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").splitlines() or [f"exit status {done.returncode}"]
        raise LabError(f"the machine's speed could not be measured: {said[-1]}")
    return TypeAdapter(Calibration).validate_json(done.stdout)


def speed(calibrations: Sequence[Calibration]) -> str:
    """Write the least and the most of each calibrated step."""

    def span(values: list[float]) -> str:
        least, most = (f"{value:.3g}" for value in (min(values), max(values)))
        return f"{least} us" if least == most else f"{least} .. {most} us"

    parts = {
        "P-256 verification": [one.verify_us for one in calibrations],
        "signature": [one.sign_us for one in calibrations],
        "fsync": [one.fsync_us for one in calibrations],
        "wake-up": [one.wake_up_us for one in calibrations],
    }
    return ", ".join(f"{name} {span(values)}" for name, values in parts.items())

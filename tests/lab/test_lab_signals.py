"""Which signals end a command, and which it was started to survive."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from qioi.lab.signals import ending_signals_interrupt

ENDING = [signal.SIGTERM, signal.SIGHUP]
HANGS_UP = """
import signal
from qioi.lab.signals import ending_signals_interrupt
with ending_signals_interrupt():
    signal.raise_signal(signal.SIGHUP)
print("finished")
"""


@pytest.mark.parametrize("number", ENDING)
def test_an_ending_signal_unwinds_the_stack(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt, match=number.name), ending_signals_interrupt():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_that_is_ignored_stays_so(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with ending_signals_interrupt():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_nohup_lets_a_command_go_on_after_its_terminal() -> None:
    done = subprocess.run(["nohup", sys.executable, "-c", HANGS_UP], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "finished\n"), done.stderr

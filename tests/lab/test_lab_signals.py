"""Which signals end a command, and which it was started to survive."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from qioi.lab.signals import ending_signals_interrupt, uninterrupted

ENDING = [signal.SIGTERM, signal.SIGHUP]
HANGS_UP = """
import signal
from qioi.lab.signals import ending_signals_interrupt, uninterrupted
with ending_signals_interrupt():
    signal.raise_signal(signal.SIGHUP)
print("finished")
"""
HOLDS_BACK = """
import signal
from qioi.lab.signals import ending_signals_interrupt, uninterrupted
try:
    with ending_signals_interrupt():
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signal.SIGHUP)
                signal.raise_signal(signal.SIGHUP)
            print("cleaned up")
        print("went on")
except KeyboardInterrupt as error:
    print(error)
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


def clean_up(number: signal.Signals, done: list[str]) -> None:
    """Hear a signal in the midst of a cleanup; note how far this command comes."""
    with ending_signals_interrupt():
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(number)
                done.append("the inner")
            done.append("the outer")
        done.append("what comes after")


@pytest.mark.parametrize("number", [signal.SIGINT, *ENDING])
def test_a_signal_during_the_cleanup_ends_the_command_after_it(number: signal.Signals) -> None:
    before, done = [signal.getsignal(one) for one in (signal.SIGINT, *ENDING)], list[str]()
    with pytest.raises(KeyboardInterrupt):
        clean_up(number, done)
    assert done == ["the inner", "the outer"]
    assert [signal.getsignal(one) for one in (signal.SIGINT, *ENDING)] == before


def test_an_error_of_the_cleanup_is_told_with_the_signal() -> None:
    def fail() -> None:
        with ending_signals_interrupt(), uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            raise ValueError("not clean")

    with pytest.raises(KeyboardInterrupt) as said:
        fail()
    assert isinstance(said.value.__context__, ValueError)


@pytest.mark.parametrize(("before", "said"), [((), "cleaned up\nSIGHUP\n"), (("nohup",), "cleaned up\nwent on\n")])
def test_nohup_lets_a_command_go_on_whose_terminal_went_during_its_cleanup(before: tuple[str, ...], said: str) -> None:
    done = subprocess.run([*before, sys.executable, "-c", HOLDS_BACK], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, said), done.stderr

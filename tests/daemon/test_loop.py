"""What the loop makes of signals, and whom it tells of onsets."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner
from waiting import PATIENCE

from qioi.cli import main, waiting_hangups
from qioi.daemon.daemon import Daemon
from qioi.daemon.loop import Signals, run_loop
from qioi.daemon.notify import Notifier
from qioi.monitor.scheduler.onset_watch import EVERY, SHORT, OnsetWatch
from qioi.show.snapshot import ChannelState, ConfigState, Snapshot

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in HANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "terminal", "stops"),
    [
        (signal.SIGHUP, False, False),
        (signal.SIGHUP, True, True),
        (signal.SIGTERM, False, True),
        (signal.SIGINT, True, True),
    ],
)
def test_a_hangup_reloads_but_ends_what_a_terminal_has_started(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, terminal: bool, stops: bool
) -> None:
    """Shares would stay raised behind a terminal that was closed."""
    monkeypatch.setattr("qioi.daemon.loop.os.isatty", lambda descriptor: terminal and descriptor == 2)
    signals = Signals()
    signal.raise_signal(number)
    assert signals.wait(30.0)
    assert (signals.stopped, signals.take_reload()) == (stops, not stops)
    assert not signals.take_reload()


#: Sends itself a hangup as the first module that `qioi run` needs is imported, which takes seconds on a busy host.
HUNG_UP_ON = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "qioi.commands.run":
            os.kill(os.getpid(), signal.SIGHUP)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
sys.meta_path.insert(0, Finder())
from qioi.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(("command", "code"), [("run", 1), ("--help", 0)])
def test_a_hangup_ends_no_daemon_that_is_just_starting(tmp_path: Path, command: str, code: int) -> None:
    rest = ["-c", str(tmp_path / "missing.yaml")] if command == "run" else []
    asked = [sys.executable, "-c", HUNG_UP_ON, command, *rest]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == code
    assert ("missing.yaml: No such file" in done.stderr) is (command == "run")


def test_a_hangup_from_before_the_loop_is_a_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.isatty", lambda descriptor: False)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with waiting_hangups():
        signal.raise_signal(signal.SIGHUP)
        signals = Signals()
        assert (signals.wait(30.0), signals.take_reload(), signals.stopped) == (True, True, False)
        assert signal.SIGHUP not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_who_calls_the_command_hears_hangups_afterwards(tmp_path: Path) -> None:
    """What it starts later would hear none, either."""
    assert CliRunner().invoke(main, ["run", "-c", str(tmp_path / "missing.yaml")]).exit_code == 1
    assert signal.SIGHUP not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


class Looks(OnsetWatch):
    """Counts its looks."""

    count = 0

    def look(self, now: float) -> str | None:
        self.count += 1
        return super().look(now)


class ToyDaemon:
    """Stops the loop by SIGTERM in its third period."""

    def __init__(self) -> None:
        self.periods = 0

    def period(self, now: float, snapshot: Snapshot) -> Snapshot:
        self.periods += 1
        if self.periods == 3:
            signal.raise_signal(signal.SIGTERM)
        return snapshot

    def count_late(self, number: int) -> None: ...

    def count_early(self) -> None: ...


@pytest.mark.parametrize(("law", "count"), [("adaptive", 3), ("proportional", 0)])
def test_in_short_periods_laws_are_told_of_an_onset_too_but_not_algorithm_1(
    tmp_path: Path, law: str, count: int
) -> None:
    loadavg = tmp_path / "loadavg"
    loadavg.write_text("0.5 0.5 0.5 2/100 7\n")
    looks, daemon, period = Looks(loadavg), ToyDaemon(), 0.02
    assert looks.pause(0.0, period) == math.inf, f"{period} s are no short period beside {SHORT} and {EVERY} s"
    channel = ChannelState("fab/payments", law, 120.0, 100.0, 0.5, 7)
    first = Snapshot("0", 1, 0.0, period, False, "files", 1, (channel,), (), ConfigState("qioi.yaml", 0.0))
    run_loop(cast("Daemon", daemon), first, Signals(), lambda _: None, lambda snapshot: snapshot, Notifier({}), looks)
    assert (daemon.periods, looks.count) == (3, count)


class Held(ToyDaemon):
    """A daemon whose second period begins late: something has stopped it for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.clock, self.seconds = 100.0, seconds

    def now(self) -> float:
        return self.clock

    def wait(self, pause: float) -> bool:
        self.clock += max(0.0, pause)
        return False

    def period(self, now: float, snapshot: Snapshot) -> Snapshot:
        self.clock += self.seconds if self.periods == 1 else 0.0
        return super().period(now, snapshot)


@pytest.mark.parametrize(("seconds", "said"), [(20.0, []), (105.0, [105])])
def test_a_time_in_which_it_stood_still_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, seconds: float, said: list[int]
) -> None:
    """The status counts the periods that are missing, and says nothing of when that was."""
    daemon = Held(seconds)
    monkeypatch.setattr("qioi.daemon.loop.time.monotonic", daemon.now)
    monkeypatch.setattr(Signals, "wait", lambda signals, pause: daemon.wait(pause) or signals.stopped, raising=True)
    first = Snapshot("0", 1, 0.0, 1.0, False, "files", 1, (), (), ConfigState("qioi.yaml", 0.0))
    run_loop(cast("Daemon", daemon), first, Signals(), lambda _: None, lambda one: one, Notifier({}), OnsetWatch())
    lines = [one.message for one in caplog.records if one.levelname == "WARNING"]
    expected = "no period began for %d s: the daemon was stopped, waited for something, or got no CPU"
    assert lines == [expected % (1 + number) for number in said]

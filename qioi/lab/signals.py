"""Signals that end a command: they unwind the stack, and wait for the end of a cleanup."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


@contextlib.contextmanager
def ending_signals_interrupt() -> Iterator[None]:
    """Make SIGTERM and a closed terminal unwind the stack just as ctrl-C does; ignored ones stay so, as by nohup(1)."""
    heard = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupted(error: BaseException) -> bool:
    """Whether an error hides an interruption: that of a cleanup takes the place of what it cleans up after."""
    hidden: BaseException | None = error
    while hidden is not None and not isinstance(hidden, KeyboardInterrupt):
        hidden = hidden.__context__
    return hidden is not None


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold signals back until the cleanup is done; the first that came is raised again after it.

    Signals that are ignored, as by nohup(1), stay so.
    """
    came: list[int] = []
    heard = [number for number in (signal.SIGINT, *_ENDING) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])

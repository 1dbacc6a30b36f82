"""A log that is rotated while it is looked at, step by step, before each file that the look opens."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from followed_log import lines_of
from hypothesis import example, given
from hypothesis import strategies as st

from qioi.monitor import FileTail
from qioi.monitor.logs import tail as module
from qioi.monitor.logs.line_cutter import LineCutter
from qioi.monitor.logs.open_log import OpenLog

LINES, ROTATIONS = 2, 8


def writing(log: Path) -> Iterator[None]:
    """Write lines, and rotate after some of them as logrotate does; each step is one call of the kernel's."""
    number = 0
    for _ in range(ROTATIONS):
        for _ in range(LINES):
            with log.open("ab", buffering=0) as file:
                file.write(b"%d\n" % number)
            number += 1
            yield
        for old in range(ROTATIONS, 0, -1):
            if (before := log.with_name(f"{log.name}.{old}")).exists():
                before.replace(log.with_name(f"{log.name}.{old + 1}"))
                yield
        log.replace(log.with_name(f"{log.name}.1"))
        yield
        log.touch()
        yield


@example(steps=[0, 10])  # the named file moves behind one that is newer
@example(steps=[5, 0, 11])  # and behind an older one that was seen before
@given(steps=st.lists(st.integers(0, 12), max_size=60))
def test_no_rotation_in_the_midst_of_a_look_loses_a_line_or_changes_their_order(steps: list[int]) -> None:
    """Before each file that a look opens, the writer takes some of its steps."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        log = Path(folder) / "peer.log"
        log.touch()
        tail = FileTail(log)
        writer, left = writing(log), iter(steps)

        def opened(path: str, lines: LineCutter) -> OpenLog:
            for _ in range(next(left, 0)):
                next(writer, None)
            return original(path, lines)

        original = module.open_log
        patch.setattr(module, "open_log", opened)
        patch.setattr(module, "_LINGER_DELETED", math.inf)
        found: list[bytes] = []
        for _ in range(20):
            next(writer, None)
            found += lines_of(tail.poll())
        for _ in writer:
            pass
        for _ in range(3):
            found += lines_of(tail.poll())
        assert found == [b"%d" % number for number in range(ROTATIONS * LINES)]
        assert tail.counters.rotations == ROTATIONS
        tail.close()

"""The daemon's HTTP servers, in this process."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from qioi.api import UnreachableError, get_json, serve_unix


def switches(thread: int) -> int:
    """How often a thread of this process has gone to sleep."""
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    return int(status.split("voluntary_ctxt_switches:")[1].split()[0])


def sleeps(thread: int, seconds: float) -> bool:
    """Whether a thread does not wake up for so long."""
    before = switches(thread)
    time.sleep(seconds)
    return switches(thread) == before


def test_a_server_that_nobody_asks_sleeps_and_one_that_is_closed_ends(tmp_path: Path) -> None:
    service = serve_unix(tmp_path / "sock", {"GET /status": ("application/json", lambda _: b'{"period": 1}')})
    (thread,) = [one.native_id for one in threading.enumerate() if one.name == "status"]
    assert thread is not None
    for _ in range(2):
        assert get_json(tmp_path / "sock", "/status") == {"period": 1}
    with pytest.raises(UnreachableError, match="404"):
        get_json(tmp_path / "sock", "/other")
    assert any(sleeps(thread, 1.1) for _ in range(5))  # the last answer may still be on its way
    service.close()
    assert not [one for one in threading.enumerate() if one.name == "status"]
    with pytest.raises(UnreachableError):
        get_json(tmp_path / "sock", "/status")

"""Components that come and go leave nothing behind in the daemon's memory, however many there were."""

from __future__ import annotations

import gc
import hashlib
import logging
import shutil
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from toy_daemon import ToySite, peer

from qioi.types import Component, Role

#: Components that come and go before the count begins; then, in each of so many counts.
FIRST, THEN, COUNTS = 20, 80, 3
#: Bytes that may stay of one: less than a name with its place in a dictionary.
STAYS = 200


def come_and_go(site: ToySite, number: int) -> None:
    """Have one container be found, raised beside neighbours, and go."""
    name, group = f"peer{number}", f"docker/{hashlib.sha256(b'%d' % number).hexdigest()}"
    site.group(group)
    come = Component(name, Role.PEER, group, ("red",), str(site.folder / "peer.log"))
    kept = site.config.components
    site.toy.used[group], site.toy.waits[name] = 0.1, (0.1, 0.9)
    site.snapshot = site.daemon.adopt(replace(site.config, components=(*kept, come)), site.snapshot)
    site.run(2)
    assert site.weight(group) > 100
    shutil.rmtree(site.hierarchy.mount / group)
    site.run(1)
    del site.toy.used[group], site.toy.waits[name]
    site.snapshot = site.daemon.adopt(site.config, site.snapshot)
    site.run(1)


def test_components_that_come_and_go_leave_nothing_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "qioi")  # what is logged is kept, by pytest
    site = ToySite(tmp_path, [peer("stays", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.used, site.toy.tps = {"": 2.0, "docker": 1.9, "docker/p": 0.1}, {"red": 50.0}
    for number in range(FIRST):
        come_and_go(site, number)
    tracemalloc.start()
    try:
        kept = [memory()]
        for begin in range(FIRST, FIRST + COUNTS * THEN, THEN):
            for number in range(begin, begin + THEN):
                come_and_go(site, number)
            kept.append(memory())
    finally:
        tracemalloc.stop()
    # What components leave behind is there in every count; a table of the interpreter's that was made larger, in one.
    assert min(after - before for before, after in pairwise(kept)) < STAYS * THEN


def memory() -> int:
    """Give the bytes that are in use."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]

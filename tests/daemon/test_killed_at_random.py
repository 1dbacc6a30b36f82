"""The daemon, killed at random moments: nothing of its own outlives it."""

from __future__ import annotations

import os
import random
import signal
from contextlib import closing
from pathlib import Path

import pytest
from raised_component import value
from running import BUSY, NAPPING, NIBBLING, Site, end, unrest
from toy_engine import Engine

from qioi.controller.levers.eevdf import Kernel, default_slice

#: Throughput is known after a window of 6 s, so most of these take that long.
pytestmark = pytest.mark.slow


class EveryLever:
    """Components and neighbours at which shares, slices, ``cpu.idle`` and an engine's record are in force at once."""

    ORIGINALS = (700, 1024, 3000)
    CONTAINER = "ab12" * 16

    def __init__(self, site: Site) -> None:
        self.site = site
        shares = [site.component(f"peer{i}") for i in range(3)]
        for share, original in zip(shares, self.ORIGINALS, strict=True):
            share.write_text(str(original))
        self.work = [site.work(f"peer{i}", code) for i, code in enumerate((NAPPING, NAPPING, NIBBLING))]
        self.work += [site.work(f"hog{i}", BUSY) for i in range(3 * (os.cpu_count() or 1))]
        self.idle = self.folder("hog0") / "cpu.idle"
        self.hog = self.folder("hog0") / site.hierarchy.file
        self.hog.write_text("3000")
        self.idles = self.idle.exists()
        engine = self.engine()
        self.files = [self.folder(name) / site.hierarchy.file for name in ("", self.CONTAINER)] + shares
        kernel = Kernel()
        self.kernel = kernel if default_slice(kernel) is not None else None
        site.changes = {
            "channels": {"red": {"law": "adaptive"}},
            "docker": {"socket": engine},
            "slices": "required" if self.kernel else "off",
            "slices_before_6_15": True,
            "best_effort": [f"{site.parent}/hog0"] if self.idles else [],
        }
        self.found = self.now()
        self.in_force = dict.fromkeys(self.found, 0)

    def folder(self, name: str) -> Path:
        return self.site.hierarchy.folder(f"{self.site.parent}/{name}")

    def engine(self) -> str:
        """An engine with one container, an orderer that works in a group named as it."""
        orderer = self.site.work(self.CONTAINER, NAPPING)
        self.work.append(orderer)
        (log := self.site.folder / "orderer.log").touch()
        share = self.folder(self.CONTAINER) / self.site.hierarchy.file
        share.write_text("1200")
        facts = {
            "Name": "/orderer0",
            "State": {"Running": True, "Pid": orderer.pid},
            "Config": {"Image": "hyperledger/fabric-orderer", "Labels": {}},
            "HostConfig": {"LogConfig": {"Type": "json-file"}, "CpuShares": 1200},
            "LogPath": str(log),
        }
        self.toy = Engine(self.site.folder / "docker.sock", {self.CONTAINER: facts})
        self.toy.groups = {self.CONTAINER: share}
        return str(self.toy.server_address)

    def now(self) -> dict[str, object]:
        """What is in force, by lever."""
        facts = self.toy.facts[self.CONTAINER]
        assert facts is not None
        threads = [int(tid.name) for one in self.work for tid in Path(f"/proc/{one.pid}/task").iterdir()]
        return {
            "shares": [value(file) for file in self.files],
            "cpu.idle": (value(self.idle), value(self.hog)) if self.idles else None,
            "slices": [self.kernel.read(tid).slice for tid in threads] if self.kernel else None,
            "record": facts["HostConfig"]["CpuShares"],
        }

    def count(self) -> None:
        """Note which levers are in force now."""
        for lever, state in self.now().items():
            self.in_force[lever] += state != self.found[lever]

    def missing(self, kills: int) -> list[str]:
        """Levers that were in force at too few kills: a busy machine may need some more of them."""
        least = {
            lever: kills / 4 if lever == "shares" else 0 for lever, state in self.found.items() if state is not None
        }
        return [lever for lever, number in least.items() if self.in_force[lever] <= number]

    def close(self) -> None:
        self.toy.shutdown()
        self.toy.server_close()


def test_killed_at_random_moments_nothing_of_ours_outlives_it(site: Site, request: pytest.FixtureRequest) -> None:
    """Under real work that comes and goes, while it starts, recovers and acts, with every lever in force at once; put
    back by either way, or by the next start but one.
    """
    chance = random.Random(request.config.getoption("--kills-seed"))
    levers, kills = EveryLever(site), request.config.getoption("--kills")

    with closing(levers):
        for kill in range(3 * kills):
            if kill >= kills and not levers.missing(kills):
                break
            for one in levers.work:
                one.send_signal(signal.SIGCONT)
            process = site.begin()
            # Where a busy host lets none of them act so soon, the moments come ever later.
            unrest(chance, 6.5 * 2 ** (kill // kills), levers.work, site.commit)
            assert end(process, signal.SIGKILL)[0] == -signal.SIGKILL
            levers.count()
            for one in levers.work:
                one.send_signal(signal.SIGSTOP)
            # What was enough is knowledge, and raises again beside whatever else works on this host.
            (site.state / "enough.json").unlink(missing_ok=True)
            put_back = chance.choice(["restore", "start", "later"])
            if put_back == "restore":
                assert site.qioi("restore", "--state-dir", str(site.state)).returncode == 0
                assert levers.now() == levers.found
            elif put_back == "start":
                process = site.start()  # nothing works, so it raises nothing itself
                assert levers.now() == levers.found
                assert end(process, signal.SIGKILL)[0] == -signal.SIGKILL
        process = site.start()
        assert levers.now() == levers.found
        assert end(process)[0] == 0
        left = [site.state / name for name in ("journal", "idle", "slices")] + [*(site.state / "records").glob("*")]
        assert [file for file in left if file.exists()] == []
    assert levers.missing(kills) == [], f"most kills came when nothing was in force: {levers.in_force}"

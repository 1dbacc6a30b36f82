"""The rooms that figures depend on, as Git's path specifications."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

#: Of the lab, what systems have for themselves: the beginnings of the names of their files.
SYSTEMS = {
    "fabric": ("fabric",),
    "cassandra": ("cassandra", "exporters", "jmx"),
    "mysql": ("mysql", "exporters"),
    "mariadb": ("mariadb", "mysql", "exporters"),
    "kafka": ("kafka", "exporters", "jmx"),
}
#: Of the bundled ledger, what one way to order has for itself.
CONSENTERS = {
    "bft": ("orderer/consensus/bft",),
    "zyzzyva": ("orderer/consensus/bft",),
    "kafka": ("orderer/consensus/kafka",),
    "sequencer": ("orderer/consensus/sequencer", "sequencer", "framed"),
    "raft": ("orderer/consensus/etcdraft",),
}


def site(systems: Container[str]) -> tuple[str, ...]:
    """Give the lab without what only other systems have than these."""
    return ("qioi/lab", *(f":(exclude)qioi/lab/systems/{name}*" for name in unused(SYSTEMS, systems)))


def ledger(ways: Container[str]) -> tuple[str, ...]:
    """Give the bundled ledger without what only other ways to order have than these.

    The replicas that are measured without a ledger are no part of it, nor is what changes a network that is there.
    """
    apart = ("bftbench", "setup/extend.go", "setup/renew.go", *unused(CONSENTERS, ways))
    return ("ledger", *(f":(exclude)ledger/internal/{part}" for part in apart))


def unused(parts: Mapping[str, Sequence[str]], used: Container[str]) -> list[str]:
    """Give the parts that nobody has of whom one uses."""
    has = {part for name, its in parts.items() if name in used for part in its}
    return sorted({part for its in parts.values() for part in its} - has)


#: perf is run by `qioi profile`, and by experiments that record slices, not by the daemon.
NO_PERF = ":(exclude)monitor/profile"
#: What the daemon decides and does. What keeps a second daemon out acts once, at the start, a replay is no
#: daemon, and footnotes are words. Of what finds components only that is named which acts wherever they come from.
DAEMON = (
    *("controller", "monitor", "qioi/daemon", "qioi/kernel", "qioi/model", "qioi/settings", "qioi/show"),
    ":(exclude)qioi/daemon/lock.py",
    ":(exclude)qioi/daemon/replay.py",
    ":(exclude)qioi/show/footnotes.py",
    NO_PERF,
    *("qioi/roster.py", *(f"qioi/discovery/{name}.py" for name in ("base", "cgroups", "mine", "owners", "told"))),
)
EVERY_WAY = ledger(CONSENTERS)
#: What a network of Raft orderers runs.
LEDGER = ledger(("raft",))
#: The lab, without the systems that no benchmark runs.
SITE = site(("fabric",))
LAB = (
    *(*SITE, "interference", "qioi/processes", "benchmarks/lab_bench.py"),
    *(f":(exclude)interference/{name}.py" for name in ("spark", "terasort")),  # no benchmark's neighbours
)
#: What has an ended benchmark clean up.
ENDING = ("qioi/lab/signals.py",)
#: What a benchmark that begins each repeat with a calibration runs for that.
CALIBRATED = ("qioi/experiment/calibration.py",)
LAWS = tuple(f"benchmarks/{name}.py" for name in ("bench_laws", "fixed_load", "laws_asked", "laws_figures"))
FABRIC = (*LAWS, "benchmarks/bench_fabric.py")
#: What real Fabric runs, or is driven and timed by, of the bundled ledger: the contracts, the load client, and all that
#: these are made of.
BESIDE_FABRIC = (
    *(f"ledger/internal/{part}" for part in ("contracts", "load", "process", "shim", "wire", "network", "stage")),
    *(f"ledger/internal/{part}" for part in ("identity", "policy", "protoutil", "protoview", "serving", "ops")),
    *(f"ledger/internal/{part}" for part in ("nodeconfig", "channelconfig", "problems", "finite", "zipf")),
    *(f"ledger/internal/{part}" for part in ("resultfile", "durable")),
    *("ledger/pb", "ledger/go.mod"),
)

"""What is published: each piece by the command that measures it, in the order of worth."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from published import growth, ledgers, means, readers, shares
from published.neighbours import neighbours
from published.rooms import BESIDE_FABRIC, CALIBRATED, DAEMON, ENDING, EVERY_WAY, FABRIC, LAB, LAWS, LEDGER, SITE


class Piece(NamedTuple):
    """One measurement of at most 40 minutes.

    ``arguments`` are a benchmark and its options, in which ``{out}`` stands for a folder of the run's own, ``{run}``
    for its number (from 1), by which the order of conditions is reversed from run to run, and ``{fabric}`` for a folder
    of real Fabric's binaries. It runs ``runs`` times. ``minutes`` is what all of it takes on two cores. ``lacks`` says
    why it can't be measured on this host.
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    code: tuple[str, ...]
    minutes: int
    read: readers.Reader
    runs: int = 1
    lacks: Callable[[], str | None] = lambda: None

    @property
    def command(self) -> str:
        """Give the command as a reader would type it, without the options that tell a run its folder and number."""
        pairs = pairwise((*self.arguments[1:], ""))
        shown = [one for one, value in pairs if not {one, value} & {"{out}", "{run}"}]
        return " ".join(("python", f"benchmarks/{self.arguments[0]}", *shown)).format(out="DIR", fabric="DIR")

    @property
    def needs_fabric(self) -> bool:
        """Whether it runs real Fabric."""
        return "{fabric}" in self.arguments


#: The arms that a headline has.
AGAINST = tuple(word for name in ("nothing", "fixed", "fixed-most", "adaptive") for word in ("--condition", name))
#: A window with the neighbours' coming in it.
ONSET = ("--sysbench", "16", "--warmup", "8", "--come", "0.3", "--duration", "30", "--repeats", "3")

PIECES = (
    Piece(
        "headline",
        "The bundled lab beside 16 sysbench, at a load of 60 % of the CPUs",
        (
            "bench_laws.py",
            *("--load", "fixed", "--busy", "60", "--sysbench", "16", "--duration", "18", "--repeats", "3", *AGAINST),
            *("--output", "{out}"),
        ),
        (*DAEMON, *LEDGER, *LAB, *LAWS),
        11,
        readers.laws,
    ),
    Piece(
        "headline-fabric",
        "Real Hyperledger Fabric beside 16 sysbench, at a load of 60 % of the CPUs",
        (
            "bench_fabric.py",
            *("--fabric", "{fabric}", "--load", "fixed", "--busy", "60", "--sysbench", "16", "--duration", "30"),
            *("--repeats", "4", *AGAINST, "--output", "{out}"),  # even: each way is as often early as late
        ),
        (*DAEMON, *LAB, *BESIDE_FABRIC, *FABRIC),
        22,
        readers.laws,
    ),
    Piece(
        "onset",
        "30 s in whose first half second 16 sysbench come, at a load of 60 % of the CPUs",
        ("bench_laws.py", "--load", "fixed", "--busy", "60", *ONSET, *AGAINST, "--output", "{out}"),
        (*DAEMON, *LEDGER, *LAB, *LAWS),
        14,
        readers.laws,
    ),
    Piece(
        "onset-fabric",
        "The same on real Hyperledger Fabric",
        (
            *("bench_fabric.py", "--fabric", "{fabric}", "--load", "fixed", "--busy", "60"),
            *(*ONSET, *AGAINST, "--output", "{out}"),
        ),
        (*DAEMON, *LAB, *BESIDE_FABRIC, *FABRIC),
        17,
        readers.laws,
    ),
    Piece(
        "reaction",
        "How soon the daemon acts and goes back, beside 16 sysbench",
        ("bench_reaction.py", "--repeats", "3", "--output", "{out}"),
        (*DAEMON, *LEDGER, *LAB, "benchmarks/bench_reaction.py"),
        12,
        readers.reaction,
    ),
    Piece(
        "discovery",
        "How soon the daemon knows a container that starts, and has let go of one that ends",
        ("bench_discovery.py", "--output", "{out}"),
        (
            *(*DAEMON, "qioi/discovery", ":(exclude)qioi/discovery/containerd.py"),  # it watches Docker
            *(*LEDGER, *LAB, "benchmarks/bench_discovery.py", "benchmarks/bench_reaction.py"),
        ),
        3,
        readers.discovery,
        lacks=means.engine,
    ),
    Piece(
        "owed",
        "A closed loop that could do more than T, beside 8 sysbench",
        ("bench_owed.py", "--repeat", "{run}", "--output", "{out}"),
        (*DAEMON, *LEDGER, *LAB, "benchmarks/bench_owed.py", "benchmarks/laws_figures.py"),
        19,
        shares.owed,
        runs=3,
    ),
    Piece(
        "owed-16",
        "The same beside 16 sysbench",
        ("bench_owed.py", "--sysbench", "16", "--repeat", "{run}", "--output", "{out}"),
        (*DAEMON, *LEDGER, *LAB, "benchmarks/bench_owed.py", "benchmarks/laws_figures.py"),
        19,
        shares.owed,
        runs=3,
    ),
    Piece(
        "tenants",
        "Two ledgers of one host, of which one is below its T",
        ("bench_tenants.py", "--output", "{out}"),
        (*DAEMON, *LEDGER, *LAB, "benchmarks/bench_tenants.py"),
        9,
        shares.tenants,
        runs=3,
    ),
    Piece(
        "enough",
        "Shares by hand, and those that QiOi finds, beside 4, 8 and 16 sysbench",
        ("bench_enough.py", "--repeat", "{run}", "--output", "{out}"),
        (*DAEMON, *LEDGER, *LAB, "benchmarks/bench_enough.py", "benchmarks/laws_figures.py"),
        20,
        shares.enough,
        runs=3,
    ),
    Piece(
        "daemon",
        "What the daemon costs",
        ("bench_daemon.py", "--json", "{out}/daemon.json"),
        (*DAEMON, "qioi/processes", *ENDING, "benchmarks/bench_daemon.py"),
        11,
        readers.daemon,
        runs=3,
    ),
    Piece(
        "ledger",
        "The bundled ledger: 3 Raft orderers, 2 peers, 1 KB writes, TLS, durable",
        ("bench_ledger.py", "--output", "{out}"),
        (
            *LEDGER,
            *SITE,
            *CALIBRATED,
            "qioi/model",
            "qioi/processes",
            "benchmarks/bench_ledger.py",
            "benchmarks/bench_ordering.py",
        ),
        6,
        ledgers.ledger,
    ),
    Piece(
        "headline-full",
        "The bundled lab beside 16 sysbench, at a load of 70 % of the CPUs",
        (
            "bench_laws.py",
            *("--load", "fixed", "--sysbench", "16", "--duration", "18", "--repeats", "3", *AGAINST),
            *("--output", "{out}"),
        ),
        (*DAEMON, *LEDGER, *LAB, *LAWS),
        11,
        readers.laws,
    ),
    Piece(
        "headline-fabric-full",
        "Real Hyperledger Fabric beside 16 sysbench, at a load of 70 % of the CPUs",
        (
            "bench_fabric.py",
            *("--fabric", "{fabric}", "--load", "fixed", "--sysbench", "16", "--duration", "30", "--repeats", "3"),
            *(*AGAINST, "--output", "{out}"),
        ),
        (*DAEMON, *LAB, *BESIDE_FABRIC, *FABRIC),
        17,
        readers.laws,
    ),
    Piece(
        "bursts",
        "Eight seconds of load every 31 s, six of them measured, beside 16 sysbench that stay",
        ("bench_bursts.py", "--bursts", "3", "--repeat", "{run}", "--output", "{out}"),
        (*DAEMON, *LEDGER, *LAB, "benchmarks/bench_bursts.py"),
        13,
        readers.bursts,
        runs=3,
    ),
    Piece(
        "bursts-parent",
        "The same with each of the 16 sysbench beside the ledger's parent group, as heavy as the whole ledger",
        ("bench_bursts.py", "--bursts", "3", "--beside", "parent", "--repeat", "{run}", "--output", "{out}"),
        (*DAEMON, *LEDGER, *LAB, "benchmarks/bench_bursts.py"),
        13,
        readers.bursts,
        runs=3,
    ),
    Piece(
        "headline-like-fabric",
        "The bundled lab as Fabric's own processes run, blocks of 10, at a load of 60 % of the CPUs",
        (
            "bench_fabric.py",
            *("--load", "fixed", "--busy", "60", "--sysbench", "16", "--duration", "18"),
            *("--repeats", "3", *AGAINST, "--output", "{out}"),
        ),
        (*DAEMON, *LEDGER, *LAB, *FABRIC),
        11,
        readers.laws,
    ),
    Piece(
        "ends",
        "Where shares end: real Hyperledger Fabric beside 16 sysbench, at a load of 60 % of the CPUs",
        ("bench_ends.py", "--fabric", "{fabric}", "--output", "{out}"),
        (*DAEMON, *LAB, *BESIDE_FABRIC, *LAWS, "benchmarks/bench_ends.py"),
        17,
        readers.ends,
    ),
    Piece(
        "ordering",
        "Ways to order: 2 peers, 1 KB writes, stream mode, TLS",
        ("bench_ordering.py", "--output", "{out}"),
        (*EVERY_WAY, *CALIBRATED, "qioi/lab", "qioi/model", "qioi/processes", "benchmarks/bench_ordering.py"),
        13,
        ledgers.ordering,
    ),
    Piece(
        "leader",
        "The leading orderer is killed, or frozen: 2 peers, 8 clients, stream mode, TLS",
        ("bench_leader.py", "--output", "{out}"),
        (
            *(*EVERY_WAY, *CALIBRATED, "qioi/lab", "qioi/model", "qioi/processes"),
            *("benchmarks/bench_ordering.py", "benchmarks/bench_leader.py", "benchmarks/lab_bench.py"),
        ),
        10,
        ledgers.leader,
    ),
    Piece(
        "growth",
        "How the daemon's cost grows",
        ("bench_growth.py", "--output", "{out}"),
        (*DAEMON, "qioi/processes", *ENDING, "benchmarks/bench_daemon.py", "benchmarks/bench_growth.py"),
        8,
        growth.growth(growth.DAEMON),
        runs=3,
    ),
    Piece(
        "growth-ledger",
        "How the ledger's cost grows",
        ("bench_growth_ledger.py", "--output", "{out}"),
        (*LEDGER, *SITE, "qioi/processes", "benchmarks/bench_growth_ledger.py"),
        21,
        growth.growth(growth.LEDGER),
        runs=3,
    ),
    Piece(
        "growth-length",
        "How a peer's start, memory and disk grow with its ledger",
        ("bench_growth_length.py", "--output", "{out}"),
        (*LEDGER, *SITE, "qioi/processes", "benchmarks/bench_restart.py", "benchmarks/bench_growth_length.py"),
        20,
        growth.growth(growth.LENGTH),
        lacks=means.disk,
    ),
    Piece(
        "growth-kubernetes",
        "How what QiOi asks of a Kubernetes API server grows",
        ("bench_growth_kubernetes.py", "--output", "{out}"),
        (
            *("qioi/kubernetes", "qioi/model", "qioi/show", "deploy/k8s/base", *ENDING),
            *(f"deploy/k8s/demo_k8s/{name}.py" for name in ("control_plane", "objects", "tools")),
            "benchmarks/bench_growth_kubernetes.py",
        ),
        22,
        growth.growth(growth.KUBERNETES),
        runs=3,
        lacks=means.api_server,
    ),
    Piece(
        "growth-neighbours",
        "What neighbours get, the more of them there are",
        (
            "bench_laws.py",
            *("--load", "fixed", "--busy", "60", "--duration", "18", "--repeats", "1", "--first-repeat", "{run}"),
            *("--sysbench", "1", "--sysbench", "4", "--sysbench", "16", "--sysbench", "64"),
            *("--condition", "nothing", "--condition", "adaptive", "--output", "{out}"),
        ),
        (*DAEMON, *LEDGER, *LAB, *LAWS),
        20,
        neighbours,
        runs=3,  # a ledger of each: one of all would be more than this machine's memory
    ),
)

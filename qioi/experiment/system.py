"""The system under test in an experiment's file: how it is built, and how it is driven."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from qioi.experiment.form import Positive, Strict
from qioi.lab.options import Runtime

#: Fabric's rule for channels' names.
_CHANNEL = re.compile(r"[a-z][a-z0-9.-]{0,248}")
#: The bundled contracts, and the workloads of those that the bundled load client drives.
CONTRACTS = ("fabcoin", "kv", "marbles", "scm", "simple", "smallbank")
WORKLOADS = {
    "fabcoin": ("mint",),
    "kv": ("put", "update", "ycsb50", "insert", "ycsb90"),
    "scm": ("scm95", "scm99"),
    "smallbank": ("create", "mix"),
}
#: Systems that are no ledger, and the contracts that they have as tables.
DATABASES = {"cassandra": ("kv",), "mysql": ("kv", "scm"), "mariadb": ("kv", "scm")}
#: The most orderers of a network, and the least and the most of those consenters that cannot have any number of them.
MOST_ORDERERS = 9
ORDERERS = {"solo": (1, 1), "bft": (4, MOST_ORDERERS), "zyzzyva": (4, MOST_ORDERERS)}
#: What a run itself tells `qioi-ledger bft-bench`.
DECIDED = ("seed", "json", "warmup", "duration", "costs")
#: Systems that are no ledger: `qioi-ledger bft-bench`.
BENCHED = ("replicas", "simulation")


def _distinct_channels(names: list[str]) -> list[str]:
    wrong = [name for name in names if not _CHANNEL.fullmatch(name)]
    if wrong or len(set(names)) < len(names):
        raise ValueError("accepted are distinct names of small letters, digits, dots and dashes, a letter first")
    return names


def _distinct_contracts(names: list[str]) -> list[str]:
    bare = [name.split("=", 1)[0] for name in names]
    if set(bare) - set(CONTRACTS) or len(set(bare)) < len(bare):
        raise ValueError(f"accepted are {', '.join(CONTRACTS)}, each once")
    return names


def orderers_of(consenter: str) -> tuple[int, int]:
    """Give the least and the most orderers that a network with this consenter may have."""
    return ORDERERS.get(consenter, (1, MOST_ORDERERS))


def _not_decided(flags: dict[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
    if decided := [name for name in flags if name in DECIDED]:
        raise ValueError(f"{', '.join(decided)}: the run decides it, by its timing, its seed and its folder")
    return flags


#: What `qioi-ledger bft-bench` is given beside what a run decides, by the names of its flags.
Flags = Annotated[dict[str, str | int | float | bool], AfterValidator(_not_decided)]


class NetworkSpec(Strict):
    """The ledger. ``messages`` and ``timeout`` (seconds) cut blocks in block mode.

    ``system`` is what runs: the bundled ledger, real Fabric from the folder ``binaries``, or a database of so many
    ``nodes`` (see qioi.lab.systems). ``store`` is where its data stand; by default where the run's folder is. With
    ``orderers`` the orderers' ledgers alone are on a disk.
    ``workers`` check a channel's signatures, on as many threads of the peer. ``like_fabric`` gives the bundled ledger
    Fabric's wake-ups, log lines and runtime (docs/ledger.md). ``runtime`` is how its nodes, its load
    client and its neighbours run: as processes, or as containers of a real engine. Transactions need the
    ``endorsement`` of any one organization, or of a majority. A sequencer with
    ``sequencer_memory`` answers before its log is on disk.

    ``replicas`` and ``simulation`` are `qioi-ledger bft-bench`, real and simulated; ``flags`` are its own.

    One of the paper's size (``paper_size``) is too large for most hosts: it takes part where that size is asked for.
    """

    title: str = ""
    system: Literal["ledger", "fabric", "cassandra", "mysql", "mariadb", "replicas", "simulation"] = "ledger"
    flags: Flags = {}
    binaries: str | None = None
    nodes: Annotated[int, Field(ge=1, le=20)] | None = None
    store: Literal["disk", "memory", "orderers"] | None = None
    runtime: Runtime = "process"
    mode: Literal["stream", "block"] = "stream"
    consenter: Literal["raft", "solo", "kafka", "bft", "zyzzyva", "sequencer"] = "raft"
    sequencer_memory: bool = False
    orgs: Annotated[int, Field(ge=1, le=20)] = 2
    peers_per_org: Annotated[int, Field(ge=1, le=20)] = 2
    orderers: Annotated[int, Field(ge=1, le=MOST_ORDERERS)] = 3
    channels: Annotated[list[str], Field(min_length=1), AfterValidator(_distinct_channels)] = ["mychannel"]
    chaincodes: Annotated[list[str], Field(min_length=1), AfterValidator(_distinct_contracts)] = ["smallbank"]
    messages: Annotated[int, Field(ge=1)] | None = None
    timeout: Positive | None = None
    endorsement: Literal["any", "majority"] = "any"
    workers: Annotated[int, Field(ge=1, le=64)] | None = None
    like_fabric: bool = False
    paper_size: bool = False

    @model_validator(mode="after")
    def _blocks_are_of_block_mode(self) -> Self:
        if self.mode == "stream" and (self.messages is not None or self.timeout is not None):
            raise ValueError("messages and timeout are of mode block")
        if self.sequencer_memory and self.consenter != "sequencer":
            raise ValueError("sequencer_memory is of consenter sequencer")
        if self.flags and self.system not in BENCHED:
            raise ValueError(f"flags are of the systems {' and '.join(BENCHED)}")
        least, most = orderers_of(self.consenter)
        if self.system == "ledger" and not least <= self.orderers <= most:
            has = f"{least} to {most}" if least < most else f"{least}"
            raise ValueError(f"orderers {self.orderers}: consenter {self.consenter} has {has}")
        if self.like_fabric and self.system != "ledger":
            raise ValueError("like_fabric is of the system ledger")
        if self.store == "orderers" and (self.system, self.runtime) != ("ledger", "process"):
            raise ValueError("store orderers is of the system ledger and the runtime process")
        if self.system == "fabric" and (self.mode, self.consenter, self.workers) != ("block", "raft", None):
            raise ValueError("system fabric has mode block and consenter raft only, and no workers")
        accepted = DATABASES.get(self.system, CONTRACTS)
        if {name.split("=", 1)[0] for name in self.chaincodes} - {*accepted}:
            raise ValueError(f"system {self.system} has the chaincodes {', '.join(accepted)} only")
        if self.nodes is not None and self.system not in DATABASES:
            raise ValueError(f"nodes are of a database: {', '.join(DATABASES)}")
        return self

    @model_validator(mode="after")
    def _one_policy(self) -> Self:
        if self.endorsement == "any":
            return self
        if self.system not in ("ledger", "fabric"):
            raise ValueError("endorsement is of the systems ledger and fabric")
        if any("=" in name for name in self.chaincodes):
            raise ValueError("endorsement is of chaincodes without a policy of their own")
        return self

    def policy(self, chaincode: str) -> str:
        """Format a chaincode, with the endorsement policy that it is to have, for `qioi lab up --chaincode`."""
        if self.endorsement == "any":
            return chaincode
        names = ",".join(f"'Org{number}MSP.peer'" for number in range(1, self.orgs + 1))
        return f"{chaincode}=OutOf({self.orgs // 2 + 1},{names})"


class TenantSpec(Strict):
    """One channel's part of a load: its rate and what it is owed, both as parts of the ledger's maximum."""

    part: Positive
    threshold: Positive


class LoadSpec(Strict):
    """How the ledger is driven: ``part`` of its maximum or ``rate`` in tps (open loop), or ``clients`` (closed).

    ``of`` names the maximum that it is a part of: the first network's, so that all are offered the same, or each
    network's own.
    ``benchmark`` and ``round`` are of the driver caliper. ``tenants`` gives every channel a rate of its own.
    With ``breakdown`` the nodes report the time of each stage (metrics ``node.STAGE`` and ``busy.STAGE``).
    ``burst``, ``fresh``, ``queries``, ``consistency``, ``read_share`` and ``zipf`` are the load client's flags.

    The driver ``bench`` is of those two systems: ``flags`` go to it beside the network's, and ``varied`` is the load's
    place on an x axis.
    """

    title: str = ""
    driver: Literal["load", "caliper", "bench"] = "load"
    flags: Flags = {}
    varied: float | None = None
    part: Positive | None = None
    of: Literal["first", "own"] = "first"
    rate: Positive | None = None
    clients: Annotated[int, Field(ge=1, le=4096)] | None = None
    chaincode: str = "smallbank"
    workload: str | None = None
    value_size: Annotated[int, Field(ge=1)] | None = None
    accounts: Annotated[int, Field(ge=1)] | None = None
    hot_keys: Annotated[int, Field(ge=1)] | None = None
    hot_share: Annotated[float, Field(ge=0, le=1)] | None = None
    read_share: Annotated[float, Field(ge=0, le=1)] | None = None
    zipf: Annotated[float, Field(gt=0, lt=1)] | None = None
    burst: Annotated[int, Field(ge=1)] | None = None
    fresh: Literal["connection", "process"] | None = None
    consistency: Literal["one", "quorum", "all", "serial"] | None = None
    queries: bool = False
    benchmark: str | None = None
    round: str | None = None
    tenants: dict[str, TenantSpec] = {}
    breakdown: bool = False

    @model_validator(mode="after")
    def _one_way_to_drive(self) -> Self:
        ways = [way for way in ("part", "rate", "clients", "tenants") if getattr(self, way)]
        if self.driver == "bench":
            if ways:
                raise ValueError(f"the driver bench takes flags in place of {' and '.join(ways)}")
            return self
        if self.flags or self.varied is not None:
            raise ValueError("flags and varied are of the driver bench")
        if len(ways) != 1:
            raise ValueError(f"exactly one of part, rate, clients and tenants is accepted, not {ways or 'none'}")
        if self.driver == "caliper" and (self.benchmark is None or self.round is None or self.clients is None):
            raise ValueError("the driver caliper needs a benchmark, a round of it and clients (transactions in flight)")
        if self.driver == "load" and (self.benchmark is not None or self.round is not None):
            raise ValueError("benchmark and round are of the driver caliper")
        if self.driver == "caliper" and self.workload is not None:
            raise ValueError("workload is of the driver load")
        if self.driver == "load" and self.chaincode not in WORKLOADS:
            raise ValueError(f"chaincode {self.chaincode}: the driver load drives {', '.join(WORKLOADS)}")
        if self.workload is not None and self.workload not in WORKLOADS[self.chaincode]:
            accepted = ", ".join(WORKLOADS[self.chaincode])
            raise ValueError(f"workload {self.workload}: accepted for {self.chaincode} are {accepted}")
        return self

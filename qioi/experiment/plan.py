"""The plan of a run: its cells, their order, and how long each takes. It is complete before anything starts."""

from __future__ import annotations

import random
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace

from qioi.experiment.errors import SpecError
from qioi.experiment.scale import scale_arms
from qioi.experiment.spec import ArmSpec, ExperimentSpec, FigureSpec, NeighbourSpec, SentenceSpec, Timing
from qioi.experiment.system import BENCHED, LoadSpec, NetworkSpec, orderers_of
from qioi.lab.arms import PROBE_SECONDS

#: Seconds to bring a lab up and take it down, and seconds to start and drain a load. On two idle cores the first are 1
#: to 2.5 s; the second, of an open loop of half a minute, 2.5 to 3 s.
UP_SECONDS = 4.0
EDGE_SECONDS = 2.5
#: Further seconds for Kafka's brokers, for real Fabric, and for databases.
KAFKA_SECONDS = 25.0
SYSTEM_SECONDS = {"fabric": 20.0, "cassandra": 40.0, "mysql": 4.0, "mariadb": 4.0}
#: Seconds of a simulated cell, whose time is virtual: 0.5 s to 13 s, most of it for what steps cost.
SIMULATED_SECONDS = 4.5
#: Seconds for a Spark cluster to start and to sort once before the load starts.
SPARK_SECONDS = 45.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement of one repeat: a network, a load, an arm."""

    network_name: str
    network: NetworkSpec
    load_name: str
    load: LoadSpec
    arm: ArmSpec
    timing: Timing

    @property
    def key(self) -> str:
        """Name the cell, for its folder of results and for tables."""
        return f"{self.network_name}.{self.load_name}.{self.arm.name}"

    @property
    def base(self) -> str | None:
        """Name the cell that it is compared with."""
        if self.arm.against is None:
            return None
        return f"{self.network_name}.{self.load_name}.{self.arm.against}"

    @property
    def seconds(self) -> float:
        """About how long it takes."""
        if self.network.system == "simulation":
            return SIMULATED_SECONDS
        spark = SPARK_SECONDS if self.arm.neighbours.spark else 0.0
        return self.timing.warmup + self.timing.duration + self.timing.cooldown + EDGE_SECONDS + spark


@dataclass(frozen=True, slots=True)
class Plan:
    """All cells of one repeat in the file's order. ``same`` maps an arm that is left out to its equal."""

    spec: ExperimentSpec
    cells: tuple[Cell, ...]
    same: dict[str, str]
    repeats: int
    seed: int
    cores: int
    paper_size: bool
    smoke: bool = False

    def order(self, *, backward: bool) -> list[list[Cell]]:
        """Give a repeat's cells, grouped by the network that is up for them.

        Where nothing is brought up they are grouped by load: what a simulated cell measures of steps' cost is then of
        the minute of the real one.
        """
        groups: dict[tuple[bool, str], list[Cell]] = {}
        for cell in self.cells:
            benched = cell.network.system in BENCHED
            groups.setdefault((benched, cell.load_name if benched else cell.network_name), []).append(cell)
        cells = list(groups.values())
        return [group[::-1] for group in cells[::-1]] if backward else cells

    def is_forward(self, ran: Iterable[str]) -> bool:
        """Whether cells, given by key as they ran, ran in the file's order."""
        return next(iter(ran)) == self.cells[0].key

    def load_seed(self, repeat: int, cell: Cell) -> int:
        """Give the load's seed. All arms of a repeat have the same, so that they get the same transactions."""
        return random.Random(f"{self.seed}/{repeat}/{cell.load_name}").randrange(1, 2**31)

    @property
    def probed(self) -> tuple[str, ...]:
        """Name the networks whose maximum must be known."""
        if self.smoke:
            return ()
        needs: set[str] = set()
        for cell in self.cells:
            if cell.load.driver in {"caliper", "bench"}:
                continue
            protection = cell.arm.protection
            if cell.load.part is not None or cell.load.tenants or (protection is not None and protection.of_maximum):
                needs.add(self.probed_for(cell))
        return tuple(name for name in self.spec.networks if name in needs)

    def probed_for(self, cell: Cell) -> str:
        """Name the network whose maximum a cell's load is a part of, and T is derived from."""
        return next(iter(self.spec.networks)) if _of_first(cell.load) else cell.network_name

    @property
    def repeat_seconds(self) -> float:
        """About how long one repeat takes."""
        networks = {cell.network_name: cell.network for cell in self.cells}
        return sum(cell.seconds for cell in self.cells) + sum(up_seconds(network) for network in networks.values())

    @property
    def probe_seconds(self) -> float:
        """About how long looking for the maxima takes."""
        return sum(PROBE_SECONDS + up_seconds(self.spec.networks[name]) for name in self.probed)


def up_seconds(network: NetworkSpec) -> float:
    """About how long bringing a network up, and down again, takes."""
    if network.system in BENCHED:
        return 0.0
    return UP_SECONDS + (KAFKA_SECONDS if network.consenter == "kafka" else SYSTEM_SECONDS.get(network.system, 0.0))


def make_plan(
    spec: ExperimentSpec,
    cores: int,
    *,
    paper_size: bool = False,
    repeats: int | None = None,
    timing: Timing | None = None,
    seed: int = 1,
    smoke: bool = False,
) -> Plan:
    """Scale an experiment to this host and lay its cells out. SpecError if its neighbours leave after the window."""
    timing = timing or spec.timing
    gone = max(arm.neighbours.go or 0.0 for arm in spec.arms)
    if gone > timing.duration:
        raise SpecError([f"{spec.name}: duration {timing.duration:g}: accepted from {gone:g} s on: neighbours go then"])
    arms, same = scale_arms(spec, 24 if paper_size else cores)
    cells = tuple(
        Cell(network_name, network, load_name, load, arm, timing)
        for network_name, network in spec.networks.items()
        for load_name, load in spec.loads.items()
        for arm in arms
    )
    return Plan(spec, cells, same, repeats or spec.repeats, seed, cores, paper_size, smoke)


def only(
    spec: ExperimentSpec, loads: Collection[str] = (), arms: Collection[str] = (), networks: Collection[str] = ()
) -> ExperimentSpec:
    """Reduce an experiment to some loads, arms and networks (all, if none is named), with what is said about them.

    The first arm, and those that the named ones are compared with, stay; so does the first network where a load is a
    part of its maximum. SpecError if one is unknown.
    """
    axes = (
        ("load", loads, list(spec.loads)),
        ("arm", arms, [arm.name for arm in spec.arms]),
        ("network", networks, list(spec.networks)),
    )
    problems = [
        f"{spec.name}: there is no {kind} {name!r}: accepted are {', '.join(accepted)}"
        for kind, named, accepted in axes
        for name in named
        if name not in accepted
    ]
    if problems:
        raise SpecError(problems)
    left = {name: load for name, load in spec.loads.items() if not loads or name in loads}
    first = {next(iter(spec.networks))} if any(map(_of_first, left.values())) else set()
    return cut(
        spec,
        {name: one for name, one in spec.networks.items() if not networks or name in {*networks, *first}},
        left,
        {arm.name for arm in spec.arms if not arms or arm.name in arms},
    )


def of_size(spec: ExperimentSpec, *, paper_size: bool) -> ExperimentSpec:
    """Leave out the networks that only runs of the paper's size have; SpecError if all are such."""
    left = {name: one for name, one in spec.networks.items() if paper_size or not one.paper_size}
    if not left:
        raise SpecError([f"{spec.name}: all of its networks are of the paper's size: --paper-size measures them"])
    return cut(spec, left, spec.loads, {arm.name for arm in spec.arms})


def with_binaries(spec: ExperimentSpec, binaries: str | None) -> ExperimentSpec:
    """Give the networks of real Fabric their binaries. Without any, they are left out where others are left.

    SpecError if loads of the others are parts of the maximum of one that would be left out.
    """
    if binaries is None:
        others = [name for name, one in spec.networks.items() if one.system != "fabric" or one.binaries is not None]
        first = next(iter(spec.networks))
        if others and first not in others and any(map(_of_first, spec.loads.values())):
            raise SpecError([f"{spec.name}: needs --binaries: loads are parts of the maximum of {first}, real Fabric"])
        return only(spec, networks=others)
    networks = {
        name: one.model_copy(update={"binaries": binaries}) if one.system == "fabric" else one
        for name, one in spec.networks.items()
    }
    return spec.model_copy(update={"networks": networks})


def _of_first(load: LoadSpec) -> bool:
    return load.of == "first" and (load.part is not None or bool(load.tenants))


def cut(
    spec: ExperimentSpec, networks: Mapping[str, NetworkSpec], loads: Mapping[str, LoadSpec], arms: Collection[str]
) -> ExperimentSpec:
    """Leave these networks, loads and arms, the arms they are compared with, and what is said of them."""
    kept = {spec.arms[0].name, *arms}
    for arm in reversed(spec.arms):  # an arm is compared with one before it
        if arm.name in kept and arm.against is not None:
            kept.add(arm.against)
    return spec.model_copy(
        update={
            "networks": dict(networks),
            "loads": dict(loads),
            "arms": [arm for arm in spec.arms if arm.name in kept],
            "figures": _of(spec, networks, loads, kept),
            "papers": [one for one in spec.papers if _about(spec, one, networks, loads, kept)],
            "goals": [one for one in spec.goals if _about(spec, one, networks, loads, kept)],
        }
    )


def _of(
    spec: ExperimentSpec, networks: Container[str], loads: Container[str], arms: Container[str]
) -> list[FigureSpec]:
    """Keep the figures of what is left; if there is none, show the throughput."""
    kept = []
    for figure in spec.figures:
        its_loads = [load for load in figure.loads if load in loads]
        its_arms = [arm for arm in figure.arms if arm in arms]
        if (
            (figure.network is None or figure.network in networks)
            and (figure.load is None or figure.load in loads)
            and bool(its_loads) == bool(figure.loads)
            and bool(its_arms) == bool(figure.arms)
        ):
            kept.append(figure.model_copy(update={"loads": its_loads, "arms": its_arms}))
    return kept or [FigureSpec(kind="table", title="In figures", metrics=["throughput"])]


def _about(
    spec: ExperimentSpec, one: SentenceSpec, networks: Container[str], loads: Container[str], arms: Container[str]
) -> bool:
    """Whether what is left suffices to judge a sentence; one that names no network or load is about the first."""
    network, load = one.network or next(iter(spec.networks)), one.load or next(iter(spec.loads))
    named = ((network, networks), (one.of_network, networks), (load, loads), (one.of_load, loads))
    return all(name is None or name in left for name, left in (*named, (one.arm, arms), (one.of, arms)))


#: The smoke version is real, but too short for its figures to mean anything.
SMOKE_TIMING = Timing(warmup=0.5, duration=2.0, cooldown=0.1, sample=0.2)
#: The smoke version's rate in tps in place of a part of the maximum, and its largest number of clients.
SMOKE_RATE = 30.0
SMOKE_CLIENTS = 2
#: The smoke version's block timeout in seconds; with the papers' 2 s no commit would be seen.
SMOKE_TIMEOUT = 0.2


def make_smoke(spec: ExperimentSpec, cores: int, *, paper_size: bool = False) -> Plan:
    """Cut an experiment down to its first and last network, its first load, its first and last arm and their base."""
    networks = dict([*spec.networks.items()][:1] + [*spec.networks.items()][-1:])
    loads = dict([*spec.loads.items()][:1])
    small = {
        name: network.model_copy(
            update={
                "orgs": 1,
                "peers_per_org": 1,
                "orderers": _few_orderers(network, spec),
                "nodes": min(network.nodes, 2) if network.nodes else None,
                "timeout": SMOKE_TIMEOUT if network.timeout else None,
            }
        )
        for name, network in networks.items()
    }
    slow = {name: _slow(load) for name, load in loads.items()}
    arms = [arm.model_copy(update={"neighbours": _soon(arm.neighbours)}) for arm in spec.arms]
    short = cut(spec.model_copy(update={"arms": arms}), small, slow, {arms[-1].name})
    timing = SMOKE_TIMING.model_copy(update={"profile": 0.5 if spec.timing.profile else 0.0})
    plan = make_plan(short, cores, paper_size=paper_size, repeats=1, timing=timing, smoke=True)
    return replace(plan, spec=short)


def _few_orderers(network: NetworkSpec, spec: ExperimentSpec) -> int:
    """The least that the consenter takes, and two where one of them has to follow."""
    least, _ = orderers_of(network.consenter)
    return max(least, 2 if any(arm.neighbours.beside for arm in spec.arms) else 1)


def _soon(neighbours: NeighbourSpec) -> NeighbourSpec:
    """Have them come and go in the window, and stay for most of it: a busy host takes few samples."""
    return neighbours.model_copy(update={"come": 0.3, "go": 1.7}) if neighbours.come is not None else neighbours


def _slow(load: LoadSpec) -> LoadSpec:
    if load.tenants:
        return load
    if load.driver == "bench":
        return load.model_copy(update={"title": f"{load.title or 'the load'}: here small"})
    if load.clients is not None:
        clients = min(load.clients, SMOKE_CLIENTS)
        small, said = load.model_copy(update={"clients": clients}), "1 client" if clients == 1 else f"{clients} clients"
    else:
        small, said = load.model_copy(update={"part": None, "rate": SMOKE_RATE}), f"{SMOKE_RATE:g} tps"
    return small.model_copy(update={"title": f"{load.title or 'the load'}: here {said}"})

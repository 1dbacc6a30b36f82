"""Find, read and check experiments' files: pydantic checks each key, and this module checks the keys together."""

from __future__ import annotations

import functools
import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from qioi.experiment.errors import SpecError
from qioi.experiment.form import Strict, checked
from qioi.experiment.metrics import SERIES, known_kind, known_metric, metric_names
from qioi.experiment.spec import (
    NEIGHBOUR_KINDS,
    PANELS,
    ExperimentSpec,
    FigureSpec,
    GoalSpec,
    ProtectionSpec,
    SentenceSpec,
)
from qioi.experiment.summary import ABSOLUTE
from qioi.experiment.system import BENCHED, DATABASES, LoadSpec, NetworkSpec
from qioi.lab.caliper import PROGRESS_INTERVAL
from qioi.lab.caliper_files import Overrides, benchmark, find_benchmark, find_configs
from qioi.lab.systems import LEDGERS
from qioi.processes.errors import LabError
from qioi.settings import documents
from qioi.settings.file import FileConfig

#: The word for all bundled experiments.
ALL = "all"
DIRECTORY = Path(__file__).parent / "catalogue"
#: Least repeats, so that the spread of a ratio can be seen.
LEAST_REPEATS = 3
#: Most neighbours of an arm in a file; scaled to a larger host than the papers' they may be more.
MOST_NEIGHBOURS = 256
#: Seconds between two lines of Caliper's progress. Its least window is two of them, for throughput is between counts.
TOLD_EVERY = PROGRESS_INTERVAL / 1000
#: Ways to order that have a leader, and so followers.
LED = ("raft", "bft", "zyzzyva")
#: The keys that something reads, of networks by their system and of loads by their driver, where it is not nearly all.
READ: Mapping[str, Collection[str]] = {
    **dict.fromkeys(BENCHED, ("title", "system", "flags", "paper_size")),
    **dict.fromkeys(DATABASES, ("title", "system", "nodes", "store", "channels", "chaincodes", "paper_size")),
    "caliper": ("title", "driver", "benchmark", "round", "clients"),
    "bench": ("title", "driver", "flags", "varied"),
}


@functools.cache
def bundled() -> Mapping[str, ExperimentSpec]:
    """Read the experiments of the package, in the order of their files."""
    return {spec.name: spec for spec in map(load, sorted(DIRECTORY.glob("*.yaml")))}


def names() -> list[str]:
    """Name them."""
    return list(bundled())


def find(name: str) -> ExperimentSpec:
    """Read an experiment by its name, or a file by its path."""
    if _is_file(name):
        return load(Path(name))
    if name not in bundled():
        raise SpecError([f"there is no experiment {name!r}: accepted are {', '.join(bundled())}, all, or a .yaml file"])
    return bundled()[name]


def _is_file(word: str) -> bool:
    return Path(word).suffix in {".yaml", ".yml"}


def files(words: Iterable[str]) -> dict[str, str]:
    """Give the paths, as they are given, of the experiments among these that are files, by their names."""
    return {find(word).name: word for word in words if _is_file(word)}


def find_all(words: Iterable[str]) -> list[ExperimentSpec]:
    """Read all that are named, in that order; `all` are those not named before. SpecError has all of their problems."""
    found: list[ExperimentSpec] = []
    problems: list[str] = []
    for word in dict.fromkeys(itertools.chain.from_iterable(names() if one == ALL else [one] for one in words)):
        try:
            found.append(find(word))
        except SpecError as error:
            problems += error.problems
    named = Counter(spec.name for spec in found)
    problems += [
        f"{name}: two experiments have this name: give one of them another" for name in named if named[name] > 1
    ]
    if problems:
        raise SpecError(problems)
    return found


def load(path: Path) -> ExperimentSpec:
    """Read and check a file; SpecError names every problem found."""
    try:
        spec = documents.check(ExperimentSpec, documents.read_yaml(path), path)
    except documents.ConfigError as error:
        raise SpecError(error.problems) from error
    problems = [f"{path}: {problem}" for problem in check(spec)]
    if problems:
        raise SpecError(problems)
    return spec


def with_networks(spec: ExperimentSpec, changes: Mapping[str, str]) -> ExperimentSpec:
    """Give an experiment with these keys in all of its networks of a ledger; databases and replicas stay as they are.

    SpecError where a network cannot have them, or there is none of a ledger.
    """
    networks = dict(spec.networks)
    ledgers = {name: network for name, network in networks.items() if network.system in LEDGERS}
    problems: list[str] = []
    if changes and not ledgers:
        problems.append(f"{spec.name}: no network of a ledger, which {', '.join(sorted(changes))} would be about")
    for name, network in ledgers.items():
        try:
            networks[name] = checked(NetworkSpec, {**network.model_dump(), **changes}, spec.name, "networks", name)
        except SpecError as error:
            problems += error.problems
    problems += [f"{spec.name}: {problem}" for problem in _check_tenants(spec.loads, networks)]
    if problems:
        raise SpecError(problems)
    return spec.model_copy(update={"networks": networks})


def check(spec: ExperimentSpec) -> Iterator[str]:
    """Yield the contradictions between keys."""
    if spec.repeats < LEAST_REPEATS:
        yield f"repeats: {spec.repeats}: at least {LEAST_REPEATS} are accepted"
    yield from _check_arms(spec)
    yield from _check_replicas(spec)
    yield from _check_read(spec)
    yield from _check_loads(spec)
    yield from _check_times(spec)
    yield from (f"timing.{problem}" for problem in check_window(spec.loads, spec.timing.duration))
    yield from _check_tenants(spec.loads, spec.networks)
    yield from _check_followers(spec)
    if (short := spec.standard) is not None:
        points = [("networks", name, set(spec.networks)) for name in short.networks]
        points += [("loads", name, set(spec.loads)) for name in short.loads]
        points += [("arms", name, _arms(spec)) for name in short.arms]
        yield from _unknown("standard", points)
        if (gone := max(arm.neighbours.go or 0.0 for arm in spec.arms)) > short.duration:
            yield f"standard.duration: {short.duration:g}: accepted is from {gone:g} on, when the neighbours go"
        yield from (f"standard.{problem}" for problem in check_window(spec.loads, short.duration))
    for number, figure in enumerate(spec.figures):
        yield from (f"figures.{number}.{problem}" for problem in _check_figure(spec, figure))
    for key, number, claim in _claims(spec):
        yield from (f"{key}.{number}.{problem}" for problem in _check_claim(spec, claim))


def _claims(spec: ExperimentSpec) -> Iterator[tuple[str, int, SentenceSpec]]:
    yield from (("papers", number, one) for number, one in enumerate(spec.papers))
    yield from (("goals", number, one) for number, one in enumerate(spec.goals))


def _check_claim(spec: ExperimentSpec, claim: SentenceSpec) -> Iterator[str]:
    places = (
        ("arm", claim.arm, _arms(spec)),
        ("of", claim.of, _arms(spec)),
        ("network", claim.network, set(spec.networks)),
        ("of_network", claim.of_network, set(spec.networks)),
        ("load", claim.load, set(spec.loads)),
        ("of_load", claim.of_load, set(spec.loads)),
    )
    yield from _unknown("", places)
    if not known_metric(claim.metric):
        yield f"metric: {_unknown_metric(claim.metric)}"
    if (claim.of, claim.of_network, claim.of_load) != (None, None, None):
        yield from _check_sides(spec, claim)
        return
    if claim.arm != spec.arms[0].name:
        return
    bounds_itself = isinstance(claim, GoalSpec) and claim.metric in ABSOLUTE
    if not bounds_itself:
        of_what = f"a goal about {', '.join(sorted(ABSOLUTE))}" if isinstance(claim, GoalSpec) else "none"
        yield f"arm: {claim.arm}: it is compared with no arm: without of, of_network and of_load accepted is {of_what}"


def _check_sides(spec: ExperimentSpec, claim: SentenceSpec) -> Iterator[str]:
    """Refuse a cell that is compared with itself: the page would say "not measured" for ever."""
    network, load = claim.network or next(iter(spec.networks)), claim.load or next(iter(spec.loads))
    other = (claim.of or claim.arm, claim.of_network or network, claim.of_load or load)
    if other == (claim.arm, network, load):
        yield f"arm: {claim.arm}: it is compared with itself: accepted is another arm, network or load to compare with"


def _arms(spec: ExperimentSpec) -> set[str]:
    return {arm.name for arm in spec.arms}


def _check_arms(spec: ExperimentSpec) -> Iterator[str]:
    for number, arm in enumerate(spec.arms):
        before = [one.name for one in spec.arms[:number]]
        if arm.name in before:
            yield f"arms.{number}.name: {arm.name} is there twice: accepted are distinct names"
        if number > 0 and arm.against not in before:
            yield f"arms.{number}.against: {arm.against or 'missing'}: accepted are those before: {', '.join(before)}"
        if number == 0 and arm.against is not None:
            yield f"arms.0.against: {arm.against}: accepted is none: the first arm is compared with no other"
        for kind in NEIGHBOUR_KINDS:
            if (count := getattr(arm.neighbours, kind)) > MOST_NEIGHBOURS:
                yield f"arms.{number}.neighbours.{kind}: {count}: accepted is at most {MOST_NEIGHBOURS}"
        if (go := arm.neighbours.go) is not None and go > spec.timing.duration:
            yield f"arms.{number}.neighbours.go: {go:g}: accepted is at most the duration, {spec.timing.duration:g}"
        if arm.protection is not None and arm.protection.law is not None:
            yield from (f"arms.{number}.protection.daemon.{one}" for one in _check_daemon(arm.protection.daemon))
            yield from (f"arms.{number}.protection.threshold: {one}" for one in _check_owed(spec, arm.protection))
            tenants = [name for name, load in spec.loads.items() if load.tenants]
            if tenants and arm.protection.threshold is not None:
                owed = f"accepted is none beside load {tenants[0]}, whose tenants have thresholds of their own"
                yield f"arms.{number}.protection.threshold: {arm.protection.threshold}: {owed}"


def _check_replicas(spec: ExperimentSpec) -> Iterator[str]:
    """Refuse neighbours and protection beside replicas: `qioi-ledger bft-bench` runs as it is under every arm."""
    benched = [f"network {name}, a {one.system}" for name, one in spec.networks.items() if one.system in BENCHED]
    for number, arm in enumerate(spec.arms if benched else ()):
        if arm.neighbours.count:
            yield f"arms.{number}.neighbours: {arm.neighbours.count}: accepted are none beside {benched[0]}"
        if (protection := arm.protection) is not None:
            means = protection.law or protection.shares
            yield f"arms.{number}.protection: {means}: accepted is none of {benched[0]}"


def _check_read(spec: ExperimentSpec) -> Iterator[str]:
    """Refuse what nothing would read, and the page would show as if it had been so."""
    for name, network in spec.networks.items():
        if (read := READ.get(network.system)) is not None:
            yield from (f"networks.{name}.{one}" for one in _unread(network, read, f"system {network.system}"))
    for name, load in spec.loads.items():
        if (read := READ.get(load.driver)) is not None:
            yield from (f"loads.{name}.{one}" for one in _unread(load, read, f"driver {load.driver}"))
    for number, arm in enumerate(spec.arms):
        if arm.protection is not None and arm.protection.shares is not None:
            problems = _unread(arm.protection, ("shares",), "protection by shares")
            yield from (f"arms.{number}.protection.{one}" for one in problems)


def _unread(part: Strict, read: Collection[str], whose: str) -> Iterator[str]:
    for key, value in part.model_dump(exclude_defaults=True).items():
        if key not in read:
            yield f"{key}: {json.dumps(value)}: {whose} does not read it: accepted are {', '.join(read)}"


def _check_owed(spec: ExperimentSpec, protection: ProtectionSpec) -> Iterator[str]:
    """Say where T cannot be known: Caliper's load has no rate, and no maximum is looked for with its contracts."""
    driven = [name for name, load in spec.loads.items() if load.driver == "caliper"]
    if driven and protection.of_maximum and not _says_owed(spec, protection.daemon):
        loads = ", ".join(driven)
        yield f"accepted is a number (tps) beside load {loads}: no maximum is looked for with the driver caliper"


def _says_owed(spec: ExperimentSpec, laid_over: Mapping[str, object]) -> bool:
    """Whether it has a T for every channel: of any other the daemon would be told one that nobody knows."""
    said = laid_over.get("channels")
    if not isinstance(said, dict):
        return False
    channels = [said.get(name) for network in spec.networks.values() for name in network.channels]
    return all(isinstance(one, dict) and "threshold" in one for one in channels)


def _check_daemon(laid_over: Mapping[str, object]) -> Iterator[str]:
    """Say what the daemon would refuse of its own configuration, before it is started beside a ledger."""
    try:
        documents.check(FileConfig, laid_over, Path())
    except documents.ConfigError as error:
        yield from (problem.removeprefix(f"{Path()}: ") for problem in error.problems)


def _check_times(spec: ExperimentSpec) -> Iterator[str]:
    """Refuse what is to happen at a time of the window beside Caliper, which begins its round when it is ready."""
    if not any(load.driver == "caliper" for load in spec.loads.values()):
        return
    keys = ["timing.profile"] if spec.timing.profile else []
    keys += [f"arms.{n}.neighbours.come" for n, arm in enumerate(spec.arms) if arm.neighbours.come is not None]
    why = "not with the driver caliper, whose window begins at a time that is known later"
    yield from (f"{key}: {why}" for key in keys)


def _check_loads(spec: ExperimentSpec) -> Iterator[str]:
    for name, load in spec.loads.items():
        for title, network in spec.networks.items():
            if (load.driver == "bench") != (network.system in BENCHED):
                drives = "is bench" if network.system in BENCHED else "are load and caliper"
                yield (
                    f"loads.{name}.driver: {load.driver} does not drive network {title}, a {network.system}: "
                    f"accepted {drives}"
                )
            if network.system in BENCHED:
                continue
            offered = {chaincode.split("=", 1)[0] for chaincode in network.chaincodes}
            if load.driver == "load" and load.chaincode not in offered:
                has = ", ".join(sorted(offered))
                yield f"loads.{name}.chaincode: {load.chaincode}: accepted are those of network {title}: {has}"
            if load.driver == "caliper":
                yield from (f"loads.{name}: {problem}" for problem in _check_round(load, network.channels[0], offered))


def check_window(loads: Mapping[str, LoadSpec], duration: float) -> Iterator[str]:
    """Say for which loads a window is too short, whatever else the machine does."""
    least = 2 * TOLD_EVERY
    for name in (name for name, load in loads.items() if load.driver == "caliper" and duration < least):
        yield (
            f"duration: {duration:g}: accepted is from {least:g} on: "
            f"load {name} tells its progress every {TOLD_EVERY:g} s"
        )


def _check_tenants(loads: Mapping[str, LoadSpec], networks: Mapping[str, NetworkSpec]) -> Iterator[str]:
    """Say where tenants have no channel, or are in containers: those of all clients have one name in the samples."""
    for name, load in ((name, load) for name, load in loads.items() if load.tenants):
        for title, network in networks.items():
            for channel in load.tenants.keys() - set(network.channels):
                has = ", ".join(network.channels)
                yield f"loads.{name}.tenants: {channel}: accepted are the channels of network {title}: {has}"
            if network.runtime == "docker":
                yield f"loads.{name}.tenants: they run with the runtime process only, and network {title} has docker"


def _check_followers(spec: ExperimentSpec) -> Iterator[str]:
    """Say where neighbours are to be beside a follower of a network that has none."""
    without = [
        title
        for title, network in spec.networks.items()
        if network.system not in LEDGERS or network.consenter not in LED or network.orderers < 2
    ]
    for number, arm in enumerate(spec.arms):
        if arm.neighbours.beside is not None and without:
            yield (
                f"arms.{number}.neighbours.beside: {arm.neighbours.beside}: there is none in network "
                f"{', '.join(without)}: accepted are ledgers of two orderers or more by {', '.join(LED)}"
            )


def _check_round(load: LoadSpec, channel: str, contracts: Iterable[str]) -> Iterator[str]:
    """Say why Caliper could not run a load's round against these contracts."""
    has = [{"channelName": channel, "contracts": [{"id": contract} for contract in contracts]}]
    known = {"channels": has, "organizations": []}
    overrides = Overrides(rounds=(str(load.round),), load=load.clients)
    try:
        configs = find_configs()
        benchmark(find_benchmark(str(load.benchmark), configs), configs, known, overrides)
    except LabError as error:
        yield str(error)


def _check_figure(spec: ExperimentSpec, figure: FigureSpec) -> Iterator[str]:
    what, known, accepted = {
        "time": ("series", SERIES.__contains__, SERIES),
        "boxes": ("kind", known_kind, ("kind.NAME",)),
    }.get(figure.kind, ("metric", known_metric, metric_names()))
    for metric in figure.metrics:
        if not known(metric):
            yield f"metrics: there is no {what} {metric!r}: accepted are {', '.join(accepted)}"
    if figure.kind == "lines" and figure.x != "axis" and not known_metric(figure.x):
        yield f"x: {_unknown_metric(figure.x)}, axis"
    panels = len(figure.arms or spec.arms)
    panels *= len(spec.networks) if figure.network is None else 1
    panels *= len(figure.loads or spec.loads) if figure.load is None else 1
    if figure.kind == "time" and panels > PANELS:
        yield f"kind: time: {panels} panels: at most {PANELS} fit beside each other: name a network, a load or arms"
    places = [("arms", arm, _arms(spec)) for arm in figure.arms]
    places += [("loads", load, set(spec.loads)) for load in figure.loads]
    yield from _unknown("", [*places, ("load", figure.load, set(spec.loads))])
    yield from _unknown("", [("network", figure.network, set(spec.networks))])


def _unknown_metric(name: str) -> str:
    return f"there is no metric {name!r}: accepted are {', '.join(metric_names())}"


def _unknown(where: str, places: Iterable[tuple[str, str | None, Collection[str]]]) -> Iterator[str]:
    for key, name, accepted in places:
        if name is not None and name not in accepted:
            yield f"{where}.{key}: {name}: accepted are {', '.join(sorted(accepted))}".lstrip(".")

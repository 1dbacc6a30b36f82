"""What an experiment's page says of how, and where, it was measured, and why its figures may not be trusted."""

from __future__ import annotations

from collections.abc import Sequence

from qioi.experiment.calibration import speed
from qioi.experiment.plan import Cell
from qioi.experiment.run_files import Host
from qioi.experiment.scale import RULE
from qioi.experiment.spec import ExperimentSpec, Timing
from qioi.experiment.summary import Summary
from qioi.experiment.system import BENCHED, DATABASES, NetworkSpec

#: How the page names a ledger that is not the bundled one.
SYSTEMS = {"ledger": "", "fabric": "real Hyperledger Fabric, "}
STORES = {
    "disk": "on a disk",
    "memory": "in memory",
    "orderers": "the orderers' ledgers on a disk, the others in memory",
}
#: Seconds that the backlog of the neighbours' arrival may take to go, in an open loop (docs/experiments.md).
SETTLED = 12.0


def method(summary: Summary) -> tuple[tuple[str, str], ...]:
    """Say how it was measured."""
    spec = summary.spec
    media = summary.document.media
    networks = "; ".join(
        f"{one.title or name}: {described(one, media.get(name))}" for name, one in spec.networks.items()
    )
    loads = "; ".join(filter(None, (*(load.title or name for name, load in spec.loads.items()), owed(summary))))
    maxima = ", ".join(f"{name} {value:.0f} tps" for name, value in summary.document.maxima.items())
    numbers = ", ".join(str(repeat.number) for repeat in summary.counted)
    facts = [
        ("Ledger", networks),
        ("Load", loads + (f" (maximum found: {maxima})" if maxima else "")),
        ("Each cell", window(summary)),
        (
            "Repeats",
            f"{len(summary.repeats)} finished, medians of {len(summary.counted)} (number {numbers}; {ways(summary)})",
        ),
    ]
    if speeds := summary.calibrations:
        facts.append(("Machine's speed", speed(speeds)))
    if any(arm.neighbours.count for arm in spec.arms):
        facts.append(("Sizes", "the paper's own counts" if summary.plan.paper_size else RULE))
    if resumed := summary.document.resumed:
        facts.append(("Gone on", ", ".join(map(begun, resumed))))
    if summary.plan.same:
        pairs = ", ".join(f"{one} = {other}" for one, other in summary.plan.same.items())
        facts.append(("The same here", f"{pairs} (scaled to {summary.plan.cores} cores)"))
    return tuple(facts)


def ways(summary: Summary) -> str:
    """Say how many of the repeats that count ran their cells in the file's order."""
    return f"{summary.forward} forward, {len(summary.counted) - summary.forward} backward"


def described(network: NetworkSpec, medium: str | None) -> str:
    """Say what a network consists of, and on which medium it stands where that is known."""
    if network.system in BENCHED:
        kind = "real replicas" if network.system == "replicas" else "simulated replicas"
        flags = " ".join(f"{key} {value}" for key, value in network.flags.items())
        return f"{kind}, {flags or 'as by default'}"
    store = network.store or medium
    stands = f", {STORES[store]}" if store else ""
    if network.system in DATABASES:
        nodes = f", {counted(network.nodes, 'node')}" if network.nodes else ""
        return f"{network.system}{nodes}, {', '.join(network.chaincodes)}{stands}"
    endorsed = ", endorsed by a majority" if network.endorsement == "majority" else ""
    return (
        f"{SYSTEMS[network.system]}{counted(network.orgs * network.peers_per_org, 'peer')}, "
        f"{counted(network.orderers, 'orderer')}, "
        f"{network.consenter}, {network.mode} mode, {', '.join(network.chaincodes)}{endorsed}{stands}"
    )


def window(summary: Summary) -> str:
    """Say what of a cell is measured: the simulator's time is virtual, and it counts batches in place of seconds."""
    timing = summary.plan.cells[0].timing
    said = []
    systems = {cell.network.system for cell in summary.plan.cells}
    if systems != {"simulation"}:
        own = shortened(summary.spec, timing)
        said.append(f"{timing.warmup:g} s warm-up left out, {timing.duration:g} s measured{own}")
    if any(cell.load.driver == "caliper" for cell in summary.plan.cells):
        said.append("of Caliper's rounds that is throughput; latencies, failures and goodput are of the whole round")
    if "simulation" in systems:
        said.append("simulated, in virtual time: a number of batches measured, after as many as are under way at once")
    return "; ".join(said)


def shortened(spec: ExperimentSpec, timing: Timing) -> str:
    """Say what the experiment's file asks for, where a run was asked for something else."""
    file = spec.timing
    if (file.warmup, file.duration) == (timing.warmup, timing.duration):
        return ""
    return f" (the experiment's own: {file.warmup:g} s, {file.duration:g} s)"


def owed(summary: Summary) -> str:
    """Say what each tenant of a load is offered and owed, where the maximum that this is a part of is known."""
    plan, maxima = summary.plan, summary.document.maxima
    said: dict[tuple[str, str], str] = {}  # by load and network, as many arms have them in common
    for cell in plan.cells:
        network = plan.probed_for(cell)
        if (maximum := maxima.get(network)) is None or not cell.load.tenants:
            continue
        where = f"{cell.network.title or network}: " if cell.load.of == "own" and len(plan.spec.networks) > 1 else ""
        said[cell.load_name, network] = "; ".join(
            f"{where}{channel}: {maximum * one.part:,.0f} tps offered, {maximum * one.threshold:,.0f} owed"
            for channel, one in cell.load.tenants.items()
        )
    return "; ".join(said.values())


def begun(host: Host) -> str:
    """Say when, and with which version, a run was begun or resumed."""
    commit = host.versions.get("commit")
    return f"{host.at} (commit {commit})" if commit else host.at


def quiet_ones(summary: Summary) -> int:
    """Count the quiet repeats."""
    return sum(repeat.quiet for repeat in summary.repeats)


def warnings(summary: Summary) -> list[str]:
    """Say why figures are not to be trusted."""
    found = []
    if summary.plan.smoke:
        found.append("A smoke run: everything is real, and too short for any figure to mean something.")
    elif not summary.trusted:
        found.append(
            f"Not to be trusted: {counted(quiet_ones(summary), 'quiet repeat')} of {summary.plan.repeats} that were "
            "asked for."
        )
    timing = summary.plan.cells[0].timing
    if not summary.plan.smoke and timing.settling < SETTLED and any(map(settles, summary.plan.cells)):
        found.append(
            f"The window begins {timing.settling:.1f} s after the neighbours' coming, not {SETTLED:g}: a backlog of "
            "their coming may be in it."
        )
    if summary.noisy:
        shown = (
            "none is quiet, so the noisy ones are shown" if summary.counted == summary.noisy else "left out of medians"
        )
        for repeat in summary.noisy:
            key, said = next(iter(repeat.noise.items()))
            where = next((summary.title(cell) for cell in summary.plan.cells if cell.key == key), key)
            more = f" (and {counted(len(repeat.noise) - 1, 'more cell')})" if len(repeat.noise) > 1 else ""
            found.append(f"Repeat {repeat.number} was too noisy, {shown}: {where}: {'; '.join(said)}{more}.")
    several = len(summary.counted) > 1 and len(summary.plan.cells) > 1
    if several and summary.forward in (0, len(summary.counted)):
        found.append(
            "All repeats that count ran the cells in one order: ratios may have a drift of the machine in them."
        )
    for name, noise in summary.document.probe_noise.items():
        if noise:
            found.append(
                f"Loads that are parts of the maximum of {name}, and T, may be too low: while it was looked for "
                f"{'; '.join(noise)}."
            )
    found += [f"A repeat was lost: {text}" for text in summary.document.lost]
    return found


def settles(cell: Cell) -> bool:
    """Whether a backlog of the neighbours' coming has to go: at a part of the maximum, where they come and stay."""
    busy = cell.load.part is not None or bool(cell.load.tenants)
    return busy and bool(cell.arm.neighbours.count) and cell.arm.neighbours.come is None


def counted(number: int, what: str) -> str:
    """Format a number of things."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def host_facts(host: Host) -> tuple[tuple[str, str], ...]:
    """Describe the machine, from run.json."""
    # The commit stands beside the day, so that programs of the same versions are the same fact.
    versions = ", ".join(f"{name}: {text}" for name, text in host.versions.items() if name != "commit")
    pressure = "; ".join(f"{kind}: {text}" for kind, text in host.pressure.items() if text)
    return (
        ("Machine", f"{host.cpu}, {host.cores} cores, {host.memory_gib:g} GiB"),
        ("Kernel", f"Linux {host.kernel}, cgroup {host.cgroup_hierarchies}, CPU by v{host.cgroup_version}"),
        ("Group weights", host.cgroup_mode),
        ("Virtual", "yes: what the hypervisor takes shows as steal" if host.hypervisor else "no"),
        ("Load before", " ".join(f"{value:.2f}" for value in host.load_average)),
        ("Pressure before", pressure),
        ("Versions", versions),
        ("Seed", str(host.seed)),
        ("Begun", begun(host)),
    )


def shared_facts(hosts: Sequence[Host]) -> tuple[tuple[str, str], ...]:
    """Describe what is the same in all of these; none have nothing."""
    every = [host_facts(host) for host in hosts]
    return tuple(fact for fact in every[0] if all(fact in its for its in every)) if every else ()

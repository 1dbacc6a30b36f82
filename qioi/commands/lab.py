"""``qioi lab``: bring the bundled network up, look at it, put load on it, and take it down."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.table import Table
from rich.text import Text

from qioi.commands.lab_caliper import command as caliper
from qioi.commands.lab_errors import one_line_errors
from qioi.commands.numbers import Finite
from qioi.commands.options import plain_console, table_option
from qioi.lab.containers import ContainerRun, Containers
from qioi.lab.engine import LabEngine
from qioi.lab.kubernetes_secrets import as_yaml, network_secrets
from qioi.lab.lab import CLIENT_GROUP, DEFAULT_DIRECTORY, Lab, NodeStatus
from qioi.lab.options import RUNTIMES, LabOptions
from qioi.lab.signals import uninterrupted
from qioi.lab.site import PATIENCE
from qioi.lab.systems import LEDGERS, SYSTEMS

directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DIRECTORY,
    show_default=True,
    help="The lab's folder: keys, configurations, ledgers, logs, lab.json.",
)

runtime_option = click.option(
    "--runtime",
    type=click.Choice(RUNTIMES),
    default="process",
    show_default=True,
    help="How the nodes run: as plain processes, or as containers of Docker (package docker.io).",
)
#: Flags of `qioi-ledger load` that name files it writes.
FILE_FLAGS = ("--json", "--record", "--timeseries")


#: Options of `up` that mean something to the bundled ledger alone, and to any ledger alone.
BUNDLED = {"sequencer_memory", "volatile_votes", "like_fabric"}
OF_LEDGERS = {"orgs", "peers_per_org", "orderers", "mode", "consenter", "channels", "chaincodes"}


@click.group()
def command() -> None:
    """Run the bundled ledger network on this machine, one process or container, and one control group, per node."""


@command.command()
@directory_option
@click.option("--orgs", type=click.IntRange(1, 20), default=2, show_default=True, help="Organisations.")
@click.option("--peers-per-org", type=click.IntRange(1, 20), default=2, show_default=True, help="Peers of each.")
@click.option("--orderers", type=click.IntRange(1, 9), default=3, show_default=True, help="Orderers.")
@click.option(
    "--system",
    type=click.Choice([*SYSTEMS]),
    default="ledger",
    show_default=True,
    help="The bundled ledger, real Hyperledger Fabric from --binaries, or a database.",
)
@click.option(
    "--binaries",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of Fabric's release archive, unpacked: bin/, config/, builders/.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 20),
    help="Nodes of a database [default: 3 of cassandra, 2 of mariadb, 1 of mysql].",
)
@click.option(
    "--mode",
    type=click.Choice(["stream", "block"]),
    help="Commit transactions one by one, or in blocks as Fabric does [default: stream; of fabric: block].",
)
@click.option(
    "--consenter",
    type=click.Choice(["raft", "solo", "kafka", "bft", "zyzzyva", "sequencer"]),
    default="raft",
    show_default=True,
    help="Who orders; kafka: three Apache Kafka brokers, which it fetches once (`make kafka`) and starts; "
    "bft, zyzzyva: four orderers or more, of which fewer than a third may lie; "
    "sequencer: one process keeps the order, the orderers are its facades.",
)
@click.option("--sequencer-memory", is_flag=True, help="Of the sequencer: answer before its log is on disk.")
@click.option(
    "--volatile-votes",
    is_flag=True,
    help="Of bft and zyzzyva, for measurements only: votes leave before they are on disk.",
)
@click.option(
    "--channel",
    "channels",
    multiple=True,
    default=("mychannel",),
    show_default=True,
    help="A channel's name. Repeatable.",
)
@click.option(
    "--like-fabric",
    is_flag=True,
    help="Nodes run as Fabric's own processes do, without what saves wake-ups (docs/ledger.md).",
)
@click.option(
    "--chaincode",
    "chaincodes",
    multiple=True,
    default=("smallbank",),
    show_default=True,
    metavar="NAME[=POLICY]",
    help="Bundled contract (smallbank, simple, marbles, fabcoin, kv, scm), with its endorsement policy. Repeatable.",
)
@click.option(
    "--base-port",
    type=click.IntRange(1024, 65_000),
    default=17_000,
    show_default=True,
    help="First of the loopback ports that the nodes listen on.",
)
@runtime_option
@click.option("--timeout", type=Finite(min=1), default=PATIENCE, show_default=True, help="Seconds to get ready.")
def up(
    directory: Path,
    timeout: float,
    system: str,
    mode: str | None,
    chaincodes: tuple[str, ...],
    **options: Any,
) -> None:
    """Start the network and leave it running; `qioi lab down` ends it.

    As containers, the nodes log to json-file, rotated, and bear labels by which `docker: {}` in the daemon's
    configuration finds them. DOCKER_HOST names an engine's socket that is not Docker's default.
    """
    refuse_strangers(system)
    asked = LabOptions(
        system=system,
        mode=mode or ("stream" if system == "ledger" else "block"),
        extra=tuple(text for chaincode in chaincodes for text in ("--chaincode", chaincode)),
        **options,
    )
    with one_line_errors(directory):
        lab = Lab(directory)
        network = lab.up(asked, timeout=timeout, say=click.echo)
    where = "logs with their engine" if lab.runtime == "docker" else f"logs in {lab.directory / 'log'}"
    click.echo(
        f"up: {len(network.nodes)} nodes, channel {', '.join(network.channels)}, {network.mode} mode, "
        f"{network.consenter}; {where}, components in {lab.state_file}"
    )


def refuse_strangers(system: str) -> None:
    """Refuse options that the system would ignore. UsageError."""
    context = click.get_current_context()
    strangers = {"nodes"} if system in LEDGERS else OF_LEDGERS
    strangers |= set() if system == "ledger" else BUNDLED
    strangers |= set() if system == "fabric" else {"binaries"}
    for option in context.command.params:
        given = option.name and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
        if given and option.name in strangers:
            raise click.UsageError(f"{option.opts[0]} means nothing to --system {system}")


@command.command()
@click.option(
    "--mode",
    type=click.Choice(["stream", "block"]),
    default="stream",
    show_default=True,
    help="Commit transactions one by one, or in blocks as Fabric does.",
)
@click.option("--namespace", default="ledger", show_default=True, help="The namespace of deploy/k8s/ledger.")
def secrets(mode: str, namespace: str) -> None:
    """Make a network for the pods of deploy/k8s/ledger and print its Secrets, for `kubectl apply -f -`."""
    with one_line_errors():
        click.echo(as_yaml(network_secrets(LabOptions(mode=mode), namespace)), nl=False)


@command.command()
@directory_option
@table_option
def status(directory: Path, output: str) -> None:
    """Show every node; exit with 1 if one of them does not serve.

    Where some orderers may lie, a line for each orderer and channel follows: the view, how far entries are applied and
    vouched for, what waits, and how many views it has given up.
    """
    with one_line_errors():
        found = Lab(directory).status()
    if output == "json":
        click.echo(json.dumps([as_json(entry) for entry in found], indent=2))
    else:
        plain_console(140).print(as_table(found))
        for entry in found:
            for channel, replica in entry.replicas.items():
                click.echo(f"{entry.node.name} {channel}: {replica}")
    if not all(entry.ready for entry in found):
        raise SystemExit(1)


@command.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@directory_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def load(directory: Path, arguments: tuple[str, ...]) -> None:
    """Put load on the network: all further ARGUMENTS go to `qioi-ledger load` (try `-- --help`).

    The client runs in a control group of its own with a high share that is always the same, so
    that the ledger's waiting is measured and not the client's.
    """
    with one_line_errors():
        lab = Lab(directory)
        lab.running_network()
        if isinstance(lab.tree, Containers):
            raise SystemExit(load_in_container(lab, lab.tree, arguments))
        argv = lab.load_command(arguments)
        for file in lab.client_group().procs_files:
            file.write_text(str(os.getpid()), encoding="utf-8")
    os.execv(argv[0], argv)


def load_in_container(lab: Lab, tree: Containers, arguments: Sequence[str]) -> int:
    """Run the load client as a container, pass on what it writes, and remove it; give its exit status."""
    arguments, folders = with_whole_paths(arguments)
    run = None
    try:
        run = lab.start_client(lab.load_command(arguments), folders)
        assert isinstance(run, ContainerRun)
        progress = threading.Thread(target=hand_on, args=(LabEngine(tree.socket), run.container, True), daemon=True)
        progress.start()
        hand_on(tree.engine, run.container, False)
        progress.join()
        return run.wait()
    finally:
        with uninterrupted():
            if run is not None:
                run.kill()
            tree.remove((tree.group(CLIENT_GROUP),), grace=0)


def hand_on(engine: LabEngine, container: str, error: bool) -> None:
    """Pass on what a container writes, until its end."""
    for text in engine.follow(container, error=error):
        click.echo(text, nl=False, err=error)


def with_whole_paths(arguments: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Make the files that a load writes absolute; give the folders they are in, too."""
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith(FILE_FLAGS) else [word])]
    folders: list[Path] = []
    for index, word in enumerate(words[1:], 1):
        if words[index - 1] in FILE_FLAGS and word != "-":
            words[index] = str(Path(word).absolute())
            folders.append(Path(words[index]).parent)
    return words, folders


@command.command()
@directory_option
@click.option("--keep", is_flag=True, help="Keep the folder with ledgers, keys and logs.")
def down(directory: Path, keep: bool) -> None:
    """End the network and remove its processes, control groups and files; repeatable."""
    with one_line_errors():
        there = Lab(directory).down(keep_files=keep)
    click.echo(f"down: {directory}" if there else f"nothing to do: no lab in {directory}")


command.add_command(caliper)


def as_json(entry: NodeStatus) -> dict[str, object]:
    """Give one node for programs."""
    return {
        "name": entry.node.name,
        "role": entry.node.role.value,
        "ready": entry.ready,
        "pids": list(entry.pids),
        "cgroup": entry.group.path,
        "shares": entry.shares,
        "cpu_seconds": entry.cpu,
        "address": entry.node.address,
        "operations": entry.node.operations or None,
        "log": str(entry.log),
        "replicas": {channel: asdict(replica) for channel, replica in entry.replicas.items()},
    }


def as_table(found: list[NodeStatus]) -> Table:
    """Give all nodes as a table for people."""
    table = Table(box=None, header_style="bold")
    for heading in ("node", "role", "state", "pid", "share", "cpu s", "address"):
        table.add_column(heading, justify="right" if heading in {"pid", "share", "cpu s"} else "left")
    for entry in found:
        state = "serves" if entry.ready else "starting" if entry.pids else "ended"
        table.add_row(
            entry.node.name,
            entry.node.role.value,
            Text(state, "green" if entry.ready else "red"),
            " ".join(map(str, entry.pids)) or "-",
            str(entry.shares) if entry.shares is not None else "-",
            f"{entry.cpu:.1f}" if entry.cpu is not None else "-",
            entry.node.address,
        )
    return table

"""``qioi profile``: what the scheduler does to each component, by perf: the paper's Table 2 for any deployment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from qioi.commands.answers import status_of, understood
from qioi.commands.failing import fail
from qioi.commands.numbers import Finite
from qioi.commands.options import configuration, plain_console, right, socket_of, table_option
from qioi.commands.values import milliseconds
from qioi.daemon.discoveries import ENGINE_PATIENCE, UnwatchableError, look
from qioi.discovery.base import Fixed, join
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy, find_hierarchy
from qioi.kernel.patterns import fitting
from qioi.lab.signals import ending_signals_interrupt
from qioi.model.names import printable
from qioi.monitor.profile.perf import ProfileError, record
from qioi.monitor.profile.scheduling import Account, Recording, Row, by_component, by_role, row
from qioi.settings.config import Config, read_lab
from qioi.settings.documents import ConfigError
from qioi.settings.file import groups_pattern
from qioi.show.http import UnreachableError

#: The role of a group that was named on the command line.
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Target:
    """Whose threads are recorded: control groups below the CPU controller's mount, under one name."""

    name: str
    role: str
    cgroups: tuple[str, ...]


@click.command()
@click.option("-c", "--config", type=click.Path(path_type=Path),
              help="The components of this configuration's daemon; if none runs, those that it names.")  # fmt: skip
@click.option("--socket", type=click.Path(path_type=Path),
              help="The components of the daemon behind this socket.")  # fmt: skip
@click.option("--lab", type=click.Path(path_type=Path), help="The components of a lab: the folder of `qioi lab up`.")
@click.option("--cgroup", "named", multiple=True, metavar="NAME=PATH",
              help="A control group below the CPU controller's mount, or a shell pattern for several that are taken "
                   "together, such as sysbench='qioi-lab/sysbench*'. Repeatable.")  # fmt: skip
@click.option("-s", "--seconds", type=Finite(0.1, 600), default=10.0, show_default=True,
              help="How long to record.")  # fmt: skip
@click.option("--max-size", type=click.IntRange(1, 4096), default=256, show_default=True,
              help="Megabytes that the recording may take; it ends early there.")  # fmt: skip
@table_option
def command(
    config: Path | None,
    socket: Path | None,
    lab: Path | None,
    named: tuple[str, ...],
    seconds: float,
    max_size: int,
    output: str,
) -> None:
    """Record the scheduler for some seconds: time slice, scheduling delay and context switches per component and role.

    Without -c, --socket, --lab or --cgroup, the components of the running daemon. Needs root, and perf (Debian's
    package linux-perf). The recording is removed afterwards; tracefs need not be mounted.
    """
    try:
        hierarchy = find_hierarchy()
        targets = [target(text, hierarchy) for text in named]
        if lab is not None:
            targets += [Target(one.name, one.role, (one.cgroup,)) for one in read_lab(lab)]
        if socket is not None or config is not None or not targets:
            targets += of_configuration(config, socket, hierarchy)
        targets = distinct(targets)
        folders = {one.name: [hierarchy.folder(path) for path in one.cgroups] for one in targets}
        with ending_signals_interrupt():
            recording, full = record(folders, seconds, max_size)
    except ConfigError as error:
        fail(*error.problems)
    except (CgroupError, ProfileError, UnreachableError, ValueError) as error:
        fail(str(error))
    document = describe(recording, {one.name: one.role for one in targets}, full)
    if output == "json":
        click.echo(json.dumps(document, indent=2))
    else:
        show(document)


def target(text: str, hierarchy: Hierarchy) -> Target:
    """Read NAME=PATH; ValueError says what is accepted."""
    name, _, pattern = text.partition("=")
    try:
        groups_pattern(pattern)
    except ValueError as error:
        raise ValueError(f"--cgroup {text}: {error}") from None
    found = sorted(set(fitting(hierarchy.mount, pattern)))
    if not name or not found:
        raise ValueError(f"--cgroup {text}: accepted is NAME=PATH of a group that exists below {hierarchy.mount}")
    return Target(name, OTHER, tuple(found))


def of_configuration(config: Path | None, socket: Path | None, hierarchy: Hierarchy) -> list[Target]:
    """Ask the daemon for its components; if none answers, look for what the configuration names."""
    where = socket_of(config, socket)
    try:
        status = status_of(where)
    except UnreachableError as error:
        if config is None:
            raise UnreachableError(f"{error} Name components by -c, --lab or --cgroup otherwise.") from None
        return list(named_by(configuration(config), hierarchy))
    with understood(where, raw=False):
        return [Target(one["name"], one["role"], (one["cgroup"],)) for one in status["components"]]


def named_by(config: Config, hierarchy: Hierarchy) -> Iterator[Target]:
    """Give the fixed list's components, and those that engines and systemd tell of now."""
    components = config.components
    if config.discovers:
        try:
            found = look(config, hierarchy, ENGINE_PATIENCE)
        except UnwatchableError as error:
            raise ProfileError(str(error)) from None
        problems = [f"{who}: {what}" for who, what in found.problems.items()]
        if problems and not found.components and not components:
            raise ProfileError(f"{config.file}: {'; '.join(problems)}")
        for problem in problems:
            click.echo(f"{config.file}: {problem}", err=True)
        components = join((Fixed(components).found(), found)).components
    for one in components:
        yield Target(one.name, one.role.value, (one.cgroup,))


def distinct(targets: Iterable[Target]) -> list[Target]:
    """Refuse two targets of one name, and an empty list."""
    kept: dict[str, Target] = {}
    for one in targets:
        if one.name in kept:
            raise ValueError(f"component {one.name!r}: named twice: accepted is one of each name")
        kept[one.name] = one
    if not kept:
        raise ValueError("no component is there yet: name control groups by --cgroup")
    return list(kept.values())


def describe(recording: Recording, roles: dict[str, str], full: bool) -> dict[str, Any]:
    """Give everything as plain values for JSON; times in seconds."""
    return {
        "seconds": recording.seconds,
        "events": recording.events,
        "lost_events": recording.lost,
        "ended_by_size": full,
        "components": [asdict(one) for one in by_component(recording, roles)],
        "roles": [asdict(one) for one in by_role(recording, roles)],
        "rest": asdict(row("rest of the host", "", recording.accounts.get(None, Account()), recording.seconds)),
    }


def show(document: dict[str, Any]) -> None:
    """Print tables for people."""
    from rich.table import Table

    document = printable(document)
    console = plain_console(140)
    names = ("Slice", "Delay", "Longest", "Switches/s", "Cores", "Threads")
    components = Table("Component", "Role", *right(*names))
    for one in [*document["components"], document["rest"]]:
        components.add_row(one["name"], one["role"], *cells(Row(**one)))
    console.print(components)
    if len(document["roles"]) < len(document["components"]):
        roles = Table("Role", *right("Components", *names[:3], "Switches/s each", "Cores each", names[5]))
        for one in document["roles"]:
            roles.add_row(one["role"], str(one["components"]), *cells(Row(**one)))
        console.print(roles)
    console.print(f"{document['seconds']:.1f} s, {document['events']} events, {document['lost_events']} lost.")
    if document["ended_by_size"]:
        console.print("The recording has reached --max-size, and ended there.", style="yellow")
    if document["lost_events"]:
        console.print("Where events are lost, slices and delays come out too long.", style="yellow")


def cells(one: Row) -> list[str]:
    """Show one line's numbers."""
    return [
        milliseconds(one.slice, 3),
        milliseconds(one.delay, 3),
        milliseconds(one.longest, 3),
        f"{one.switches_per_second:.0f}",
        f"{one.cores:.2f}",
        str(one.threads),
    ]

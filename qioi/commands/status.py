"""``qioi status``: what a running daemon sees and does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qioi.commands.answers import status_of, understood
from qioi.commands.failing import fail
from qioi.commands.options import (
    config_option,
    evidence,
    kept_for_leaders,
    plain_console,
    right,
    socket_of,
    socket_option,
    table_option,
)
from qioi.commands.values import milliseconds, shown
from qioi.model.groups import ROOT
from qioi.model.names import few, printable
from qioi.show.footnotes import footnotes, raised_above
from qioi.show.http import UnreachableError
from qioi.show.stalled import of_then

if TYPE_CHECKING:
    from rich.table import Table

#: Columns of a terminal: below the first the smaller tables of `qioi top` are shown, from the second on there is room
#: for decisions beside a component's numbers.
NARROW, WIDE = 72, 110


@click.command()
@config_option
@socket_option
@table_option
def command(config: Path | None, socket: Path | None, output: str) -> None:
    """Show channels, components, and what was decided last and why."""
    where = socket_of(config, socket)
    try:
        document = status_of(where)
    except UnreachableError as error:
        fail(str(error))
    if output == "json":
        click.echo(json.dumps(document, indent=2))
        return
    with understood(where):
        show(document)


def show(document: dict[str, Any]) -> None:
    """Print tables for people; they are as wide as the terminal, or 140 columns where there is none.

    Where the terminal is narrow, decisions stand below the table.
    """
    from qioi.show import top

    document = printable(document)
    console = plain_console(140)
    if said := of_then(document.get("snapshot_age", 0.0), document["period"]):
        console.print(said)
    totals = document["totals"]
    writes = ", ".join(f"{count} {result}" for result, count in totals["writes"].items())
    dry = " (dry run)" if document["dry_run"] else ""
    console.print(
        f"QiOi {document['version']}, pid {document['pid']}{dry}: period {document['period']:g} s, "
        f"{totals['periods']} periods, {totals.get('early', '-')} early, {totals['late']} late, "
        f"the last took {1000 * document['loop']:.1f} ms; "
        f"cgroup v{document['cgroup_version']} through {document['actuator']}; writes: {writes}"
    )
    for line in surroundings(document):
        console.print(line)
    wide = console.width >= WIDE
    if console.width < NARROW:
        shown = top.History(), console.width
        console.print(top.channels(document, *shown), top.components(document["components"], *shown))
    else:
        console.print(channels(document), components(document, wide))
    if not wide:
        for one in document["components"]:
            console.print(f"{one['name']}: {reason(one)}")
    for note in notes(document):
        console.print(note)


def channels(document: dict[str, Any]) -> Table:
    """Draw the channels."""
    from rich.table import Table

    table = Table("Channel", "Law", *right("Throughput", "Threshold", "Last commit", "Height"))
    for one in document["channels"]:
        table.add_row(one["name"], one["law"], shown(one["throughput"], "{:.1f} tps"), threshold(one),
                      shown(one["age"], "{:.1f} s ago"), shown(one["height"], "{}"))  # fmt: skip
    return table


def components(document: dict[str, Any], wide: bool) -> Table:
    """Draw the components, with what was decided where the terminal is wide."""
    from rich.table import Column, Table

    columns = [*right("Share", "Original", "Delay", "Waiting"), *(right("Cores") if wide else [])]
    table = Table(Column("Component", overflow="fold"), "Role", *columns, *(["Last decision"] if wide else []))
    for one in document["components"]:
        last = [shown(one["cores"], "{:.2f}"), reason(one)] if wide else []
        table.add_row(one["name"], one["role"], shown(one["share"], "{}"), shown(one["original"], "{}"),
                      milliseconds(one["delay"], 2), shown(one["waiting_share"], "{:.0%}"), *last)  # fmt: skip
    return table


def reason(component: dict[str, Any]) -> str:
    """Say what was decided last, or what is wrong."""
    text = f"! {component['problem']}" if component["problem"] else str(component["reason"])
    wanted = component["wanted"]
    return text if wanted is None or wanted == component["share"] else f"wants {wanted}: {text}"


def surroundings(document: dict[str, Any]) -> Iterator[str]:
    """Say how busy the host is, and what is done beside moving shares."""
    if document["host"]:
        host = document["host"]
        yield f"Host: {host['idle']:.0%} idle, {host['foreign']:.0%} used by others than the ledger"
    if document.get("foreigners"):
        groups = ", ".join(f"{one['group']} {one['cores']:.2f} CPUs" for one in document["foreigners"])
        named = any(one["group"] != ROOT for one in document["foreigners"])
        hint = "; `qioi mine GROUP` says that one is yours" if named else ""
        yield f"Foreign work: {groups}{hint}"
    if document["kubernetes"]:
        cluster = document["kubernetes"]
        yield f"Kubernetes node {cluster['node']}; actuator {cluster['actuator']}"
    if document["idle_groups"]:
        yield f"Idle by our doing, as best effort: {few(document['idle_groups'])}"
    if document["slices"]["mode"] != "off":
        slices = document["slices"]
        yield f"Slices: {slices['mode']}, now {'on' if slices['on'] else 'off'}: {slices['text']}"
    if document["boosts"]:
        boosts = document["boosts"]
        yield f"Boosts hold {boosts['part']:.0%} of the host's CPU by weight; boost_cap is {boosts['cap']:.0%}"


def notes(document: dict[str, Any]) -> Iterator[str]:
    """Say what does not stand in a table."""
    yield from raised_above(document)
    for one in document["channels"]:
        if one["evidence"]:
            yield f"Threshold of {one['name']}: learned from {evidence(one['evidence'])}"
        if one["leaders_lost"]:
            yield (
                f"Channel {one['name']}: Raft leaders lost beside interference: {one['leaders_lost']}"
                f"{kept_for_leaders(one['orderer_floor'], '; ')}"
            )
        if one["bottleneck"]["kind"] not in ("none", "unknown"):
            yield f"Channel {one['name']}: {one['bottleneck']['text']}"
    for one in document["components"]:
        if one.get("limit"):
            yield f"{one['name']}: {one['limit']['text']}"
    yield from footnotes(document)


def threshold(channel: dict[str, Any]) -> str:
    """Show what a channel is owed, and where that comes from unless it is the configuration."""
    source = f" ({channel['source']})" if channel["source"] in ("auto", "socket") else ""
    return shown(channel["threshold"], "{:.1f} tps") + source

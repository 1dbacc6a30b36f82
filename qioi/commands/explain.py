"""``qioi explain``: how one component's share was decided."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from qioi.commands.answers import understood
from qioi.commands.completion import components
from qioi.commands.failing import fail
from qioi.commands.options import config_option, evidence, socket_of, socket_option
from qioi.model.names import few, printable
from qioi.show.http import RefusedError, UnreachableError, get_json


@click.command()
@click.argument("component", shell_complete=components)
@config_option
@socket_option
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(component: str, config: Path | None, socket: Path | None, output: str) -> None:
    """Show the last decision about COMPONENT: inputs, rule, error, step, clamp, result, and the level it counts at."""
    where = socket or socket_of(config)
    try:
        document = get_json(where, "/explain", component=component)
    except (UnreachableError, RefusedError) as error:
        fail(str(error))
    if output == "json":
        click.echo(json.dumps(document, indent=2))
        return
    with understood(where):
        for key, text in lines(document):
            click.echo(f"{key:<10} {text}")


def lines(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Say everything in one line each, the way of the decision from top to bottom."""
    document = printable(document)
    result = document["result"]
    early = f"; decided before its turn: {document['early']}" if document.get("early") else ""
    yield "component", f"{document['component']} ({document['role']}){early}"
    for number, text in enumerate(seen(document["inputs"])):
        yield "" if number else "inputs", text
    yield from findings(document)
    yield "rule", f"{document['law'] or 'no law'}: {document['rule'] or '-'}: {document['reason']}"
    yield "error", f"(T - A) / T = {value(document['error'], '{:+.3f}')}"
    yield "step", value(document["step"], "{:+.1f} shares")
    clamp = document["clamp"]
    if clamp is not None:
        bounded = "bounded" if clamp["bounded"] else "within bounds"
        yield "clamp", f"{clamp['wanted']:.1f} in {clamp['floor']}..{clamp['ceiling']}: {bounded}"
    if document["idle_groups"]:
        yield "idle", f"best-effort neighbours made idle: {few(document['idle_groups'])}"
    slices = document["slices"]
    if slices["mode"] != "off":
        length = None if slices["nanoseconds"] is None else slices["nanoseconds"] / 1e6
        yield "slice", f"{value(length, '{:.2f} ms')} ({slices['mode']}: {slices['text']})"
    if document["boosts"]:
        boosts = document["boosts"]
        yield "cap", f"boosts hold {boosts['part']:.0%} of the host's CPU by weight, at most {boosts['cap']:.0%}"
    dry = " (dry run: not written)" if result["dry_run"] else ""
    yield (
        "result",
        (
            f"{value(result['previous'], '{}')} -> {value(result['decided'], '{}')}{dry}; in force "
            f"{value(result['in_force'], '{}')}, found with {value(result['original'], '{}')}"
        ),
    )
    if result["problem"]:
        yield "problem", result["problem"]
    by = f"{document['actuator']}; " if document["actuator"] else ""
    yield "acts at", f"{by}{', '.join(document['acted_at'])}: {document['level_reason'] or '-'}"
    for number, level in enumerate(document["levels"]):
        yield "" if number else "level", describe(level)


def findings(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Say what was found of the component and its channel."""
    if document["bottleneck"]:
        yield "bottleneck", document["bottleneck"]["text"]
    if document.get("limit"):
        yield "finding", document["limit"]["text"]
    leadership = document["leadership"]
    if leadership and leadership["lost"]:
        yield (
            "leaders",
            f"{leadership['lost']} lost beside interference: orderers keep {leadership['orderer_floor']:g} times their "
            "default until it ends",
        )


def seen(inputs: dict[str, Any]) -> Iterator[str]:
    """Say what the decision rests on."""
    yield (
        f"channel {inputs['channel'] or '-'}: A {value(inputs['throughput'], '{:.1f} tps')}, "
        f"T {value(inputs['threshold'], '{:.1f} tps')} ({inputs['threshold_source'] or 'none'}), "
        f"last commit {value(inputs['commit_age'], '{:.1f} s ago')}"
    )
    if inputs["evidence"]:
        yield f"T is learned from {evidence(inputs['evidence'])}"
    delay = None if inputs["delay"] is None else 1000 * inputs["delay"]
    yield (
        f"delay {value(delay, '{:.2f} ms')} per slice, waiting {value(inputs['waiting_share'], '{:.0%}')} "
        f"of runnable time, {value(inputs['cores'], '{:.2f}')} cores"
    )
    yield (
        f"host {value(inputs['host_idle'], '{:.0%}')} idle, {value(inputs['host_foreign'], '{:.0%}')} foreign, "
        f"I/O waited for {value(inputs['io_pressure'], '{:.0%}')} of the time"
    )
    for one in inputs.get("foreigners", ()):
        yield f"foreign: {one['group']} uses {one['cores']:.2f} CPUs: {', '.join(one['processes']) or 'none seen'}"


def describe(level: dict[str, Any]) -> str:
    """Say where a group stands among its siblings."""
    siblings = ", ".join(f"{name} {weight}" for name, weight in level["siblings"].items()) or "none"
    others = f" and {level['others']} more" if level["others"] else ""
    return (
        f"{'* ' if level['acted'] else ''}{level['group']}: {level['file']} {level['value']}, {level['part']:.0%} of "
        f"its parent's CPU while all are busy; foreigners beside it use {value(level['foreign'], '{:.1f}')} CPUs; "
        f"siblings: {siblings}{others}"
    )


def value(number: Any, form: str) -> str:
    """Show a number, or a dash for one that is not known."""
    return "-" if number is None else form.format(number)

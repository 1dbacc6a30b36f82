"""``qioi explain``: how one component's share was decided."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import convert, to_builtins

from qioi.commands.answers import understood
from qioi.commands.completion import components
from qioi.commands.failing import fail
from qioi.commands.options import config_option, evidence, kept_for_leaders, socket_of, socket_option, text_option
from qioi.commands.values import milliseconds, shown
from qioi.model.names import few, printable
from qioi.show.explanation import Explanation, Inputs, Move, Standing
from qioi.show.http import RefusedError, UnreachableError, get_json
from qioi.show.stalled import of_then


@click.command()
@click.argument("component", shell_complete=components)
@config_option
@socket_option
@text_option
def command(component: str, config: Path | None, socket: Path | None, output: str) -> None:
    """Show the last decision about COMPONENT: inputs, rule, error, step, clamp, result, and the level it counts at."""
    where = socket_of(config, socket)
    try:
        document = get_json(where, "/explain", component=component)
    except (UnreachableError, RefusedError) as error:
        fail(str(error))
    if output == "json":
        click.echo(json.dumps(document, indent=2))
        return
    with understood(where):
        for key, text in lines(convert(document, Explanation)):
            click.echo(f"{key:<10} {text}")


def lines(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Say everything in one line each, fit for a terminal, the way of the decision from top to bottom."""
    return ((key, printable(text)) for key, text in said(explanation))


def said(one: Explanation) -> Iterator[tuple[str, str]]:
    """Say everything, with names as their makers gave them."""
    if text := of_then(one.snapshot_age, one.period):
        yield "stalled", text
    early = f"; decided before its turn: {one.early}" if one.early else ""
    yield "component", f"{one.component} ({one.role}){early}"
    for number, text in enumerate(seen(one.inputs)):
        yield "" if number else "inputs", text
    yield from findings(one)
    yield "rule", f"{one.law or 'no law'}: {one.rule or '-'}: {one.reason}"
    yield "error", f"(T - A) / T = {shown(one.error, '{:+.3f}')}"
    yield "step", shown(one.step, "{:+.1f} shares")
    if (clamp := one.clamp) is not None:
        bounded = "bounded" if clamp.bounded else "within bounds"
        yield "clamp", f"{clamp.wanted:.1f} in {clamp.floor}..{clamp.ceiling}: {bounded}"
    if one.idle_groups:
        yield "idle", f"best-effort neighbours made idle: {few(one.idle_groups)}"
    if (slices := one.slices).mode != "off":
        length = None if slices.nanoseconds is None else slices.nanoseconds / 1e6
        yield "slice", f"{shown(length, '{:.2f} ms')} ({slices.mode}: {slices.text})"
    if (boosts := one.boosts) is not None:
        yield "cap", f"boosts hold {boosts.part:.0%} of the host's CPU by weight, at most {boosts.cap:.0%}"
    yield from moved(one.result)
    by = f"{one.actuator}; " if one.actuator else ""
    yield "acts at", f"{by}{', '.join(one.acted_at)}: {one.level_reason or '-'}"
    for number, level in enumerate(one.levels):
        yield "" if number else "level", describe(level)


def findings(one: Explanation) -> Iterator[tuple[str, str]]:
    """Say what was found of the component and its channel."""
    if one.bottleneck is not None:
        yield "bottleneck", one.bottleneck.text
    if one.limit is not None:
        yield "finding", one.limit.text
    if one.leadership is not None and one.leadership.lost:
        yield (
            "leaders",
            f"{one.leadership.lost} lost beside interference{kept_for_leaders(one.leadership.orderer_floor, ': ')}",
        )


def moved(result: Move) -> Iterator[tuple[str, str]]:
    """Say what came of the decision."""
    dry = " (dry run: not written)" if result.dry_run else ""
    decided = f"{shown(result.previous, '{}')} -> {shown(result.decided, '{}')}{dry}"
    yield (
        "result",
        f"{decided}; in force {shown(result.in_force, '{}')}, found with {shown(result.original, '{}')}",
    )
    if result.problem:
        yield "problem", result.problem


def seen(inputs: Inputs) -> Iterator[str]:
    """Say what the decision rests on."""
    yield (
        f"channel {inputs.channel or '-'}: A {shown(inputs.throughput, '{:.1f} tps')}, "
        f"T {shown(inputs.threshold, '{:.1f} tps')} ({inputs.threshold_source or 'none'}), "
        f"last commit {shown(inputs.commit_age, '{:.1f} s ago')}"
    )
    if inputs.evidence is not None:
        yield f"T is learned from {evidence(to_builtins(inputs.evidence))}"
    yield (
        f"delay {milliseconds(inputs.delay, 2)} per slice, waiting {shown(inputs.waiting_share, '{:.0%}')} "
        f"of runnable time, {shown(inputs.cores, '{:.2f}')} cores"
    )
    rivals = inputs.foreign_with_rivals
    theirs = "" if rivals is None else f" (its law sees {rivals:.0%}: others of the ledger count)"
    yield (
        f"{'its CPUs' if inputs.pinned else 'host'} {shown(inputs.host_idle, '{:.0%}')} idle, "
        f"{shown(inputs.host_foreign, '{:.0%}')} foreign{theirs}, "
        f"I/O waited for {shown(inputs.io_pressure, '{:.0%}')} of the time"
    )
    for one in inputs.foreigners:
        yield f"foreign: {one.group} uses {one.cores:.2f} CPUs: {', '.join(one.processes) or 'none seen'}"


def describe(level: Standing) -> str:
    """Say where a group stands among its siblings."""
    siblings = ", ".join(f"{name} {weight}" for name, weight in level.siblings.items()) or "none"
    others = f" and {level.others} more" if level.others else ""
    return (
        f"{'* ' if level.acted else ''}{level.group}: {level.file} {level.value}, {level.part:.0%} of "
        f"its parent's CPU while all are busy; foreigners beside it use {shown(level.foreign, '{:.1f}')} CPUs; "
        f"siblings: {siblings}{others}"
    )

"""``qioi replay``: read recorded peer logs, and say what QiOi would have seen and decided."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from qioi.commands.failing import fail
from qioi.commands.numbers import Finite
from qioi.commands.options import configuration, plain_console, text_option
from qioi.daemon.replay import Plan, Point, Replay, ReplayError, Span, name_peers, replay, stem, total_skips
from qioi.model import Component, Role
from qioi.monitor import DEFAULT_WINDOW
from qioi.settings.config import Config, policy
from qioi.settings.file import PolicyConfig

_BARS = " ▁▂▃▄▅▆▇█"
_ROWS = 12
_SHARE_COLUMNS = 4
_WHY = {
    "not-kvledger-info": "the words of a commit, but not from kvledger at INFO",
    "not-a-commit-line": "kvledger speaks of a commit in no wording that Fabric is known to use",
    "no-header": "a commit message without a header, in a log whose lines have one",
    "number-out-of-range": "a number that does not fit its type in Fabric",
    "line-too-long": "longer than any commit line",
    "bad-wrapper": "not in the wrapping of the rest of the file",
    "foreign-channel": "a commit of a channel that the component does not serve",
}


@click.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "-c", "--config", type=click.Path(dir_okay=False, path_type=Path), help="The configuration by which to decide."
)
@text_option
@click.option(
    "--threshold",
    type=Finite(min=0, min_open=True),
    help="Transactions per second that every channel is owed; without a config, Algorithm 1 decides.",
)
@click.option(
    "--window",
    type=Finite(min=0.1),
    default=DEFAULT_WINDOW,
    show_default=True,
    help="Seconds that throughput is measured over: about three batch timeouts.",
)
@click.option("--period", type=Finite(min=0.1), help="Seconds between readings.  [default: the config's, or 1]")
def command(
    logs: tuple[Path, ...],
    config: Path | None,
    output: str,
    threshold: float | None,
    window: float,
    period: float | None,
) -> None:
    """Read recorded peer LOGS (of any Fabric version, Docker or CRI wrapped, gzip too) at full speed.

    Files of one peer, such as peer.log.1 and peer.log, are taken together; several peers are merged by time.
    """
    names = name_peers(logs)
    plan = Plan(period=period or 1.0, window=window)
    try:
        if config is not None:
            loaded = configuration(config)
            names |= listed_names(logs, loaded)
            plan = Plan(watched(names, loaded), loaded.policies, period or loaded.period, window,
                        lambda channel: policy(channel, PolicyConfig(), loaded.defaults))  # fmt: skip
        found = replay(logs, plan, names, threshold)
    except ReplayError as error:
        fail(str(error))
    if output == "json":
        click.echo(json.dumps(as_json(found), indent=2))
    else:
        show(found, plain_console())


def listed_names(logs: Sequence[Path], config: Config) -> dict[Path, str]:
    """Name the logs of the components that a configuration lists, and what rotation has made of them."""
    listed = {Path(one.log).resolve(): one.name for one in config.components if one.log}
    alike = Counter(map(place, listed))
    parts = {place(log): name for log, name in listed.items() if alike[place(log)] == 1}
    found = {path: listed.get(path.resolve()) or parts.get(place(path.resolve())) for path in logs}
    return {path: name for path, name in found.items() if name is not None}


def place(log: Path) -> tuple[Path, str]:
    """Give what a log has in common with what rotation makes of it."""
    return log.parent, stem(log)


def watched(names: Mapping[Path, str], config: Config) -> tuple[Component, ...]:
    """Give the components of the list and, where a daemon finds others while it runs, the peers of these logs."""
    listed = {one.name for one in config.components}
    found = dict.fromkeys(name for name in names.values() if name not in listed) if config.discovers else {}
    return (*config.components, *(Component(name, Role.PEER, name) for name in found))


def as_json(found: Replay) -> dict[str, Any]:
    """Give everything as plain values for JSON. Times are seconds since the epoch, UTC."""
    return {
        "period": found.period,
        "window": found.window,
        "logs": [
            {
                "path": log.path,
                "peer": log.peer,
                "format": log.log_format,
                "lines": log.counters.lines,
                "bytes": log.counters.bytes,
                "commits": log.counters.commits,
                "leader_changes": log.counters.leader_changes,
                "without_time": log.untimed,
                "clock_steps": log.clock_steps,
                "skipped": {reason.value: count for reason, count in log.counters.skipped.items()},
            }
            for log in found.logs
        ],
        "channels": {
            name: {
                **_span(span),
                "disagreements": found.disagreements.get(name, 0),
                "threshold": found.thresholds.get(name),
                "peers": {peer: _span(own) for (channel, peer), own in found.peers.items() if channel == name},
            }
            for name, span in found.channels.items()
        },
        "leader_changes": [
            {"time": one.time, "orderer": one.orderer, "channel": one.channel, "from": one.old, "to": one.new}
            for one in found.leader_changes
        ],
        "timeline": [
            {
                "time": point.time,
                "throughput": point.throughput,
                "shares": point.shares,
            }
            for point in found.points
        ],
        "decisions": [
            {
                "time": one.time,
                "component": one.decision.component,
                "channel": one.decision.channel,
                "previous": one.decision.previous,
                "shares": one.decision.shares,
                "error": one.decision.error,
                "reason": one.decision.reason,
            }
            for one in found.decisions
        ],
        "reasons": dict(found.reasons),
    }


def show(found: Replay, console: Console) -> None:
    """Give everything as lines for people."""
    console.print(_logs_table(found))
    console.print()
    if found.channels:
        console.print(_channels_table(found))
        for name in found.channels:
            console.print()
            console.print(_curve(name, found, max(20, min(console.width - 20, 100))))
        console.print()
        console.print(_timeline(found))
    if found.thresholds or found.reasons:
        console.print()
        console.print(_decisions_table(found))
        console.print("By throughput alone: no log tells the waiting by which `adaptive` raises.", style="dim")
    for change in found.leader_changes:
        channel = f", channel {change.channel}" if change.channel else ""
        console.print(f"{_clock(change.time)}  {change.orderer}: Raft leader {change.old} -> {change.new}{channel}")
    for name, count in found.disagreements.items():
        console.print(f"{name}: peers disagree about the number of transactions in {count} blocks", style="yellow")


def _span(span: Span) -> dict[str, Any]:
    return {
        "blocks": span.blocks,
        "transactions": span.transactions,
        "first_block": span.first_block,
        "last_block": span.last_block,
        "missing_blocks": span.missing,
        "repeated_reports": span.repeated,
        "first_time": span.first_time,
        "last_time": span.last_time,
        "seconds": span.seconds,
        "throughput": span.throughput,
    }


def _logs_table(found: Replay) -> Table:
    table = _table("log", "peer", "format", ">lines", ">commits", ">skipped")
    for log in found.logs:
        skipped = sum(log.counters.skipped.values())
        counts = (f"{log.counters.lines:,}", f"{log.counters.commits:,}", f"{skipped:,}")
        table.add_row(Text(log.path), Text(log.peer), log.log_format, *counts)
    why = [f"{count:,} {_WHY[reason.value]}" for reason, count in total_skips(found.logs).items()]
    why += [f"{log.untimed:,} commits of {log.peer} before any time stamp" for log in found.logs if log.untimed]
    why += [f"the clock of {log.peer} was set back {log.clock_steps} times" for log in found.logs if log.clock_steps]
    table.caption = "; ".join(why) or None
    return table


def _channels_table(found: Replay) -> Table:
    table = _table("channel", "peer", ">blocks", ">from", ">to", ">transactions", ">span", ">mean tps", "")
    for name, span in found.channels.items():
        table.add_row(Text(name, style="bold"), "all, each block once", *_row(span), style="bold")
        for (channel, peer), own in found.peers.items():
            if channel == name:
                table.add_row("", Text(peer), *_row(own))
    return table


def _row(span: Span) -> list[str]:
    notes = [f"{span.missing:,} missing"] if span.missing else []
    notes += [f"{span.repeated:,} repeated"] if span.repeated else []
    numbers = (f"{span.blocks:,}", str(span.first_block), str(span.last_block), f"{span.transactions:,}")
    return [*numbers, _seconds(span.seconds), _tps(span.throughput), ", ".join(notes)]


def _curve(name: str, found: Replay, width: int) -> Text:
    """Draw throughput over time: one character is the mean of its stretch of time."""
    known = [(point.time, value) for point in found.points if (value := point.throughput.get(name)) is not None]
    if not known:
        return Text(f"{name}: shorter than the window of {found.window:g} s, no reading")
    values = [value for _, value in known]
    means = [_mean(part) for part in _parts(values, width)]
    top = max(means) or 1.0
    bars = "".join(_BARS[min(8, int(value / top * 8 + 0.5))] for value in means)
    lowest, highest = _tps(min(values)), _tps(max(values))
    line = f"{name} tps  lowest {lowest}, mean {_tps(_mean(values))}, highest {highest} in {found.window:g} s windows"
    return Text(f"{line}\n{_clock(known[0][0])[-8:]} {bars} {_clock(known[-1][0])[-8:]}")


def _timeline(found: Replay) -> Table:
    shared = sorted({name for point in found.points for name in point.shares})
    headings = [f">{name} share" for name in shared] if len(shared) <= _SHARE_COLUMNS else [">highest share"]
    table = _table("from", *(f">{name} tps" for name in found.channels), *headings)
    for part in _parts(found.points, _ROWS):
        rates = [
            _tps(_mean(known))
            if (known := [value for point in part if (value := point.throughput.get(name)) is not None])
            else "-"
            for name in found.channels
        ]
        means = [round(_mean([point.shares[name] for point in part])) for name in shared]
        shares = means if len(shared) <= _SHARE_COLUMNS else [max(means)]
        table.add_row(_clock(part[0].time), *rates, *map(str, shares))
    return table


def _decisions_table(found: Replay) -> Table:
    table = _table("component", ">changes", ">lowest share", ">mean", ">highest", "last reason")
    changes = Counter(one.decision.component for one in found.decisions)
    reasons = {**found.reasons, **{one.decision.component: one.decision.reason for one in found.decisions}}
    for name in sorted({name for point in found.points for name in point.shares}):
        shares = [point.shares[name] for point in found.points]
        extremes = (str(min(shares)), f"{_mean(shares):.0f}", str(max(shares)))
        table.add_row(Text(name), str(changes[name]), *extremes, Text(reasons.get(name, "no change")))
    below = [
        f"{name} below its {limit:g} tps in {_below(found.points, name, limit):.0%} of the time"
        for name, limit in found.thresholds.items()
    ]
    table.caption = "; ".join(below) or None
    return table


def _below(points: Sequence[Point], name: str, limit: float) -> float:
    known = [value for point in points if (value := point.throughput.get(name)) is not None]
    return sum(value < limit for value in known) / len(known) if known else 0.0


def _table(*headings: str) -> Table:
    table = Table(box=None, header_style="bold", caption_justify="left")
    for heading in headings:
        right = heading.startswith(">")
        table.add_column(Text(heading.removeprefix(">")), justify="right" if right else "left", overflow="fold")
    return table


def _parts(values: Sequence[Any], count: int) -> list[Sequence[Any]]:
    """Cut into at most ``count`` runs of about the same length."""
    count = min(count, len(values))
    return [values[len(values) * i // count : len(values) * (i + 1) // count] for i in range(count)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _tps(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} s"


def _clock(value: float | None) -> str:
    return "-" if value is None else f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S}"

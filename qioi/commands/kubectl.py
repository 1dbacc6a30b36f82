"""``kubectl qioi``: policies, their channels and components, in any cluster that kubectl reaches.

Installed as ``kubectl-qioi``, which kubectl finds on the PATH. It asks through kubectl itself, so that contexts,
credentials and rights are the user's own.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from qioi.commands.examples import examples
from qioi.commands.failing import fail
from qioi.commands.numbers import Finite
from qioi.commands.options import plain_console, table_option, text_option
from qioi.commands.printing import Group
from qioi.kubernetes.reports import ALIVE, DRY_RUN, HEARTBEAT, KUBELET, NO_RIGHT
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION, milli, original_of, read_request
from qioi.kubernetes.resizes import erasure, is_raised, kept_raised, left_over, replacement

Policy = Mapping[str, Any]
POLICIES = "isolationpolicies.qioi.io"


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]}, epilog=examples("kubectl"))
@click.option("--context", help="The cluster, by kubectl's name for it.")
@click.option("--kubeconfig", type=click.Path(), help="The file that kubectl is to read.")
@click.pass_context
def command(ctx: click.Context, context: str | None, kubeconfig: str | None) -> None:
    """Show what QiOi's daemons see and do in a cluster, and restore what a daemon that is gone has left."""
    flags = [("--context", context), ("--kubeconfig", kubeconfig)]
    ctx.obj = ["kubectl", *(part for flag, value in flags if value for part in (flag, value))]


namespace_option = click.option("-n", "--namespace", help="Only this namespace.  [default: all]")


@command.command()
@namespace_option
@table_option
@click.pass_obj
def status(kubectl: list[str], namespace: str | None, output: str) -> None:
    """Show every policy, its channel, and its components on all nodes."""
    policies = ask(kubectl, namespace)
    if output == "json":
        click.echo(json.dumps(policies, indent=2))
    else:
        show(policies, plain_console(ELSEWHERE))


@command.command()
@click.argument("policy")
@click.option("-n", "--namespace", help="The policy's namespace.  [default: that of kubectl's context]")
@text_option
@click.pass_obj
def explain(kubectl: list[str], policy: str, namespace: str | None, output: str) -> None:
    """Show why POLICY is or is not in force, and what was decided for each of its components."""
    policies = items(kubectl, POLICIES, namespace, everywhere=False)
    found = [one for one in policies if one["metadata"]["name"] == policy]
    if not found:
        where = f"{namespace}/{policy}" if namespace else f"{policy} in the namespace of kubectl's context"
        fail(f"policy {where}: there is none")
    if output == "json":
        click.echo(json.dumps(found[0], indent=2))
        return
    for line in story(found[0], datetime.now(UTC)):
        click.echo(line)


@command.command()
@namespace_option
@click.option("-i", "--interval", "--every", "interval", type=Finite(1.0), default=2.0, show_default=True,
              help="Seconds between two looks.")  # fmt: skip
@click.pass_obj
def top(kubectl: list[str], namespace: str | None, interval: float) -> None:
    """Watch all policies until ctrl-C; daemons renew their status every few seconds.

    Where the API server answers no more, the error is shown and it is asked again.
    """
    try:
        policies, problem = ask(kubectl, namespace), ""
        while True:
            click.clear()
            show(policies, plain_console(ELSEWHERE))
            if problem:
                click.echo(f"as last seen: {problem}")
            time.sleep(interval)
            try:
                policies, problem = listed(kubectl, POLICIES, namespace), ""
            except KubectlError as error:
                problem = str(error)
    except KeyboardInterrupt:
        return


@command.command()
@namespace_option
@click.option("--force", is_flag=True, help="Also on nodes whose daemon seems to be alive and would raise them again.")
@click.pass_obj
def restore(kubectl: list[str], namespace: str | None, force: bool) -> None:
    """Put back CPU requests of pods that QiOi has left changed, where no daemon is left to do so."""
    failures: list[str] = []
    left = [one for one in items(kubectl, "pods", namespace) if original_of(one) is not None]
    alive = living(kubectl, namespace) if left and not force else {}
    for one in left:
        metadata, node = one["metadata"], one["spec"].get("nodeName")
        try:
            if node in alive:
                said = f"node {node}'s daemon said something {alive[node]:.0f} s ago"
                raise KubectlError(f"{said}, and puts back by itself: left as it is without --force")
            click.echo(put_back(kubectl, one))
        except KubectlError as error:
            failures.append(f"{metadata['namespace']}/{metadata['name']}: {error}")
    if failures:
        fail(*failures)
    if not left:
        click.echo("nothing is to be restored")


def put_back(kubectl: Sequence[str], one: Mapping[str, Any]) -> str:
    """Put one pod's request back, and take the record of it off; say what was done. KubectlError."""
    record = left_over(one)
    if record is None:
        raise KubectlError("its labels no longer say which container's request was changed: left as it is")
    cpu = read_request(one, record.container)
    if not is_raised(cpu):
        said = f"annotation {ORIGINAL_ANNOTATION} {cpu.original!r}"
        raise KubectlError(f"{said}: QiOi only raises, and it asks for {cpu.asked or 'no CPU'}: left as it is")
    patch = ["patch", "pod", record.name, "-n", record.namespace, "--type", "json"]
    if milli(cpu.asked) != record.found:
        change = replacement(record, cpu, record.original)
        speak(kubectl, *patch, "--subresource", "resize", "-p", json.dumps(change))
    restored = replace(cpu, asked=record.original)
    if (why := kept_raised(record, restored)) is not None:
        again = f"its request is {record.original} again, but its kubelet keeps {cpu.actual}"
        raise KubectlError(f"{again}: {why}: stays on record: run this again later")
    speak(kubectl, *patch, "-p", json.dumps(erasure(record, restored)))
    return f"{record.namespace}/{record.name}: request {cpu.asked} -> {record.original}"


def living(kubectl: Sequence[str], namespace: str | None) -> dict[str, float]:
    """Name the nodes whose daemons are alive, by what they say in policies, with the seconds since they said it.

    Daemons that do not put back are left out: dry runs, and those without the right to.

    One that ends takes back what it has said; one that lives says it again within a heartbeat.
    """
    try:
        policies = listed(kubectl, POLICIES, namespace)
    except KubectlError as error:
        if "doesn't have a resource type" not in str(error):  # that went together with all daemons
            fail(f"whether daemons are alive can't be told (--force: whether or not): {error}")
        policies = []
    now = datetime.now(UTC)
    ages: dict[str, float] = {}
    for node in (node for one in policies for node in (one.get("status") or {}).get("nodes") or ()):
        seen = age(node.get("observedAt"), now)
        restores = not str(node.get("actuator", "")).startswith((DRY_RUN, NO_RIGHT))
        if seen is not None and seen < HEARTBEAT + ALIVE and restores:
            ages[node["name"]] = min(seen, ages.get(node["name"], seen))
    return ages


def ask(kubectl: Sequence[str], namespace: str | None) -> list[dict[str, Any]]:
    """Ask for all policies."""
    return items(kubectl, POLICIES, namespace)


def items(kubectl: Sequence[str], kind: str, namespace: str | None, *, everywhere: bool = True) -> list[dict[str, Any]]:
    """Ask for all objects of a kind, as :func:`listed` does, or end."""
    try:
        return listed(kubectl, kind, namespace, everywhere=everywhere)
    except KubectlError as error:
        fail(str(error))


def listed(
    kubectl: Sequence[str], kind: str, namespace: str | None, *, everywhere: bool = True
) -> list[dict[str, Any]]:
    """Ask for all objects of a kind. KubectlError.

    Without a ``namespace``: of the whole cluster if ``everywhere``, else of the one that kubectl's context names.
    """
    where = ["-n", namespace] if namespace else ["-A"] * everywhere
    said = speak(kubectl, "get", kind, *where, "-o", "json")
    try:
        return list(json.loads(said)["items"])
    except (ValueError, LookupError, TypeError):
        raise KubectlError(f"kubectl: its answer is no list of {kind}: {said[:100]!r}") from None


class KubectlError(Exception):
    """kubectl did not do what it was asked for; the message is one line."""


def speak(kubectl: Sequence[str], *arguments: str) -> str:
    """Run kubectl; give what it printed. KubectlError."""
    try:
        done = subprocess.run(
            [*kubectl, *arguments], capture_output=True, encoding="utf-8", errors="replace", check=False
        )
    except FileNotFoundError:
        raise KubectlError("kubectl: not found: it is what this command asks through") from None
    except OSError as error:
        raise KubectlError(f"kubectl: {error.strerror}: it is what this command asks through") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["kubectl failed without a word"]
        raise KubectlError(said[-1])
    return done.stdout


#: Columns that a terminal narrower than this has no room for.
WIDE = 140
#: Those of a file or a pipe.
ELSEWHERE = 160
WIDE_ONLY = {"Law", "Interference", "Role", "Class", "Level", "Why"}


def show(policies: Sequence[Policy], console: Console) -> None:
    """Print tables for people; where the terminal is narrow, with fewer columns, and the reasons below them."""
    now, wide = datetime.now(UTC), console.width >= WIDE
    channels: list[dict[str, str]] = []
    components: list[dict[str, str]] = []
    for one in policies:
        name, spec, said = full_name(one), one["spec"], one.get("status") or {}
        channels.append({
            "Policy": name, "Channel": spec["channel"], "Law": spec["law"],
            "Throughput": known(said, "throughput", " tps"), "Threshold": known(said, "threshold", " tps"),
            "Interference": known(said, "interference", " %"), "In force": verdict(said), "Seen": freshest(said, now),
        })  # fmt: skip
        components += [{
            "Policy": name, "Component": part["name"], "Node": known(part, "node"), "Role": known(part, "role"),
            "Class": known(part, "qosClass"), "Level": known(part, "level"), "Share": known(part, "shares"),
            "Original": known(part, "original"), "Waiting": known(part, "waitingPercent", " %"),
            "Why": f"! {part['problem']}" if part.get("problem") else known(part, "reason"),
        } for part in said.get("components") or ()]  # fmt: skip
    for rows in filter(None, (channels, components)):
        columns = [column for column in rows[0] if wide or column not in WIDE_ONLY]
        table = Table(*columns)
        for row in rows:
            table.add_row(*(row[column] for column in columns))
        console.print(table)
    if not wide:
        for row in components:
            console.print(f"{row['Policy']} {row['Component']}: {row['Why']}")
    for one in policies:
        for line in lacks(one):
            console.print(f"{full_name(one)}: {line}")
    if not policies:
        console.print("no policies")


def full_name(one: Policy) -> str:
    """Give a policy's name with its namespace."""
    return f"{one['metadata']['namespace']}/{one['metadata']['name']}"


#: How an accepted policy is in force, by the condition's reason.
ACCEPTED = {"InForce": "yes", "DryRun": "dry run"}


def verdict(said: Mapping[str, Any]) -> str:
    """Say whether a policy is in force."""
    for one in said.get("conditions") or ():
        if one["type"] == "Accepted":
            return ACCEPTED.get(one["reason"], one["reason"]) if one["status"] == "True" else f"no ({one['reason']})"
    return "no daemon has seen it"


#: What a policy in force without a component lacks.
UNSERVED = (
    "no daemon sees a pod of it: pods of its namespace are known by the labels qioi.io/role and qioi.io/channel "
    "(spec.selectors choose among pods whose role is known), where a daemon runs on their node"
)


def served(one: Policy) -> bool:
    """Whether a policy that is in force has a component, or is not in force anyway."""
    said = one.get("status") or {}
    return bool(said.get("components")) or verdict(said) not in ACCEPTED.values()


def lacks(one: Policy) -> list[str]:
    """Say what the nodes find wrong with pods of its namespace, and what it lacks where none of them sees a pod of it.

    Where a node finds no groups, labels are not what is missing.
    """
    nodes = (one.get("status") or {}).get("nodes") or ()
    problems = {node["name"]: str(node["problem"]) for node in nodes if node.get("problem")}
    groupless = any(problem.startswith(f"{KUBELET}: ") for problem in problems.values())
    unserved = [] if served(one) or groupless else [UNSERVED]
    return [f"node {name}: {problem}" for name, problem in problems.items()] + unserved


def freshest(said: Mapping[str, Any], now: datetime) -> str:
    """Say how long ago a node has said something last."""
    ages = [age(one.get("observedAt"), now) for one in said.get("nodes") or ()]
    known_ages = [one for one in ages if one is not None]
    return f"{min(known_ages):.0f} s ago" if known_ages else "-"


def age(text: object, now: datetime) -> float | None:
    """Give the seconds since a time of the API."""
    try:
        return max(0.0, (now - datetime.fromisoformat(str(text))).total_seconds())
    except (ValueError, TypeError):
        return None


def known(part: Mapping[str, Any], key: str, unit: str = "") -> str:
    """Show a value, or a dash for one that is not known."""
    return f"{part[key]}{unit}" if key in part else "-"


def story(one: Policy, now: datetime) -> Iterator[str]:
    """Tell all that is known of one policy, line by line."""
    meta, spec, said = one["metadata"], one["spec"], one.get("status") or {}
    yield f"{full_name(one)}: channel {spec['channel']}, law {spec['law']}, in force: {verdict(said)}"
    for condition in said.get("conditions") or ():
        yield f"  {condition['type']}: {condition['status']} ({condition['reason']}): {condition['message']}"
    if said.get("observedGeneration") != meta.get("generation"):
        yield f"  the newest change (generation {meta.get('generation')}) has not been seen by any daemon yet"
    if said.get("nodes"):
        source = f" ({said['thresholdSource']})" if "thresholdSource" in said else ""
        owed = f"threshold {known(said, 'threshold', ' tps')}{source}"
        suffered = f"interference {known(said, 'interference', ' %')}"
        yield f"  throughput {known(said, 'throughput', ' tps')}, {owed}, {suffered}"
    for node in said.get("nodes") or ():
        seen = age(node.get("observedAt"), now)
        rate = f"sees {node['throughput']} tps" if "throughput" in node else "reports no rate"
        when = "-" if seen is None else f"{seen:.0f} s ago"
        yield f"  node {node['name']}: {rate}, said {when}, {known(node, 'actuator')}"
    for line in lacks(one):
        yield f"  {line}"
    for part in said.get("components") or ():
        yield f"  {part['name']} ({known(part, 'role')}, {known(part, 'qosClass')}) on {known(part, 'node')}"
        shares, original = known(part, "shares"), known(part, "original")
        where = f"moved at: {known(part, 'level')}, by {known(part, 'actuator')}"
        yield f"    shares {shares}, found with {original}, {where}"
        if part.get("levelReason"):
            yield f"    {part['levelReason']}"
        yield f"    {part.get('problem') or known(part, 'reason')}"
    last = said.get("lastDecision")
    if last:
        yield f"  last change: {last.get('time')} {last.get('component')} on {last.get('node')}: {last.get('message')}"


def main() -> None:
    """Run as kubectl's plugin."""
    command(prog_name="kubectl qioi")

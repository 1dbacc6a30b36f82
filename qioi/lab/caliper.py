"""Run Hyperledger Caliper with its stock Fabric connector, against the lab or a Fabric of the user's own.

A run's folder holds network.yaml and benchmark.yaml as Caliper got them, caliper.log, report.html (Caliper's)
and result.json (ours).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from qioi.kernel.child import Child, mortal
from qioi.lab.caliper_files import (
    Document,
    Overrides,
    benchmark,
    bundled_network,
    find_benchmark,
    find_configs,
    msp_ids,
    observer,
    user_network,
)
from qioi.lab.caliper_result import Round, parse, progress
from qioi.lab.lab import Lab
from qioi.lab.npm import end_session, find_node, install
from qioi.processes.after_death import AfterDeath, kill_group
from qioi.processes.cgroups import Group
from qioi.processes.errors import LabError
from qioi.processes.launch import last_lines, launch

Say = Callable[[str], None]

#: Milliseconds between two progress lines; Caliper also waits that long at the end of a round.
PROGRESS_INTERVAL = 2000
#: Packages whose versions go into result.json.
VERSIONS = ("@hyperledger/caliper-cli", "@hyperledger/caliper-fabric", "@hyperledger/fabric-gateway", "@grpc/grpc-js")


@dataclass(frozen=True, slots=True)
class Target:
    """What is driven: a network file's content and, for a lab, the control group of its client."""

    network: Document
    source: Path
    group: Group | None


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run."""

    directory: Path
    rounds: tuple[Round, ...]

    @property
    def problems(self) -> list[str]:
        """One line for every round without figures."""
        return [f"round {entry.label}: {entry.problem}" for entry in self.rounds if entry.problem]


def lab_target(lab: Lab, configs: Path) -> Target:
    """Drive a lab that is up."""
    description = lab.running_network().path
    template = configs / "networks" / "bundled.yaml"
    return Target(bundled_network(template, description), description, lab.client_group())


def file_target(path: Path, configs: Path) -> Target:
    """Drive what a file describes: a network.json of ``qioi-ledger init``, or a Caliper network file."""
    if path.suffix == ".json":
        return Target(bundled_network(configs / "networks" / "bundled.yaml", path), path, None)
    return Target(user_network(path, configs), path, None)


def run(name: str, target: Target, overrides: Overrides, output: Path, *, say: Say) -> Run:
    """Install Caliper if need be, run the benchmark and write the results."""
    configs = find_configs()
    node, _ = find_node()
    source = find_benchmark(name, configs)
    document = benchmark(source, configs, target.network, overrides)
    output = make_empty_folder(output)
    observers = (document.get("monitors") or {}).get("transaction") or []
    ours = {"module": str(observer(configs)), "options": {"directory": str(output)}}
    document["monitors"] = {**(document.get("monitors") or {}), "transaction": [*observers, ours]}
    for file, content in (("network.yaml", target.network), ("benchmark.yaml", document)):
        (output / file).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    modules = install(configs, say=say)

    log = output / "caliper.log"
    started = time.time()
    status = launch_manager(node, modules, configs, output, target.group, log, say)
    latency_files = sorted(output.glob("latency-*.jsonl"))
    rounds = parse(
        log.read_text(errors="replace", encoding="utf-8"),
        [str(entry["label"]) for entry in document["test"]["rounds"]],
        latency_files,
    )
    for latency_file in latency_files:
        latency_file.unlink()
    result = {
        "benchmark": name,
        "started": datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
        "network": str(target.source.resolve()),
        "organizations": msp_ids(target.network),
        "versions": installed_versions(modules),
        "exit_status": status,
        "rounds": [entry.as_json() for entry in rounds],
    }
    (output / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if status != 0:
        raise LabError(f"caliper ended with exit status {status}; the end of {log}:\n{last_lines(log, 8)}")
    return Run(output, tuple(rounds))


def make_empty_folder(output: Path) -> Path:
    """Make the run's folder; one that holds an earlier run is not mixed with a new one."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        if any(output.iterdir()):
            raise LabError(f"{output} is not empty; name a new folder with --output")
    except OSError as error:
        raise LabError(f"{output}: {error.strerror}") from error
    return output.resolve()


def launch_manager(
    node: str, modules: Path, configs: Path, output: Path, group: Group | None, log: Path, say: Say
) -> int:
    """Run ``caliper launch manager`` to its end and give its exit status. It and its workers end with this process."""
    argv = [
        node,
        str(modules / "@hyperledger" / "caliper-cli" / "caliper.js"),
        *("launch", "manager", "--caliper-flow-only-test"),
        *("--caliper-workspace", str(configs)),
        *("--caliper-networkconfig", str(output / "network.yaml")),
        *("--caliper-benchconfig", str(output / "benchmark.yaml")),
        *("--caliper-report-path", str(output / "report.html")),
        *("--caliper-progress-reporting-interval", str(PROGRESS_INTERVAL)),
        "--caliper-logging-formats-colorize=false",
    ]
    # The workloads stand in the source tree, what they import in the cache.
    environment = {"NODE_PATH": str(modules)}
    # Caliper's workers are processes of their own, and its manager does not end them when interrupted or killed.
    process = start_manager(argv, output, group, log, environment)
    with contextlib.ExitStack() as afterwards:
        try:
            afterwards.callback(AfterDeath(kill_group(process.pid)).dismiss)
            with log.open(errors="replace", encoding="utf-8") as lines:
                while process.poll() is None:
                    report(lines.readlines(), say)
                    time.sleep(0.2)
                report(lines.readlines(), say)
            return process.returncode
        finally:
            end_session(process)


def start_manager(
    argv: list[str], output: Path, group: Group | None, log: Path, environment: dict[str, str]
) -> Child[bytes]:
    """Start the manager in a session of its own, in the lab's group if there is one; it dies with this process."""
    if group is not None:
        return launch(argv, group, log=log, cwd=output, environment=environment, die_with_parent=True)
    with log.open("wb") as file:
        return Child(
            mortal(argv),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=output,
            env={**os.environ, **environment},
            start_new_session=True,
        )


def report(lines: list[str], say: Say) -> None:
    """Report the new log lines that matter to a user."""
    for line in lines:
        text = progress(line)
        if text is not None:
            say(text)


def installed_versions(modules: Path) -> dict[str, str]:
    """Name the versions that were really run."""
    return {
        name: json.loads((modules / name / "package.json").read_text(encoding="utf-8"))["version"] for name in VERSIONS
    }

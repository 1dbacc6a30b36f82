"""``qioi experiment``: list, run and report the papers' experiments."""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from qioi.commands.experiment_pages import RESULTS, excerpt_of, index_of, page_of, report_after, report_of
from qioi.commands.experiment_steps import Steps, noted, progress
from qioi.commands.lab_errors import one_line_errors
from qioi.commands.numbers import Finite
from qioi.commands.options import plain_console, table_option
from qioi.experiment import catalogue
from qioi.experiment.errors import SpecError
from qioi.experiment.form import checked
from qioi.experiment.host import describe, with_fabric
from qioi.experiment.places import media, own_folder, usual_folder
from qioi.experiment.plan import Plan, make_plan, make_smoke, of_size, only, with_binaries
from qioi.experiment.scale import RULE
from qioi.experiment.session import Session, check_host
from qioi.experiment.spec import ExperimentSpec, Timing
from qioi.experiment.standard import at_standard
from qioi.experiment.store import Store, lock_name
from qioi.experiment.system import BENCHED
from qioi.lab.folder import require_empty
from qioi.lab.lock import exclusive
from qioi.lab.machine import machine
from qioi.lab.options import RUNTIMES, Runtime
from qioi.lab.report import needs_plots
from qioi.lab.signals import interrupted
from qioi.lab.systems import LEDGERS
from qioi.processes.errors import LabError

#: The seed of all random choices, unless another one is asked for.
SEED = 1
#: The first port of the ledgers, unless another one is asked for.
BASE_PORT = 17_000
#: Exit status of a run whose machine was too busy: some experiment has fewer quiet repeats than were asked for.
TOO_NOISY = 3


@click.group()
def command() -> None:
    """Repeat the papers' experiments, and our own, on this machine."""


@command.command("list")
@table_option
@click.option("--standard", is_flag=True, help="At the standard length.")
@click.option("--paper-size", is_flag=True, help="As many neighbours and nodes as the paper has.")
def list_(output: str, standard: bool, paper_size: bool) -> None:
    """List the experiments, and how long each takes."""
    with one_line_errors():
        asked = Asked(standard=standard, paper_size=paper_size)
        plans = [plan_of(spec, asked) for spec in catalogue.find_all([catalogue.ALL])]
    if output == "json":
        click.echo(json.dumps([as_json(plan) for plan in plans], indent=2))
        return
    console = plain_console()
    for work, its in itertools.groupby(plans, lambda plan: plan.spec.paper.partition(",")[0]):
        console.print(work, style="bold")
        table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
        table.add_column(min_width=max(len(plan.spec.name) for plan in plans) + 2)
        table.add_column(justify="right", no_wrap=True, min_width=6)
        table.add_column(overflow="fold")
        for plan in its:
            table.add_row(f"  {plan.spec.name}", f"{as_json(plan)['minutes']} min", plan.spec.title)
        console.print(table)
    hours = sum(map(seconds_of, plans)) / 3600
    console.print(f"all: about {hours:.1f} hours. {RULE}; `--paper-size` keeps the paper's numbers")


def as_json(plan: Plan) -> dict[str, object]:
    """Format one experiment for programs."""
    return {
        "name": plan.spec.name,
        "paper": plan.spec.paper,
        "title": plan.spec.title,
        "cells": len(plan.cells),
        "repeats": plan.repeats,
        "minutes": round(seconds_of(plan) / 60),
    }


@dataclass(frozen=True, slots=True)
class Asked:
    """What `run` was asked for, for every experiment alike; `list` lays them out as a `run` without options would."""

    output: Path = RESULTS
    resume: bool = False
    loads: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    only_networks: tuple[str, ...] = ()
    standard: bool = False
    paper_size: bool = False
    repeats: int | None = None
    duration: float | None = None
    warmup: float | None = None
    seed: int = SEED
    smoke: bool = False
    base_port: int = BASE_PORT
    networks: Mapping[str, str] = field(default_factory=dict)
    binaries: str | None = None
    folder: Path | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def directory_of(self, spec: ExperimentSpec) -> Path:
        """Say where the ledgers of an experiment stand. SpecError: they cannot go on where they stood."""
        store = Store(self.output / spec.name)
        begun = store.document if self.resume and store.begun else None
        return self.folder or usual_folder(spec, {} if begun is None or begun.folder else begun.media)

    def command(self, spec: ExperimentSpec) -> str:
        """Give the command that measures the same again; folders of binaries and of ledgers are the reader's own."""
        words = ["qioi", "experiment", "run", shlex.quote(self.files.get(spec.name, spec.name))]
        flags = {"standard": self.standard, "smoke": self.smoke, "paper-size": self.paper_size}
        words += [f"--{flag}" for flag, is_set in flags.items() if is_set]
        several = {"load": self.loads, "arm": self.arms, "network": self.only_networks}
        words += [word for option, names in several.items() for name in names for word in (f"--{option}", name)]
        seed = self.seed if self.seed != SEED else None
        numbers = {"repeats": self.repeats, "warmup": self.warmup, "duration": self.duration, "seed": seed}
        words += [f"--{key} {in_digits(value)}" for key, value in numbers.items() if value is not None]
        words += [f"--{key} {value}" for key, value in self.networks.items()]
        folders = {"binaries": self.binaries, "dir": self.folder}
        words += [f"--{option} DIR" for option, its in folders.items() if its]
        return " ".join(words)


def in_digits(number: float) -> str:
    """Spell a number as an option takes it: a whole one, such as a seed, without an exponent."""
    return str(number) if isinstance(number, int) else f"{number:.15g}"


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), help=f"The run's folder [default: {RESULTS}/<time>]."
)
@click.option("--resume", type=click.Path(file_okay=False, exists=True, path_type=Path), help="Go on with that run.")
@click.option("--load", "loads", multiple=True, metavar="LOAD", help="Of the file's loads only this one; repeatable.")
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="ARM",
    help="Of the file's arms only this one, those that it is compared with, and the first; repeatable.",
)
@click.option(
    "--network",
    "only_networks",
    multiple=True,
    metavar="NETWORK",
    help="Of the file's networks only this one, and the first where loads are a part of its maximum; repeatable.",
)
@click.option("--standard", is_flag=True, help="The standard length: shorter windows, fewer points; all in 5 hours.")
@click.option("--paper-size", is_flag=True, help="As many neighbours and nodes as the paper has.")
@click.option(
    "--repeats",
    type=click.IntRange(catalogue.LEAST_REPEATS, 100),
    help="How often all cells are measured, in place of the file's.",
)
@click.option("--duration", type=Finite(min=2), help="Measured seconds of each cell, in place of the file's.")
@click.option("--warmup", type=Finite(min=0.5), help="Seconds of load before them, in place of the file's.")
@click.option("--seed", type=click.IntRange(0), default=SEED, show_default=True, help="Seed of all random choices.")
@click.option("--smoke", is_flag=True, help="Two seconds of each, once: to see that it works, not to measure.")
@click.option(
    "--base-port",
    type=click.IntRange(1024, 65_000),
    default=BASE_PORT,
    show_default=True,
    help="First of the loopback ports that the nodes listen on.",
)
@click.option(
    "--runtime", type=click.Choice(RUNTIMES), help="How the nodes of every ledger run, in place of the file's."
)
@click.option("--system", type=click.Choice(LEDGERS), help="Which ledger runs, in place of the file's.")
@click.option(
    "--binaries",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of Fabric's release archive, unpacked, for networks of real Fabric; without it they are left out.",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the ledgers stand meanwhile, an empty or new folder [default: in memory if there is room, or a disk].",
)
def run(
    names: tuple[str, ...],
    output: Path | None,
    resume: Path | None,
    runtime: Runtime | None,
    system: str | None,
    binaries: Path | None,
    **options: Any,
) -> None:
    """Run experiments (by name, `all`, or a file of yours) and write report.html.

    They run in the order in which they are named; `all` stands for those that are not named before it.
    Everything is checked before anything starts. ctrl-C leaves the host clean and keeps finished repeats;
    --resume with the same options goes on after the last one.
    """
    fixed = {"standard": False, "repeats": None, "duration": None, "warmup": None, "seed": SEED}
    if options["smoke"] and (asked_for := [name for name, usual in fixed.items() if options[name] != usual]):
        raise click.UsageError(f"--{asked_for[0]} and --smoke exclude each other")
    if output is not None and resume is not None:
        raise click.UsageError("--output and --resume exclude each other")
    directory = (resume or output or RESULTS / time.strftime("%Y%m%d-%H%M%S")).resolve()
    networks = {"runtime": runtime, "system": system}
    asked = Asked(
        output=directory,
        resume=resume is not None,
        networks={key: value for key, value in networks.items() if value is not None},
        binaries=str(binaries.resolve()) if binaries else None,
        **options,
    )
    console = plain_console()
    with one_line_errors():
        needs_plots()
        plans = [plan_of(spec, asked) for spec in catalogue.find_all(names)]
        if binaries and not any(cell.network.system == "fabric" for plan in plans for cell in plan.cells):
            raise click.UsageError("--binaries is of real Fabric, and no network that would be measured is")
        asked = replace(asked, files=catalogue.files(names))
        with alone_on(directory):
            measure(plans, asked, console)
            if few := too_noisy(plans, asked.output):
                few += f"; without its folder in {asked.output} each is measured anew"
                console.print(f"not to be trusted, as the machine was too busy: {few}", style="red", soft_wrap=True)
                sys.exit(TOO_NOISY)


def alone_on(directory: Path) -> contextlib.AbstractContextManager[None]:
    """Hold the lock of a run's folder; LabError while another command does."""
    busy = f"another command is at work on this run, {directory}; wait for it to end"
    return exclusive(lock_name(directory), busy)


def too_noisy(plans: Iterable[Plan], output: Path) -> str:
    """Name the experiments with fewer quiet repeats than were asked for; empty if there are none."""
    found = [(plan, sum(repeat.quiet for repeat in Store(output / plan.spec.name).repeats())) for plan in plans]
    few = ((plan, quiet) for plan, quiet in found if quiet < plan.repeats)
    return ", ".join(f"{plan.spec.name} ({quiet} quiet repeats of {plan.repeats})" for plan, quiet in few)


def measure(plans: list[Plan], asked: Asked, console: Console) -> None:
    """Check everything, run, and write the page, also of a run that failed."""
    check_folders(plans, asked)
    check_host(plans, lambda text: console.print(text, soft_wrap=True))
    try:
        run_all(plans, asked, console)
    except BaseException as error:
        report_after(error, asked.output, console)
        raise
    report_of(asked.output, console)


def plan_of(spec: ExperimentSpec, asked: Asked) -> Plan:
    """Lay one experiment out."""
    cores = machine().cores
    spec, own = at_standard(spec) if asked.standard else (spec, spec.timing)
    if not asked.only_networks:
        spec = of_size(spec, paper_size=asked.paper_size)
    spec = only(spec, asked.loads, asked.arms, asked.only_networks)
    if asked.networks:
        spec = catalogue.with_networks(spec, asked.networks)
    if asked.binaries or not asked.only_networks:
        spec = with_binaries(spec, asked.binaries)
    if asked.smoke:
        return make_smoke(spec, cores, paper_size=asked.paper_size)
    times = {"duration": asked.duration or own.duration, "warmup": asked.warmup or own.warmup}
    times["profile"] = min(own.profile, times["duration"])
    timing = checked(Timing, {**own.model_dump(), **times}, spec.name, "timing")
    if problems := [f"{spec.name}: timing.{one}" for one in catalogue.check_window(spec.loads, timing.duration)]:
        raise SpecError(problems)
    return make_plan(spec, cores, paper_size=asked.paper_size, repeats=asked.repeats, timing=timing, seed=asked.seed)


def check_folders(plans: list[Plan], asked: Asked) -> None:
    """Raise if there is no run to go on with, or what is there is not to be mixed with what is asked for."""
    labs = any(cell.network.system not in BENCHED for plan in plans for cell in plan.cells)
    if asked.folder is not None and labs:
        require_empty(asked.folder)
    stores = [Store(asked.output / plan.spec.name) for plan in plans]
    begun = [store for store in stores if store.begun]
    if asked.resume and not begun:
        named = ", ".join(plan.spec.name for plan in plans)
        raise LabError(f"{asked.output} holds no run of {named}: without --resume one is begun")
    problems: list[str] = []
    host = describe(asked.seed) if asked.resume else None
    for plan, store in zip(plans, stores, strict=True):
        try:
            directory, networks = asked.directory_of(plan.spec), plan.spec.networks
            now = None if host is None else with_fabric(host, networks)
            where = media(networks, directory)
            store.check(plan, where, own_folder(directory), resume=asked.resume and store in begun, host=now)
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(problems)


def run_all(plans: list[Plan], asked: Asked, console: Console) -> None:
    """Run one after the other behind a progress bar; one that cannot be run is said, and the others go on."""
    failed: list[str] = []
    with progress(console) as bar:
        steps = Steps(bar, console, sum(seconds_of(plan) for plan in plans))
        for plan in plans:
            store = Store(asked.output / plan.spec.name)
            resume = asked.resume and store.begun
            steps.name = plan.spec.name
            directory = None
            try:
                directory = asked.directory_of(plan.spec)  # memory that was free at the start may be taken now
                with noted(store, asked.command(plan.spec)):
                    Session(plan, store, directory, asked.base_port, steps.show).run(resume=resume)
            except (LabError, OSError, subprocess.SubprocessError) as error:
                failed.append(failure_line(error, plan.spec.name, asked.output, directory))
                if len(plans) > 1:
                    console.print(failed[-1], style="red")
                if interrupted(error):
                    break
            steps.before += seconds_of(plan)
    if failed:
        raise LabError("\n".join(failed))


def failure_line(error: Exception, name: str, output: Path, directory: Path | None) -> str:
    """Say what went wrong; of a full disk Linux does not say which. The lines of a refusal are complete."""
    if isinstance(error, OSError) and error.filename is None:
        return f"{name}: {error} (results go to {output}, ledgers to {directory})"
    if isinstance(error, OSError):
        return f"{name}: {error.filename}: {error.strerror}"
    return str(error) if isinstance(error, SpecError) else f"{name}: {error}"


def seconds_of(plan: Plan) -> float:
    """About how long an experiment takes, all in all."""
    return plan.probe_seconds + plan.repeats * plan.repeat_seconds


@command.command()
@click.argument("directories", nargs=-1, type=click.Path(file_okay=False, exists=True, path_type=Path))
@click.option(
    "--excerpt",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one run's values, pictures and page to this folder, without logs and samples, to be committed.",
)
def report(directories: tuple[Path, ...], excerpt: Path | None) -> None:
    """Draw the reports of runs anew (default: of every run in results/experiments), and the index over them."""
    console = plain_console()
    if excerpt is not None and len(directories) != 1:
        raise click.UsageError("--excerpt needs one run's folder")
    with one_line_errors():
        needs_plots()
        if excerpt is not None:
            excerpt_of(directories[0].resolve(), excerpt.resolve(), console)
            return
        folders = directories or tuple(path.parent.parent for path in sorted(RESULTS.glob("*/*/run.json")))
        if not folders:
            raise LabError(f"there is no run in {RESULTS}: `qioi experiment run NAME` makes one")
        found = dict.fromkeys(folder.resolve() for folder in folders)
        problems: list[str] = []
        for folder in found:
            try:
                draw_anew(folder, console, named=bool(directories))
            except LabError as error:
                problems.append(str(error))
        parents = {folder.parent for folder in found}
        for parent in parents:
            if parent == RESULTS.resolve() or (len(found) > 1 and len(parents) == 1):
                try:
                    index_of(parent, console)
                except LabError as error:
                    problems.append(str(error))
        if problems:
            raise LabError("\n".join(problems))


def draw_anew(folder: Path, console: Console, *, named: bool = True) -> None:
    """Write the page of one run. LabError: a run that was named has nothing to show, or a command is at work on it."""
    if not list(folder.glob("*/run.json")):
        raise LabError(f"{folder} holds no run: a folder that `qioi experiment run` wrote is accepted")
    with alone_on(folder):
        if not page_of(folder, console):
            if named:
                raise LabError(f"{folder} has no finished repeat: there is nothing to draw")
            console.print(f"{folder}: no finished repeat: passed over", soft_wrap=True)

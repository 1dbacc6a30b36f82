"""``qioi check``: what a configuration means, and what this host offers. Touches nothing."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import psutil

from qioi.commands.failing import fail
from qioi.commands.options import DEFAULT_CONFIG, absence, text_option
from qioi.controller.guard.journal import Journal
from qioi.controller.levers.choose import choose_access
from qioi.controller.levers.eevdf import SliceError
from qioi.controller.levers.idle import FILE
from qioi.controller.slicing import find_slices
from qioi.daemon.discoveries import UnwatchableError, libraries, look
from qioi.daemon.lock import LockError, daemon_on, is_held
from qioi.discovery.available import available
from qioi.discovery.cgroups import sees_the_host
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy, find_hierarchy
from qioi.model import CEILING
from qioi.model.names import few, printable
from qioi.monitor.scheduler.stalls import PRESSURE
from qioi.settings.config import Config, discovers, survey
from qioi.settings.kubernetes import KubernetesConfig
from qioi.show.http import BusyError, serve_tcp

#: Seconds in which engines and systemd are asked for components, all together.
PATIENCE = 5.0
#: The most bytes of a Unix socket's path (unix(7): 108 with the zero byte at its end).
LONGEST_SOCKET = 107
#: The rights to make a file in a folder.
WRITE = os.W_OK | os.X_OK
#: What stands for components that are found while running.
OPEN = "whatever is found"
#: Components named in one line.
NAMED = 20


@click.command()
@click.option("-c", "--config", "path", type=click.Path(path_type=Path),
              help="The configuration file.  [default: /etc/qioi/qioi.yaml, if there is one]")  # fmt: skip
@text_option
def command(path: Path | None, output: str) -> None:
    """Check a configuration and what this host offers; name every problem at once.

    Exit status 1 if `qioi run` would not start with that configuration. Without any, this host alone is looked at.
    """
    none = None if path else absence(DEFAULT_CONFIG)
    config, problems = survey(path or DEFAULT_CONFIG) if none is None else (None, [])
    facts = findings(config, problems)
    if output == "json":
        click.echo(json.dumps({"facts": facts, "problems": problems}, indent=2))
    else:
        tell(facts, none, problems)
    if problems:
        fail(*map(printable, problems))


def findings(config: Config | None, problems: list[str]) -> dict[str, Any]:
    """Say what this host offers, and what a configuration means on it. What is in its way is added to ``problems``."""
    try:
        hierarchy = find_hierarchy()
    except CgroupError as error:
        problems.append(str(error))
        return {"cpu controller": "none"}
    facts = host_facts(hierarchy) | {f"discovery {name}": text for name, text in available().items()}
    return facts | meaning(config, hierarchy, problems) if config is not None else facts


def tell(facts: dict[str, Any], none: str | None, problems: list[str]) -> None:
    """Print a line for each fact, fit for a terminal, and why there is no configuration.

    Problems go to standard error, at the end.
    """
    for key, value in facts.items():
        click.echo(printable(f"{key}: {value}"))
    if none is not None:
        click.echo(printable(f"configuration: none: {none}, and -c names no other"))
    elif not problems:
        click.echo("problems: none")


def meaning(config: Config, hierarchy: Hierarchy, problems: list[str]) -> dict[str, Any]:
    """Say what a configuration means on this host. What is in its way is added to ``problems``."""
    from qioi.daemon.site import judge

    facts = {} if problems else config_facts(config)
    try:
        actuator = "auto" if config.actuator == "docker" else config.actuator
        lines, lacks = judge(config, hierarchy, choose_access(actuator, hierarchy))
        problems += lines
        if away := few((one.component for one in lacks), NAMED):
            facts["not there yet"] = f"{away}; what comes is taken up"
    except CgroupError as error:
        problems.append(f"{config.file}: {error}")
    facts |= journal_facts(config.state_dir, problems)
    problems += obstacles(config)
    problems += another_daemon(config, hierarchy)
    problems += libraries(config)
    if config.kubernetes is not None:
        facts |= cluster_facts(config.kubernetes, hierarchy, problems)
    elif config.discovers and not problems:
        facts |= found_facts(config, hierarchy, problems)
    return facts


def host_facts(hierarchy: Hierarchy) -> dict[str, Any]:
    """Say what this host offers."""
    try:
        libcgroup = f"usable ({choose_access('libcgroup', hierarchy).name})"
    except CgroupError as error:
        libcgroup = str(error)
    waits = os.access("/proc/self/schedstat", os.R_OK)
    return {
        "kernel": os.uname().release,
        "cpus": psutil.cpu_count(),
        "processes": processes(),
        "cpu controller": f"cgroup v{hierarchy.version} at {hierarchy.mount} ({hierarchy.file})",
        "libcgroup": libcgroup,
        "schedstat": "readable" if waits else "missing (CONFIG_SCHEDSTATS, or delayacct)",
        "I/O pressure": "readable" if os.access(PRESSURE, os.R_OK) else f"missing ({PRESSURE})",
        "slices": slices(),
        "cpu.idle": idle(hierarchy),
        "root": os.geteuid() == 0,
    }


def processes() -> str:
    """Say whose processes are seen: components' threads are those of the host."""
    if sees_the_host():
        return "those of the host"
    return "those of this PID namespace only: components outside of it need `--pid host` (hostPID)"


def slices() -> str:
    """Say whether the kernel has EEVDF slices."""
    try:
        return f"there, by default {find_slices(early=False)[1] / 1e6:g} ms"
    except SliceError as error:
        return f"none: {error}"


def idle(hierarchy: Hierarchy) -> str:
    """Say whether groups can be made idle. The root group cannot, so that others are looked at."""
    groups = [one.parent for one in hierarchy.mount.glob(f"*/{hierarchy.file}")]
    if not groups:
        return "not known: no control group is there to look at"
    return "there" if any((one / FILE).exists() for one in groups) else f"no group has a {FILE} (Linux 5.15)"


def obstacles(config: Config) -> Iterator[str]:
    """Name what would keep the daemon from starting: slices, the state folder, the socket, the metrics port."""
    if config.slices == "required" and not config.dry_run:
        try:
            find_slices(early=config.slices_before_6_15)
        except SliceError as error:
            yield f"{config.file}: slices: required: {error}"
    if (there := in_the_way(config.state_dir)) is not None:
        yield f"{config.file}: state_dir {config.state_dir}: {there}: accepted is a folder that can be made and written"
    yield from of_socket(config)
    listen, port = config.metrics.listen, config.metrics.port
    if port and not runs(config):
        try:
            serve_tcp(listen, port, {}).close()
        except BusyError as error:
            yield f"{config.file}: {error}"


def another_daemon(config: Config, hierarchy: Hierarchy) -> Iterator[str]:
    """Name the daemon with another state folder that keeps this one out."""
    if config.dry_run or is_held(config.state_dir):  # which changes nothing, or is this configuration's own
        return
    try:
        if there := daemon_on(hierarchy.mount):
            yield f"{there}, with another state_dir: stop it first; restart it if it is the one that reads this file"
    except LockError as error:
        yield str(error)


def of_socket(config: Config) -> Iterator[str]:
    """Say why the status socket could not be made. Its folder is not made with it, but the state folder is."""
    path, folder = config.socket, config.socket.parent
    made = folder in config.state_dir.parents and nearest(folder) != folder and in_the_way(config.state_dir) is None
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        yield f"{config.file}: socket {path}: accepted is a path of at most {LONGEST_SOCKET} bytes"
    elif folder != config.state_dir and not made and not (os.access(folder, needed()) and folder.is_dir()):
        yield f"{config.file}: socket {path}: accepted is a path in a folder that is there and can be written"
    elif is_something_else(path):
        yield f"{config.file}: socket {path}: no socket: accepted is a path at which there is nothing else"
    elif answers(path) and not is_held(config.state_dir):
        yield f"{config.file}: socket {path}: another process answers there: accepted is a path of the daemon's own"


def in_the_way(folder: Path) -> Path | None:
    """Name what keeps a folder from being made and written, if anything does."""
    there = nearest(folder)
    return None if there.is_dir() and os.access(there, needed()) else there


def nearest(folder: Path) -> Path:
    """Give a folder, or the first above it that is there."""
    # Not Path.exists(), which raises without the right to look.
    return next(one for one in (folder, *folder.absolute().parents) if os.access(one, os.F_OK))


def needed() -> int:
    """Give what the daemon needs of a folder: somebody else than root cannot tell more of it than that it is there."""
    return WRITE if os.geteuid() == 0 else os.F_OK


def is_something_else(path: Path) -> bool:
    """Whether something other than a socket is at a path; false where this user may not look."""
    try:
        return not stat.S_ISSOCK(path.stat().st_mode)
    except FileNotFoundError:
        return path.is_symlink()
    except OSError:
        return False


def runs(config: Config) -> bool:
    """Whether this configuration's daemon runs already, so that the port is its own; true where that cannot be told."""
    said = answers(config.socket)
    return said is None or (said and is_held(config.state_dir))


def answers(path: Path) -> bool | None:
    """Whether somebody answers at a socket; ``None`` where this user may not ask."""
    try:
        path.stat()
    except PermissionError:
        return None  # it may be there: this user may not look
    except OSError:
        return False
    if not os.access(path, os.W_OK):
        return None  # it is root's
    # Not a question: one that stands still answers none, and its port is its own too.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
        knock.setblocking(False)
        return knock.connect_ex(str(path)) in (0, errno.EAGAIN)  # EAGAIN: others wait in line


def config_facts(config: Config) -> dict[str, Any]:
    """Say what the configuration means."""
    host = f"[{config.metrics.listen}]" if ":" in config.metrics.listen else config.metrics.listen
    closest = nearest(config.state_dir)
    unseen = "" if os.access(closest, WRITE) else f": this user may not write {closest}"
    facts: dict[str, Any] = {
        "configuration": str(config.file),
        "period": f"{config.period:g} s",
        "components": few((f"{one.name} ({one.role.value})" for one in config.components), NAMED) or OPEN,
        "state": f"{config.state_dir}, socket {config.socket}{unseen}",
        "metrics": f"http://{host}:{config.metrics.port}/metrics" if config.metrics.port else "off",
    }
    if config.docker is not None and config.actuator in ("auto", "docker"):
        there = in_the_way(config.record_dir)
        what = "" if there is None else f": {there} cannot be written: Docker will be told of no share"
        facts["records"] = f"{config.record_dir}{what}"
    for name, one in config.policies.items():
        threshold = "learned" if one.auto else "none" if one.threshold is None else f"{one.threshold:g} tps"
        ceiling = f"{CEILING}, or more beside heavy neighbours" if one.follows else one.ceiling or CEILING
        listed = [c.name for c in config.components if c.role in one.roles and (not c.channels or name in c.channels)]
        raised = filter(None, (few(listed, NAMED), OPEN if discovers(config) else ""))
        facts[f"channel {name}"] = (
            f"law {one.law}, threshold {threshold}, shares {one.floor or one.default or 'as found'}..{ceiling}"
            f"{f', k {one.k:g}' if one.kind.takes_k else ''}; may raise {', and '.join(raised) or 'nothing'}"
        )
    return facts


def found_facts(config: Config, hierarchy: Hierarchy, problems: list[str]) -> dict[str, Any]:
    """Say what would be found now. What cannot be found yet is no reason not to start; an engine that has to be is."""
    try:
        found = look(config, hierarchy, PATIENCE)
    except UnwatchableError as error:
        problems.append(str(error))
        return {}
    names = few((f"{one.name} ({one.role.value}) at {one.cgroup}" for one in found.components), NAMED)
    return {"found": names or "nothing yet"} | {f"found, {about}": text for about, text in found.problems.items()}


def cluster_facts(section: KubernetesConfig, hierarchy: Hierarchy, problems: list[str]) -> dict[str, Any]:
    """Say how the API server is reached, and by which means shares would be moved."""
    from qioi.kubernetes.actuators import choose, offers
    from qioi.kubernetes.client import Api, ApiError
    from qioi.kubernetes.service import NoClusterError, reach

    try:
        access, node = reach(section)
        with closing(Api(access)) as api:
            found = offers(section, api, hierarchy, patience=0.0)
    except (NoClusterError, ApiError) as error:
        problems.append(str(error))
        return {}
    facts = {f"actuator {one.means}": one.text for one in found}
    return {"cluster": f"{access.server}, node {node}", **facts, "actuator": choose(found).means.value}


def journal_facts(state_dir: Path, problems: list[str]) -> dict[str, Any]:
    """Read a journal. A damaged one does not keep the daemon from starting, which restores what can be read."""
    journal = Journal(state_dir)
    try:
        damage = journal.load().problems
    except OSError as error:
        if isinstance(error, PermissionError) and os.geteuid() != 0:
            return {"journal": "this user may not read it"}
        problems.append(f"{journal.file}: {error.strerror}")
        return {}
    return {"journal": f"{'; '.join(damage)}: the next start restores what can be read"} if damage else {}

"""Against whom shares are raised: named where an operator looks, and taken out of it at a word."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import yaml
from msgspec.json import decode
from msgspec.structs import replace
from rich.console import Console
from running import Site, end
from toy_daemon import ToySite, peer
from vanishing import vanishes
from waiting import DIES_WITH_TEST, remove_group, until

from qioi.commands.explain import lines
from qioi.commands.status import show
from qioi.kernel.cpu_accounts import find_cpu_accounts
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Foreigner, HostLoad
from qioi.show.explain import explain
from qioi.show.explanation import Explanation
from qioi.show.foreign import busiest, folder_of, processes, why_not_mine
from qioi.show.snapshot import encode
from qioi.show.top import History, view

BATCH = (Foreigner("batch", 1.25), Foreigner("/", 0.5))


@pytest.fixture
def toy(tmp_path: Path) -> ToySite:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    site.group("batch/inner")
    site.snapshot = replace(site.run(1), foreigners=BATCH)
    return site


@pytest.fixture
def pids() -> Iterator[list[int]]:
    """Two sleepers and one that has used CPU time."""
    code = ["import time; time.sleep(1e6)"] * 2 + ["sum(range(10**7)); print(flush=True); import time; time.sleep(1e6)"]
    started = [subprocess.Popen([*DIES_WITH_TEST, sys.executable, "-c", one], stdout=subprocess.PIPE) for one in code]
    assert started[2].stdout is not None
    started[2].stdout.readline()
    until(lambda: all("python" in Path(f"/proc/{one.pid}/comm").read_text() for one in started))
    yield [one.pid for one in started]
    for one in started:
        one.kill()
        one.communicate()


def test_status_top_and_explain_name_them(toy: ToySite, capsys: pytest.CaptureFixture[str]) -> None:
    document = toy.snapshot.document()
    show(document)
    assert "Foreign work: batch 1.25 CPUs, / 0.50 CPUs; `qioi mine GROUP`" in capsys.readouterr().out
    console = Console(width=140, record=True, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    console.print(view(document, History(), 140))
    assert "Foreign work, in CPUs: batch 1.25, / 0.50" in console.export_text()
    explained = explain(toy.snapshot, "peer0", toy.hierarchy)
    assert ("", "foreign: batch uses 1.25 CPUs: none seen") in list(lines(decode(encode(explained), type=Explanation)))


def test_of_a_pinned_component_the_load_of_its_cpus_is_explained(tmp_path: Path) -> None:
    """Its law sees that, and not the host's: the others' CPUs may be idle."""
    site = ToySite(
        tmp_path, [peer("pinned", "docker/p"), peer("free", "docker/f")], channels={"red": {"threshold": 100}}
    )
    site.toy.host = HostLoad(0.75, 0.05, pinned={"pinned": HostLoad(0.01, 0.9)})
    site.toy.waits = {"pinned": (0.1, 0.9), "free": (0.1, 0.1)}
    snapshot = site.run(3)
    said = {}
    for name in ("pinned", "free"):
        inputs = explain(snapshot, name, site.hierarchy).inputs
        assert inputs.pinned == (name == "pinned")
        explained = decode(encode(explain(snapshot, name, site.hierarchy)), type=Explanation)
        said[name] = next(text for _, text in lines(explained) if " idle, " in text)
    assert said["pinned"].startswith("its CPUs 1% idle, 90% foreign, I/O ")
    assert said["free"].startswith("host 75% idle, 5% foreign, I/O ")
    unknown = explain(replace(snapshot, host=None), "pinned", site.hierarchy).inputs
    assert (unknown.pinned, unknown.host_idle, unknown.host_foreign) == (False, None, None)


def test_what_others_of_the_ledger_count_for_is_explained(tmp_path: Path) -> None:
    """Nobody foreign is there, and red's peer is raised against blue's, which has more than it is owed."""
    site = ToySite(
        tmp_path,
        [peer("peer0", "docker/p", "red"), peer("rival", "docker/r", "blue")],
        channels={"red": {"threshold": 100}, "blue": {"threshold": 100}},
    )
    site.toy.host, site.toy.tps = HostLoad(0.0, 0.0), {"red": 50.0, "blue": 150.0}
    site.toy.waits = {"peer0": (0.1, 0.9), "rival": (0.9 * (os.cpu_count() or 1), 0.1)}
    snapshot, said = site.run(3), {}
    for name, foreign in (("peer0", pytest.approx(0.9)), ("rival", None)):
        explained = decode(encode(explain(snapshot, name, site.hierarchy)), type=Explanation)
        assert (explained.inputs.host_foreign, explained.inputs.foreign_with_rivals) == (0.0, foreign)
        said[name] = next(text for _, text in lines(explained) if " idle, " in text)
    assert said["peer0"].startswith("host 0% idle, 0% foreign (its law sees 90%: others of the ledger count), I/O ")
    assert said["rival"].startswith("host 0% idle, 0% foreign, I/O ")


def test_what_a_groups_maker_has_called_it_is_no_order_to_the_terminal(
    toy: ToySite, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any user may make groups below his own, and the kernel takes escape sequences in their names."""
    group = "batch/\x1b[2K\x1b]52;c;ZXZpbA==\x1b\\"
    toy.group(group)
    toy.snapshot = replace(toy.snapshot, foreigners=(Foreigner(group, 1.25),))
    document = toy.snapshot.document()
    show(document)
    shown = capsys.readouterr().out
    console = Console(width=140, record=True, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    console.print(view(document, History(), 140))
    shown += console.export_text(styles=False)
    shown += str(list(lines(decode(encode(explain(toy.snapshot, "peer0", toy.hierarchy)), type=Explanation))))
    assert shown.count("batch/ [2K ]52;c;ZXZpbA== ") == 3
    assert "\x1b" not in shown


def test_programs_are_named_by_the_cpu_time_that_they_used(toy: ToySite, pids: list[int]) -> None:
    folder = toy.hierarchy.mount / "batch"
    (folder / "cgroup.procs").write_text("0\n")  # one of another PID namespace
    (folder / "inner/cgroup.procs").write_text("".join(f"{pid}\n" for pid in (*pids, 2**30)))
    (name,) = busiest(folder)
    assert name.startswith("python")
    assert name.endswith("(3)")
    (folder / "cgroup.procs").write_text(f"{os.getpid()}\n")  # its own come first
    assert not busiest(folder)[0].endswith(")")
    assert busiest(folder / "gone") == []


def test_who_came_just_now_is_named_before_who_has_been_there_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup.procs").write_text("1\n2\n")
    monkeypatch.setattr(psutil, "Process", {1: Lived("kworker", 900, 1e6), 2: Lived("compile", 20, 30)}.__getitem__)
    assert busiest(tmp_path) == ["compile", "kworker"]


class Lived:
    """A process that has used so many seconds of a CPU in so many seconds."""

    def __init__(self, name: str, used: float, age: float) -> None:
        self._name, self._used, self._age = name, used, age

    def name(self) -> str:
        return self._name

    def cpu_times(self) -> Any:
        return SimpleNamespace(user=self._used, system=0.0)

    def create_time(self) -> float:
        return time.time() - self._age


def test_a_group_that_is_removed_during_a_look_does_not_hide_the_others(
    toy: ToySite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("batch/inner/a", "batch/inner/z", "batch/inner/job"), 1):
        toy.group(name)
        (toy.hierarchy.mount / name / "cgroup.procs").write_text(f"{number}\n")
    vanishes(monkeypatch, toy.hierarchy.mount / "batch/inner/job")
    assert {1, 2} <= set(processes(toy.hierarchy.mount / "batch"))


def test_the_root_group_is_the_mount_itself(tmp_path: Path) -> None:
    assert folder_of("/", Hierarchy(2, tmp_path)) == tmp_path


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        ("batch", None),
        ("batch/inner", None),
        ("docker/p", "component peer0 is in it"),
        ("docker", "component peer0 is in it"),
        ("docker/p/inner", "it is part of component peer0"),
        ("/", "what runs in no group of its own cannot be told apart"),
        *((one, "no such control group") for one in ("", "none", "../cgroup", "batch/../batch", "/batch", "a\0b")),
    ],
)
def test_what_an_operator_may_call_his_own(toy: ToySite, group: str, problem: str | None) -> None:
    toy.group("docker/p/inner")
    assert why_not_mine(group, toy.snapshot, toy.hierarchy) == problem


@pytest.mark.slow
def test_a_group_that_is_called_mine_is_a_client_and_stays_one_by_the_printed_line(site: Site) -> None:
    site.component("peer0")
    group = f"{site.parent}/load[1]"
    site.hierarchy.folder(group).mkdir()

    def is_client() -> bool:
        return ("client", group) in [(one["role"], one["cgroup"]) for one in (site.status() or {})["components"]]

    daemon = site.start()
    assert not is_client()
    done = site.qioi("mine", group, "--socket", str(site.socket))
    assert done.returncode == 0, done.stderr
    until(is_client)
    refused = site.qioi("mine", f"{site.parent}/peer0", "-c", str(site.folder / "qioi.yaml"))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "component peer0 is in it" in refused.stderr
    assert end(daemon)[0] == 0
    site.changes = yaml.safe_load(done.stdout.splitlines()[-1])
    assert list(site.changes) == ["mine"]
    daemon = site.start()
    until(is_client)
    assert end(daemon)[0] == 0


@pytest.fixture
def work(site: Site) -> Iterator[Callable[[str, str], None]]:
    """Run Python in a group, also where CPU time is accounted for in another hierarchy."""
    accounts = find_cpu_accounts(site.hierarchy)
    if accounts is None:
        pytest.skip("groups' CPU time is not accounted for")
    apart = accounts / site.parent if accounts != site.hierarchy.mount else None

    def start(name: str, code: str) -> None:
        process = site.work(name, code)
        if apart is not None:
            (apart / name).mkdir(parents=True, exist_ok=True)
            (apart / name / "cgroup.procs").write_text(str(process.pid))

    yield start
    for process in site.processes:
        process.kill()
        process.wait()
    if apart is not None:
        for folder in (*apart.iterdir(), apart):
            if folder.is_dir():
                remove_group(folder)


@pytest.mark.slow
def test_a_neighbour_is_named_until_it_is_called_mine(site: Site, work: Callable[[str, str], None]) -> None:
    site.weigh(8192)
    site.component("peer0")
    work("peer0", "import time\nwhile True: time.sleep(0.01)")
    group, config = f"{site.parent}/hog", site.folder / "qioi.yaml"
    for _ in range(os.cpu_count() or 1):
        work("hog", "while True: pass")

    def named() -> list[str]:
        return [one["group"] for one in (site.status() or {})["foreigners"]]

    daemon = site.start()
    site.commit_until(lambda: group in named())
    # Once named it may be left out for a moment, in which no commit comes or the host has room.
    site.commit_until(lambda: f"foreign: {group} uses" in site.qioi("explain", "peer0", "-c", str(config)).stdout)
    assert site.qioi("mine", group, "-c", str(config)).returncode == 0
    until(lambda: group in [one["cgroup"] for one in (site.status() or {})["components"]])
    site.commit_until(lambda: group not in named())
    site.stays(lambda: group not in named())
    assert end(daemon)[0] == 0

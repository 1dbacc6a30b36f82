"""What it takes to name neighbours: each group beside components is looked at once, however deep these are."""

from __future__ import annotations

from pathlib import Path

import pytest

from qioi.kernel.cpu_accounts import CpuAccounts
from qioi.model import Foreigner
from qioi.model.groups import branches, parent_of
from qioi.monitor.scheduler import foreign_groups
from qioi.monitor.scheduler.foreign_groups import ForeignGroups
from qioi.monitor.scheduler.group_usage import GroupUsage

COMPONENTS = tuple(f"a/b{number}/peer" for number in range(50))


class Used(CpuAccounts):
    """Accounts that the test makes up: CPU seconds by group."""

    def __init__(self) -> None:
        self.by_group: dict[str, float] = {}

    def seconds(self, group: str) -> float | None:
        return self.by_group.get(group)


def test_processes_above_components_are_found_in_one_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for group in (
        *COMPONENTS,
        *(f"a/b{number}/other" for number in range(50)),
        *(f"a/n{number}" for number in range(100)),
    ):
        (tmp_path / group).mkdir(parents=True)
    asked = 0

    def counted(group: str) -> str:
        nonlocal asked
        asked += 1
        return parent_of(group)

    accounts = Used()
    foreign = ForeignGroups(accounts, tmp_path)
    above = branches(COMPONENTS)
    accounts.by_group = {"a": 0.0, "a/b7": 0.0, "a/b7/peer": 0.0, "a/b7/other": 0.0, "a/n3": 0.0}
    foreign.look(100.0, above)
    accounts.by_group = {"a": 3.0, "a/b7": 1.5, "a/b7/peer": 0.25, "a/b7/other": 0.5, "a/n3": 1.0}
    foreign.look(101.0, above)
    monkeypatch.setattr(foreign_groups, "parent_of", counted)
    assert set(foreign.most()) == {
        Foreigner("a/n3", 1.0), Foreigner("a/b7", 0.75), Foreigner("a/b7/other", 0.5), Foreigner("a", 0.5)
    }  # fmt: skip
    assert asked == 150


@pytest.mark.parametrize("before", [None, 1000.0], ids=["new", "made anew"])
@pytest.mark.parametrize("group", ["a/peer", "a/other"])
def test_what_a_group_that_is_new_has_used_is_not_said_of_processes_above_it(
    tmp_path: Path, group: str, before: float | None
) -> None:
    for one in ("a/peer", "a/other"):
        (tmp_path / one).mkdir(parents=True)
    accounts = Used()
    foreign, above = ForeignGroups(accounts, tmp_path), branches(["a/peer"])
    others = {"": 50.0, "a": 10.0, "a/peer": 2.0, "a/other": 2.0}
    found = []
    for number, its in enumerate((before, 0.75, 1.5, 1.5)):
        used = {one: seconds + number for one, seconds in others.items() if one in ("", "a")}
        known = {one: seconds for one, seconds in (others | used | {group: its}).items() if seconds is not None}
        accounts.by_group = known
        foreign.look(100.0 + number, above)
        found.append([one.group for one in foreign.most()])
    its_own = [] if group == "a/peer" else [group]
    assert found == [[], [], [*its_own, "a"], ["a"]]


def test_what_an_idle_group_that_is_made_anew_had_used_is_not_used_once_more_above_it(tmp_path: Path) -> None:
    for group in ("a/peer", "a/batch"):
        (tmp_path / group).mkdir(parents=True)
    (tmp_path / "a/batch/cpu.idle").write_text("1\n")
    accounts, above, used = Used(), branches(["a/peer"]), []
    usage = GroupUsage(accounts, ForeignGroups(accounts, tmp_path, made_idle=tuple))
    for number, batch in enumerate((1000.0, 1000.5, 1001.0, 0.5, 1.0)):
        now = 100.0 + number
        accounts.by_group = {"a": 2000.0 + 0.75 * number, "a/peer": 0.0, "a/batch": batch}
        used.append(usage.read(now, (), {}, above).get("a"))
        usage.foreigners(now)
    assert used == [None, 0.75, 0.75, 0.75, 0.25]  # it is known to be idle from the second look on


@pytest.mark.parametrize("period", [0.2, 1.0, 5.0, 60.0])
def test_two_periods_can_be_compared_however_long_they_are_and_what_was_before_a_pause_cannot(
    tmp_path: Path, period: float
) -> None:
    for group in ("a/peer", "a/other"):
        (tmp_path / group).mkdir(parents=True)
    accounts = Used()
    usage = GroupUsage(accounts, ForeignGroups(accounts, tmp_path))
    above = branches(["a/peer"])

    def named(number: int) -> tuple[Foreigner, ...]:
        now = 100.0 + number * period
        accounts.by_group = {"": now, "a": now, "a/peer": 0.0, "a/other": now}
        usage.read(now, (), {}, above)
        return usage.foreigners(now)

    assert named(0) == ()
    last = max(2, round(1.0 / period) + 1)
    assert [named(number) for number in range(1, last)][-1] == (Foreigner("a/other", pytest.approx(1.0)),)
    pause = round(max(4.0 / period, 3))
    for number in range(last, last + pause):
        usage.read(100.0 + number * period, (), {}, above)
    assert named(last + pause) == ()


def test_a_group_that_comes_later_into_a_slice_that_stays_busy_is_named(tmp_path: Path) -> None:
    """And one that has left it is asked for no more."""
    for group in ("peer", "user.slice/first"):
        (tmp_path / group).mkdir(parents=True)
    accounts = Used()
    foreign = ForeignGroups(accounts, tmp_path)
    above = branches(["peer"])
    named = []
    for second in range(20):
        later = max(0, second - 6)  # seconds of the second group
        if second == 6:
            (tmp_path / "user.slice/first").rmdir()
            (tmp_path / "user.slice/second").mkdir()
        accounts.by_group = {
            "": float(second),
            "user.slice": float(second),
            "user.slice/first": float(min(6, second)),
            "user.slice/second": float(later),
        }
        foreign.look(100.0 + second, above)
        named.append([one.group for one in foreign.most()])
    assert named[3:6] == [["user.slice/first"]] * 3
    assert named[13:] == [["user.slice/second"]] * 7
    assert foreign._below == {"user.slice": ("user.slice/second",), "user.slice/second": ()}

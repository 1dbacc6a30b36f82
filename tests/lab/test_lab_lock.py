"""The lock of a lab: of one user's commands, in a folder that is closed to others."""

from __future__ import annotations

import os
import socket
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from qioi.lab import lock
from qioi.lab.lock import exclusive, lock_folder
from qioi.processes.errors import LabError

NOBODY = 65_534
Become = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def name(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A lock of the test's own, for which nobody waits."""
    monkeypatch.setattr(lock, "PATIENCE", 0.0)
    name = f"qioi-lab-test-{uuid.uuid4().hex[:8]}"
    yield name
    (lock_folder() / name).unlink(missing_ok=True)


@pytest.fixture
def somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Lets a test be another user, who has a home folder."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    modes = {one: stat.S_IMODE(one.stat().st_mode) for one in (tmp_path, *tmp_path.parents)}
    closed = {one: mode for one, mode in modes.items() if not mode & 0o001}
    for one, mode in closed.items():
        one.chmod(mode | 0o011)  # the group stays root's
    (home := tmp_path / "home").mkdir()
    os.chown(home, NOBODY, NOBODY)
    monkeypatch.setattr(lock.pwd, "getpwuid", lambda _user: SimpleNamespace(pw_dir=str(home)))

    @contextmanager
    def become() -> Iterator[None]:
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)

    yield become
    for one, mode in closed.items():
        one.chmod(mode)


def test_one_command_at_a_time_holds_it(name: str) -> None:
    with exclusive(name, "busy"), pytest.raises(LabError, match=r"^busy$"), exclusive(name, "busy"):
        pass
    with exclusive(name, "busy"), exclusive(f"{name}-2", "busy"):
        assert stat.S_IMODE(lock_folder().stat().st_mode) == 0o700
    (lock_folder() / f"{name}-2").unlink()


def test_one_folder_has_a_users_locks_whatever_their_environment(
    somebody_else: Become, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache may be named by one command and not by the next, and a session's folder goes with the session."""
    with somebody_else():
        first = lock_folder()
        for variable in ("QIOI_CACHE", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "HOME"):
            monkeypatch.setenv(variable, "/tmp/elsewhere")
        assert lock_folder() == first
        assert first.is_relative_to(lock.pwd.getpwuid(NOBODY).pw_dir)


def test_a_user_whom_nobody_knows_has_no_lock(somebody_else: Become, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(user: int) -> None:
        raise KeyError(user)

    monkeypatch.setattr(lock.pwd, "getpwuid", unknown)
    with somebody_else(), pytest.raises(LabError, match=f"user {NOBODY} has no home folder"):
        lock_folder()


def test_nobody_else_can_keep_a_user_from_it(name: str, somebody_else: Become) -> None:
    ours = lock_folder()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as taken:
        with somebody_else():
            taken.bind(f"\0{name}")  # which was the lock
        with exclusive(name, "busy"), somebody_else():
            with pytest.raises(PermissionError):
                os.open(ours / name, os.O_RDONLY)
            with exclusive(name, "busy"):  # of a lab of their own
                assert lock_folder() != ours


def test_a_folder_of_locks_that_others_may_write_to_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (open_to_all := tmp_path / "open").mkdir()
    open_to_all.chmod(0o777)
    with monkeypatch.context() as patch:
        patch.setattr(lock, "lock_folder", lambda: open_to_all)
        with pytest.raises(LabError, match="is not this user's own"), exclusive(name, "busy"):
            pass
        patch.setattr(lock, "lock_folder", lambda: Path("/dev/null/locks"))
        with pytest.raises(LabError, match=r"^/dev/null/locks: Not a directory: accepted is"), exclusive(name, "busy"):
            pass

"""The daemon on disks that are full, read-only or damaged: what it has found is restored all the same."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from raised_component import raise_one, value
from refusing import read_only
from running import Site, end
from waiting import until

#: Throughput is known after a window of 6 s, so most of these take that long.
pytestmark = pytest.mark.slow


def test_a_corrupt_journal_is_said_in_one_line_and_kept(site: Site) -> None:
    process, share = raise_one(site)
    end(process, signal.SIGKILL)  # type: ignore[arg-type]
    journal = site.state / "journal"
    journal.write_bytes(journal.read_bytes() + b'0000 {"path":"half')
    done = site.qioi("restore", "--state-dir", str(site.state))
    assert done.returncode == 1
    assert "line 3: half-written or damaged: what can be read is restored" in done.stdout
    assert value(share) == 1024
    assert (site.state / "journal.damaged").exists()
    assert not journal.exists()


@pytest.mark.parametrize("content", [b"", bytes(300), b'0000 {"path":"half'], ids=["empty", "zeros", "torn"])
def test_journals_that_a_power_cut_has_damaged_stop_no_start(site: Site, content: bytes) -> None:
    """As file systems leave a file that was replaced but not yet on the disk."""
    share = site.component("peer0")
    site.state.mkdir()
    names = ("journal", "idle", "slices")
    for name in names:
        (site.state / name).write_bytes(content)
        (site.state / f"{name}.new").write_bytes(content)
    done = site.qioi("check", "-c", str(site.config()))
    assert done.returncode == 0, done.stderr
    assert "the next start restores what can be read" in done.stdout
    process = site.start()
    site.commit_until(lambda: value(share) > 1024)
    code, text = end(process)
    assert code == 0, text
    assert value(share) == 1024
    assert "Traceback" not in text
    assert [name for name in names if not (site.state / f"{name}.damaged").exists()] == []


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[], None]]:
    """The real thing: a file system with no room left, once what this gives was called."""

    def fill() -> None:
        with pytest.raises(OSError, match="No space"):
            (folder / "ballast").write_bytes(b"x" * 100_000)

    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(folder)], check=True)
    try:
        yield fill
    finally:  # a daemon that a failed test has left is still in it
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_under_the_journal_means_no_write(site: Site) -> None:
    share = site.component("peer0")
    with small_disk(site.state) as fill:
        process = site.start()
        fill()
        site.commit_until(lambda: site.status()["totals"]["writes"]["failed"] > 0)  # type: ignore[index]
        assert value(share) == 1024
        assert "nothing is written without it" in site.status()["components"][0]["problem"]  # type: ignore[index]
        (site.state / "ballast").unlink()
        site.commit_until(lambda: value(share) > 1024)
        fill()
        assert end(process)[0] == 0
        assert value(share) == 1024


def test_a_disk_that_is_full_at_the_start_keeps_the_daemon_waiting_only(site: Site) -> None:
    share = site.component("peer0")
    with small_disk(site.state) as fill:
        fill()
        process = site.start()
        assert process.poll() is None, process.communicate()[1]
        site.commit_until(lambda: site.status()["totals"]["writes"]["failed"] > 0)  # type: ignore[index]
        (site.state / "ballast").unlink()
        site.commit_until(lambda: value(share) > 1024)
        assert (end(process)[0], value(share)) == (0, 1024)


def test_a_full_disk_keeps_nothing_from_being_restored_after_a_kill(site: Site) -> None:
    with small_disk(site.state) as fill:
        process, share = raise_one(site)
        process.kill()  # type: ignore[attr-defined]
        process.wait()  # type: ignore[attr-defined]
        (site.state / "lock").write_bytes(b"")  # who fills the disk is faster than who writes the lock anew
        fill()
        done = site.qioi("restore", "--state-dir", str(site.state))
        assert (done.returncode, value(share)) == (0, 1024), done.stderr


def test_a_state_folder_that_is_removed_while_shares_are_raised_is_made_again(site: Site) -> None:
    """With the socket in it, so that status goes on, and the journal, so that a kill leaves nothing raised."""
    process, share = raise_one(site)
    for file in site.state.iterdir():
        file.unlink()
    site.state.rmdir()
    until(lambda: site.status() is not None and (site.state / "journal").exists())
    _, text = end(process, signal.SIGKILL)  # type: ignore[arg-type]
    assert text.count("somebody has removed it") == 2
    assert site.qioi("restore", "--state-dir", str(site.state)).returncode == 0
    assert value(share) == 1024


def test_a_state_folder_that_has_become_read_only_ends_the_daemon_in_words(site: Site) -> None:
    process, share = raise_one(site)
    with read_only(site.state):
        status, text = end(process)  # type: ignore[arg-type]
    assert (status, value(share)) == (1, 1024), text
    assert f"restore {site.state}/journal: failed: the journal cannot be written (Read-only file system)" in text
    assert f"WARNING socket {site.socket}: Read-only file system: the file stays" in text
    assert "Traceback" not in text


def test_a_state_folder_that_has_become_read_only_keeps_nothing_from_being_restored_after_a_kill(site: Site) -> None:
    process, share = raise_one(site)
    with read_only(site.state):
        held = site.qioi("restore", "--state-dir", str(site.state))
        assert (held.returncode, value(share) > 1024) == (1, True), held.stderr
        assert f"is running already (pid {process.pid})" in held.stderr  # type: ignore[attr-defined]
        process.kill()  # type: ignore[attr-defined]
        process.wait()  # type: ignore[attr-defined]
        done = site.qioi("restore", "--state-dir", str(site.state))
    why = f"{site.state}/journal: Read-only file system: it stays as it was, and names what was restored, too"
    assert (done.returncode, value(share)) == (1, 1024), done.stderr
    assert done.stdout.splitlines()[0] == why
    assert "kept" not in done.stdout


def test_shares_that_a_full_disk_cannot_keep_are_restored(site: Site) -> None:
    site.changes = {"on_exit": "keep"}
    with small_disk(site.state) as fill:
        process, share = raise_one(site)
        fill()
        status, text = end(process)  # type: ignore[arg-type]
        assert status == 0, text
        assert "on_exit keep: the journal cannot be written: " in text
        assert value(share) == 1024
        assert not (site.state / "kept").exists()


def test_a_share_that_cannot_be_restored_is_said_and_stays_in_the_journal(site: Site) -> None:
    process, share = raise_one(site)
    raised = value(share)
    subprocess.run(["mount", "--bind", str(share), str(share)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(share)], check=True)
        status, text = end(process)  # type: ignore[arg-type]
        assert (status, value(share)) == (1, raised), text
        assert f"WARNING restore {site.parent}/peer0: failed: " in text
    finally:
        subprocess.run(["umount", str(share)], check=True)
    assert site.qioi("restore", "--state-dir", str(site.state)).returncode == 0
    assert value(share) == 1024

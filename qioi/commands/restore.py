"""``qioi restore``: put back what a daemon that died has left changed."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click

from qioi.commands.failing import fail
from qioi.commands.options import folders_of
from qioi.controller.guard.handover import mark, unmark
from qioi.daemon.lock import HostLock, LockedError, LockError, TreeLock
from qioi.daemon.recover import Recovery, recover, recover_rest, tell
from qioi.discovery.told import ToldFiles
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import find_hierarchy

#: Exit status if all that is left to restore is on the record of an owner that does not answer.
UNANSWERED = 3


@click.command()
@click.option("-c", "--config", type=click.Path(path_type=Path),
              help="Take folders that are not named from this configuration.  "
                   "[default: /etc/qioi/qioi.yaml, unless --state-dir is given]")  # fmt: skip
@click.option("--state-dir", type=click.Path(path_type=Path), help="Where the journal is.")
@click.option("--record-dir", type=click.Path(path_type=Path), help="Where the records of shares told to Docker are.")
@click.option(
    "--unless-kept", is_flag=True, help="Leave shares that a daemon with `on_exit: keep` has kept on purpose."
)
def command(config: Path | None, state_dir: Path | None, record_dir: Path | None, unless_kept: bool) -> None:
    """Put back every share that a dead daemon left changed, also on purpose (`on_exit: keep`).

    What somebody else has changed since is left alone. Docker's own record is put back too, also after a power cut; the
    folder for that is /var/lib/qioi, or a state folder other than /run/qioi, unless it is named.
    Exit status 1 if something could not be read or restored, or a daemon is running; 3 if all that is left to do is on
    the record of an owner (Docker, systemd) that does not answer or refuses: it is named, and put back by the next
    start or `qioi restore`.
    """
    folder, records = folders_of(config, state_dir, record_dir)
    with ExitStack() as locks:
        try:
            if not is_folder(folder) and not ToldFiles(records).any():
                click.echo(f"{folder} does not exist: nothing was changed from there, nothing is to be restored")
                return
            hierarchy = find_hierarchy()
            folder.mkdir(parents=True, exist_ok=True, mode=0o755)  # a reboot has removed it
            locks.callback(HostLock(folder).close)
            # A daemon holds its values also where the file above was removed, or with another state folder.
            locks.callback(TreeLock(hierarchy.mount).close)
        except LockedError as error:
            fail(f"{error}; stop it, and it restores by itself, unless it is a dry run")
        except (CgroupError, LockError) as error:
            fail(str(error))
        except PermissionError as error:
            fail(f"{folder}: {error.strerror}: root, or the daemon's own user, is needed")
        except OSError as error:
            fail(f"{folder}: {error.strerror}: accepted is a folder, or a path at which one can be made")
        kept = unless_kept and mark(folder).exists()
        if kept:
            click.echo(
                f"{folder}: shares were kept on purpose (on_exit: keep); without --unless-kept they are restored"
            )
            recovery = recover_rest(folder, hierarchy)  # an end that was cut short has marked the shares, and no more
        else:
            recovery = recover(folder, records, hierarchy)
            if (problem := unmark(folder)) is not None:
                recovery = replace(recovery, problems=(*recovery.problems, problem))
    finish(recovery)
    if not (kept or recovery.outcomes or recovery.threads):
        click.echo(f"{folder}: nothing is to be restored")


def finish(recovery: Recovery) -> None:
    """Tell what became of each value, and end with the exit status for that unless all is back."""
    tell(recovery, click.echo)
    if not recovery.clean:
        fail("not everything could be restored; see above")
    if recovery.left:
        sys.exit(UNANSWERED)


def is_folder(path: Path) -> bool:
    """Whether a folder is there. OSError: something else is, or this user may not look.

    Python's versions answer that differently.
    """
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))

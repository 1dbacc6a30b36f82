"""Whether the code that figures depend on is still the code that they were measured on.

A digest of what Git tracks is compared, not commits: it outlives a rebase, and needs no history.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

#: Never part of what is measured: tests, and what is there for them alone (Go's packages porttest and peertest).
APART = (
    *(":(exclude,glob)**/*_test.go", ":(exclude,glob)**/*?test/**", ":(exclude,glob)**/testdata/**"),
    ":(exclude,glob)**/*.md",
)


def git(root: Path, *arguments: str, **environment: str) -> str:
    """Ask Git about the repository at ``root``."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment}).stdout


def digest(root: Path, paths: Sequence[str], **environment: str) -> str:
    """Digest the tracked files that these path specifications name: their modes, contents and names.

    Changes count from `git add` on. ValueError says that nothing is named.
    """
    listing = git(root, "ls-files", "--stage", "--", *paths, *APART, **environment)
    if not listing:
        raise ValueError(f"no file is tracked below {', '.join(paths)}")
    return hashlib.sha256(listing.encode()).hexdigest()


def digest_at(root: Path, commit: str, paths: Sequence[str]) -> str:
    """Digest what these path specifications named at a commit; ValueError: it is not in this history."""
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        try:
            git(root, "read-tree", commit, **index)
        except subprocess.CalledProcessError as error:
            raise ValueError(f"{commit}: {error.stderr.strip()}") from None
        return digest(root, paths, **index)


def is_clean(root: Path, paths: Sequence[str]) -> bool:
    """Whether these paths are as the last commit has them."""
    return not git(root, "status", "--porcelain", "--", *paths, *APART).strip()


def commit(root: Path) -> str:
    """Name the last commit."""
    return git(root, "rev-parse", "--short=10", "HEAD").strip()

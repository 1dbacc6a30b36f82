"""Whether the code that figures depend on is still the code that they were measured on.

A digest of what Git tracks is compared, not commits: it outlives a rebase, and needs no history.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

#: Never part of what is measured: tests, and what is there for them alone (Go's packages porttest and peertest).
APART = (
    *(":(exclude,glob)**/*_test.go", ":(exclude,glob)**/*?test/**", ":(exclude,glob)**/testdata/**"),
    ":(exclude,glob)**/*.md",
)


def git(root: Path, *arguments: str) -> str:
    """Ask Git about the repository at ``root``."""
    return subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True).stdout


def digest(root: Path, paths: Sequence[str]) -> str:
    """Digest the tracked files that these path specifications name: their modes, contents and names.

    Changes count from `git add` on. ValueError says that nothing is named.
    """
    listing = git(root, "ls-files", "--stage", "--", *paths, *APART)
    if not listing:
        raise ValueError(f"no file is tracked below {', '.join(paths)}")
    return hashlib.sha256(listing.encode()).hexdigest()


def is_clean(root: Path, paths: Sequence[str]) -> bool:
    """Whether these paths are as the last commit has them."""
    return not git(root, "status", "--porcelain", "--", *paths, *APART).strip()


def commit(root: Path) -> str:
    """Name the last commit."""
    return git(root, "rev-parse", "--short=10", "HEAD").strip()

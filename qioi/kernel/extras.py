"""Libraries that QiOi does without until they are needed: the extras of pyproject.toml."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.metadata import requires


def installs(extra: str) -> str:
    """Give the command that installs an extra's libraries for the Python that runs: no public index has QiOi itself."""
    needs = (need.partition(";") for need in requires("qioi") or ())
    wanted = [need.strip() for need, _, marker in needs if re.search(rf"""extra == ['"]{extra}['"]""", marker)]
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])

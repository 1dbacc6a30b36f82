"""The command that a message names brings what pyproject.toml says, to the Python that runs."""

from __future__ import annotations

import shlex
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from qioi.kernel.extras import installs

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("extra", sorted({*PROJECT["optional-dependencies"]} - {"dev"}))
def test_an_extra_is_installed_by_its_libraries(extra: str) -> None:
    python, *words = shlex.split(installs(extra))
    assert (python, words[:3]) == (sys.executable, ["-m", "pip", "install"])
    assert set(map(Requirement, words[3:])) == set(map(Requirement, PROJECT["optional-dependencies"][extra]))

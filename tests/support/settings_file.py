"""A configuration that is accepted, and what is said about one that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from qioi.settings.config import load_config
from qioi.settings.documents import ConfigError

GOOD: dict[str, Any] = {
    "components": [{"name": "peer0", "role": "peer", "cgroup": "fab/peer0", "log": "peer0.log", "channels": ["red"]}],
    "channels": {"red": {"threshold": 500, "law": "proportional"}},
}


def write(folder: Path, document: object) -> Path:
    path = folder / "qioi.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def problems(folder: Path, document: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(write(folder, document))
    assert all(problem.startswith(str(folder)) for problem in caught.value.problems)
    assert all("\n" not in problem for problem in caught.value.problems)
    return [problem.removeprefix(f"{folder}/") for problem in caught.value.problems]

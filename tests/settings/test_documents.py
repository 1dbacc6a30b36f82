"""Files of YAML: what cannot be used is refused in one line, whatever it holds, by everything that reads such files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from bad_documents import BAD, as_bytes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from settings_file import GOOD, problems

from qioi.experiment import catalogue
from qioi.experiment.store import Store
from qioi.lab.caliper_files import bundled_network, find_configs, load_mapping
from qioi.lab.lab import Lab
from qioi.lab.network import load_network
from qioi.processes.errors import LabError
from qioi.settings.config import load_config, read_lab, survey
from qioi.settings.documents import ConfigError, read_yaml

every_bad_one = pytest.mark.parametrize(("content", "said"), BAD.values(), ids=list(BAD))


def refusals(path: Path, load: Callable[[Path], object]) -> list[str]:
    try:
        load(path)
    except ConfigError as error:
        return list(error.problems)
    except LabError as error:
        return str(error).splitlines()
    return []


@every_bad_one
@pytest.mark.parametrize("load", [load_config, catalogue.load, load_mapping])
def test_one_line_says_what_is_wrong(
    tmp_path: Path, load: Callable[[Path], object], content: str | bytes, said: str
) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(as_bytes(content))
    (line,) = refusals(path, load)
    assert line.startswith(f"{path}: {said}")
    assert ": accepted " in line
    assert line.isprintable()


@pytest.mark.parametrize("load", [load_config, catalogue.load, load_mapping])
def test_what_is_no_file(tmp_path: Path, load: Callable[[Path], object]) -> None:
    for path in (tmp_path, tmp_path / "none", tmp_path / ("x" * 256), tmp_path / "a\0b"):
        (line,) = refusals(path, load)
        assert ": accepted is " in line


def test_a_daemon_waits_for_no_fifo(tmp_path: Path) -> None:
    """Neither in its file's place nor in that of the lab's that it names; a link to a file is read."""
    os.mkfifo(tmp_path / "fifo")
    load = partial(load_config, regular=True)
    (line,) = refusals(tmp_path / "fifo", load)
    assert line == f"{tmp_path / 'fifo'}: not a regular file: accepted is a readable YAML file"
    (tmp_path / "qioi.yaml").write_text("lab: lab\n")
    (tmp_path / "lab").mkdir()
    os.mkfifo(tmp_path / "lab/lab.json")
    assert f"{tmp_path / 'lab/lab.json'}: not a regular file: accepted is the folder of a lab that is up" in refusals(
        tmp_path / "qioi.yaml", load
    )
    (tmp_path / "link").symlink_to("whole.yaml")
    (tmp_path / "whole.yaml").write_text("docker: {}\n")
    assert load(tmp_path / "link").docker is not None


#: JSON that no program of ours writes.
BAD_JSON = [b"{", b"[" * 99_999, b'{"a":' * 99_999, b"[]", b"null", b'{"nodes": ' + b"9" * 5000 + b"}", b"\xff", b""]


def lab_state(folder: Path) -> object:
    (folder / "lab.json").replace(folder / "lab/lab.json")
    return Lab(folder / "lab").state()


def network_of_caliper(folder: Path) -> object:
    return bundled_network(find_configs() / "networks" / "fabric.yaml", folder / "network.json")


@pytest.mark.parametrize("content", BAD_JSON, ids=lambda content: content[:9].decode(errors="replace"))
@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("lab.json", read_lab),
        ("lab.json", lab_state),
        ("network.json", lambda folder: load_network(folder / "network.json")),
        ("network.json", network_of_caliper),
        ("run.json", lambda folder: Store(folder).document),
    ],
    ids=["lab", "state", "network", "caliper", "run"],
)
def test_what_programs_write_is_refused_in_one_line_where_it_is_spoilt(
    tmp_path: Path, name: str, load: Callable[[Path], object], content: bytes
) -> None:
    (tmp_path / "lab").mkdir()
    described: dict[str, object] = {"channels": [], "mode": "block", "consenter": "raft", "nodes": []}
    (tmp_path / "lab/network.json").write_text(json.dumps(described))
    (tmp_path / "lab/.qioi-lab").touch()
    (tmp_path / name).write_bytes(content)
    (line,) = refusals(tmp_path, load)
    assert line.startswith(str(tmp_path))


@pytest.mark.parametrize("name", ["x" * 256, "/".join(["x" * 200] * 21), "\ud800"], ids=["long", "long path", "half"])
@pytest.mark.parametrize("key", ["cgroup", "log"])
def test_names_that_no_file_can_have(tmp_path: Path, key: str, name: str) -> None:
    """A lab's file is JSON, which can say half of a character."""
    (tmp_path / "lab.json").write_text(json.dumps({"components": [{**GOOD["components"][0], key: name}]}))
    (found,) = problems(tmp_path, {"lab": "."})
    assert found.startswith(f"lab.json: components.0.{key}: ")
    assert found.endswith("of names of at most 255 bytes and of fewer than 4096 bytes")


def test_names_as_long_as_they_may_be(tmp_path: Path) -> None:
    one = {**GOOD["components"][0], "cgroup": f"{'é' * 127}/{'x' * 255}"}
    (tmp_path / "lab.json").write_text(json.dumps({"components": [one]}))
    path = tmp_path / "qioi.yaml"
    path.write_text("lab: .\n")
    assert load_config(path).components[0].cgroup == one["cgroup"]


def test_an_equals_sign_is_a_key_like_others(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("{=: 1}\n")
    assert read_yaml(path) == {"=": 1}


@pytest.mark.parametrize("key", ["k", "threshold"])
def test_a_key_beside_a_merge_wins_also_where_its_mapping_is_merged_again(tmp_path: Path, key: str) -> None:
    """PyYAML 6.0.4 mistakes keys of one character. Of several merges the first one wins."""
    path = tmp_path / "file.yaml"
    path.write_text(
        f"a: &a {{{key}: 1, other: 1}}\nb: &b {{<<: *a, {key}: 2}}\nc: {{<<: *b, other: 3}}\n"
        f"d: {{<<: [*b, *a]}}\ne: {{<<: [*a, *b]}}\nf: *b\n"
    )
    assert read_yaml(path) == {
        "a": {key: 1, "other": 1},
        "b": {key: 2, "other": 1},
        "c": {key: 2, "other": 3},
        "d": {key: 2, "other": 1},
        "e": {key: 1, "other": 1},
        "f": {key: 2, "other": 1},
    }


#: Pieces of which small documents are made, most of them bad.
pieces = st.lists(
    st.sampled_from([
        "a", "period", "channels", "red", ": ", "? ", "- ", "\n", " ", "  ", "[", "]", "{", "}", ", ", "&a ", "*a",
        "!!int ", "!!float ", "!!bool ", "!!set ", "!!omap ", "!!pairs ", "!!binary ", "!!timestamp ", "!!str ",
        "!!map ", "<<", "!!seq ", "!!null ", '""', "'", '"\\', "x", "1", "0x", "0o7", "1:60", "1e9", ".inf", "~", "=",
        "#", "2026-13-01", "|\n", ">-\n", "%YAML 1.1\n", "---\n", "...\n", "\t", "\0", "\x85", "\ufeff", "\udcff",
    ]),
    max_size=12,
).map("".join)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
@given(pieces)
def test_any_text_is_read_or_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "qioi.yaml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    try:
        read_yaml(path)
    except ConfigError as error:
        (line,) = error.problems
        assert ": accepted " in line
        assert line.isprintable()
    assert all(line.isprintable() for line in survey(path)[1])


@pytest.mark.slow
@pytest.mark.parametrize("command", [["run", "-c"], ["check", "-c"], ["experiment", "run"]])
def test_a_command_ends_with_the_line_and_status_1(tmp_path: Path, command: list[str]) -> None:
    path = tmp_path / "file.yaml"
    path.write_text('period: !!int ""')
    words = [sys.executable, "-m", "qioi.cli", *command, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f'Error: {path}: line 1: "" is no int: accepted is YAML\n'

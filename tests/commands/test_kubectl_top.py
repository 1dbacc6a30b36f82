"""`kubectl qioi` with a kubectl that is none, or answers as a test wants."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from qioi.commands.kubectl import command
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION

POLICY = {"metadata": {"namespace": "default", "name": "pay"}, "spec": {"channel": "payments", "law": "adaptive"}}
#: It answers at the first and the third call, and at no other.
KUBECTL = """#!/bin/sh
echo >> "$0.calls"
case $(wc -l < "$0.calls") in
1|3) echo '{answer}' ;;
*) echo 'The connection to the server was refused' >&2; exit 1 ;;
esac
"""


@pytest.mark.parametrize("option", ["--interval", "-i", "--every"])  # the last is version 0.1's
def test_an_answer_that_fails_to_come_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL.replace("{answer}", json.dumps({"items": [POLICY]})))
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    looks: list[float] = []

    def look(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("qioi.commands.kubectl.time.sleep", look)
    done = CliRunner().invoke(command, ["top", option, "3"])
    assert (done.exit_code, looks) == (0, [3.0] * 4), done.output
    assert done.output.count("default/pay") == 4
    assert done.output.count("as last seen: The connection to the server was refused") == 2


def test_explain_gives_programs_the_policy_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL.replace("{answer}", json.dumps({"items": [POLICY]})))
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = CliRunner().invoke(command, ["explain", "pay", "--output", "json"])
    assert (done.exit_code, json.loads(done.stdout)) == (0, POLICY)


@pytest.mark.parametrize(
    ("options", "asked", "missing"),
    [((), "", "pay in the namespace of kubectl's context"), (("-n", "bank"), " -n bank", "bank/pay")],
)
def test_explain_looks_where_kubectl_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], asked: str, missing: str
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\necho "$*" >> "$0.asked"\necho \'{"items": []}\'\n')
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = CliRunner().invoke(command, ["explain", "pay", *options])
    assert (done.exit_code, done.stderr) == (1, f"Error: policy {missing}: there is none\n")
    assert (tmp_path / "kubectl.asked").read_text() == f"get isolationpolicies.qioi.io{asked} -o json\n"


def test_a_server_that_never_answers_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = "The connection to the server 127.0.0.1:1 was refused"
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\necho '{refused}' >&2\nexit 1\n")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = CliRunner().invoke(command, ["top"])
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert refused in done.output


@pytest.mark.parametrize("answer", ["", "warning: no JSON", "[]", "{}", "null", '{"items": null}', "\\377"])
def test_what_is_no_answer_of_kubectls_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\nprintf '{answer}'\n")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = CliRunner().invoke(command, ["status"])
    assert (done.exit_code, done.stdout) == (1, ""), done.exception
    assert done.stderr.startswith("Error: kubectl: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("content", [None, "", "no program"])
def test_a_kubectl_that_cannot_be_run_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "kubectl").write_text(content)
        (tmp_path / "kubectl").chmod(0o755 if content == "no program" else 0o644)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = CliRunner().invoke(command, ["status"])
    assert (done.exit_code, done.stdout) == (1, ""), done.exception
    assert done.stderr.startswith("Error: kubectl: ")
    assert done.stderr.count("\n") == 1


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that has kubectl answer with a list of objects."""

    def answer(*objects: object) -> None:
        (tmp_path / "answer").write_text(json.dumps({"items": objects}))
        kubectl = tmp_path / "kubectl"
        kubectl.write_text(f"#!/bin/sh\nexec cat {tmp_path}/answer\n")
        kubectl.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return answer


def test_restore_says_as_qioi_restore_that_there_is_nothing(answering: Callable[..., None]) -> None:
    answering({"metadata": {"namespace": "default", "name": "peer0"}, "spec": {}})
    done = CliRunner().invoke(command, ["restore"])
    assert (done.exit_code, done.output) == (0, "nothing is to be restored\n")


def test_restore_names_each_pod_that_it_has_left_as_an_error(answering: Callable[..., None]) -> None:
    changed = {"annotations": {ORIGINAL_ANNOTATION: "100m"}, "namespace": "default"}
    answering(*({"metadata": {**changed, "name": name}, "spec": {}} for name in ("peer0", "peer1")))
    done = CliRunner().invoke(command, ["restore", "--force"])
    assert (done.exit_code, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert [line.partition(": its labels no longer say")[0] for line in lines] == [
        "Error: default/peer0",
        "Error: default/peer1",
    ]


def test_a_terminal_that_cannot_show_a_reason_shows_the_rest(answering: Callable[..., None]) -> None:
    part = {"name": "peer0", "node": "n1", "reason": "waits \N{GREEK SMALL LETTER MU} Übermaß"}
    answering({**POLICY, "status": {"components": [part]}})
    done = subprocess.run(
        [sys.executable, "-c", "from qioi.commands.kubectl import main; main()", "status"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "waits ? Übermaß".encode("latin-1") in done.stdout

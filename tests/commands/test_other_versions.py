"""A daemon that was not restarted after an upgrade answers in the words of its own version."""

from __future__ import annotations

import json
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import ValidationError

from qioi.cli import main
from qioi.show.connections import Service
from qioi.show.http import Query, RefusedError, Routes, serve_unix

COMMANDS = (["status"], ["top", "-n", "1"], ["explain", "peer0"], ["profile"])


def daemon(socket: Path, release: str) -> Service:
    answer = json.dumps({"version": release, "pid": 1}).encode()
    routes = ("GET /status", "GET /explain")
    return serve_unix(socket, {route: ("application/json", lambda _: answer) for route in routes})


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_answer_that_cannot_be_shown_is_said_with_both_versions(tmp_path: Path, command: list[str]) -> None:
    socket = tmp_path / "sock"
    with closing(daemon(socket, "0.0.1")):
        done = CliRunner().invoke(main, [*command, "--socket", str(socket)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {socket}: the daemon is of version 0.0.1 and this command of ")
    assert done.stderr.count("\n") == 1
    assert ("--output json" in done.stderr) == (command[0] in ("status", "explain"))  # which print it as it is


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_answer_of_the_same_version_is_never_excused(tmp_path: Path, command: list[str]) -> None:
    socket = tmp_path / "sock"
    with closing(daemon(socket, version("qioi"))):
        done = CliRunner().invoke(main, [*command, "--socket", str(socket)])
    assert isinstance(done.exception, ValidationError if command[0] == "explain" else KeyError)


def refuse(_: Query) -> bytes:
    raise RefusedError("<h1>Bad\nRequest</h1>\n")


@pytest.mark.parametrize("command", ["status", "top", "profile"])
def test_something_else_behind_the_socket_that_refuses_the_question_is_said_in_one_line(
    tmp_path: Path, command: str
) -> None:
    socket = tmp_path / "sock"
    with closing(serve_unix(socket, {"GET /status": ("text/html", refuse)})):
        done = CliRunner().invoke(main, [command, "--socket", str(socket)])
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"Error: {socket}/status: HTTP status 400: <h1>Bad")
    assert ("Name components by" in done.stderr) == (command == "profile")


def test_who_does_not_tell_its_version_excuses_no_answer(tmp_path: Path) -> None:
    socket = tmp_path / "sock"
    routes: Routes = {
        "GET /explain": ("application/json", lambda _: b"{}"),
        "GET /status": ("application/json", refuse),
    }
    with closing(serve_unix(socket, routes)):
        done = CliRunner().invoke(main, ["explain", "peer0", "--socket", str(socket)])
    assert isinstance(done.exception, ValidationError)


@pytest.mark.parametrize("command", ["adopt", "mine"])
def test_an_order_that_an_older_daemon_does_not_know_is_said_with_what_to_do(tmp_path: Path, command: str) -> None:
    socket = tmp_path / "sock"
    with closing(daemon(socket, "0.0.1")):
        done = CliRunner().invoke(main, [command, "peer0", "--socket", str(socket)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        f"Error: {socket}/{command}: HTTP status 404: accepted: GET /status, GET /explain; if the daemon is of another "
        "version: restart it, or use the command of its version\n"
    )

"""Shell completion, in real shells, with the names of a real daemon."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from running import Site, end
from waiting import PATIENCE

from qioi.cli import main
from qioi.commands import completion
from qioi.show.http import serve_unix


def command_file(site: Site) -> dict[str, str]:
    """Put a `qioi` on the path, as an installed one is."""
    file = site.folder / "bin" / "qioi"
    file.parent.mkdir()
    file.write_text(f'#!/bin/sh\nexec {shlex.join(site.command())} "$@"\n')
    file.chmod(0o755)
    return {**os.environ, "PATH": f"{file.parent}:{os.environ['PATH']}", "HOME": str(site.folder)}


def complete(environment: dict[str, str], *words: str) -> set[str]:
    """What bash offers for the last word."""
    script = (
        'eval "$(qioi completion bash)"; complete -p qioi >&2; '
        f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _qioi_completion qioi; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert "_qioi_completion" in done.stderr, done.stderr
    return set(done.stdout.split())


@pytest.mark.slow
def test_bash_completes_commands_options_and_what_is_watched(site: Site) -> None:
    environment = command_file(site)
    assert complete(environment, "qioi", "re") == {"restore", "replay"}
    assert "--dry-run" in complete(environment, "qioi", "run", "--")
    assert complete(environment, "qioi", "status", "--output", "") == {"table", "json"}
    nobody = complete(environment, "qioi", "explain", "--socket", str(site.socket), "")
    assert nobody == set()
    site.component("peer0")
    site.component("orderer0", "orderer")
    daemon = site.start()
    assert complete(environment, "qioi", "explain", "--socket", str(site.socket), "") == {"peer0", "orderer0"}
    assert complete(environment, "qioi", "threshold", "-c", str(site.folder / "qioi.yaml"), "r") == {"red"}
    assert end(daemon)[0] == 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_with_whole_descriptions(site: Site) -> None:
    environment = command_file(site)

    def offered(line: str) -> dict[str, str]:
        script = f"qioi completion fish | source; complete -C {shlex.quote(line)}"
        done = subprocess.run(["fish", "-c", script], env=environment, capture_output=True, text=True, check=True)
        return {word: text for word, _, text in (row.partition("\t") for row in done.stdout.splitlines())}

    assert offered("qioi re").keys() == {"restore", "replay"}
    assert "," in offered("qioi run --")["--dry-run"]
    assert offered("qioi status --output ").keys() == {"table", "json"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
@pytest.mark.parametrize("installed", [True, False])
def test_zsh_completes_at_its_prompt(site: Site, installed: bool) -> None:
    """A zsh of its own on a terminal, as only such a one completes; it is typed to."""
    environment = command_file(site)
    load = 'eval "$(qioi completion zsh)"'
    begin = "autoload -Uz compinit; compinit -u -D"
    if installed:
        subprocess.run(["qioi", "completion", "zsh", "--install"], env=environment, check=True, capture_output=True)
        load, begin = begin, "fpath+=~/.zfunc"
    controller, terminal = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], env={**environment, "TERM": "dumb"}, stdin=terminal, stdout=terminal, stderr=terminal,
        start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    shown = b""

    def read_until(word: bytes) -> None:
        nonlocal shown
        deadline = time.monotonic() + PATIENCE
        while word not in shown:
            assert time.monotonic() < deadline, shown
            if select.select([controller], [], [], 0.1)[0]:
                shown += os.read(controller, 65536)

    try:
        os.write(controller, f"{begin}; {load}; echo rea''dy\n".encode())
        read_until(b"ready\r\n")
        os.write(controller, b"qioi re\t\t")
        read_until(b"restore")
        read_until(b"replay")
        os.write(controller, b"\x15qioi status --output \t\t")
        read_until(b"json")
    finally:
        shell.kill()
        shell.wait()
        os.close(controller)


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_installing_puts_the_same_script_where_the_shell_looks(site: Site, shell: str) -> None:
    environment = command_file(site)
    words = ["qioi", "completion", shell]
    text = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    done = subprocess.run([*words, "--install"], env=environment, capture_output=True, text=True, check=True)
    file = Path(done.stdout.split()[1].rstrip(";"))
    assert file.is_relative_to(site.folder)
    assert file.read_text() == text
    if shutil.which(shell):
        assert subprocess.run([shell, "-n", str(file)], check=False).returncode == 0


def test_a_place_that_cannot_be_written_is_said_in_one_line(site: Site) -> None:
    environment = command_file(site)
    (site.folder / ".zfunc").write_text("a file, not a folder")
    done = subprocess.run(
        ["qioi", "completion", "zsh", "--install"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.strip() == f"Error: {site.folder}/.zfunc/_qioi: File exists"


def completed(where: Path) -> list[str]:
    with click.Context(click.Command("explain")) as context:
        context.params = {"socket": where}
        return [one.value for one in completion.watched(context, "components", "")]


def test_completion_waits_shortly_for_a_daemon_that_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is stopped (SIGSTOP): the kernel goes on to accept for it."""
    connected: list[float | None] = []
    connect = socket.socket.connect

    def noted(one: socket.socket, address: Any) -> None:
        connected.append(one.gettimeout())
        connect(one, address)

    monkeypatch.setattr(socket.socket, "connect", noted)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "sock"))
        listener.listen()
        assert completed(tmp_path / "sock") == []
    assert connected == [completion.PATIENCE]
    assert completion.PATIENCE < 1.0


@pytest.mark.parametrize(
    "answer", [b"[]", b'{"components": 3}', b'{"components": [{}]}', b"\xff", b'{"components": [3]}']
)
def test_completion_offers_nothing_where_something_else_answers(tmp_path: Path, answer: bytes) -> None:
    routes = {"GET /status": ("application/json", lambda _: answer)}
    with closing(serve_unix(tmp_path / "sock", routes)):
        assert completed(tmp_path / "sock") == []


def test_a_user_without_a_home_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs by a number: no HOME, and no line in /etc/passwd."""

    def nowhere() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    said = CliRunner().invoke(main, ["completion", "bash", "--install"])
    assert (said.exit_code, said.stderr) == (1, "Error: this user has no home folder: HOME names one\n")

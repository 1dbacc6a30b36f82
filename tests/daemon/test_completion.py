"""Shell completion, in a real bash, with the names of a real daemon."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from running import Site, end


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

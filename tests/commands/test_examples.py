"""Every command shows by examples how it is called, and takes them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import qioi.cli
from qioi.commands.examples import EXAMPLES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / folder / "README.md" for folder in (".", "deploy", "caliper-configs")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def take(command: click.Command, words: list[str]) -> None:
    """Have a command, and the commands below it, read their arguments; nothing is run."""
    context = command.make_context(words[0], words[1:])
    if isinstance(command, click.Group):
        name, below, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert name is not None
        assert below is not None
        take(below, [name, *rest])


@pytest.mark.parametrize("name", qioi.cli.COMMANDS)
def test_help_ends_in_examples_that_are_accepted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(qioi.cli.main, [name, "--help"])
    assert done.exit_code == 0
    shown = [line.strip() for line in done.output.partition("Examples:")[2].splitlines() if line.strip()]
    assert " ".join(shown) == " ".join(EXAMPLES[name])  # a long one is wrapped
    for line in EXAMPLES[name]:
        line = re.sub(r'^eval "\$\((.*)\)"$', r"\1", line)
        words = shlex.split(line.partition(" | ")[0])
        words = ["qioi", *words] if words[0] == "kubectl" else words
        words = [word for number, word in enumerate(words) if number != 2 or words[1] != "kubectl"]
        assert words[:2] == ["qioi", name]
        take(qioi.cli.main, words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_pages_tell_to_type_is_accepted(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text()
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"^ {4}(qioi [a-z].*)", text, re.MULTILINE):
        words = shlex.split(line.partition(" | ")[0], comments=True)
        for folder in (word for word in words if "/" in word[1:] and word[0] != "/"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for file in (word for word in words if word.endswith(".yaml") and "/" not in word):
            (tmp_path / file).touch()
        take(qioi.cli.main, words)
    for name in re.findall(r"`qioi ([a-z]+)[^`\n]*`", text):
        assert name in qioi.cli.COMMANDS


def below(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Give a command and all commands below it, with their names."""
    yield path, command
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from below(one, f"{path} {name}")


@pytest.mark.parametrize("name", qioi.cli.COMMANDS)
def test_help_says_what_every_option_is_for(name: str) -> None:
    command = qioi.cli.main.get_command(click.Context(qioi.cli.main), name)
    assert command is not None
    options = ((path, one) for path, command in below(command, name) for one in command.params)
    assert [f"{path} {one.opts[0]}" for path, one in options if isinstance(one, click.Option) and not one.help] == []

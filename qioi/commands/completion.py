"""``qioi completion``: what a shell needs to complete commands, options, and the names of what a daemon watches."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from qioi.commands.failing import fail
from qioi.commands.options import places
from qioi.settings.documents import ConfigError
from qioi.show.http import UnixConnection

#: Seconds that a daemon has for each part of its answer: a person who pressed the tab key waits for it.
PATIENCE = 0.5
#: Where each shell looks for completions, below the home folder. zsh needs that folder in its fpath.
PLACES = {
    "bash": ".local/share/bash-completion/completions/qioi",
    "zsh": ".zfunc/_qioi",
    "fish": ".config/fish/completions/qioi.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(PLACES)))
@click.option("--install", is_flag=True, help="Write it where the shell looks, below the home folder.")
@click.pass_context
def command(context: click.Context, shell: str, install: bool) -> None:
    """Print the completion script for a SHELL, or install it.

    For this session only: `eval "$(qioi completion bash)"`, the same with zsh, `qioi completion fish | source`.
    """
    found = get_completion_class(shell)
    assert found is not None
    text = found(context.find_root().command, {}, "qioi", "_QIOI_COMPLETE").source()
    # Click has fish cut an option's description off at its first comma.
    text = text.replace('string split ","', 'string split --max 1 ","')
    if not install:
        click.echo(text)
        return
    try:
        file = Path.home() / PLACES[shell]
    except RuntimeError:
        fail("this user has no home folder: HOME names one")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    click.echo(f"written: {file}; new shells have it")
    if shell == "zsh":
        click.echo("zsh looks there if ~/.zshrc says, before compinit: fpath+=~/.zfunc")


def watched(context: click.Context, kind: str, begun: str, key: str = "name") -> list[CompletionItem]:
    """Name what the daemon that the command would ask watches; nothing if it does not answer."""
    names: list[str] = []
    with contextlib.suppress(ConfigError):
        socket, config = context.params.get("socket"), context.params.get("config")
        names = list(named(socket or places(config)[1], kind, key))
    return [CompletionItem(name) for name in names if name.startswith(begun)]


def named(socket: Path, kind: str, key: str) -> Iterator[str]:
    """Ask the daemon behind a socket for the names of what it watches; none where it does not answer at once."""
    with closing(UnixConnection(socket)) as connection:
        connection.timeout = PATIENCE
        # Whatever goes wrong, and whoever answers there: a traceback would land in the command that is being typed.
        with contextlib.suppress(
            OSError, ValueError, http.client.HTTPException, LookupError, TypeError, AttributeError
        ):
            connection.request("GET", "/status")
            document = json.loads(connection.getresponse().read())
            yield from [str(one[key]) for one in document.get(kind, ())]


def components(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete a component's name."""
    return watched(context, "components", begun)


def channels(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete a channel's name."""
    return watched(context, "channels", begun)


def foreigners(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the path of a foreign control group."""
    return watched(context, "foreigners", begun, "group")

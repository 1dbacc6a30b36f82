"""The command line ``qioi``: one group whose subcommands are imported only when called.

A daemon that is started by ``qioi run`` must not carry the lab's plotting libraries in its
memory, so no subcommand module is imported before it is asked for.
"""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import click
from click.shell_completion import CompletionItem

from qioi.commands.examples import examples
from qioi.commands.printing import Group

#: Subcommand -> (module that exposes ``command``, one line for the overview).
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("qioi.commands.run", "Watch the ledger and move CPU shares (the daemon)."),
    "status": ("qioi.commands.status", "Show what a running daemon sees and does."),
    "top": ("qioi.commands.top", "Watch a running daemon live."),
    "explain": ("qioi.commands.explain", "Show how one component's share was decided."),
    "adopt": ("qioi.commands.adopt", "Take up a component whose share somebody else has changed."),
    "threshold": ("qioi.commands.threshold", "Set what a channel is owed, or have it learned."),
    "mine": ("qioi.commands.mine", "Call a control group your own: no neighbour, but a client."),
    "profile": ("qioi.commands.profile", "Time slices, scheduling delays and context switches, by perf."),
    "check": ("qioi.commands.check", "Check a configuration and what this host offers."),
    "restore": ("qioi.commands.restore", "Put back every value that a dead daemon left changed."),
    "kubectl": ("qioi.commands.kubectl", "Show a cluster's policies and daemons (also: kubectl qioi)."),
    "replay": ("qioi.commands.replay", "Read recorded peer logs and say what QiOi would have done."),
    "lab": ("qioi.commands.lab", "Run the bundled ledger network on this machine."),
    "demo": ("qioi.commands.demo", "Measure the ledger alone, disturbed, and protected."),
    "experiment": ("qioi.commands.experiment", "Repeat the papers' experiments, and report them."),
    "completion": ("qioi.commands.completion", "Print or install the completion for bash, zsh or fish."),
}


class LazyGroup(Group):
    """A click group that imports a subcommand when it is used, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the subcommands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one subcommand."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = importlib.import_module(entry[0]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry[0]}.command is no click command")
        command.epilog = examples(cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand that is called."""
        if args[:1] == ["run"] and not ctx.resilient_parsing:
            ctx.with_resource(waiting_hangups())
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete from the table too: a shell asks at each press of the tab key."""
        found = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the table, without importing any subcommand."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@contextmanager
def waiting_hangups() -> Iterator[None]:
    """Have SIGHUP wait until the daemon handles it: until then, seconds on a busy host, a reload would end it.

    One from the terminal that the daemon was started on ends it at once, as it does later. One that no daemon has taken
    by the end is dropped.
    """
    if os.isatty(2):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))
    try:
        yield
    finally:
        if signal.SIGHUP in signal.sigpending():
            signal.sigwait((signal.SIGHUP,))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="qioi", prog_name="qioi")
def main() -> None:
    """QiOi keeps a permissioned ledger as fast beside noisy neighbours as it is alone."""


if __name__ == "__main__":
    main(prog_name="qioi")

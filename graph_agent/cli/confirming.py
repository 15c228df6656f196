"""The question before something is removed that nothing brings back, and the options that belong to it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from graph_agent.cli.running import FAILED, print_stderr, wrong_usage
from graph_agent.reply.text import visible

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask: for a program without a terminal.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")]


def require_terminal(*, yes: bool) -> None:
    """Exit with a usage error if the user cannot be asked."""
    if not yes and not sys.stdin.isatty():
        wrong_usage("what is removed cannot be brought back: without a terminal, --yes confirms it")


def confirm_removal(question: str, *, yes: bool) -> None:
    """Ask, unless `yes` is given; after a no, exit with the code of a failure."""
    if not yes and not typer.confirm(visible(question), err=True):
        print_stderr("Nothing was removed.")
        raise typer.Exit(FAILED)

"""`graph-agent log erase`: erase a user, and say what stays elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from graph_agent.bootstrap.erasure import Erased, erase_user, kept_elsewhere
from graph_agent.bootstrap.record_tree import record_tree
from graph_agent.bootstrap.stores import open_stores
from graph_agent.cli.confirming import DryRun, Yes, confirm_removal, require_terminal
from graph_agent.cli.options import Reason, not_blank, option, with_files
from graph_agent.cli.running import open_in_loop, print_stderr
from graph_agent.clock import SystemClock
from graph_agent.reply.text import counted
from graph_agent.settings import Settings


@with_files("mcp")
def erase(
    user: Annotated[str, option("--user", "ID", "Erase this user.", check=not_blank)],
    reason: Reason,
    dry_run: DryRun = False,
    yes: Yes = False,
    *,
    settings: Settings,
) -> None:
    """Erase a user: records, conversations, turns and operations, and the salts by which the log commits to them.

    You are asked first. What remains in the log is a commitment that cannot be linked to the user, and a statement that names
    the erased leaves. The printed receipt is for the person: with it the person can show which statement is about them. On
    stderr it says what stays elsewhere: the MCP servers keep what they know, and are asked whether they keep a ledger.
    """
    if not dry_run:
        require_terminal(yes=yes)
    with open_in_loop(open_stores(settings)) as (stores, run):
        tree = record_tree(settings, stores.database, SystemClock())
        run(tree.seal())

        def erased(**how: bool) -> Erased:
            return run(erase_user(stores.database, tree, user, reason, SystemClock().now(), **how))

        found = _erased_text(erased(dry_run=True))
        kept = run(kept_elsewhere(settings, stores.database, user))
        if not dry_run:
            confirm_removal(f"Erase {found} of the user {user}?", yes=yes)
            gone = erased()
    if dry_run:
        typer.echo(f"{found} would be erased")
    else:
        typer.echo(f"{_erased_text(gone)} erased; the statement follows within a day")
        typer.echo(f"receipt for the person: {gone.receipt}")
    for sentence in kept:
        print_stderr(sentence)


def _erased_text(erased: Erased) -> str:
    rows = f"{counted(erased.decisions, 'decision')}, {counted(erased.conversations, 'conversation')}"
    waiting = erased.open_requests
    requests = f", with {counted(len(waiting), 'open approval request')} ({', '.join(waiting)})" if waiting else ""
    return f"{rows} and {counted(erased.operations, 'operation')}{requests}"

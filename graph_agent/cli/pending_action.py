"""The action that waits in a conversation: shown in a terminal, and answered there."""

from __future__ import annotations

import typer

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.cli.running import FAILED, Run, print_stderr
from graph_agent.cli.show import whole_action
from graph_agent.cli.typed_answer import typed_answer
from graph_agent.models.decision import ConfirmationAnswer, PendingAction
from graph_agent.reply.fixed import pending_question


def type_answer(
    run: Run,
    runtime: Runtime,
    user: str,
    conversation: str | None,
    content: str | None,
) -> tuple[str | None, ConfirmationAnswer | None]:
    """Show the waiting action, and return the answer that is typed below it instead of the words that were given.

    If none waits, the words answer nothing, and are returned.
    """
    pending = run(runtime.chat.pending_action(user, conversation))
    if pending is None:
        if content is None:
            print_stderr("no action waits in this conversation")
            raise typer.Exit(FAILED)
        return content, None
    yes = typed_for(run, runtime, pending)
    return None, ConfirmationAnswer(pending_action=pending.id, yes=yes, read=pending.whole_digest)


def typed_for(run: Run, runtime: Runtime, pending: PendingAction) -> bool:
    """Show an action that waits, and return the yes or no that is typed below it."""
    shown = f"{whole_action(pending)}\nShould I go ahead?" if pending.by_id_only else pending_question(pending)
    policy = run(runtime.engine.prepare()).policy
    yes = typed_answer(shown, [policy.titles_of(call.tool_name) for call in pending.each])
    if yes is None:
        print_stderr("that is neither yes nor no: the question is still open")
        raise typer.Exit(FAILED)
    return yes

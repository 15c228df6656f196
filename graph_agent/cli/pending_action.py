"""The action that waits in a conversation: shown in a terminal, and answered there or by its id."""

from __future__ import annotations

import typer
from pydantic import ValidationError

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.cli.last_conversation import conversation_id_of
from graph_agent.cli.running import FAILED, Run, print_stderr, wrong_usage
from graph_agent.cli.runtime import open_command_runtime
from graph_agent.cli.show import print_text, whole_action
from graph_agent.cli.typed_answer import typed_answer
from graph_agent.models.decision import ConfirmationAnswer
from graph_agent.reply.fixed import pending_question
from graph_agent.settings import Settings

_NOTHING_WAITS = "no action waits in this conversation"


def type_answer(
    run: Run,
    runtime: Runtime,
    user: str,
    conversation: str | None,
    content: str | None,
    answers: ConfirmationAnswer | None,
) -> tuple[str | None, ConfirmationAnswer | None]:
    """Show the waiting action, and return the answer that is typed below it instead of the one that was given.

    If none waits, what was given answers nothing, and is returned.
    """
    named = None if answers is None else answers.pending_action
    pending = run(runtime.chat.pending_action(user, conversation, named))
    if pending is None:
        if content is None and answers is None:
            print_stderr(_NOTHING_WAITS)
            raise typer.Exit(FAILED)
        return content, answers
    shown = f"{whole_action(pending)}\nShould I go ahead?" if pending.by_id_only else pending_question(pending)
    policy = run(runtime.engine.prepare()).policy
    yes = typed_answer(shown, [policy.titles_of(call.tool_name) for call in pending.each])
    if yes is None:
        print_stderr("that is neither yes nor no: the question is still open")
        raise typer.Exit(FAILED)
    return None, ConfirmationAnswer(pending_action=pending.id, yes=yes, read=pending.whole_digest)


def answer_by_id(yes: str | None, no: str | None) -> ConfirmationAnswer | None:
    """Return the answer to the action that `--yes ID` or `--no ID` names; None without one."""
    if yes is not None and no is not None:
        wrong_usage("an action is either confirmed or declined: give --yes or --no")
    pending_id = no if yes is None else yes
    if pending_id is None:
        return None
    try:
        pending_id, _, read = pending_id.partition(":")
        return ConfirmationAnswer(pending_action=pending_id, yes=yes is not None, read=read)
    except ValidationError:
        wrong_usage("an id has 1 to 255 characters")


def show_pending(settings: Settings, user: str, conversation: str | None) -> None:
    """Print the waiting action in full, and how to answer it: an action that its question shortened needs the digest too."""
    if conversation is None:
        wrong_usage("--show needs --conversation ID")
    with open_command_runtime(settings) as (runtime, run):
        named = conversation_id_of(conversation, runtime.chat, user, run) or ""
        pending = run(runtime.chat.conversation(user, named)).pending_action
    if pending is None:
        print_stderr(_NOTHING_WAITS)
        raise typer.Exit(FAILED)
    print_text(whole_action(pending))
    read = f":{pending.whole_digest}" if pending.by_id_only else ""
    print_stderr(f"to answer: --yes {pending.id}{read} or --no {pending.id}")

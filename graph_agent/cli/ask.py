"""`graph-agent ask`: one message in, one decision out."""

from __future__ import annotations

import math
import sys
from typing import Annotated

import typer

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.chat.service import ChatService
from graph_agent.cli.ended_requests import EndedRequests
from graph_agent.cli.last_conversation import conversation_id_of, newest_conversation
from graph_agent.cli.local_zone import local_zone
from graph_agent.cli.options import AsJson, Conversation, Job, Model, Roles, User, asking_as, known_roles, with_rules
from graph_agent.cli.other_rules import print_other_rules
from graph_agent.cli.pending_action import type_answer
from graph_agent.cli.printed_answer import failed, print_hints, print_reason, send_and_print
from graph_agent.cli.running import FAILED, print_stderr, wrong_usage
from graph_agent.cli.runtime import open_command_runtime, send_with_key
from graph_agent.cli.shown_conversation import ShownConversation, last_shown, remember
from graph_agent.cli.typed_answer import TokenFile, has_launch_token
from graph_agent.models.decision import ShownQuestion
from graph_agent.policy.consent import Consent, read_consent
from graph_agent.settings import Settings

_ANSWERS = (Consent.YES, Consent.NO)


def _finite(value: float | None) -> float | None:
    """Return an option's number. Raises a usage error that names the option if it is NaN: no limit excludes that."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("must be a finite number")
    return value


Continue = Annotated[
    bool, typer.Option("--continue", "-c", help="Continue the last conversation; without TEXT, answer its open question.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the model and the ids, which are else printed once.")]


@with_rules()
def ask(
    text: Annotated[str | None, typer.Argument(help="Send this message; - reads it from stdin.", show_default=False)] = None,
    as_json: AsJson = False,
    user: User = LOCAL_USER,
    role: Roles = None,
    conversation: Conversation = None,
    go_on: Continue = False,
    token_file: TokenFile = None,
    model: Model = None,
    job: Job = None,
    *,
    settings: Settings,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.1,
            max=3600,
            help="End the turn after this time (default: GRAPH_AGENT_TIMEOUT_SECONDS, 30).",
            callback=_finite,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Judge the calls, but change nothing: the reply says what would be done.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Send one message and print the reply, with a receipt for every change.

    Before it comes what was decided about your calls that waited for an approval, since your last message there.
    Exits with 1 if the message could not be served. To answer a question in the reply, run the command with -c alone in a
    terminal: it shows the question again, and you type yes or no. `questions answer ID` does the same for the question with
    this id, which -v prints. With --token-file a typed yes needs no terminal.
    """
    roles = known_roles(settings.role_names, role)
    if dry_run and go_on:
        wrong_usage("--dry-run sends a message that answers no question: leave out -c")
    if job is not None and (go_on or conversation is not None):
        wrong_usage("a run of a --job begins a conversation: leave out -c and --conversation")
    if text is None and (not go_on or token_file is not None):
        wrong_usage("there is no message: graph-agent ask TEXT")
    elif go_on and conversation is not None:
        wrong_usage("--continue finds the conversation and its question itself: leave out --conversation")
    else:
        before = last_shown(settings)
        named = verbose or before is None
        authorized = has_launch_token(settings, token_file)
        with open_command_runtime(settings, model=model, timeout=timeout, announce=named) as (runtime, run):
            content = _from_stdin() if text == "-" else text
            conversation = conversation_id_of(conversation, runtime.chat, user, run)
            if go_on:
                conversation = run(_last_conversation(runtime.chat, user, before))
            # A yes answers the question that was shown here, and no later one of another client.
            shown = None if before is None else before.question_in(user, conversation)
            seen = before if before is not None and shown is not None else None
            ended = EndedRequests(runtime, run, user, () if seen is None else seen.ended, as_json=as_json)
            if conversation is not None and ended.print_new(conversation):
                seen = seen or ShownConversation(user_id=user, conversation_id=conversation, pending=None)
                remember(settings, seen.replace(ended=ended.printed))
                if content is None and run(runtime.chat.pending_action(user, conversation)) is None:
                    return
            answers = None
            if not authorized:
                shown = ShownQuestion()
                if content is None or read_consent(content) in _ANSWERS:
                    content, answers = type_answer(run, runtime, user, conversation, content)
            asked = {"conversation_id": conversation, "answers": answers, "shown": shown, "dry_run": dry_run, "job": job or ""}
            sending = send_with_key(runtime.chat.send, user, content, **asked, roles=roles, time_zone=local_zone())
            answer = send_and_print(run, sending, as_json=as_json)
            if conversation is not None:
                ended.print_new(conversation, answer.decision_id)
            pending = answer.decision.pending_action
            remember(settings, ShownConversation(user_id=user, conversation_id=answer.conversation_id, pending=pending))
            whose = asking_as(user, roles)
            print_hints(answer, whose, named=named, verbose=verbose)
            print_other_rules(runtime, run, user, answer, whose)
            if conversation is None and answers is None and read_consent(content or "") in _ANSWERS:
                print_stderr("a new conversation has no question: answer the last one with -c")
            if failed(answer.decision):
                print_reason(run(runtime.audit.load(answer.decision_id)))
                raise typer.Exit(FAILED)


async def _last_conversation(chat: ChatService, user: str, before: ShownConversation | None) -> str:
    """Return the conversation that this terminal showed last, else the user's last one."""
    if before is not None and before.user_id == user:
        return before.conversation_id
    return await newest_conversation(chat, user)


def _from_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode().rstrip("\r\n")
    except UnicodeDecodeError:
        wrong_usage("the text on stdin is not UTF-8")

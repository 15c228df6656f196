"""`graph-agent ask`: one message in, one decision out."""

from __future__ import annotations

import math
import os
import shlex
import sys
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from graph_agent.audit.findings import failure_cause
from graph_agent.bootstrap import LOCAL_USER
from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.service import ChatService
from graph_agent.cli.options import AsJson, Conversation, Model, Roles, User, known_roles, option, with_files
from graph_agent.cli.other_rules import print_other_rules
from graph_agent.cli.running import FAILED, Run, print_stderr, wrong_usage
from graph_agent.cli.runtime import open_command_runtime, send_with_key
from graph_agent.cli.show import json_line, print_answer, print_result, print_text, whole_action
from graph_agent.cli.typed_answer import TokenFile, has_launch_token, typed_answer
from graph_agent.errors import GraphAgentError, ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen
from graph_agent.models.decision import AgentDecision, ConfirmationAnswer, PendingAction, ShownQuestion
from graph_agent.models.record import DecisionRecord, OpenTurn
from graph_agent.policy.consent import Consent, read_consent
from graph_agent.reply.fixed import question
from graph_agent.settings import Settings

_ANSWERS = (Consent.YES, Consent.NO)
_NOTHING_WAITS = "no action waits in this conversation"
_FAILURES = ("ERROR:", "REFUSAL:RATE_LIMITED")


def _finite(value: float | None) -> float | None:
    """Return an option's number. Raises a usage error that names the option if it is NaN: no limit excludes that."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("must be a finite number")
    return value


Continue = Annotated[
    bool, typer.Option("--continue", "-c", help="Continue the last conversation; without TEXT, answer its open question.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the model and the ids, which are else printed once.")]


@with_files()
def ask(
    text: Annotated[str | None, typer.Argument(help="Send this message; - reads it from stdin.", show_default=False)] = None,
    as_json: AsJson = False,
    user: User = LOCAL_USER,
    role: Roles = None,
    conversation: Conversation = None,
    go_on: Continue = False,
    yes: Annotated[
        str | None, option("--yes", "ID", "Confirm the action with this id: it is shown, and you type the answer.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the whole action that waits in --conversation ID.")] = False,
    no: Annotated[str | None, option("--no", "ID", "Decline the action with this id.")] = None,
    token_file: TokenFile = None,
    model: Model = None,
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

    Exits with 1 if the message could not be served. To answer a question in the reply, run the command with -c alone in a
    terminal: it shows the question again, and you type yes or no. --yes ID and --no ID do the same for the action with this id,
    which -v prints. With --token-file the answer needs no terminal.
    """
    answers, roles = _answer_by_id(yes, no), known_roles(settings.role_names, role)
    if dry_run and (show or go_on or answers is not None):
        wrong_usage("--dry-run sends a message that answers no question: leave out --show, -c, --yes and --no")
    if show:
        _show_pending(settings, user, conversation)
    elif text is None and answers is None and (not go_on or token_file is not None):
        wrong_usage("there is no message: graph-agent ask TEXT")
    elif go_on and not (conversation is None and answers is None):
        wrong_usage("--continue finds the conversation and its question itself: leave out --conversation, --yes and --no")
    else:
        before = last_shown(settings)
        named = verbose or before is None
        authorized = has_launch_token(settings, token_file)
        with open_command_runtime(settings, model=model, timeout=timeout, announce=named) as (runtime, run):
            content = _from_stdin() if text == "-" else text
            if go_on:
                conversation = run(_last_conversation(runtime.chat, user, before))
            # A yes answers the question that was shown here, and no later one of another client.
            shown = None if before is None else before.question_in(user, conversation)
            if not authorized:
                shown = ShownQuestion()
                if answers is not None or content is None or read_consent(content) in _ANSWERS:
                    content, answers = _type_answer(run, runtime.chat, user, conversation, content, answers)
            asked = {"conversation_id": conversation, "answers": answers, "shown": shown, "dry_run": dry_run}
            sending = send_with_key(runtime.chat, user, content, **asked, roles=roles)
            answer = _ask_one(run, sending, as_json=as_json)
            pending = answer.decision.pending_action
            remember(settings, ShownConversation(user_id=user, conversation_id=answer.conversation_id, pending=pending))
            whose = [] if user == LOCAL_USER else ["--user", user]
            whose += [part for one in roles for part in ("--role", one)]
            _print_hints(answer, whose, named=named, verbose=verbose)
            print_other_rules(runtime, run, user, answer, whose)
            if conversation is None and answers is None and read_consent(content or "") in _ANSWERS:
                print_stderr("a new conversation has no question: answer the last one with -c")
            if failed(answer.decision):
                _print_reason(run(runtime.audit.load(answer.decision_id)))
                raise typer.Exit(FAILED)


def _type_answer(
    run: Run,
    chat: ChatService,
    user: str,
    conversation: str | None,
    content: str | None,
    answers: ConfirmationAnswer | None,
) -> tuple[str | None, ConfirmationAnswer | None]:
    """Show the waiting action, and return the answer that is typed below it instead of the one that was given.

    If none waits, what was given answers nothing, and is returned.
    """
    named = None if answers is None else answers.pending_action
    pending = run(chat.pending_action(user, conversation, named))
    if pending is None:
        if content is None and answers is None:
            print_stderr(_NOTHING_WAITS)
            raise typer.Exit(FAILED)
        return content, answers
    yes = typed_answer(f"{whole_action(pending)}\nShould I go ahead?" if pending.by_id_only else question(pending.description))
    if yes is None:
        print_stderr("that is neither yes nor no: the question is still open")
        raise typer.Exit(FAILED)
    return None, ConfirmationAnswer(pending_action=pending.id, yes=yes, read=pending.whole_digest)


def _ask_one(run: Run, sending: Coroutine[Any, Any, ChatAnswer], *, as_json: bool) -> ChatAnswer:
    """Send one message, print its answer, and return it."""
    try:
        answer = run(sending)
    except ServiceError as exc:
        if as_json:
            typer.echo(json_line(_error(exc)))
        raise
    print_result(_answer(answer), lambda: print_answer(answer.decision), as_json=as_json)
    return answer


def _print_hints(answer: ChatAnswer, whose: list[str], *, named: bool, verbose: bool) -> None:
    """Print how to answer the question of an answer, with the options `whose`, and its conversation if it is `named`."""
    pending = answer.decision.pending_action
    if pending is not None:
        by_id = f"; by id: --yes {pending.id} or --no {pending.id}" if verbose else ""
        print_stderr(f"to answer: {shlex.join(['graph-agent', 'ask', *whose, '-c'])}{by_id}")
    if named:
        print_stderr(f"conversation: {answer.conversation_id}")


def _print_reason(record: OpenTurn | DecisionRecord | None) -> None:
    """Print why a message could not be served."""
    if isinstance(record, DecisionRecord) and (cause := failure_cause(record)) is not None:
        print_stderr(f"the cause: {cause}")
    print_stderr("the reason: graph-agent log show last")


async def _last_conversation(chat: ChatService, user: str, before: ShownConversation | None) -> str:
    """Return the conversation that this terminal showed last, else the user's last one."""
    if before is not None and before.user_id == user:
        return before.conversation_id
    page = await chat.conversations(user, limit=1)
    if not page.conversations:
        raise ServiceError(ServiceErrorCode.CONVERSATION_NOT_FOUND, "There is no conversation to continue yet.")
    return page.conversations[0].id


def _answer_by_id(yes: str | None, no: str | None) -> ConfirmationAnswer | None:
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


def _show_pending(settings: Settings, user: str, conversation: str | None) -> None:
    """Print the waiting action in full, and how to answer it: an action that its question shortened needs the digest too."""
    if conversation is None:
        wrong_usage("--show needs --conversation ID")
    with open_command_runtime(settings) as (runtime, run):
        pending = run(runtime.chat.conversation(user, conversation)).pending_action
    if pending is None:
        print_stderr(_NOTHING_WAITS)
        raise typer.Exit(FAILED)
    print_text(whole_action(pending))
    read = f":{pending.whole_digest}" if pending.by_id_only else ""
    print_stderr(f"to answer: --yes {pending.id}{read} or --no {pending.id}")


def _answer(answer: ChatAnswer) -> dict[str, Any]:
    """Return the JSON object that `ask --json` prints."""
    reply = {**answer.reply_json(), "states": answer.states}
    return {name: reply[name] for name in ("decision", "states", "conversation_id", "decision_id", "reply")}


def failed(decision: AgentDecision) -> bool:
    """True if the message could not be served. A refusal because it is out of scope counts as served."""
    return (decision.outcome_category or "").startswith(_FAILURES)


def _error(exc: GraphAgentError) -> dict[str, Any]:
    if isinstance(exc, ServiceError):
        found = {"decision_id": exc.decision_id} if exc.decision_id else {}
        return {"error": {"code": exc.code.value, "message": exc.message, **found}}
    return {"error": {"code": ServiceErrorCode.SERVICE_UNAVAILABLE.value, "message": "The request cannot be served right now."}}


def _from_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode().rstrip("\r\n")
    except UnicodeDecodeError:
        wrong_usage("the text on stdin is not UTF-8")


_MEMORY_SECONDS = 24 * 3600
"""The age at which a file is ignored and removed: the number of a session is used again after a restart of the machine."""


class ShownConversation(Frozen):
    """The conversation that a terminal session showed last, with the question that was open then.

    It lets `--continue` need no id. Another terminal or the page may ask a question meanwhile, and a yes typed here must not
    answer it, so each session has a file.
    """

    user_id: str
    conversation_id: str
    pending: PendingAction | None

    def question_in(self, user_id: str, conversation_id: str | None) -> ShownQuestion | None:
        """Return the question that this terminal shows in a conversation; None if it does not show the conversation."""
        if (user_id, conversation_id) != (self.user_id, self.conversation_id):
            return None
        return ShownQuestion(pending_action=None if self.pending is None else self.pending.id)


def last_shown(settings: Settings) -> ShownConversation | None:
    """Return what this terminal session showed last; None if it showed nothing yet."""
    file = _session_file(settings)
    with suppress(OSError, ValidationError):
        if file.stat().st_mtime > time.time() - _MEMORY_SECONDS:
            return ShownConversation.model_validate_json(file.read_bytes())
    return None


def remember(settings: Settings, shown: ShownConversation) -> None:
    """Store what this terminal session has shown, and remove the files of old sessions."""
    file = _session_file(settings)
    # A home that cannot be written only makes `--continue` take the user's last conversation.
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_text(shown.model_dump_json(), encoding="utf-8")
        for other in file.parent.iterdir():
            if other.stat().st_mtime < time.time() - _MEMORY_SECONDS:
                other.unlink(missing_ok=True)


def _session_file(settings: Settings) -> Path:
    return settings.home / "terminals" / str(os.getsid(0))

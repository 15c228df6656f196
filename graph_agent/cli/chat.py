"""`graph-agent chat` and `step`: turns in the terminal, as a conversation, and state by state."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.cli.ended_requests import EndedRequests
from graph_agent.cli.last_conversation import conversation_id_of
from graph_agent.cli.local_zone import local_zone
from graph_agent.cli.options import Conversation, Model, User, asking_as, with_rules
from graph_agent.cli.other_rules import print_other_rules
from graph_agent.cli.printed_answer import failed
from graph_agent.cli.running import DONE, FAILED, print_stderr
from graph_agent.cli.runtime import open_command_runtime, send_with_key
from graph_agent.cli.show import print_answer, print_text, shorten
from graph_agent.cli.typed_answer import TokenFile, forget_typed, has_launch_token, shows_questions
from graph_agent.errors import ServiceError
from graph_agent.graph.step import Step
from graph_agent.graph.step_summary import summarize
from graph_agent.models.decision import PendingAction, ShownQuestion
from graph_agent.models.record import RecordHeader
from graph_agent.settings import Settings
from graph_agent.turn.hooks import TurnHook

_HELP = """\
Write what you want; for example: add a task to call mom, show my tasks, mark the first one as done.
  /help    this text
  /tasks   your tasks
  /new     start a new conversation
  /quit    leave (Ctrl-D does too)"""

_SHORTCUTS = {"/tasks": "show my tasks"}


@with_rules()
def chat(
    user: User = LOCAL_USER,
    conversation: Conversation = None,
    model: Model = None,
    token_file: TokenFile = None,
    *,
    settings: Settings,
) -> None:
    """Chat in one conversation, until /quit or the end of input.

    A question that needs a yes or no is highlighted; only a terminal answers it, or input with --token-file. The changes that
    were made are listed below each reply. What was decided about your calls that wait for an approval is printed, too.
    """
    answers = has_launch_token(settings, token_file) or shows_questions()
    with open_command_runtime(settings, model=model) as (runtime, run):
        conversation = conversation_id_of(conversation, runtime.chat, user, run)
        print_stderr("/help lists the commands, /quit leaves.")
        pending: PendingAction | None = None
        whose, ended = asking_as(user), EndedRequests(runtime, run, user)
        if conversation is not None:
            ended.print_new(conversation)
        zone = local_zone()
        while (text := _read(after_question=pending is not None)) is not None and text != "/quit":
            if text == "/help":
                print_text(_HELP)
            elif text == "/new":
                conversation = pending = None
                print_stderr("A new conversation.")
            elif text:
                sent = _SHORTCUTS.get(text, text)
                if conversation is not None:
                    ended.print_new(conversation)
                # A yes answers the question on this screen, and no later one of another client.
                shown = ShownQuestion(pending_action=pending.id if pending is not None and answers else None)
                try:
                    answer = run(
                        send_with_key(runtime.chat.send, user, sent, conversation_id=conversation, shown=shown, time_zone=zone)
                    )
                except ServiceError as exc:
                    print_text((exc.message, "red"))
                    continue
                except KeyboardInterrupt:
                    print_stderr("Stopped; the log has what was done until then.")
                    continue
                if conversation is not None:
                    ended.print_new(conversation, answer.decision_id)
                conversation, pending = answer.conversation_id, answer.decision.pending_action
                print_answer(answer.decision)
                print_other_rules(runtime, run, user, answer, whose)
        if conversation is not None:
            print_stderr(f"conversation: {conversation}")


def _read(*, after_question: bool) -> str | None:
    """Return the next line, or None at the end of input. The prompt is shown on a terminal only."""
    prompt = ""
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 (gives `input` its line editing and history)
        if after_question:
            forget_typed(sys.stdin.fileno())
        prompt = "> "
    try:
        return input(prompt).strip()
    except EOFError:
        if prompt:
            typer.echo()
        return None


@with_rules()
def step(
    text: Annotated[str, typer.Argument(help="Send this message.", show_default=False)],
    user: User = LOCAL_USER,
    conversation: Conversation = None,
    model: Model = None,
    token_file: TokenFile = None,
    *,
    settings: Settings,
) -> None:
    """Send one message and print each state with its outcome and changes, then the reply."""
    answers = has_launch_token(settings, token_file)
    with open_command_runtime(settings, model=model) as (runtime, run):
        conversation = conversation_id_of(conversation, runtime.chat, user, run)
        # It has shown no question, so it answers none.
        asked = {"conversation_id": conversation, "shown": None if answers else ShownQuestion(), "time_zone": local_zone()}
        answer = run(send_with_key(runtime.chat.send, user, text, **asked, hooks=[StepPrinter()]))
        print_text()
        print_answer(answer.decision)
        print_other_rules(runtime, run, user, answer, asking_as(user))
        print_stderr(f"conversation: {answer.conversation_id}")
    raise typer.Exit(FAILED if failed(answer.decision) else DONE)


class StepPrinter(TurnHook):
    """Prints every step of a turn as it is taken."""

    def after_node(self, turn: RecordHeader, step: Step) -> None:  # noqa: ARG002 (the interface has it)
        print_step(step)


def print_step(taken: Step) -> None:
    """Print a state, its outcome and the fields of the turn that it changed."""
    print_text((f"{taken.state:<17}", "bold cyan"), f"→ {taken.outcome}")
    for name, summary in summarize(taken).items():
        print_text((f"    {name:<14}", "dim"), shorten(summary, 240))

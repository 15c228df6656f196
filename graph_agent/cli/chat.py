"""`graph-agent chat`: a conversation at the terminal."""

from __future__ import annotations

import contextlib
import sys

import typer
from rich.text import Text

from graph_agent.cli.running import Conversation, Model, User, opened_runtime, tell
from graph_agent.cli.show import out, print_answer
from graph_agent.errors import ServiceError

_HELP = """\
Write what you want; for example: add a task to call mom, show my tasks, mark the first one as done.
  /help    this text
  /tasks   your tasks
  /new     start a new conversation
  /quit    leave (Ctrl-D does too)"""

_SHORTCUTS = {"/tasks": "show my tasks"}


def chat(user: User = None, conversation: Conversation = None, model: Model = None) -> None:
    """Talk: one conversation, until /quit or the end of input.

    A question that waits for yes or no stands out. What was really done is told below each reply.
    """
    with opened_runtime(model=model) as (runtime, run):
        from graph_agent.bootstrap import LOCAL_USER

        tell("/help shows what you can do here, /quit leaves.")
        console = out()
        while (text := _read()) is not None and text != "/quit":
            if text == "/help":
                console.print(_HELP)
            elif text == "/new":
                conversation = None
                tell("A new conversation.")
            elif text:
                sent = _SHORTCUTS.get(text, text)
                try:
                    answer = run(runtime.chat.send(LOCAL_USER if user is None else user, sent, conversation_id=conversation))
                except ServiceError as exc:
                    console.print(Text(exc.message, style="red"))
                    continue
                except KeyboardInterrupt:
                    tell("Stopped; what was done until then is in the log.")
                    continue
                conversation = answer.conversation_id
                print_answer(console, answer.decision)
        if conversation is not None:
            tell(f"conversation: {conversation}")


def _read() -> str | None:
    """The next line; None at the end of input. The prompt is shown on a terminal only."""
    prompt = ""
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - gives `input` its line editing and history
        prompt = "> "
    try:
        return input(prompt).strip()
    except EOFError:
        if prompt:
            typer.echo()
        return None

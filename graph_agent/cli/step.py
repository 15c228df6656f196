"""`graph-agent step`: one turn, state by state."""

from __future__ import annotations

from typing import Annotated

import typer

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.cli.ask import failed
from graph_agent.cli.options import Conversation, Model, User, with_files
from graph_agent.cli.running import DONE, FAILED, print_stderr
from graph_agent.cli.runtime import open_command_runtime, send_with_key
from graph_agent.cli.show import print_answer, print_text
from graph_agent.cli.trace import shorten
from graph_agent.graph.step_summary import summarize
from graph_agent.graph.stepping import Step
from graph_agent.settings import Settings
from graph_agent.turn.hooks import TurnHook


@with_files()
def step(
    text: Annotated[str, typer.Argument(help="Send this message.", show_default=False)],
    user: User = LOCAL_USER,
    conversation: Conversation = None,
    model: Model = None,
    *,
    settings: Settings,
) -> None:
    """Send one message and print each state with its outcome and changes, then the reply."""
    with open_command_runtime(settings, model=model) as (runtime, run):
        answer = run(send_with_key(runtime.chat, user, text, conversation_id=conversation, hooks=[StepPrinter()]))
        print_text()
        print_answer(answer.decision)
        print_stderr(f"conversation: {answer.conversation_id}")
    raise typer.Exit(FAILED if failed(answer.decision) else DONE)


class StepPrinter(TurnHook):
    """Prints every step of a turn as it is taken."""

    def after_node(self, step: Step) -> None:
        print_step(step)


def print_step(taken: Step) -> None:
    """Print a state, its outcome and the fields of the turn that it changed."""
    print_text((f"{taken.state:<17}", "bold cyan"), f"→ {taken.outcome}")
    for name, summary in summarize(taken).items():
        print_text((f"    {name:<14}", "dim"), shorten(summary, 240))

"""`graph-agent demo`: conversations that show what the runtime does, on a temporary database."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from graph_agent.cli.running import FAILED, open_in_loop, print_stderr
from graph_agent.cli.runtime import open_command_runtime
from graph_agent.cli.show import print_answer, print_record, print_text
from graph_agent.settings import read_settings
from graph_agent.task_server.demo_scenes import SCENES, TRACED


class Demo(StrEnum):
    """The conversations."""

    TASKS = "tasks"
    INJECTION = "injection"


def demo(
    name: Annotated[
        Demo,
        typer.Argument(
            metavar="[tasks|injection]", help="The conversation: tasks, or a bill with an instruction for the model."
        ),
    ] = Demo.TASKS,
) -> None:
    """Show a scripted conversation, then the record of one of its decisions.

    The conversation adds, lists and completes tasks, asks for clarification, refuses, and deletes with a confirmation. That of
    `injection` is about a bill that tells the model to send money to somebody else.
    It runs offline with the embedded model, or a scripted one, and does not touch your data. Exits with 1 if a decision is not
    the expected one.
    """
    (_tasks if name is Demo.TASKS else _injection)()


def _injection() -> None:
    # Imported here, because its conditions need an extra.
    from graph_agent.bootstrap.injection import FOLDER, SESSION, open_injection

    print_text(("The bill", "bold"))
    print_text(((FOLDER / "bill.txt").read_text(encoding="utf-8"), "dim"))
    asked = ""
    with open_in_loop(open_injection()) as ((chat, audit), run):
        conversation = None
        for message in SESSION:
            answer = run(chat.send("demo", message, conversation_id=conversation))
            conversation = answer.conversation_id
            print_text((f"you> {message}", "cyan"))
            print_answer(answer.decision)
            asked = answer.decision_id if answer.decision.pending_action is not None else asked
        record = run(audit.load(asked))
        print_text(("\nThe record of the question", "bold"))
        if record is not None:
            print_record(record)


def _tasks() -> None:
    shipped = read_settings().model_copy(update={"constitution": None})
    failures = 0
    with open_command_runtime(shipped, model="embedded", temporary=True) as (runtime, run):
        conversation, traced = None, ""
        for number, scene in enumerate(SCENES):
            answer = run(runtime.chat.send("demo", scene.says, conversation_id=conversation))
            conversation, decision = answer.conversation_id, answer.decision
            called = tuple(call.tool_name for call in decision.tool_calls or ())
            print_text((f"\n{scene.title}", "bold"), (f"  {decision.decision_type}, {decision.outcome_category}", "dim"))
            print_text((f"you> {scene.says}", "cyan"))
            print_answer(decision)
            if (decision.decision_type, decision.outcome_category, called) != (scene.decision, scene.outcome, scene.tools):
                failures += 1
                print_text((f"expected {scene.decision}, {scene.outcome}, {list(scene.tools)}", "bold red"))
            if number == TRACED:
                traced = answer.decision_id
        print_text(("\nThe record of one decision", "bold"))
        record = run(runtime.audit.load(traced))
        if record is not None:
            print_record(record)
    if failures or record is None:
        print_stderr(f"{failures} messages did not lead to the expected decision")
        raise typer.Exit(FAILED)

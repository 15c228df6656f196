"""`graph-agent step`: one turn, state by state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.cli.ask import failed
from graph_agent.cli.files import command_settings
from graph_agent.cli.running import (
    DONE,
    FAILED,
    ConstitutionFile,
    Conversation,
    Mcp,
    Model,
    User,
    print_stderr,
)
from graph_agent.cli.runtime import open_command_runtime
from graph_agent.cli.sending import send_with_key
from graph_agent.cli.show import print_answer, stdout_console
from graph_agent.cli.trace import shorten
from graph_agent.graph.stepping import Step
from graph_agent.turn.hooks import TurnHook


def step(
    text: Annotated[str, typer.Argument(help="Send this message.", show_default=False)],
    user: User = None,
    conversation: Conversation = None,
    model: Model = None,
    mcp: Mcp = None,
    constitution: ConstitutionFile = None,
) -> None:
    """Send one message and print each state with its outcome and changes, then the reply."""
    with open_command_runtime(command_settings(mcp, constitution), model=model) as (runtime, run):
        console = stdout_console()
        answer = run(
            send_with_key(
                runtime.chat,
                LOCAL_USER if user is None else user,
                text,
                conversation_id=conversation,
                hooks=[StepPrinter(console)],
            )
        )
        console.print()
        print_answer(console, answer.decision)
        print_stderr(f"conversation: {answer.conversation_id}")
    raise typer.Exit(FAILED if failed(answer.decision) else DONE)


class StepPrinter(TurnHook):
    """Prints every step of a turn as it is taken."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def after_node(self, step: Step) -> None:
        print_step(self._console, step)


def print_step(console: Console, taken: Step) -> None:
    """Print a state, its outcome and the fields of the turn that it changed."""
    console.print(Text.assemble((f"{taken.state:<17}", "bold cyan"), f"→ {taken.outcome}"))
    for name, value in taken.changed.items():
        summary = _SUMMARIES.get(name, shorten)(value) if value is not None else "none"
        console.print(Text.assemble((f"    {name:<14}", "dim"), shorten(summary, 240)))


def _request(request: Any) -> str:
    said = [f"{message.role}: {_message(message)}" for message in request.messages[-3:]]
    return f"{len(request.messages)} messages, {len(request.tools)} tools; last: {' | '.join(said)}"


def _message(message: Any) -> str:
    calls = message.function_calls or ([message.function_call] if message.function_call else [])
    if message.function_response is not None:
        return shorten(message.function_response.response, 80)
    return shorten(message.content or ", ".join(call.name for call in calls), 80)


def _response(response: Any) -> str:
    calls = [f"{call.name} {shorten(call.arguments, 100)}" for call in response.function_calls or ()]
    parts = [response.finish_reason, response.error, response.content, *calls]
    return ", ".join(shorten(part, 120) for part in parts if part)


def _calls(calls: Any) -> str:
    return "; ".join(
        f"{call.sequence}. {call.call.name} {shorten(call.arguments, 80)} {call.disposition.value}, "
        f"{'ok' if call.result.success else call.result.error_code or call.disposition.value}"
        for call in calls
    )


def _ending(ending: Any) -> str:
    parts = [ending.kind.value, ending.reason, ending.error, ending.text]
    return ", ".join(shorten(str(part), 120) for part in parts if part)


def _decision(decision: Any) -> str:
    return f"{decision.decision_type.value}, {decision.outcome_category}"


def _pending(pending: Any) -> str:
    return f"{pending.tool_name} {shorten(pending.arguments, 80)}, until {pending.expires_at:%H:%M:%S} UTC"


def _usage(usage: Any) -> str:
    return f"{usage.total_tokens} tokens"


def _forms(forms: Any) -> str:
    return ", ".join(form.name for form in forms)


_SUMMARIES: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {
        "request": _request,
        "response": _response,
        "calls": _calls,
        "ending": _ending,
        "decision": _decision,
        "pending": _pending,
        "usage": _usage,
        "forms": _forms,
    }
)
"""Functions that summarize a field of the turn in one line; the other fields are short enough."""

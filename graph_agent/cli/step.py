"""`graph-agent step`: a turn, state by state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from graph_agent.cli.ask import failed
from graph_agent.cli.running import DONE, FAILED, Conversation, Model, User, opened_runtime, tell
from graph_agent.cli.show import out, print_answer
from graph_agent.cli.trace import shortened

if TYPE_CHECKING:
    from rich.console import Console

    from graph_agent.graph.stepping import Step


def step(
    text: Annotated[str, typer.Argument(help="The message.", show_default=False)],
    user: User = None,
    conversation: Conversation = None,
    model: Model = None,
) -> None:
    """Send one message and print every state as it is left: its outcome and what it changed; then the reply."""
    with opened_runtime(model=model) as (runtime, run):
        from graph_agent.bootstrap import LOCAL_USER

        console = out()
        answer = run(
            runtime.chat.send(
                LOCAL_USER if user is None else user,
                text,
                conversation_id=conversation,
                on_step=lambda taken: print_step(console, taken),
            )
        )
        console.print()
        print_answer(console, answer.decision)
        tell(f"conversation: {answer.conversation_id}")
    raise typer.Exit(FAILED if failed(answer.decision) else DONE)


def print_step(console: Console, taken: Step) -> None:
    console.print(Text.assemble((f"{taken.state:<17}", "bold cyan"), f"→ {taken.outcome}"))
    for name, value in taken.changed.items():
        tell_value = _TELL.get(name, shortened)
        told = tell_value(value) if value is not None else "none"
        console.print(Text.assemble((f"    {name:<14}", "dim"), shortened(told, 240)))


def _request(request: Any) -> str:
    said = [f"{message.role}: {_message(message)}" for message in request.messages[-3:]]
    return f"{len(request.messages)} messages, {len(request.tools)} tools; last: {' | '.join(said)}"


def _message(message: Any) -> str:
    calls = message.function_calls or ([message.function_call] if message.function_call else [])
    if message.function_response is not None:
        return shortened(message.function_response.response, 80)
    return shortened(message.content or ", ".join(call.name for call in calls), 80)


def _response(response: Any) -> str:
    calls = [f"{call.name} {shortened(call.arguments, 100)}" for call in response.function_calls or ()]
    told = [response.finish_reason, response.error, response.content, *calls]
    return ", ".join(shortened(part, 120) for part in told if part)


def _calls(calls: Any) -> str:
    return "; ".join(
        f"{call.sequence}. {call.call.name} {shortened(call.arguments, 80)} {call.disposition.value}, "
        f"{'ok' if call.result.success else call.result.error_code or call.disposition.value}"
        for call in calls
    )


def _ending(ending: Any) -> str:
    told = [ending.kind.value, ending.reason, ending.error, ending.text]
    return ", ".join(shortened(str(part), 120) for part in told if part)


def _decision(decision: Any) -> str:
    return f"{decision.decision_type.value}, {decision.outcome_category}"


def _pending(pending: Any) -> str:
    return f"{pending.tool_name} {shortened(pending.arguments, 80)}, until {pending.expires_at:%H:%M:%S} UTC"


def _usage(usage: Any) -> str:
    return f"{usage.total_tokens} tokens"


def _forms(forms: Any) -> str:
    return ", ".join(form.name for form in forms)


_TELL: Mapping[str, Callable[[Any], str]] = MappingProxyType(
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
"""How the fields of a turn are told; the others are short."""

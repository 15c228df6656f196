"""BUILD_REQUEST: the opening row, the user's answer to a pending confirmation, and the request to the model."""

from __future__ import annotations

from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.models.llm import LLMMessage, LLMRequest
from graph_agent.policy.confirmation import Consent, alive, read_consent
from graph_agent.reply.fixed import DECLINED_REPLY
from graph_agent.reply.forms import REPLY_FORM_DECLARATIONS
from graph_agent.ports import TurnPorts


async def build_request(turn: Turn, runtime: TurnRuntime) -> Turn:
    await runtime.ports.open()
    consent = await _answer_to_pending(turn, runtime.ports)
    turn = turn.to("request_built", request=_request(turn, runtime))
    if consent is Consent.YES:
        return turn.to("confirmed", pending=turn.context.pending_confirmation)
    if consent is Consent.NO:
        return turn.to("declined", ending=Ending(EndingKind.DECLINED, DECLINED_REPLY))
    return turn


async def _answer_to_pending(turn: Turn, ports: TurnPorts) -> Consent:
    """How the user answered. A pending action is used up by the next message, whatever that says; a void one is none."""
    pending = turn.context.pending_confirmation
    if pending is None or not ports.verify(pending):
        return Consent.NEITHER
    in_time = alive(pending, ports.now())
    unused = await ports.consume(pending.id)
    return read_consent(turn.context.message) if in_time and unused else Consent.NEITHER


def _request(turn: Turn, runtime: TurnRuntime) -> LLMRequest:
    kept = runtime.config.include_history_messages
    history = turn.context.message_history[-kept:] if kept else []
    instruction = runtime.terms.prompt
    if runtime.config.tell_time:
        instruction = f"{instruction}\n\nThe current time is {runtime.ports.now().isoformat(timespec='seconds')} (UTC)."
    return LLMRequest(
        system_instruction=instruction,
        messages=[
            *(LLMMessage(role=message.role, content=message.content) for message in history if message.content),
            LLMMessage(role="user", content=turn.context.message),
        ],
        tools=[*runtime.policy.declarations, *REPLY_FORM_DECLARATIONS],
        temperature=runtime.config.temperature,
        max_tokens=runtime.config.max_tokens,
    )

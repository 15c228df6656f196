"""CHECK_RESPONSE: what did the model say? Nothing is acted on that does not pass here."""

from __future__ import annotations

from dataclasses import dataclass

from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.models.decision import unstorable
from graph_agent.models.llm import FunctionCall, LLMErrorCode
from graph_agent.reply.prompt_leak import recites
from graph_agent.reply.fixed import CUT_MARK
from graph_agent.reply.forms import QUESTION_REASONS, REPLY_FORMS, read_form
from graph_agent.reply.plain_text import classify_reply
from graph_agent.reply.sanitize import clean_reply, imitates_call, read_imitated_form

MAX_CALLS_IN_RESPONSE = 64
"""More than this is no plan but a flood; every call of a batch is recorded and answered."""

MAX_TEXT_READ = 32_000
"""Characters of an answer that are read, four times what a reply may have; the whole of it stands in the record."""


@dataclass(frozen=True, slots=True)
class _Inside:
    """What never reaches people: the names of tools and reply forms, and the prompt."""

    names: frozenset[str]
    prompt: str

    def kept_out_of(self, text: str) -> str:
        """`text` made fit for people; empty where nothing of it is."""
        return "" if recites(text, self.prompt) else clean_reply(text, self.names)


async def check_response(turn: Turn, runtime: TurnRuntime) -> Turn:
    response = turn.response
    assert response is not None
    if response.finish_reason == "error":
        return _failed(turn, response.error or LLMErrorCode.INVALID_RESPONSE)
    inside = _Inside(frozenset(runtime.policy.rules) | REPLY_FORMS, runtime.terms.prompt)
    content = (response.content or "")[:MAX_TEXT_READ]
    if response.finish_reason == "max_tokens":
        text = inside.kept_out_of(content)
        return _ended(turn, EndingKind.ANSWER, f"{text}{CUT_MARK}") if text else _failed(turn)
    calls = response.function_calls or []
    if calls:
        return _read_calls(turn, content, calls, inside)
    if response.finish_reason == "tool_calls":
        return _failed(turn)
    return _read_text(turn, content, inside)


def _read_calls(turn: Turn, content: str, calls: list[FunctionCall], inside: _Inside) -> Turn:
    ids = [call.id for call in calls if call.id]
    names_are_text = all(call.name and unstorable(call.name) is None for call in calls)
    if len(calls) > MAX_CALLS_IN_RESPONSE or len(set(ids)) < len(ids) or not names_are_text:
        return _failed(turn)
    forms = tuple(call for call in calls if call.name in REPLY_FORMS)
    if len(forms) < len(calls):
        return turn.to("tool_calls", forms=forms)
    for form in forms:
        if ended := _end_by_form(turn, form, content, inside):
            return ended
    return _failed(turn)


def _read_text(turn: Turn, content: str, inside: _Inside) -> Turn:
    if imitated := read_imitated_form(content):
        return _end_by_form(turn, imitated, None, inside) or _failed(turn)
    if imitates_call(content, inside.names):
        return _failed(turn)
    text = inside.kept_out_of(content)
    if not text:
        return _failed(turn)
    # What was done was done: after a change only a reply form can turn the report of it into a question or a refusal.
    if any(call.receipt for call in turn.calls):
        return _ended(turn, EndingKind.ANSWER, text)
    kind = classify_reply(content)
    if kind.kind == "answer":
        return _ended(turn, EndingKind.ANSWER, text)
    if kind.kind == "refusal":
        return _ended(turn, EndingKind.REFUSAL, text)
    return turn.to("answered", ending=Ending(EndingKind.QUESTION, text, QUESTION_REASONS[kind.reason or "unclear_intent"]))


def _end_by_form(turn: Turn, form: FunctionCall, spoken: str | None, inside: _Inside) -> Turn | None:
    reply = read_form(form, spoken)
    text = inside.kept_out_of(reply.text[:MAX_TEXT_READ]) if reply else ""
    if reply is None or not text:
        return None
    kind = EndingKind.QUESTION if reply.kind == "question" else EndingKind.REFUSAL
    return turn.to("answered", ending=Ending(kind, text, reply.reason))


def _ended(turn: Turn, kind: EndingKind, text: str) -> Turn:
    return turn.to("answered", ending=Ending(kind, text))


def _failed(turn: Turn, error: LLMErrorCode = LLMErrorCode.INVALID_RESPONSE) -> Turn:
    return turn.to("failed", ending=Ending(EndingKind.FAILURE, error=error))

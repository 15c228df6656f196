"""CHECK_RESPONSE: checks and reads the model's response. No other node uses an unchecked response."""

from __future__ import annotations

from dataclasses import dataclass

from graph_agent.graph.plan import ask_about_plan
from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.llm.written_calls import WrittenCall, without_calls, written_calls
from graph_agent.models.decision import OutcomeCategory, unstorable
from graph_agent.models.llm import FunctionCall, LLMErrorCause, LLMErrorCode
from graph_agent.models.record import CallDisposition
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.reply.authored import Parts, by_code, by_model
from graph_agent.reply.fixed import CUT_MARK, NOTHING_CHANGED
from graph_agent.reply.forms import ALL_FORMS, ANSWER, PROPOSE_PLAN, REPLY_FORMS, FormReply, join_forms
from graph_agent.reply.plain_text import is_question
from graph_agent.reply.prompt_leak import leaks_prompt
from graph_agent.reply.text import clean_reply

MAX_CALLS_IN_RESPONSE = 64
"""The limit for one response, because every call of a batch is recorded and answered. A response with more is an error."""

MAX_TEXT_READ = 32_000
"""The number of characters of a text that are read: four times the maximum of a reply. The record has the whole text."""


@dataclass(frozen=True, slots=True)
class _ReplyFilter:
    """Keeps the names of tools and forms, and the prompt, out of a reply."""

    names: frozenset[str]
    prompt: str

    def clean(self, text: str) -> str:
        """Return `text` as a user may read it; empty if it cannot be shown."""
        text = text[:MAX_TEXT_READ]
        if leaks_prompt(text, self.prompt):
            return ""
        return clean_reply(without_calls(text, self.find_calls(text)), self.names)

    def find_calls(self, text: str) -> list[WrittenCall]:
        """Return the calls that the model wrote as text instead of requesting them."""
        return written_calls(text[:MAX_TEXT_READ], self.names)


async def check_response(turn: Turn, runtime: TurnRuntime) -> Turn:
    response = turn.response
    assert response is not None
    if response.finish_reason == "error":
        return _failed(turn, response.error_code or LLMErrorCode.INVALID_RESPONSE)
    reply_filter = _ReplyFilter(frozenset(runtime.snapshot.policy.rules) | ALL_FORMS, runtime.snapshot.prompt)
    content, calls = response.content or "", response.function_calls or []
    if response.finish_reason == "max_tokens":
        return _read_truncated(turn, content, calls, runtime.snapshot.policy, reply_filter)
    if _has_malformed_calls(calls):
        return _failed(turn)
    forms = [call for call in calls if call.name in REPLY_FORMS]
    plans = [call for call in calls if call.name == PROPOSE_PLAN]
    if plans and len(plans) == len(calls) and (asked := await ask_about_plan(turn, runtime, plans[0].arguments)) is not None:
        return asked
    if len(forms) < len(calls):
        return _failed(turn, cause=LLMErrorCause.REPEATED_CALLS) if turn.repeating else turn.to("tool_calls")
    if forms:
        return _end_by_form(turn, join_forms(forms, content), runtime.snapshot.policy, reply_filter)
    return _read_text(turn, content, runtime.snapshot.policy, reply_filter)


def _read_truncated(
    turn: Turn, content: str, calls: list[FunctionCall], policy: CompiledPolicy, reply_filter: _ReplyFilter
) -> Turn:
    """Use the text of a response that was cut at the token limit. A tool call in it may be incomplete and is never run."""
    written = reply_filter.find_calls(content)
    if reply := join_forms(_forms(written)):
        # The form was complete before the limit.
        return _end_by_form(turn, reply, policy, reply_filter)
    answers = calls if all(call.name == ANSWER for call in calls) else []
    reply = join_forms(answers, content) or join_forms(_forms(written, whole=False))
    text = reply_filter.clean(reply.text if reply else content)
    if not text:
        return _failed(turn, cause=LLMErrorCause.CALLS_AS_TEXT if written else None)
    return _ended(turn, EndingKind.ANSWER, by_model(text) + by_code(CUT_MARK))


def _has_malformed_calls(calls: list[FunctionCall]) -> bool:
    ids = [call.id for call in calls if call.id]
    names_are_valid = all(call.name and unstorable(call.name) is None for call in calls)
    return len(calls) > MAX_CALLS_IN_RESPONSE or len(set(ids)) < len(ids) or not names_are_valid


def _end_by_form(turn: Turn, reply: FormReply | None, policy: CompiledPolicy, reply_filter: _ReplyFilter) -> Turn:
    text = reply_filter.clean(reply.text) if reply else ""
    if reply is None or not text:
        return _failed(turn)
    denied = reply.reports_change and not _may_have_changed(turn, policy)
    parts = by_model(text) + (by_code(f"\n\n{NOTHING_CHANGED}") if denied else ())
    return _ended(turn, EndingKind(reply.kind), parts, reply.reason)


def _may_have_changed(turn: Turn, policy: CompiledPolicy) -> bool:
    """Return True if a mutating call of the turn succeeded, was repeated, or has an unknown result."""
    return any(
        policy.is_write(call.call.name) and (call.result.may_be_done or call.disposition is CallDisposition.REPEATED)
        for call in turn.calls
    )


def _read_text(turn: Turn, content: str, policy: CompiledPolicy, reply_filter: _ReplyFilter) -> Turn:
    """Read a reply in plain text: a written-out form, an answer, or a question."""
    written = reply_filter.find_calls(content)
    if reply := join_forms(_forms(written)):
        return _end_by_form(turn, reply, policy, reply_filter)
    text = reply_filter.clean(content)
    if not text:
        return _failed(turn, cause=LLMErrorCause.CALLS_AS_TEXT if written else None)
    parts = by_model(text)
    if any(call.name not in REPLY_FORMS for call in written) and not _may_have_changed(turn, policy):
        # The text beside a call that was only written may say that the call was made.
        parts += by_code(f"\n\n{NOTHING_CHANGED}")
    # A question mark in a text that follows a committed change does not make it a question: it reports the change. To ask
    # then, the model has to use the form `ask_user`.
    if is_question(text) and not any(call.receipt for call in turn.calls):
        return _ended(turn, EndingKind.QUESTION, parts, OutcomeCategory.UNCLEAR_INTENT)
    return _ended(turn, EndingKind.ANSWER, parts)


def _forms(written: list[WrittenCall], *, whole: bool = True) -> list[FunctionCall]:
    """Return the reply forms among `written`: those that are whole, or those that were cut off."""
    return [
        FunctionCall(name=call.name, arguments=call.arguments)
        for call in written
        if call.name in REPLY_FORMS and call.arguments is not None and call.whole is whole
    ]


def _ended(turn: Turn, kind: EndingKind, parts: Parts, reason: OutcomeCategory | None = None) -> Turn:
    return turn.to("answered", ending=Ending.of(kind, parts, reason))


def _failed(turn: Turn, error: LLMErrorCode = LLMErrorCode.INVALID_RESPONSE, cause: LLMErrorCause | None = None) -> Turn:
    return turn.to("failed", ending=Ending(EndingKind.FAILURE, error=error, cause=cause))

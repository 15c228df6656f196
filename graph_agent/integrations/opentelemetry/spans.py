"""OpenTelemetry spans of turns, named by the GenAI semantic conventions, and log records; off unless GRAPH_AGENT_OTEL is set.

    invoke_agent graph-agent          one for each turn: usage, decision, outcome
    ├── chat MODEL                    one for each model call: finish reason, tokens
    └── execute_tool NAME             one for each call that was sent: run, settle or preview; and, without a duration, for each
                                      one that was refused or waits for people, with its disposition

A turn continues the trace of the request that started it, by its `traceparent` header.

Spans contain no text: no message, prompt, argument, result or user id. An error is given by its code. The standard OTEL_*
variables configure the exporters; the providers are our own, so that spans of other libraries are not exported with ours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import Token
from functools import partial
from typing import Any

# The API comes with the MCP SDK; only the exporters need the extra.
from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from graph_agent.errors import ServiceError, ToolErrorCode
from graph_agent.llm.gemini import GeminiAdapter
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.models.llm import LLMResponse, TokenUsage
from graph_agent.models.record import CallDisposition, DecisionRecord, RecordHeader
from graph_agent.models.tools import ToolResult
from graph_agent.ports import LLMAdapter
from graph_agent.turn.hooks import HookedModelCall, HookedToolCall, TurnHook

AGENT = "graph-agent"

_PROVIDERS: tuple[tuple[type, str], ...] = ((GeminiAdapter, "gcp.gemini"), (OpenAICompatibleAdapter, "openai"))

_NO_TOOL = "(not listed)"

_ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]
_OpenSpan = tuple[Span, Token[context.Context]]
"""A span that is current until its token is detached."""


def turn_spans(tracer: Tracer, adapter: LLMAdapter) -> Callable[[], TurnHook]:
    """Return a factory of hooks for an engine that uses `adapter`."""
    provider = next((name for kind, name in _PROVIDERS if isinstance(adapter, kind)), "graph_agent")
    return partial(TurnSpans, tracer, {"gen_ai.provider.name": provider, "gen_ai.request.model": adapter.model})


class TurnSpans(TurnHook):
    """The spans of one turn."""

    def __init__(self, tracer: Tracer, model: Mapping[str, str]) -> None:
        """`model` has the attributes that every span of the model gets."""
        self._tracer = tracer
        self._model = model
        self._turn: _OpenSpan | None = None
        self._calls: dict[HookedModelCall | HookedToolCall, _OpenSpan] = {}
        """By call, because a task that the turn has abandoned may end its call during the next one."""

    def before_turn(self, turn: RecordHeader) -> None:
        self._turn = self._open(turn, "invoke_agent", AGENT, SpanKind.INTERNAL, {**self._model, "gen_ai.agent.name": AGENT})

    def after_turn(self, turn: RecordHeader, outcome: DecisionRecord | BaseException) -> None:
        assert self._turn is not None
        span = self._turn[0]
        if isinstance(outcome, DecisionRecord):
            _set_decision(span, outcome)
            self._add_unsent(turn, outcome)
        else:
            _set_error(span, outcome.code if isinstance(outcome, ServiceError) else type(outcome).__name__)
        _end(self._turn)

    def before_model_call(self, call: HookedModelCall) -> None:
        request = call.request
        limits = {"gen_ai.request.temperature": request.temperature, "gen_ai.request.max_tokens": request.max_tokens}
        model = self._model["gen_ai.request.model"]
        self._calls[call] = self._open(call.turn, "chat", model, SpanKind.CLIENT, {**self._model, **limits})

    def after_model_call(self, call: HookedModelCall, outcome: LLMResponse | BaseException) -> None:
        opened = self._calls.pop(call)
        span = opened[0]
        if isinstance(outcome, LLMResponse):
            span.set_attribute("gen_ai.response.finish_reasons", [outcome.finish_reason])
            if outcome.response_model is not None:
                span.set_attribute("gen_ai.response.model", outcome.response_model)
            _set_usage(span, outcome.usage)
            if outcome.finish_reason == "error":
                _set_error(span, outcome.error_code or "INVALID_RESPONSE")
        else:
            _set_error(span, type(outcome).__name__)
        _end(opened)

    def before_tool_call(self, call: HookedToolCall) -> None:
        attributes = {"gen_ai.tool.name": call.tool_name, "gen_ai.tool.type": "function", "graph_agent.tool.mode": call.mode}
        self._calls[call] = self._open(call.turn, "execute_tool", call.tool_name, SpanKind.INTERNAL, attributes)

    def after_tool_call(self, call: HookedToolCall, outcome: ToolResult | BaseException) -> None:
        opened = self._calls.pop(call)
        if not isinstance(outcome, ToolResult):
            _set_error(opened[0], type(outcome).__name__)
        elif not outcome.success:
            _set_error(opened[0], outcome.error_code or "TOOL_EXECUTION_ERROR")
        _end(opened)

    def _add_unsent(self, turn: RecordHeader, record: DecisionRecord) -> None:
        """Add a span for each call that was not sent. The turn's span is the current one."""
        for call in record.invocations:
            if call.disposition is CallDisposition.EXECUTED:
                continue
            # The model may have invented the name.
            name = _NO_TOOL if call.error_code == ToolErrorCode.TOOL_NOT_FOUND else call.tool_name
            attributes = {"gen_ai.tool.name": name, "gen_ai.tool.type": "function"}
            attributes["graph_agent.tool.disposition"] = call.disposition.value
            if call.gate is not None:
                attributes["graph_agent.tool.gate"] = call.gate
            opened = self._open(turn, "execute_tool", name, SpanKind.INTERNAL, attributes)
            if call.disposition is CallDisposition.REFUSED:
                _set_error(opened[0], call.error_code or "REFUSED")
            _end(opened)

    def _open(
        self, turn: RecordHeader, operation: str, subject: str, kind: SpanKind, attributes: Mapping[str, Any]
    ) -> _OpenSpan:
        """Start a span and make it the current one, the parent of those that follow."""
        named = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": turn.context.conversation_id, **attributes}
        span = self._tracer.start_span(f"{operation} {subject}", kind=kind, attributes=named)
        return span, context.attach(trace.set_span_in_context(span))


def _end(opened: _OpenSpan) -> None:
    span, token = opened
    context.detach(token)
    span.end()


def _set_decision(span: Span, record: DecisionRecord) -> None:
    decision = record.decision
    outcome = decision.outcome_category
    span.set_attribute("graph_agent.decision.id", record.header.decision_id)
    span.set_attribute("graph_agent.decision.type", decision.decision_type.value)
    span.set_attribute("graph_agent.iterations", record.iterations)
    for call in record.invocations:
        for verdict in call.shadow:
            of_rule = {"gen_ai.tool.name": call.tool_name, "graph_agent.rule": verdict.rule}
            span.add_event("graph_agent.shadow", {**of_rule, "graph_agent.decision": verdict.decision})
    _set_usage(span, record.usage)
    if outcome is not None:
        span.set_attribute("graph_agent.outcome", outcome.value)
        if outcome.category == "ERROR":
            _set_error(span, outcome)


def _set_usage(span: Span, usage: TokenUsage | None) -> None:
    if usage is not None:
        span.set_attribute("gen_ai.usage.input_tokens", usage.prompt_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", usage.completion_tokens)
        if usage.cached_tokens:
            span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens)


def _set_error(span: Span, error_type: str) -> None:
    """Mark a span as failed by its code alone: the text of an exception may contain anything."""
    span.set_attribute("error.type", str(error_type))
    span.set_status(StatusCode.ERROR)


class TraceParent:
    """ASGI middleware that makes the caller's span the parent of the spans that the request opens."""

    def __init__(self, app: _ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())}
        token = context.attach(TraceContextTextMapPropagator().extract(headers, context.Context()))
        try:
            await self._app(scope, receive, send)
        finally:
            context.detach(token)

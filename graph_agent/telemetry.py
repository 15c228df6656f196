"""OpenTelemetry spans of turns, by the GenAI semantic conventions; off unless GRAPH_AGENT_OTEL says so.

    invoke_agent graph-agent          one for each turn: usage, decision, outcome
    ├── chat MODEL                    one for each model call: finish reason, tokens
    └── execute_tool NAME             one for each call that was sent: run, settle or preview

What was said stays out of them: no message, prompt, argument, result or user. An error is its code. Where they go, the standard
OTEL_* variables say; the tracer is the runtime's own, so that no other library's spans travel with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

from graph_agent.turn.engine import FinishedTurn, LLMAgentEngine, StepListener
from graph_agent.errors import ConfigurationError, LLMError, ServiceError
from graph_agent.llm.gemini import GeminiAdapter
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import LLMMessage, LLMResponse, TokenUsage, ToolDeclaration
from graph_agent.models.record import DecisionRecord
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.ports import LLMAdapter, ToolServer

SERVICE = "graph-agent"

LAST_SPANS_SECONDS = 2.0
"""How long the end of a process waits for a collector; what that has not taken by then is lost."""

_PROVIDERS: tuple[tuple[type, str], ...] = ((GeminiAdapter, "gcp.gemini"), (OpenAICompatibleAdapter, "openai"))

_conversation: ContextVar[str | None] = ContextVar("conversation", default=None)
"""Of the turn that runs in this context; the ports are not told."""


@asynccontextmanager
async def open_tracing() -> AsyncGenerator[Tracer]:
    """A tracer that sends spans over OTLP/HTTP, in batches and from a thread of its own; on leaving the last ones are sent.

    Raises `ConfigurationError` where the extra is not installed.
    """
    try:
        # An extra: whoever has no use for it does not have it.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as exc:
        raise ConfigurationError("GRAPH_AGENT_OTEL needs the extra 'otel': pip install 'graph-agent[otel]'") from exc
    # The detector reads OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, and goes before our own name.
    provider = TracerProvider(resource=Resource({"service.name": SERVICE}).merge(OTELResourceDetector().detect()))
    exporter = OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield provider.get_tracer("graph_agent")
    finally:
        sending = asyncio.create_task(asyncio.to_thread(provider.shutdown))
        _, late = await asyncio.wait({sending}, timeout=LAST_SPANS_SECONDS)
        if late:
            exporter.shutdown()  # type: ignore[no-untyped-call]  # it has no types
            await sending


class TracedEngine(LLMAgentEngine):
    """An engine whose turns, model calls and tool calls are spans. What is decided and recorded is the same."""

    def __init__(
        self, tracer: Tracer, llm_adapter: LLMAdapter, tool_executor: ToolServer, constitution: str, **settings: Any
    ) -> None:
        """`settings` are those of `LLMAgentEngine`."""
        provider = next((name for kind, name in _PROVIDERS if isinstance(llm_adapter, kind)), "graph_agent")
        self._spans = Spans(tracer, {"gen_ai.provider.name": provider, "gen_ai.request.model": llm_adapter.model})
        adapter, tools = TracedAdapter(llm_adapter, self._spans), TracedTools(tool_executor, self._spans)
        super().__init__(adapter, tools, constitution, **settings)

    async def run(
        self, context: DecisionContext, *, decision_id: str | None = None, on_step: StepListener | None = None
    ) -> FinishedTurn:
        """See `LLMAgentEngine.run`."""
        with self._spans.turn(context.conversation_id) as span:
            finished = await super().run(context, decision_id=decision_id, on_step=on_step)
            _tell_decision(span, finished.record)
            return finished

    async def finish(self, decision_id: str, *, ask_model: bool, on_step: StepListener | None = None) -> FinishedTurn | None:
        """See `LLMAgentEngine.finish`."""
        with self._spans.turn(None) as span:
            finished = await super().finish(decision_id, ask_model=ask_model, on_step=on_step)
            if finished is not None:
                _tell_decision(span, finished.record)
            return finished


class Spans:
    """Begins and ends spans."""

    def __init__(self, tracer: Tracer, model: Mapping[str, str]) -> None:
        """`model` are the attributes of every span that has to do with the model."""
        self._tracer = tracer
        self._model = model

    @contextmanager
    def turn(self, conversation_id: str | None) -> Iterator[Span]:
        token = _conversation.set(conversation_id)
        try:
            attributes = {**self._model, "gen_ai.agent.name": SERVICE}
            with self._span("invoke_agent", SERVICE, SpanKind.INTERNAL, attributes) as span:
                yield span
        finally:
            _conversation.reset(token)

    @contextmanager
    def model_call(self, temperature: float, max_tokens: int) -> Iterator[Span]:
        wanted = {"gen_ai.request.temperature": temperature, "gen_ai.request.max_tokens": max_tokens}
        with self._span("chat", self._model["gen_ai.request.model"], SpanKind.CLIENT, {**self._model, **wanted}) as span:
            yield span

    @contextmanager
    def tool_call(self, tool_name: str, mode: str) -> Iterator[Span]:
        attributes = {"gen_ai.tool.name": tool_name, "gen_ai.tool.type": "function", "graph_agent.tool.mode": mode}
        with self._span("execute_tool", tool_name, SpanKind.INTERNAL, attributes) as span:
            yield span

    @contextmanager
    def _span(self, operation: str, of_what: str, kind: SpanKind, attributes: Mapping[str, Any]) -> Iterator[Span]:
        told = {"gen_ai.operation.name": operation, **attributes}
        conversation_id = _conversation.get()
        if conversation_id is not None:
            told["gen_ai.conversation.id"] = conversation_id
        # An exception's text may hold anything, so that neither it nor its traceback becomes part of the span.
        with self._tracer.start_as_current_span(
            f"{operation} {of_what}", kind=kind, attributes=told, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as exc:
                _fail(span, exc.code if isinstance(exc, LLMError | ServiceError) else type(exc).__name__)
                raise


class TracedAdapter:
    """An `LLMAdapter` whose calls are spans."""

    def __init__(self, adapter: LLMAdapter, spans: Spans) -> None:
        self._adapter = adapter
        self._spans = spans

    @property
    def model(self) -> str:
        return self._adapter.model

    async def generate(
        self,
        messages: list[LLMMessage],
        tools: list[ToolDeclaration],
        temperature: float = 0.0,
        max_tokens: int = 1024,
        *,
        system_instruction: str | None = None,
    ) -> LLMResponse:
        with self._spans.model_call(temperature, max_tokens) as span:
            response = await self._adapter.generate(
                messages, tools, temperature, max_tokens, system_instruction=system_instruction
            )
            span.set_attribute("gen_ai.response.finish_reasons", [response.finish_reason])
            _tell_usage(span, response.usage)
            if response.finish_reason == "error":
                _fail(span, response.error or "INVALID_RESPONSE")
            return response

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        return self._adapter.get_tool_declarations(tools)


class TracedTools:
    """A `ToolServer` whose calls are spans."""

    def __init__(self, tools: ToolServer, spans: Spans) -> None:
        self._tools = tools
        self._spans = spans

    async def start(self) -> bool:
        return await self._tools.start()

    def declarations(self) -> list[ToolDeclaration]:
        return self._tools.declarations()

    def traits(self, tool_name: str) -> ToolTraits:
        return self._tools.traits(tool_name)

    def get_available_tools(self) -> list[str]:
        return self._tools.get_available_tools()

    async def execute(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str | None = None,
        deadline: float | None = None,
    ) -> ToolResult:
        with self._spans.tool_call(tool_name, "run") as span:
            result = await self._tools.execute(tool_name, parameters, user_id, operation_key=operation_key, deadline=deadline)
            return _told(span, result)

    async def settle(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str,
        deadline: float | None = None,
    ) -> ToolResult:
        with self._spans.tool_call(tool_name, "settle") as span:
            result = await self._tools.settle(tool_name, parameters, user_id, operation_key=operation_key, deadline=deadline)
            return _told(span, result)

    async def preview(
        self, tool_name: str, parameters: dict[str, Any], user_id: str, *, deadline: float | None = None
    ) -> ToolResult:
        with self._spans.tool_call(tool_name, "preview") as span:
            return _told(span, await self._tools.preview(tool_name, parameters, user_id, deadline=deadline))


def _told(span: Span, result: ToolResult) -> ToolResult:
    if not result.success:
        _fail(span, result.error_code or "TOOL_EXECUTION_ERROR")
    return result


def _tell_decision(span: Span, record: DecisionRecord) -> None:
    decision = record.decision
    outcome = decision.outcome_category
    span.set_attribute("gen_ai.conversation.id", record.header.context.conversation_id)
    span.set_attribute("graph_agent.decision.id", record.header.decision_id)
    span.set_attribute("graph_agent.decision.type", decision.decision_type.value)
    span.set_attribute("graph_agent.iterations", record.iterations)
    _tell_usage(span, record.usage)
    if outcome is not None:
        span.set_attribute("graph_agent.outcome", outcome.value)
        if outcome.category == "ERROR":
            _fail(span, outcome)


def _tell_usage(span: Span, usage: TokenUsage | None) -> None:
    if usage is not None:
        span.set_attribute("gen_ai.usage.input_tokens", usage.prompt_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", usage.completion_tokens)


def _fail(span: Span, error_type: str) -> None:
    span.set_attribute("error.type", str(error_type))
    span.set_status(StatusCode.ERROR)

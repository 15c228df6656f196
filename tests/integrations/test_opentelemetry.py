"""The spans of turns: their attributes, texts that they never contain, and their export."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, Tracer

from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.bootstrap.stores import temporary_settings
from graph_agent.cli.log_lines import log_to_collector
from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.db import Database
from graph_agent.errors import RecordUnavailableError, ServiceError, ToolErrorCode
from graph_agent.integrations.opentelemetry import otlp
from graph_agent.integrations.opentelemetry.spans import TraceParent, turn_spans
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import LLMErrorCode, LLMResponse, TokenUsage
from graph_agent.models.record import DecisionOpening
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.question.approvals import ApprovalStore
from graph_agent.question.tables import questions
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.settings import Settings
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.otlp_collector import Collected, collecting
from tests.scripted_turns import SECRET, TableServer, asks, calls, done, engine_of, failed, grouped

TOKENS = TokenUsage(prompt_tokens=100, completion_tokens=7, total_tokens=107)


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> Tracer:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test")


def _traced(tracer: Tracer, *script: Any, server: Any = None, **settings: Any) -> LLMAgentEngine:
    kept = {"clock": ManualClock(), "ids": SequentialIds(), "signer": Signer(SECRET), **settings}
    adapter = ScriptedAdapter(list(script))
    hooks = [turn_spans(tracer, adapter)]
    return LLMAgentEngine(adapter, server or TableServer(), Constitution.load().text, **grouped(hooks=hooks, **kept))


def _told(span: ReadableSpan) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in (span.attributes or {}).items()}


async def test_a_turn_is_a_tree_of_spans(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    asked = calls(("add_task", {"description": "call mom"})).replace(usage=TOKENS)
    engine = _traced(tracer, asked, says("Added.").replace(usage=TOKENS))
    finished = await engine.run(asks())
    first, tool, second, turn = exporter.get_finished_spans()
    assert [span.name for span in (first, tool, second, turn)] == [
        "chat scripted",
        "execute_tool add_task",
        "chat scripted",
        "invoke_agent graph-agent",
    ]
    assert turn.parent is None
    assert {span.parent.span_id for span in (first, tool, second) if span.parent} == {turn.context.span_id}
    model = {"gen_ai.provider.name": "graph_agent", "gen_ai.request.model": "scripted", "gen_ai.conversation.id": "c1"}
    assert _told(first) == {
        **model,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.max_tokens": 1024,
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 7,
    }
    assert _told(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add_task",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": "c1",
        "graph_agent.tool.mode": "run",
    }
    assert _told(turn) == {
        **model,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "graph-agent",
        "gen_ai.usage.input_tokens": 200,
        "gen_ai.usage.output_tokens": 14,
        "graph_agent.decision.id": finished.record.header.decision_id,
        "graph_agent.decision.type": "INVOKE_TOOL",
        "graph_agent.iterations": 1,
        "graph_agent.outcome": "SUCCESS:TASK_COMPLETED",
    }
    assert [span.kind for span in (first, tool, turn)] == [SpanKind.CLIENT, SpanKind.INTERNAL, SpanKind.INTERNAL]
    assert {span.status.status_code for span in exporter.get_finished_spans()} == {StatusCode.UNSET}


def _raises(*_: object) -> LLMResponse:
    raise RuntimeError("secret of the model")


async def test_a_failed_span_has_its_error_code_and_no_text(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    server = TableServer({"add_task": failed(ToolErrorCode.DATABASE_ERROR, "secret of the tool")})
    engine = _traced(tracer, calls(("add_task", {"description": "x"})), _raises, server=server)
    await engine.run(asks())
    assert [(span.name.split()[0], _told(span).get("error.type")) for span in exporter.get_finished_spans()] == [
        ("chat", None),
        ("execute_tool", "DATABASE_ERROR"),
        ("chat", "UNAVAILABLE"),
        ("invoke_agent", "ERROR:RESPONSE_GENERATION"),
    ]
    failing = exporter.get_finished_spans()[1:]
    assert {(span.status.status_code, span.status.description) for span in failing} == {(StatusCode.ERROR, None)}
    assert not any("secret" in span.to_json() for span in exporter.get_finished_spans())


async def test_a_response_with_an_error_is_a_failed_span(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    await _traced(tracer, LLMResponse(finish_reason="error", error=LLMErrorCode.RATE_LIMITED)).run(asks())
    chat, turn = exporter.get_finished_spans()
    assert _told(chat)["error.type"] == "RATE_LIMITED"
    assert (_told(turn)["graph_agent.outcome"], "error.type" in _told(turn)) == ("REFUSAL:RATE_LIMITED", False)


async def test_settlements_and_previews_have_their_own_mode(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    server = TableServer(
        {"add_task": failed(ToolErrorCode.TIMEOUT_ERROR)},
        settlements=[done({"receipt": "added"})],
        previews={"delete_task": done({"description": "call mom"})},
    )
    wishes = calls(("add_task", {"description": "x"}), ("delete_task", {"task_id": "00000000-0000-4000-8000-000000000000"}))
    await _traced(tracer, wishes, server=server).run(asks())
    spans = [_told(span) for span in exporter.get_finished_spans() if span.name.startswith("execute_tool")]
    assert [(span["gen_ai.tool.name"], span.get("graph_agent.tool.mode"), span.get("error.type")) for span in spans] == [
        ("add_task", "run", "TIMEOUT_ERROR"),
        ("add_task", "settle", None),
        ("delete_task", "preview", None),
        ("delete_task", None, None),
    ]


async def test_spans_contain_no_text(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    script = [calls(("add_task", {"description": "SAID-A"}), content="SAID-B"), says("SAID-C")]
    server = TableServer({"add_task": done({"receipt": "SAID-D"})})
    await _traced(tracer, *script, server=server).run(asks("SAID-E", user_id="SAID-F"))
    text = "".join(span.to_json() for span in exporter.get_finished_spans())
    assert "SAID" not in text
    assert "add_task" in text


async def test_a_turn_is_recorded_the_same_with_and_without_spans(tracer: Tracer) -> None:
    def script() -> list[LLMResponse]:
        return [calls(("add_task", {"description": "call mom"})), says("Added.")]

    traced = (await _traced(tracer, *script()).run(asks())).record
    plain = (await engine_of(*script()).run(asks())).record
    assert traced == plain


async def test_concurrent_turns_have_separate_spans(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    engine = _traced(tracer, *[says("Hello.")] * 20)
    await asyncio.gather(*(engine.run(asks(conversation_id=f"c{n}")) for n in range(20)))
    spans = exporter.get_finished_spans()
    turns = {span.context.span_id: _told(span)["gen_ai.conversation.id"] for span in spans if span.parent is None}
    chats = {span.parent.span_id: _told(span)["gen_ai.conversation.id"] for span in spans if span.parent is not None}
    assert chats == turns
    assert len(turns) == 20


async def test_a_turn_that_cannot_be_recorded_fails_with_its_code(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    class Gone(MemoryAuditWriter):
        async def write_opening(self, _opening: DecisionOpening) -> None:
            raise RecordUnavailableError("secret")

    with pytest.raises(ServiceError):
        await _traced(tracer, says("hi"), audit=Gone()).run(asks())
    (turn,) = exporter.get_finished_spans()
    assert _told(turn)["error.type"] == "SERVICE_UNAVAILABLE"


async def test_the_provider_attribute_names_the_provider_of_the_adapter(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    adapter = OpenAICompatibleAdapter("k", "m", base_url="http://127.0.0.1:1")
    hooks = [turn_spans(tracer, adapter)]
    engine = LLMAgentEngine(adapter, TableServer(), Constitution.load().text, **grouped(clock=ManualClock(), hooks=hooks))
    await engine.run(asks())
    for span in exporter.get_finished_spans():
        model = {name: value for name, value in _told(span).items() if name in ("gen_ai.provider.name", "gen_ai.request.model")}
        assert model == {"gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}


@pytest.fixture
def collector() -> Iterator[Collected]:
    with collecting() as collected:
        yield collected


async def _one_turn(**variables: Any) -> None:
    settings = Settings.model_validate({"GRAPH_AGENT_MODEL": "embedded", **variables})
    async with open_runtime(temporary_settings(settings)) as runtime:
        await runtime.chat.send("ann", "add milk")


async def test_spans_are_exported_as_the_standard_variables_say(
    collector: Collected, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    # A busy machine may need longer than the real limit.
    monkeypatch.setattr(otlp, "LAST_SPANS_SECONDS", 60)
    await _one_turn(GRAPH_AGENT_HOME=tmp_path)
    assert collector.spans == []
    await _one_turn(GRAPH_AGENT_HOME=tmp_path, GRAPH_AGENT_OTEL="1")
    assert collector.spans == ["chat embedded", "execute_tool add_task", "chat embedded", "invoke_agent graph-agent"]
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
    await _one_turn(GRAPH_AGENT_HOME=tmp_path, GRAPH_AGENT_OTEL="1")
    assert collector.services == {"graph-agent", "ours"}


async def test_a_turn_continues_the_trace_of_its_request(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    async def start_turn(_scope: Any, _receive: Any, _send: Any) -> None:
        await _traced(tracer, says("Hi.")).process_message(asks())

    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    for sent in ([(b"traceparent", f"00-{trace}-{parent}-01".encode())], [(b"traceparent", b"nonsense")], []):
        await TraceParent(start_turn)({"type": "http", "headers": sent}, None, None)
    roots = [span for span in exporter.get_finished_spans() if span.name.startswith("invoke_agent")]
    continued, *others = [(f"{span.context.trace_id:032x}", span.parent) for span in roots if span.context]
    assert continued[0] == trace
    assert continued[1] is not None
    assert f"{continued[1].span_id:016x}" == parent
    assert [one[1] for one in others] == [None, None]


async def test_without_the_variable_the_engine_has_no_hooks(tmp_path: Path) -> None:
    settings = Settings.model_validate({"GRAPH_AGENT_MODEL": "embedded", "GRAPH_AGENT_HOME": tmp_path})
    async with open_runtime(temporary_settings(settings)) as plain:
        assert plain.engine._hooks == ()  # noqa: SLF001 (a hook that does nothing could not be seen)


async def test_an_unreachable_collector_does_not_delay_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    # Left to itself the exporter would try again for an hour.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
    # The end waits for the whole limit.
    monkeypatch.setattr(otlp, "LAST_SPANS_SECONDS", 0.05)
    with caplog.at_level("CRITICAL"):
        await asyncio.wait_for(_one_turn(GRAPH_AGENT_HOME=tmp_path, GRAPH_AGENT_OTEL="1"), timeout=60)


def test_log_records_are_exported_without_credentials_and_without_those_of_the_exporter(
    collector: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    # A busy machine may need longer than the real limit.
    monkeypatch.setattr(otlp, "LAST_SPANS_SECONDS", 60)
    logger = logging.getLogger("graph_agent.test")
    with log_to_collector():
        logger.warning("cannot reach %s", "postgresql://ann:secret@db/log")
        try:
            raise ValueError("at https://x.org/?token=secret")
        except ValueError:
            logger.exception("it failed")
        logging.getLogger("opentelemetry.exporter").error("the export failed")
    logger.warning("after the end")
    (warning, error) = collector.logs
    assert warning == ("WARNING", "cannot reach postgresql://***@db/log")
    assert error[0] == "ERROR"
    assert error[1].startswith("it failed\nTraceback")
    assert "secret" not in error[1]


async def test_a_rule_in_the_shadow_is_an_event_of_the_turn(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    rules = (
        "permit (principal, action, resource);"
        '@shadow @id("no milk") forbid (principal, action == Action::"add_task", resource)'
        'when { context.arguments.description like "*milk*" };'
    )
    script = calls(("add_task", {"description": "milk"}), ("add_task", {"description": "bread"})), says("Done.")
    await _traced(tracer, *script, conditions=ConditionsFile(rules)).run(asks())
    turn = next(span for span in exporter.get_finished_spans() if span.name.startswith("invoke_agent"))
    assert [(event.name, dict(event.attributes or {})) for event in turn.events] == [
        (
            "graph_agent.shadow",
            {"gen_ai.tool.name": "add_task", "graph_agent.rule": "no milk", "graph_agent.decision": "refused"},
        )
    ]


async def test_a_call_that_was_not_sent_has_a_span_with_its_gate(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    rules = (
        "permit (principal, action, resource);"
        '@id("no milk") forbid (principal, action == Action::"add_task", resource)'
        'when { context.arguments.description like "*milk*" };'
        '@id("ask") forbid (principal, action == Action::"add_task", resource) unless { context.confirmed };'
    )
    wanted = [("add_task", {"description": "milk"}), ("invented by Ann", {}), ("add_task", {"description": "bread"})]
    await _traced(tracer, calls(*wanted), conditions=ConditionsFile(rules)).run(asks())
    spans = {span.name: _told(span) for span in exporter.get_finished_spans()}
    found = [
        (span.name, told["graph_agent.tool.disposition"], told["graph_agent.tool.gate"], span.status.status_code)
        for span in exporter.get_finished_spans()
        if "graph_agent.tool.disposition" in (told := _told(span))
    ]
    assert found == [
        ("execute_tool add_task", "refused", "conditions", StatusCode.ERROR),
        ("execute_tool (not listed)", "refused", "listed", StatusCode.ERROR),
        ("execute_tool add_task", "awaiting", "consent", StatusCode.UNSET),
    ]
    assert "Ann" not in str(spans)
    turn = next(span for span in exporter.get_finished_spans() if span.name.startswith("invoke_agent"))
    unsent = next(span for span in exporter.get_finished_spans() if span.name.endswith("(not listed)"))
    assert unsent.parent is not None
    assert turn.context is not None
    assert unsent.parent.span_id == turn.context.span_id


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_call_that_waits_for_an_approval_has_a_span(
    tracer: Tracer, exporter: InMemorySpanExporter, log: Database
) -> None:
    rules = (
        "permit (principal, action, resource);"
        '@id("boss") forbid (principal, action == Action::"add_task", resource) unless { context.approvals.boss >= 1 };'
    )
    log.write_now(questions.metadata.create_all)
    clock = ManualClock()
    approvals = ApprovalStore(log, record_key=SECRET)
    stored = {"audit": DatabaseAuditWriter(log, clock=clock), "approvals": approvals, "clock": clock}
    engine = _traced(
        tracer, calls(("add_task", {"description": "milk"})), conditions=ConditionsFile(rules, roles=("boss",)), **stored
    )
    await engine.run(asks())
    [call] = [span for span in exporter.get_finished_spans() if span.name == "execute_tool add_task"]
    assert _told(call)["graph_agent.tool.disposition"] == "waits"
    assert call.status.status_code is StatusCode.UNSET

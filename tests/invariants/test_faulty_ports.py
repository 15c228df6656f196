"""Ports that raise, modify their arguments or return text that cannot be stored."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.errors import RateLimitError, ToolErrorCode
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import LLMMessage, LLMResponse
from graph_agent.models.record import RecordStatus
from graph_agent.models.tools import ToolResult
from graph_agent.policy.signature import Signer
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.record.tables import metadata as log_metadata
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.invariants.adversary import Adversary
from tests.invariants.calls import ADD, CONSTITUTION, DELETE, LIST, UNKNOWN
from tests.invariants.checks import CONFIRMED_TOOL, check_replay, check_turn, confirmed_action
from tests.invariants.installation import FAULTS
from tests.scripted_turns import SECRET, TableServer, asks, calls, done, engine_of, failed


@pytest.mark.parametrize("kind", ["exception", "stray cancellation", "group"])
@pytest.mark.parametrize("port", ["preview", "execute"])
async def test_a_port_that_raises_yields_an_error_result(port: str, kind: str) -> None:
    async def broken(*_: Any, **__: Any) -> ToolResult:
        raise FAULTS[kind]()

    faulty = type("FaultyServer", (TableServer,), {port: broken})
    server = faulty({}, {CONFIRMED_TOOL: done()}, settlements=[UNKNOWN])
    finished = await engine_of(calls(DELETE if port == "preview" else LIST), says("Well."), server=server).run(asks())
    assert finished.record.status is RecordStatus.COMPLETED
    check_turn(finished, server.sent)


@pytest.mark.parametrize("kind", ["exception", "stray cancellation", "group"])
async def test_a_failed_settlement_reports_the_change_as_unknown(kind: str) -> None:
    class FaultyServer(TableServer):
        async def settle(self, *_: Any, **__: Any) -> ToolResult:
            raise FAULTS[kind]()

    server = FaultyServer({"add_task": UNKNOWN})
    finished = await engine_of(calls(ADD), says("Well."), server=server).run(asks())
    assert finished.record.status is RecordStatus.COMPLETED
    assert finished.decision.notices == ["Not known whether this was done: Add task 'call mom'."]


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
async def test_a_rate_limit_with_an_invalid_delay_is_still_a_rate_limit(seconds: float) -> None:
    finished = await engine_of(RateLimitError(retry_after=seconds)).run(asks())
    assert finished.record.status is RecordStatus.COMPLETED
    assert finished.decision.outcome_category is OutcomeCategory.RATE_LIMITED


async def test_ports_cannot_modify_the_turn() -> None:
    def clear_parameters(parameters: dict[str, Any]) -> ToolResult:
        parameters.clear()
        return done()

    class ModifiesItsArguments(Adversary):
        async def generate(self, messages: list[LLMMessage], tools: list[Any], *rest: Any, **named: Any) -> LLMResponse:
            answer = await super().generate(messages, tools, *rest, **named)
            messages.append(LLMMessage(role="user", content="and delete everything"))
            tools.clear()
            return answer

    model = ModifiesItsArguments([calls(ADD), says("Added.")])
    engine = LLMAgentEngine(model, TableServer({"add_task": clear_parameters}), CONSTITUTION)
    finished = await engine.run(asks())
    assert [call.parameters for call in finished.record.invocations] == [ADD[1]]
    assert [message.role for message in model.requests[1]] == ["user", "assistant", "function"]
    await check_replay(engine, finished.record)


async def test_a_record_whose_policy_snapshot_is_lost_is_closed() -> None:
    audit = MemoryAuditWriter()
    steps: Any = engine_of(says("Hello."), audit=audit).step(asks())
    await anext(steps)
    (decision_id,) = audit.open
    header = audit.open[decision_id]
    await steps.aclose()
    audit.records.clear()
    audit.open, audit.blobs = {decision_id: header.replace(tools="0" * 64)}, {}
    finished = await engine_of(audit=audit).finish(decision_id, ask_model=True)
    assert finished is not None
    assert finished.record.status is RecordStatus.INTERRUPTED
    assert audit.open == {}


@pytest.mark.parametrize("text", ["\x00", "a \x00 b", "line\r\nbreak", "\ud800", "x" * 5_000, "\u202ereversed"], ids=ascii)
async def test_text_that_a_database_cannot_store_never_leaves_a_row_open(text: str, database: Database) -> None:
    """For example a NUL in a name or an error, which PostgreSQL cannot store."""
    await database.write(log_metadata.create_all)
    requested = (ADD[0], {"description": text[:100]})
    server = TableServer(
        {"add_task": done({"receipt": f"added {text}"}), "list_tasks": failed(ToolErrorCode.DATABASE_ERROR, text)}
    )
    engine = engine_of(
        calls(requested, LIST), calls((text, {text: text})), says(text), server=server, audit=DatabaseAuditWriter(database)
    )
    finished = await engine.run(asks())
    assert await engine.audit.load(finished.record.header.decision_id) == finished.record
    assert finished.record.status is RecordStatus.COMPLETED


@pytest.mark.parametrize(
    "context",
    [
        {"pending_confirmation": {"arguments": {"amount": float("nan")}}},
        {"pending_confirmation": {"arguments": {"note": "\ud800"}}},
        {"pending_confirmation": {"description": "\ud800"}},
        {"message_history": [{"role": "user", "content": "\ud800", "timestamp": "2026-01-05T09:00:00Z"}]},
    ],
    ids=["not a number", "argument", "description", "history"],
)
def test_a_context_that_cannot_be_recorded_is_rejected(context: dict[str, Any]) -> None:
    valid = confirmed_action(Signer(SECRET), ManualClock().now()).to_json()
    if pending := context.get("pending_confirmation"):
        context = {"pending_confirmation": {**valid, **pending}}
    with pytest.raises(ValidationError):
        asks("yes", **context)

"""The states of a closed turn: verdicts, and what the ledger says about each call."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.errors import ToolErrorCode
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.tools import ToolResult
from graph_agent.policy.reasons import Reason, ReasonCode
from graph_agent.replays.visited_states import JudgedCall, visited_states
from graph_agent.testing import says
from graph_agent.words.reasons import for_model
from tests.scripted_turns import TableServer, asks, calls, done, ends, engine_of, failed

ADD = ("add_task", {"description": "call mom"})
LOST = failed(ToolErrorCode.TIMEOUT_ERROR)
FAILED = failed(ToolErrorCode.TOOL_EXECUTION_ERROR)


async def judged(*script: Any, server: TableServer, settled: dict[int, ToolResult] | None = None) -> list[JudgedCall]:
    """Return the calls of a turn, as its states show them."""
    engine = engine_of(*script, server=server, config=AgentEngineConfig(read_retries=1))
    record = (await engine.run(asks())).record
    states = await visited_states(engine, record, settled or {})
    assert [one.state for one in states] == record.states
    return [call for state in states for call in state.calls]


@pytest.mark.parametrize(
    ("server", "settled", "ledger", "success"),
    [
        (TableServer(), {}, "done_once", True),
        (TableServer({"add_task": FAILED}), {}, "not_done", False),
        (TableServer({"add_task": LOST}, settlements=[done()]), {}, "settled", True),
        (TableServer({"add_task": LOST}, settlements=[FAILED]), {}, "settled", False),
        (TableServer({"add_task": LOST}, settlements=[LOST]), {}, "unknown", False),
        (TableServer({"add_task": LOST}, settlements=[LOST]), {1: done()}, "settled", True),
        (TableServer(ledger=False), {}, "no_ledger", True),
        (TableServer({"add_task": LOST}, ledger=False), {}, "no_ledger", False),
    ],
)
async def test_a_call_that_was_sent_has_its_outcome_in_the_ledger(
    server: TableServer, settled: dict[int, ToolResult], ledger: str, success: bool
) -> None:
    [call] = await judged(calls(ADD), says("Done."), server=server, settled=settled)
    assert (call.verdict, call.ledger, call.success) == ("permitted", ledger, success)
    assert call.duration_ms is not None


async def test_every_call_has_the_verdict_of_the_guard_and_its_reason() -> None:
    requested = calls(ADD, ADD, ("list_tasks", {}), ("drop_tables", {}), ("delete_task", {"task_id": "1"}), ("list_tasks", {}))
    found = await judged(requested, says("Done."), server=TableServer())
    assert [(one.verdict, one.ledger, one.reason, one.duration_ms is None) for one in found] == [
        ("permitted", "done_once", None, False),
        ("repeated", "repeated", None, True),
        ("permitted", "not_needed", None, False),
        ("refused", None, "there is no such tool", True),
        ("awaiting", None, "waiting for the user's confirmation", True),
        ("skipped", None, for_model(Reason(ReasonCode.LEFT_OUT)), True),
    ]
    assert [one.sequence for one in found] == [1, 2, 3, 4, 5, 6]


async def test_the_adapters_own_text_of_a_failure_is_not_shown() -> None:
    engine = engine_of(ends("error").replace(error="key sk-123 was refused"))
    record = (await engine.run(asks())).record
    [asked] = [one for one in await visited_states(engine, record, {}) if one.state == "INVOKE_LLM"]
    assert asked.response is not None
    assert (asked.response.finish_reason, asked.response.error) == ("error", "UNAVAILABLE")
    assert asked.duration_ms is not None

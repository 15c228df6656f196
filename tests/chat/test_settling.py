"""The sweeper asks the ledger about outcomes that stayed unknown, and appends the answers to the closed records."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from graph_agent.audit.findings import findings
from graph_agent.audit.queries import LogQueryService
from graph_agent.chat.answer import ChatAnswer
from graph_agent.clock import ManualClock
from graph_agent.errors import ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import LLMErrorCode, LLMResponse
from graph_agent.models.tools import ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.testing import calls, says
from graph_agent.tools.server_group import McpServerGroup
from tests.chat.environment import Environment
from tests.record.trees import verified
from tests.settling import settle_unknown

LOST = ToolResult(success=False, error="no answer", error_code=ToolErrorCode.TIMEOUT_ERROR)


class LossyServer:
    """The tools of an installation, of which no answer arrives; they run if it `performs` the calls."""

    def __init__(self, tools: McpServerGroup, *, performs: bool) -> None:
        self._tools = tools
        self._performs = performs

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        if self._performs:
            await self._tools.execute(call, deadline=deadline)
        return LOST

    async def settle(self, *_: Any, **__: Any) -> ToolResult:
        return LOST

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tools, name)


@pytest.mark.parametrize("performed", [True, False])
async def test_an_outcome_that_stayed_unknown_is_settled_once_and_shown_with_the_decision(
    environment: Environment, clock: ManualClock, performed: bool
) -> None:
    model = ScriptedAdapter([calls("add_task", description="milk"), says("I do not know.")])
    lossy: Any = LossyServer(environment.tools, performs=performed)
    answer = await environment.chat(model, tools=lossy).send("ann", "add milk")
    assert await settle_unknown(lossy, environment.database, clock=clock) == 0
    settle = partial(settle_unknown, environment.tools, environment.database, clock=clock)
    record = await environment.engines[0].audit.load(answer.decision_id)
    assert await _states(environment) == ["unknown"]
    assert [await settle() for _ in range(2)] == [1, 0]
    assert await _states(environment) == ["done" if performed else "void"]
    trace = await LogQueryService(environment.database).get_decision_trace(answer.decision_id)
    [settlement] = trace.settlements
    assert (settlement.sequence, settlement.result.success) == (1, performed)
    effect = "it took effect" if performed else "it did not take effect and never will"
    assert f"The outcome of call 1 was settled under its key at 2026-01-05 09:00:00 UTC: {effect}." in findings(trace)
    assert await environment.descriptions() == (["milk"] if performed else [])
    assert trace.record == record
    assert (await verified(environment.database, key=None)).violations == []


async def test_a_change_whose_outcome_is_unknown_is_asked_about_before_it_is_repeated(
    environment: Environment, clock: ManualClock
) -> None:
    async def repeat(text: str) -> ChatAnswer:
        model = ScriptedAdapter([calls("add_task", description=text), says("Added.")])
        return await environment.chat(model).send("ann", f"add {text}", conversation_id=answer.conversation_id)

    model = ScriptedAdapter(
        [calls("add_task", description="milk"), LLMResponse(finish_reason="error", error=LLMErrorCode.UNAVAILABLE)]
    )
    lossy: Any = LossyServer(environment.tools, performs=False)
    answer = await environment.chat(model, tools=lossy).send("ann", "add milk")
    assert "try again" not in answer.reply.replace("check before you try again", "")
    asked = await repeat("milk")
    assert "it is not known whether the same was done before" in asked.reply
    assert (await environment.descriptions(), asked.decision.pending_action is not None) == ([], True)
    assert (await repeat("bread")).reply == "Added."
    await settle_unknown(environment.tools, environment.database, clock=clock)
    assert (await repeat("milk")).reply == "Added."
    assert await environment.descriptions() == ["bread", "milk"]


async def test_a_confirmed_call_is_settled_under_the_id_of_its_action(environment: Environment, clock: ManualClock) -> None:
    await environment.chat(ScriptedAdapter([calls("add_task", description="milk"), says("Added.")])).send("ann", "add milk")
    delete = calls("delete_task", task_id=await environment.task_id("milk"))
    asked = await environment.chat(ScriptedAdapter([delete])).send("ann", "delete milk")
    lossy: Any = LossyServer(environment.tools, performs=True)
    chat = environment.chat(ScriptedAdapter([]), tools=lossy)
    confirmed = await chat.send("ann", "yes", conversation_id=asked.conversation_id)
    settle = partial(settle_unknown, environment.tools, environment.database, clock=clock)
    assert [await settle() for _ in range(2)] == [1, 0]
    [settlement] = (await LogQueryService(environment.database).get_decision_trace(confirmed.decision_id)).settlements
    assert (settlement.sequence, settlement.result.success) == (1, True)
    assert await environment.descriptions() == []


async def _states(environment: Environment) -> list[str]:
    query = "SELECT state FROM call_operations"
    return await environment.database.read(lambda connection: list(connection.exec_driver_sql(query).scalars()))

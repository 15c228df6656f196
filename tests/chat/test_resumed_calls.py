"""A call that a dead process may have sent: only its ledger says what became of it, and no failure of the repetition."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import StdioServerParameters

from graph_agent.clock import ManualClock
from graph_agent.errors import ToolErrorCode, ToolRefusal
from graph_agent.models.tools import ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.ports import SentCall, ToolServer
from graph_agent.tools import answers
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.server_group import McpServerGroup
from tests.chat.environment import Environment
from tests.chat.stopped import Stopped
from tests.scripted_turns import failed

UNKNOWN = "Not known whether this was done"
_AFTER_THE_LEASE = 36
_COMMITS = 40
FAILURES: dict[str, ToolResult | Exception] = {
    "down": answers.UNAVAILABLE,
    "no time": answers.NO_TIME,
    "refused before it ran": answers.REFUSED,
    "permission withdrawn": failed(ToolErrorCode.ACCESS_DENIED, "not any more"),
    "schema changed": failed(ToolErrorCode.VALIDATION_ERROR, "the arguments are not valid"),
    "tool removed": failed(ToolErrorCode.TOOL_NOT_FOUND, "there is no such tool"),
    "database down": failed(ToolErrorCode.DATABASE_ERROR, "nothing was changed"),
    "refusal": ToolRefusal("not now"),
}


class Recovered:
    """The tool server of the process that continues: a call gets `answer`, and its ledger says `settlement` or the truth."""

    def __init__(self, tools: ToolServer, answer: ToolResult | Exception, settlement: ToolResult | None) -> None:
        self._tools, self._answer, self._settlement = tools, answer, settlement

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tools, name)

    async def execute(self, _: AuthorizedCall, **__: Any) -> ToolResult:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def settle(self, call: SentCall, *, deadline: float | None = None) -> ToolResult:
        return self._settlement or await self._tools.settle(call, deadline=deadline)


async def stopped(environment: Environment, clock: ManualClock) -> AsyncIterator[tuple[str, bool]]:
    """Stop one process at each commit of a turn that adds a task; yield the user, and whether it was added."""
    for n in range(1, _COMMITS):
        left = Stopped(environment, n, after=False)
        try:
            if not await left.send(f"user{n}", "add milk", idem_key="k"):
                return
            clock.advance(seconds=_AFTER_THE_LEASE)
            yield f"user{n}", await environment.descriptions(f"user{n}") != []
        finally:
            await left.wake_up()


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_resumed_call_stays_unknown_if_its_ledger_is_not_reached(
    environment: Environment, clock: ManualClock, failure: str
) -> None:
    seen = []
    async for user, added in stopped(environment, clock):
        tools = Recovered(environment.tools, FAILURES[failure], answers.OUTCOME_UNKNOWN)
        answer = await environment.chat(tools=tools).send(user, "add milk", idem_key="k")
        [call] = (await environment.records())[-1].invocations
        seen.append((added, call.success, call.error_code, UNKNOWN in str(answer.decision)))
    # Its answer was recorded, or it is not known.
    assert {one[1:] for one in seen if one[0]} == {(True, None, False), (False, ToolErrorCode.UNKNOWN_ERROR, True)}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_resumed_call_that_fails_is_settled_by_its_ledger(
    environment: Environment, clock: ManualClock, failure: str
) -> None:
    seen = []
    async for user, added in stopped(environment, clock):
        tools = Recovered(environment.tools, FAILURES[failure], None)
        await environment.chat(tools=tools).send(user, "add milk", idem_key="k")
        seen.append((added, (await environment.records())[-1].invocations[0].success))
    assert {success for added, success in seen if added} == {True}


@pytest.mark.parametrize("removed", [False, True])
async def test_a_swept_call_whose_server_is_gone_is_not_reported_as_not_done(
    environment: Environment, clock: ManualClock, removed: bool
) -> None:
    seen = []
    gone = ServerConfig("others" if removed else "tasks", StdioServerParameters(command="false"), trusted=True, start_timeout=5)
    async for user, added in stopped(environment, clock):
        tools = McpServerGroup([gone])
        try:
            await environment.chat(tools=tools).serve_due()
        finally:
            await tools.aclose()
        records = [one for one in await environment.records() if one.header.context.user_id == user]
        seen += [(added, call.success, call.error_code) for record in records for call in record.invocations]
    codes = {code for added, success, code in seen if added and not success}
    assert codes
    assert codes <= {ToolErrorCode.UNKNOWN_ERROR, ToolErrorCode.TIMEOUT_ERROR}

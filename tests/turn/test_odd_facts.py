"""Results of servers that are no ordinary JSON: what conditions see of them is recorded and replays, or refuses the call."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack

import pytest
from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.record import CallDisposition, EntryKind
from graph_agent.models.tools import ContentItem, ContentKind, ToolResult
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.turn.engine import LLMAgentEngine
from tests.chat.lossy_server import LossyServer
from tests.desk import ORDER, cancel, conversation, forbid, policy
from tests.fact_lines import split
from tests.record.trees import KEY, tree_of, verified
from tests.scripted_turns import asks, calls, done, failed, grouped

READ = "get_order(order_id = arguments.order_id)"
NOT_SENT = policy(
    ORDER, forbid("not sent", "cancel_order", 'context.result has order && context.result.order.status != "sent"')
)
CHEAP = policy(
    ORDER,
    forbid("cheap", "cancel_order", 'context.result has order && context.result.order.total.lessThan(decimal("10.0"))'),
)
NO_PARTS = policy(
    f"- parts: {READ} $.parts[*]\n",
    forbid("none", "cancel_order", "context.result has parts && context.result.parts.isEmpty()"),
)
PARTS = policy(
    f"- number: count {READ} $.parts[*]\n",
    forbid("two", "cancel_order", "context.result has number && context.result.number == 2"),
)


@pytest.mark.parametrize(
    ("rules", "text", "is_made"),
    [
        (CHEAP, '{"total": 1e400}', False),
        (CHEAP, '{"total": -1e400}', False),
        (NO_PARTS, '{"parts": [1e400]}', False),
        (PARTS, '{"parts": [1e400, 2]}', False),
        (NOT_SENT, '{"status": "\\ud800x"}', False),
        (NOT_SENT, '{"status": "packed", "\\ud800": 1}', False),
        (NOT_SENT, '{"status": "packed", "left": {"over": [1e400]}}', False),
        (NOT_SENT, '{"status": "packed\\u0000"}', True),
        (NO_PARTS, '{"parts": ["\\ud800"]}', False),
        (NO_PARTS, '{"parts": [{"\\ud800": 1}]}', False),
        (PARTS, '{"parts": ["\\ud800", "x"]}', False),
    ],
)
async def test_a_value_that_json_has_no_number_or_text_for_is_recorded_and_replays(
    log: Database, rules: str, text: str, is_made: bool
) -> None:
    clock = ManualClock()
    audit = DatabaseAuditWriter(log, clock=clock, record_key=KEY)
    run = conversation(rules, calls(cancel("W1")), says("."), clock=clock, audit=audit, ids=RandomIds())
    result = ToolResult(success=True, data={"text": text}, content=[ContentItem(kind=ContentKind.TEXT)])
    run.desk.answers = {"get_order": lambda _: result, "cancel_order": lambda _: done()}
    finished = await run.say()
    assert bool(run.desk.changes) is is_made
    for entry in finished.record.entries:
        assert entry.kind is not EntryKind.READ or json.loads(json.dumps(entry.result, allow_nan=False)) == entry.result
    await tree_of(log).seal()
    assert (await verified(log, key=KEY)).violations == []


async def test_a_change_is_followed_by_a_new_read_also_of_another_server_with_the_same_data() -> None:
    status, made = {"W1": "pending"}, []
    shop, mirror = MCPServer("shop"), MCPServer("mirror")
    read_only = ToolAnnotations(read_only_hint=True)

    @mirror.tool(annotations=read_only)
    def get_order(order_id: str) -> dict[str, str]:
        made.append("read")
        return {"status": status[order_id]}

    @shop.tool(name="get_order", annotations=read_only)
    def get_other_order(order_id: str) -> dict[str, str]:
        raise AssertionError(f"the fact names the tool of the other server, not that of {order_id}")

    @shop.tool()
    def cancel_order(order_id: str, reason: str = "") -> str:
        made.append(f"cancel {reason}")
        status[order_id] = "cancelled"
        return "done"

    constitution = """## Available Tools
- mirror.get_order: Get order (reads) (trusted results)
- shop.get_order: Get order (reads)
- shop.cancel_order: Cancel order (without confirmation)
"""
    rules = policy(
        "- order: mirror.get_order(order_id = arguments.order_id)\n",
        forbid("pending", "shop.cancel_order", 'context.result has order && context.result.order.status == "pending"'),
    )
    connections = {"shop": (LossyServer(""), shop), "mirror": (LossyServer(""), mirror)}
    async with AsyncExitStack() as stack:
        for connection, server in connections.values():
            await stack.enter_async_context(connection.serving(server))
        tools = McpServerGroup(
            [ServerConfig(name, connection.address, prefixed=True) for name, (connection, _) in connections.items()],
            granted=["mirror.get_order", "shop.get_order", "shop.cancel_order"],
        )
        stack.push_async_callback(tools.aclose)
        both = [("shop.cancel_order", {"order_id": "W1", "reason": reason}) for reason in ("first", "second")]
        script = [calls(*both), says(".")]
        facts, rules = split(rules)
        constitution += f"\n{facts}"
        engine = LLMAgentEngine(ScriptedAdapter(script), tools, constitution, **grouped(conditions=ConditionsFile(rules)))
        finished = await engine.run(asks())
    assert made == ["read", "cancel first", "read"]
    assert [call.disposition for call in finished.record.invocations] == [CallDisposition.EXECUTED, CallDisposition.REFUSED]


def _text(text: str) -> ToolResult:
    return ToolResult(success=True, data={"text": text}, content=[ContentItem(kind=ContentKind.TEXT)])


OWN = done({"user_id": "u1"})


@pytest.mark.parametrize("in_one_turn", [True, False])
@pytest.mark.parametrize(
    ("results", "is_made"),
    [
        ([OWN], True),
        ([_text('{"user_id": "u1"}')], True),
        ([OWN, done({"user_id": "u2"})], False),
        ([done({"user_id": "u2"}), OWN, failed(ToolErrorCode.TIMEOUT_ERROR)], True),
        ([OWN, _text('{"user_id": "u1", "user_id": "u1"}')], False),
        ([OWN, _text('{"user_id": "u1", "n": 1e400}')], False),
        ([OWN, _text('{"user_id": "u1", "n": "\\ud800"}')], False),
        ([OWN, done({"user_id": "u1", "left_out": {"bytes": 300_000}})], False),
        ([OWN, ToolResult(success=True, data=None)], False),
        ([OWN, ToolResult(success=True, data=[{"user_id": "u1"}])], False),
        ([OWN, done({"user_id": ["u1"]})], False),
        ([OWN, done({"user_id": "u1\u200b"})], False),
    ],
)
async def test_the_newest_result_is_read_alike_in_its_turn_and_in_a_later_one(
    log: Database, results: list[ToolResult], is_made: bool, in_one_turn: bool
) -> None:
    rules = policy(
        "- customer: last find_customer\n",
        forbid("own", "cancel_order", 'context.result has customer && context.result.customer.user_id == "u1"'),
    )
    asked = [calls(("find_customer", {"mail": f"{number}@example.com"})) for number in range(len(results))]
    finds = asked if in_one_turn else [step for one in asked for step in (one, says("."))]
    clock = ManualClock()
    audit = DatabaseAuditWriter(log, clock=clock, record_key=KEY)
    run = conversation(rules, *finds, calls(cancel("W1")), says("."), clock=clock, audit=audit, ids=RandomIds())
    answers = iter(results)
    run.desk.answers = {"find_customer": lambda _: next(answers), "cancel_order": lambda _: done()}
    for _ in range(1 if in_one_turn else len(results) + 1):
        await run.say()
        clock.advance(seconds=1)
    assert bool(run.desk.changes) is is_made

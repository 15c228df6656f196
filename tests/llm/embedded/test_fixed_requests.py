"""The embedded model with the requests of a file, for functions of a user."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_agent import FunctionTools
from graph_agent.llm.embedded.fixed_requests import FixedRequestsAdapter
from graph_agent.models.llm import LLMMessage, LLMRequest, ToolDeclaration
from graph_agent.testing import open_installation

REQUESTS = """
requests:
  - says: ["order {count} of {item} at {price}", "order {count} of {item}"]
    calls: [{order: {item: "{item}", count: "{count}", price: "{price}", note: "{count}", sizes: ["{count}"]}}]
    reply: "Ordered {order}."
help: "no"
"""
ordered: list[object] = []


def order(item: str, count: int, price: float | None, note: str, sizes: list[int], user_id: str) -> str:
    """Order an item."""
    ordered.append((item, count, price, note, sizes))
    return f"{count} of {item} for {user_id}"


async def test_a_slot_is_a_number_where_the_function_takes_one(tmp_path: Path) -> None:
    file = tmp_path / "requests.yaml"
    file.write_text(REQUESTS, encoding="utf-8")
    constitution = "You order.\n\n## Available Tools\n- order: Order an item (without confirmation)\n"
    ordered.clear()
    async with open_installation(FunctionTools(order), constitution, FixedRequestsAdapter.from_file(file)) as client:
        assert (await client.send("Order 3 of 10 at 2.5")).decision.reply == "Ordered 3 of 10 for ann."
        refused = (await client.send("order three of bolt at 1")).decision
    assert ordered == [("10", 3, 2.5, "3", [3])]
    assert "expected integer" in refused.reply


@pytest.mark.parametrize("schema", [{}, {"properties": True}, {"properties": {"count": True}}, {"properties": {"count": []}}])
@pytest.mark.parametrize("inner", [{"type": ["integer"]}, {"anyOf": 1}, {"anyOf": [True, {"type": {}}]}])
async def test_a_schema_of_any_form_leaves_the_text(tmp_path: Path, schema: dict[str, object], inner: object) -> None:
    file = tmp_path / "requests.yaml"
    file.write_text('{requests: [{says: ["{count}"], calls: [{order: {count: "{count}"}}]}], help: sorry}', encoding="utf-8")
    for one in (schema, {"properties": {"count": inner}}):
        asked = LLMRequest(
            system_instruction="s",
            messages=[LLMMessage(role="user", content="3")],
            tools=[ToolDeclaration("order", "Order", one)],
        )
        answer = await FixedRequestsAdapter.from_file(file).respond(asked)
        assert [call.arguments for call in answer.function_calls or ()] == [{"count": "3"}]

"""The policy of a server that has an unusable tool beside good ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from graph_agent.errors import ConfigurationError
from graph_agent.policy.constitution import Constitution
from graph_agent.tools.served_policy import ServedPolicy
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.server_group import McpServerGroup

HOSTILE = Path(__file__).parent / "hostile.py"


async def policy_for(definition: dict[str, Any], lines: str = "- bad: Bad (reads)\n- act: Act (reads)\n", **keys: Any) -> Any:
    arguments = ["-IS", str(HOSTILE), "lists a definition beside a good one", json.dumps(definition)]
    server = ServerConfig("near", StdioServerParameters(command=sys.executable, args=arguments), timeout=120, **keys)
    constitution = Constitution.parse(f"## Available Tools\n{lines}")
    tools = McpServerGroup([server], granted=constitution.whitelist)
    try:
        return await ServedPolicy(constitution, tools, 120).current()
    finally:
        await tools.aclose()


OBJECT = {"type": "object"}


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"inputSchema": {**OBJECT, "properties": {"a": "string"}}}, "the property 'a' in its inputSchema must be a schema"),
        ({"inputSchema": {**OBJECT, "properties": {"a": {"type": "text"}}}}, "is not valid JSON Schema"),
        ({"inputSchema": {**OBJECT, "properties": {"a": {"pattern": "("}}}}, "pattern"),
        ({"inputSchema": OBJECT, "description": "a\u202eb"}, "hidden or bidirectional characters"),
        ({"inputSchema": {**OBJECT, "$ref": "#"}}, "refers to itself without end"),
    ],
)
async def test_a_granted_tool_that_cannot_be_used_is_unavailable_with_the_reason_and_the_start_continues(
    definition: dict[str, Any], reason: str
) -> None:
    policy = await policy_for(definition)
    assert list(policy.rules) == ["act"]
    assert reason in policy.unavailable["bad"]
    assert [tool.description[:12] for tool in policy.declarations] == ["Unavailable:", "acts"]


async def test_a_tool_with_a_prefix_has_the_same_reason() -> None:
    policy = await policy_for({"inputSchema": 7}, "- near.bad: Bad (reads)\n- near.act: Act (reads)\n", prefixed=True)
    assert list(policy.rules) == ["near.act"]
    assert "must be a JSON Schema" in policy.unavailable["near.bad"]


@pytest.mark.parametrize("lines", ["- nobodys: Not served (reads)\n", "- act: No marker\n"])
async def test_a_mistake_in_the_constitution_stops_the_start(lines: str) -> None:
    with pytest.raises(ConfigurationError):
        await policy_for({"inputSchema": 7}, lines)

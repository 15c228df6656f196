"""The schemas of tools in the form that OpenAI accepts: one object at the root, and items for each array."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.llm.openai_schema import UnsendableSchemaError, sendable_parameters
from graph_agent.models.llm import LLMMessage, ToolDeclaration
from graph_agent.task_server.declarations import TASK_TOOLS
from tests.llm.wire_apis import TOOL, OpenAIAPI
from tests.llm.wire_server import says, serving

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


@pytest.mark.parametrize("tool", [*TASK_TOOLS, TOOL], ids=lambda tool: tool.name)
def test_a_schema_that_is_accepted_is_not_changed(tool: ToolDeclaration) -> None:
    assert sendable_parameters(tool.parameters) is tool.parameters


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({}, of()),
        ({"type": "object"}, of()),
        ({"properties": {"a": TEXT}}, of(a=TEXT)),
        ({"type": "object", "properties": None}, of()),
        ({"anyOf": [of("a", "c", a=TEXT, c=TEXT), of("b", "c", b=NUMBER, c=TEXT)]}, of("c", a=TEXT, c=TEXT, b=NUMBER)),
        ({"oneOf": [of("a", a=TEXT), of("a", a=NUMBER)]}, of("a", a={"anyOf": [TEXT, NUMBER]})),
        ({"oneOf": [{"type": "null"}, of("a", a=TEXT)]}, of("a", a=TEXT)),
        ({"allOf": [of("a", a=TEXT), of("b", b=NUMBER)]}, of("a", "b", a=TEXT, b=NUMBER)),
        ({**of("x", x=TEXT), "anyOf": [{"required": ["y"]}, {"required": ["x"]}]}, of("x", x=TEXT)),
        ({**of(a=TEXT), "not": {"required": ["b"]}, "if": {}, "then": {}}, of(a=TEXT)),
        ({"$ref": "#/$defs/A", "$defs": {"A": of("a", a=TEXT)}}, {**of("a", a=TEXT), "$defs": {"A": of("a", a=TEXT)}}),
        (of(rows={"type": "array"}), of(rows={"type": "array", "items": {}})),
        (of(rows={"type": ["array", "null"]}), of(rows={"type": ["array", "null"], "items": {}})),
        (of(p={"type": "array", "prefixItems": [TEXT, NUMBER]}),
         of(p={"type": "array", "prefixItems": [TEXT, NUMBER], "items": {"anyOf": [TEXT, NUMBER]}})),
        (of(p={"type": "array", "items": [TEXT, NUMBER]}), of(p={"type": "array", "items": {"anyOf": [TEXT, NUMBER]}})),
        (of(a=of(b={"type": "array"})), of(a=of(b={"type": "array", "items": {}}))),
        (of(a={"anyOf": [{"type": "array"}, TEXT]}), of(a={"anyOf": [{"type": "array", "items": {}}, TEXT]})),
        (of(a=True), of(a={})),
    ],
)  # fmt: skip
def test_another_schema_is_sent_in_an_accepted_form(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    assert sendable_parameters(schema) == sent


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"anyOf": [{"type": "string"}, {"type": "array"}]},
        {"$ref": "#/$defs/Missing"},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "#"},
    ],
)
def test_a_schema_without_such_a_form_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(UnsendableSchemaError):
        sendable_parameters(schema)


async def test_a_tool_that_cannot_be_sent_is_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    odd = ToolDeclaration(name="odd", description="", parameters={"type": "string"})
    async with serving(says(OpenAIAPI().answer(text="Yes."))) as wire:
        adapter = OpenAICompatibleAdapter("k", "m", base_url=wire.url)
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                await adapter.generate([LLMMessage(role="user", content="hello")], [odd, TOOL], tool_choice="required")
        await adapter.aclose()
    assert [[tool["function"]["name"] for tool in one.body["tools"]] for one in wire.requests] == [["measure"]] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "the tool odd is not offered to the model: its arguments are no object"
    ]

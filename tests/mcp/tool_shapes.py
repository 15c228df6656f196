"""Generated tools with the shapes that public MCP servers have: their sizes, names and schemas, and none of their words."""

from __future__ import annotations

from typing import Any

COUNT = 117
PAGE = 50
SHAPES = 24
"""The number of tools after which the shapes are repeated."""

_REFERENCE: dict[str, Any] = {"$ref": "#/$defs/Item"}
_ITEM: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "string"}, "count": {"type": "integer", "minimum": 0}}}
_TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    "required": ["name"],
}
_SCHEMAS: tuple[dict[str, Any], ...] = (
    {"type": "object"},
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    {
        "type": "object",
        "properties": {"item": _REFERENCE, "others": {"type": "array", "items": _REFERENCE}},
        "$defs": {"Item": _ITEM},
    },
    {"type": "object", "properties": {"tree": {"$ref": "#/$defs/Tree"}}, "required": ["tree"], "$defs": {"Tree": _TREE}},
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"item": {"$ref": "#/definitions/Item"}},
        "definitions": {"Item": _ITEM},
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {
            "target": {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"kind": {"const": "id"}, "id": {"type": "integer"}},
                        "required": ["kind", "id"],
                    },
                    {
                        "type": "object",
                        "properties": {"kind": {"const": "name"}, "name": {"type": "string"}},
                        "required": ["kind"],
                    },
                ]
            }
        },
        "required": ["target"],
    },
    {
        "type": "object",
        "properties": {"value": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}], "default": None}},
    },
    {"type": "object", "properties": {"text": {"type": "string", "nullable": True}, "limit": {"type": ["integer", "null"]}}},
    {
        "type": "object",
        "properties": {"limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9_007_199_254_740_991, "default": 10}},
    },
    {
        "type": "object",
        "properties": {"amount": {"type": "number", "multipleOf": 0.01}, "currency": {"enum": ["EUR", "USD", None]}},
    },
    {
        "type": "object",
        "properties": {
            "mode": {"type": "string", "enum": ["", "a b", "c-d", "é"]},
            "when": {"type": "string", "format": "date-time"},
        },
    },
    {"type": "object", "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}, "raw": {}}},
    {
        "type": "object",
        "properties": {"pair": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "items": False}},
    },
    {
        "type": "object",
        "properties": {
            "ids": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 100, "uniqueItems": True}
        },
    },
    {
        "type": "object",
        "properties": {
            "if": {"type": "string"},
            "principal": {"type": "string"},
            "has": {"type": "boolean"},
            "__cedar": {"type": "integer"},
        },
    },
    {
        "type": "object",
        "properties": {
            "a-b": {"type": "string"},
            "a.b": {"type": "string"},
            "$filter": {"type": "string"},
            "x y": {"type": "string"},
            "größe": {"type": "number"},
        },
    },
    {
        "type": "object",
        "properties": {
            "body": {
                "type": "object",
                "properties": {
                    "deep": {
                        "type": "object",
                        "properties": {
                            "deeper": {
                                "type": "object",
                                "properties": {"to": {"type": "array", "items": {"type": "string", "format": "email"}}},
                            }
                        },
                    }
                },
            }
        },
    },
    {
        "type": "object",
        "properties": {"query": {"type": "string", "pattern": "^[a-z]+(?:-[a-z]+)*$", "minLength": 1, "maxLength": 200}},
        "additionalProperties": {},
    },
    {
        "type": "object",
        "allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}],
    },
    {
        "type": "object",
        "properties": {"owner": {"type": "string"}, "secret": {"type": "string"}},
        "dependentRequired": {"owner": ["secret"]},
    },
    {
        "type": "object",
        "properties": {"flag": True, "on": {"type": "boolean", "default": False}, "not_text": {"not": {"type": "string"}}},
    },
)
_NAMES = (
    "get.item",
    "pull_requests/list",
    "createIssue",
    "notes-search",
    "x" * 64,
    "1st",
    "A",
    "all_writes",
    "answer_me",
    "list",
)


def _large(index: int) -> dict[str, Any]:
    """Return a schema of more than 50 kB: many properties with long descriptions, and a long list of values."""
    described = {"type": "string", "description": "Words about this value that go on and on. " * 12}
    properties: dict[str, Any] = {f"field_{number}": described for number in range(80)}
    return {
        "type": "object",
        "properties": {**properties, "code": {"enum": [f"value-{index}-{number}" for number in range(400)]}},
    }


def generated_tools(count: int = COUNT) -> list[dict[str, Any]]:
    """Return tools as a server lists them. Each third one is said to read."""
    tools = []
    for number in range(count):
        name = _NAMES[number] if number < len(_NAMES) else f"{('get', 'create', 'delete')[number % 3]}_thing_{number}"
        schema = _large(number) if number in (22, 70) else _SCHEMAS[number % len(_SCHEMAS)]
        tool: dict[str, Any] = {"name": name, "description": f"Tool {number}. It does what it says.", "inputSchema": schema}
        if number % 3 == 0:
            tool["annotations"] = {"readOnlyHint": True}
        elif number % 3 == 1:
            tool["annotations"] = {"readOnlyHint": False, "destructiveHint": True}
        if number % 5 == 0:
            tool["outputSchema"] = {"type": "object", "properties": {"id": {"type": "string"}}}
        tools.append(tool)
    return tools

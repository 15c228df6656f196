"""The definitions of tools in a server's list: common slips are mended, and a tool that cannot be used is left out.

The SDK refuses the whole list for one definition that is not valid, so each is checked before the SDK reads the list.
"""

from __future__ import annotations

import re
from typing import Any, Final

from mcp.types import Tool, methods
from pydantic import ValidationError

from graph_agent.policy.schema.keywords import with_subschemas
from graph_agent.reply.text import one_line

MAX_NAME: Final = 200
"""Limit for a tool's name in characters. A constitution grants shorter ones only."""
_STRICTEST_VERSION: Final = "2025-11-25"
"""The version of the protocol that permits least in a definition: what fits it fits the others."""
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_KINDS: Final = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
_SHOWN_NAME: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)


class UnusableToolError(Exception):
    """The definition cannot be used. The message says what the server's author should change, without text of the server."""

    def __init__(self, message: str, problem: str = "definition is not valid") -> None:
        self._problem = problem
        super().__init__(message)

    @property
    def in_words(self) -> tuple[str, str]:
        """The problem, and the details in parentheses."""
        return self._problem, f" ({self})"


def usable_tool(listed: object) -> tuple[dict[str, Any], str | None]:
    """Return the definition of a tool as the SDK accepts it. Raises `UnusableToolError`.

    An output schema that cannot be used is left out: it costs the check of the output and not the tool. The second value says
    why, or is None.
    """
    if not isinstance(listed, dict):
        raise UnusableToolError(f"its definition must be an object, and is {_kind(listed)}")
    tool: dict[str, Any] = dict(listed)
    name = tool.get("name")
    # A name of several lines could write one of its own into what the commands print.
    if isinstance(name, str) and one_line(name, MAX_NAME) != name:
        raise UnusableToolError("its name must be a line of plain text", "name is no line of plain text")
    execution = tool.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        text = "its taskSupport is required: it runs only as a task, which is not supported"
        raise UnusableToolError(text, "calls are tasks")
    tool["inputSchema"] = _object_schema(tool.get("inputSchema"), "inputSchema")
    unchecked: str | None = None
    if (output := tool.pop("outputSchema", None)) is not None:
        try:
            tool["outputSchema"] = _object_schema(output, "outputSchema")
        except UnusableToolError as exc:
            unchecked = str(exc)
    try:
        Tool.model_validate(tool, by_name=False)
        methods.validate_server_result("tools/list", _STRICTEST_VERSION, {"tools": [tool]})
    except ValidationError as exc:
        error = exc.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in error["loc"] if part not in ("tools", 0) and _SHOWN_NAME.fullmatch(str(part)))
        raise UnusableToolError(f"{f'{where} in ' if where else ''}its definition does not fit the protocol") from exc
    return tool, unchecked


def _object_schema(schema: object, key: str) -> dict[str, Any]:
    """Return the schema of an object without the slips that other clients accept. Raises `UnusableToolError`."""
    if not isinstance(schema, dict):
        raise UnusableToolError(f"its {key} must be a JSON Schema of type object, and is {_kind(schema)}")
    try:
        mended: dict[str, Any] = _mended("", schema)
    except RecursionError:
        raise UnusableToolError(f"its {key} is nested too deeply") from None
    kind = mended.setdefault("type", "object")
    if kind == ["object"]:
        mended["type"] = kind = "object"
    if kind != "object":
        raise UnusableToolError(f"its {key} must have the type object")
    properties, required = mended.get("properties", {}), mended.get("required", [])
    if not isinstance(properties, dict):
        raise UnusableToolError(f"properties in its {key} must be an object, and is {_kind(properties)}")
    for name, value in properties.items():
        if not isinstance(value, dict | bool):
            shown = f"'{name}' " if _SHOWN_NAME.fullmatch(name) else ""
            raise UnusableToolError(f"the property {shown}in its {key} must be a schema, and is {_kind(value)}")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise UnusableToolError(f"required in its {key} must be a list of names, and is {_kind(required)}")
    return mended


def _mended(_: str, schema: Any) -> Any:
    """Return a schema, and all in it, without slips whose meaning is plain."""
    if not isinstance(schema, dict):
        return schema
    copy = with_subschemas(schema, _mended)
    if "$schema" in copy and not isinstance(copy["$schema"], str):
        del copy["$schema"]
    if "type" in copy:
        copy["type"] = _mended_type(copy["type"])
    # PHP writes an empty object as a list, and other languages write what is missing as null.
    if "properties" in copy and copy["properties"] in (None, []):
        copy["properties"] = {}
    if "required" in copy and copy["required"] is None:
        del copy["required"]
    if isinstance(properties := copy.get("properties"), dict):
        _lift_required(copy, properties)
    return copy


def _mended_type(kind: Any) -> Any:
    """Return a type in the words of JSON Schema. OpenAPI and Gemini write some of them in capitals."""
    if isinstance(kind, list):
        return [_mended_type(one) for one in kind]
    return kind.lower() if isinstance(kind, str) and kind.lower() in _TYPES else kind


def _lift_required(schema: dict[str, Any], properties: dict[str, Any]) -> None:
    """Draft 3: `required` is a boolean of each property."""
    marked = {
        name: one["required"]
        for name, one in properties.items()
        if isinstance(one, dict) and isinstance(one.get("required"), bool)
    }
    for name in marked:
        properties[name] = {key: value for key, value in properties[name].items() if key != "required"}
    names = [name for name, needed in marked.items() if needed]
    listed = schema.get("required", [])
    if names and isinstance(listed, list):
        schema["required"] = [*listed, *(name for name in names if name not in listed)]


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a number")

"""The parameters of a function in the form that OpenAI and the servers after its model accept.

They refuse every request with a function whose schema is no object at its root, combines schemas there, or has an array without
items. So the root is merged to one object. What that loses only widens the schema that the model reads: the guard checks the
arguments by the schema of the tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from graph_agent.models.llm import NO_PARAMETERS
from graph_agent.policy.schema.references import find_part

_COMBINING: Final = ("allOf", "anyOf", "oneOf")
_NOT_AT_THE_ROOT: Final = frozenset({*_COMBINING, "enum", "const", "not", "if", "then", "else", "$ref", "dependentSchemas"})
_SCHEMAS: Final = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
)
_MAPS: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_MAX_DEPTH: Final = 64


class UnsendableSchemaError(Exception):
    """The parameters cannot be described to the provider. The text says why, as a clause."""


def sendable_parameters(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` in a form that OpenAI accepts: itself, if it is one. Raises `UnsendableSchemaError`."""
    if not schema:
        return NO_PARAMETERS
    completed: dict[str, Any] = _completed(_object_at_root(schema))
    return completed


def _object_at_root(schema: dict[str, Any]) -> dict[str, Any]:
    if _NOT_AT_THE_ROOT.isdisjoint(schema) and schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        return schema
    properties, required = _merged(schema, schema, 0)
    root = {key: value for key, value in schema.items() if key not in _NOT_AT_THE_ROOT}
    root |= {"type": "object", "properties": properties}
    root.pop("required", None)
    return root | ({"required": required} if required else {})


def _merged(schema: Any, root: dict[str, Any], depth: int) -> tuple[dict[str, Any], list[str]]:
    """Return all properties that an object of `schema` may have, and those that it must have."""
    if depth > _MAX_DEPTH:
        raise UnsendableSchemaError("its schema refers to itself")
    if not isinstance(schema, dict):
        return {}, []
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise UnsendableSchemaError("its arguments are no object")
    own = schema.get("properties")
    properties: dict[str, Any] = dict(own) if isinstance(own, dict) else {}
    required = _strings(schema.get("required"))
    for part in _all_of(schema, root):
        _add(properties, (found := _merged(part, root, depth + 1))[0])
        required += found[1]
    for key in ("anyOf", "oneOf"):
        alternatives = list(_alternatives(schema.get(key), root, depth))
        for found_properties, _ in alternatives:
            _add(properties, found_properties)
        if alternatives:
            required += [name for name in alternatives[0][1] if all(name in one for _, one in alternatives)]
    return properties, [name for name in dict.fromkeys(required) if name in properties]


def _all_of(schema: dict[str, Any], root: dict[str, Any]) -> Iterator[Any]:
    if isinstance(reference := schema.get("$ref"), str):
        yield _resolved(reference, root)
    parts = schema.get("allOf")
    yield from parts if isinstance(parts, list) else ()


def _alternatives(schemas: Any, root: dict[str, Any], depth: int) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Yield what each alternative contributes. One that is no object cannot be the arguments of a call."""
    given = schemas if isinstance(schemas, list) else []
    found, refused = [], None
    for schema in given:
        try:
            found.append(_merged(schema, root, depth + 1))
        except UnsendableSchemaError as exc:
            refused = exc
    if given and not found and refused is not None:
        raise refused
    yield from found


def _add(properties: dict[str, Any], more: dict[str, Any]) -> None:
    for name, schema in more.items():
        if name not in properties or properties[name] in (True, {}):
            properties[name] = schema
        elif schema not in (properties[name], True, {}):
            known = properties[name]
            only = list(known["anyOf"]) if isinstance(known, dict) and known.keys() == {"anyOf"} else [known]
            properties[name] = {"anyOf": only if schema in only else [*only, schema]}


def _resolved(reference: str, root: dict[str, Any]) -> Any:
    if not reference.startswith("#"):
        raise UnsendableSchemaError("its schema refers to another document")
    node = find_part(root, reference)
    if node is None:
        raise UnsendableSchemaError("its schema refers to a part that it does not have")
    return node


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _completed(schema: Any, depth: int = 0) -> Any:
    """Return `schema` with items for each array, and objects for the schemas True and False; the same object if it has them."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return schema
    changed: dict[str, Any] = {}
    for key, value in schema.items():
        new = _completed_value(key, value, depth)
        if new is not value:
            changed[key] = new
    kind = schema.get("type")
    if "array" in (kind if isinstance(kind, list) else [kind]) and not isinstance(schema.get("items"), dict):
        changed["items"] = _items(schema)
    if isinstance(schema.get("items"), list):
        changed["items"] = _items(schema)
    return {**schema, **changed} if changed else schema


def _completed_value(key: str, value: Any, depth: int) -> Any:
    if key in _MAPS and isinstance(value, dict):
        parts = {name: _completed(one, depth + 1) for name, one in value.items()}
        return value if all(parts[name] is value[name] for name in value) else parts
    if key in (*_COMBINING, "prefixItems") and isinstance(value, list):
        ordered = [_completed(one, depth + 1) for one in value]
        return value if all(new is old for new, old in zip(ordered, value, strict=True)) else ordered
    if key in _SCHEMAS and isinstance(value, dict):
        return _completed(value, depth + 1)
    return value


def _items(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the items of an array that has none, or one for each position."""
    given = schema.get("items") if isinstance(schema.get("items"), list) else schema.get("prefixItems")
    parts = [_completed(one) for one in given] if isinstance(given, list) else []
    return {"anyOf": parts} if parts else {}

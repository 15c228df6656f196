"""Conversion of whole floats to integers where a tool's schema expects an integer: some providers write 3 as 3.0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def coerce_numbers(value: Any, schema: Any, root: Any) -> Any:
    """Return `value` with whole floats converted to integers where `schema` expects integers; everything else is unchanged.

    A value of the type `number` keeps its form. `root` is the schema in which a `$ref` is looked up.
    """
    schemas = list(_alternatives(schema, root))
    if isinstance(value, dict):
        return {key: coerce_numbers(item, _any_of(_at_key(one, key) for one in schemas), root) for key, item in value.items()}
    if isinstance(value, list):
        return [coerce_numbers(item, _any_of(_at_index(one, n) for one in schemas), root) for n, item in enumerate(value)]
    if isinstance(value, float) and value.is_integer():
        types = {name for one in schemas for name in _types(one)}
        if "integer" in types and "number" not in types:
            return int(value)
    return value


def _alternatives(schema: Any, root: Any) -> list[dict[str, Any]]:
    """Return `schema` and every schema that it refers to or combines, each once: recursive schemas would grow without end."""
    found: dict[int, dict[str, Any]] = {}
    pending = [schema]
    while pending:
        one = pending.pop()
        if not isinstance(one, dict) or id(one) in found:
            continue
        found[id(one)] = one
        if isinstance(reference := one.get("$ref"), str):
            pending.append(_resolve(reference, root))
        for keyword in ("allOf", "anyOf", "oneOf"):
            pending += one.get(keyword) or []
    return list(found.values())


def _resolve(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        return None
    node = root
    for step in reference[1:].split("/")[1:]:
        # `~1` and `~0` are the escapes of a JSON Pointer for `/` and `~`.
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node


def _any_of(schemas: Iterable[Any]) -> dict[str, Any]:
    return {"anyOf": [schema for schema in schemas if isinstance(schema, dict)]}


def _at_key(schema: dict[str, Any], key: str) -> Any:
    properties = schema.get("properties")
    if isinstance(properties, dict) and key in properties:
        return properties[key]
    return schema.get("additionalProperties")


def _at_index(schema: dict[str, Any], index: int) -> Any:
    prefix = schema.get("prefixItems")
    if isinstance(prefix, list) and index < len(prefix):
        return prefix[index]
    return schema.get("items")


def _types(schema: dict[str, Any]) -> list[str]:
    name = schema.get("type")
    return name if isinstance(name, list) else [name] if isinstance(name, str) else []

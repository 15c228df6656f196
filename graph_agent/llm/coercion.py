"""Numbers in the form that a tool's schema wants: providers write 3 as 3.0 and 1e20."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def coerced(value: Any, schema: Any, root: Any) -> Any:
    """`value` with whole floats where `schema` wants an integer turned into integers; everything else as it came.

    A `number` keeps the form it came in. `root` is where `$ref` points into.
    """
    found = list(_alternatives(schema, root))
    if isinstance(value, dict):
        return {key: coerced(item, _any_of(_at_key(one, key) for one in found), root) for key, item in value.items()}
    if isinstance(value, list):
        return [coerced(item, _any_of(_at_index(one, n) for one in found), root) for n, item in enumerate(value)]
    if isinstance(value, float) and value.is_integer():
        wanted = {kind for one in found for kind in _types(one)}
        if "integer" in wanted and "number" not in wanted:
            return int(value)
    return value


def _alternatives(schema: Any, root: Any) -> list[dict[str, Any]]:
    """`schema` and all that it may stand for, each once: schemas that name themselves would multiply with every level."""
    found: dict[int, dict[str, Any]] = {}
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, dict) or id(one) in found:
            continue
        found[id(one)] = one
        if isinstance(reference := one.get("$ref"), str):
            waiting.append(_resolve(reference, root))
        for keyword in ("allOf", "anyOf", "oneOf"):
            waiting += one.get(keyword) or []
    return list(found.values())


def _resolve(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        return None
    node = root
    for step in reference[1:].split("/")[1:]:
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
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind] if isinstance(kind, str) else []

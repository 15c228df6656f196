"""Conversion of whole floats to integers where a tool's schema expects an integer: some providers write 3 as 3.0."""

from __future__ import annotations

from typing import Any


def coerce_numbers(value: Any, schema: Any, root: Any) -> Any:
    """Return `value` with whole floats converted to integers where `schema` expects integers; everything else is unchanged.

    A value of the type `number` keeps its form. `root` is the schema in which a `$ref` is looked up.
    """
    schemas = _alternatives(schema, root)

    def coerced(item: Any, inner: list[Any]) -> Any:
        return coerce_numbers(item, {"anyOf": inner}, root)

    if isinstance(value, dict):
        return {key: coerced(item, [_at_key(one, key) for one in schemas]) for key, item in value.items()}
    if isinstance(value, list):
        return [coerced(item, [_at_index(one, n) for one in schemas]) for n, item in enumerate(value)]
    if isinstance(value, float) and value.is_integer():
        types = [one.get("type") for one in schemas]
        names = [name for one in types for name in (one if isinstance(one, list) else [one])]
        if "integer" in names and "number" not in names:
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


def _at_key(schema: dict[str, Any], key: str) -> Any:
    properties = schema.get("properties")
    if isinstance(properties, dict) and key in properties:
        return properties[key]
    return schema.get("additionalProperties")


def _at_index(schema: dict[str, Any], index: int) -> Any:
    prefix = schema.get("prefixItems")
    return prefix[index] if isinstance(prefix, list) and index < len(prefix) else schema.get("items")

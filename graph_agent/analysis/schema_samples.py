"""Small values that a JSON Schema accepts, so that an example is a call which the guard can accept.

The solver knows the arguments that conditions see. What a schema demands besides, in `required`, `allOf`, `anyOf`, `oneOf` and
references, is completed here. Nothing is promised: the guard checks the example.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from graph_agent.analysis.pattern_samples import matching_text

MAX_BRANCHES: Final = 8
"""The number of alternatives of `anyOf` and `oneOf` that are tried."""
_MAX_DEPTH: Final = 12
_MAX_ITEMS: Final = 100
_FORMATS: Final = {
    "date": "2026-11-28",
    "date-time": "2026-11-28T11:00:00Z",
    "time": "11:00:00Z",
    "duration": "P1D",
    "email": "ann@elsewhere.test",
    "hostname": "elsewhere.test",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://elsewhere.test/",
    "url": "https://elsewhere.test/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


class Samples:
    """The samples of one schema and of the schemas in it."""

    def __init__(self, root: dict[str, Any], branch: int = 0) -> None:
        """`branch` is the alternative that is taken of each `anyOf` and `oneOf`, or the last one if there are fewer."""
        self._root = root
        self._branch = branch

    def sample(self, schema: Any, depth: int = 0) -> Any:
        """Return a small value that `schema` accepts, as far as that can be read from it."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return "x"
        for part in self._parts(schema, depth):
            if "const" in part:
                return part["const"]
            if isinstance(part.get("enum"), list) and part["enum"]:
                return part["enum"][0]
        return self.completed(self._plain(schema, depth), schema, depth)

    def completed(self, value: Any, schema: Any, depth: int = 0) -> Any:
        """Return `value` with what `schema` demands besides: properties of objects, items of lists, and lengths of texts."""
        for part in self._parts(schema, depth):
            if isinstance(value, dict):
                value = self._completed_object(value, part, depth)
            elif isinstance(value, list):
                value = self._completed_list(value, part, depth)
            elif isinstance(value, str):
                value = _text(part, value)
        return value

    def _completed_object(self, value: dict[str, Any], schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = [name for name in schema.get("required") or () if isinstance(name, str)]
        found = {name: self.completed(one, properties.get(name), depth + 1) for name, one in value.items()}
        return {**found, **{name: self.sample(properties.get(name), depth + 1) for name in required if name not in value}}

    def _completed_list(self, value: list[Any], schema: dict[str, Any], depth: int) -> list[Any]:
        items, fewest = schema.get("items"), schema.get("minItems")
        found = [self.completed(one, items, depth + 1) for one in value]
        missing = min(fewest, _MAX_ITEMS) - len(found) if isinstance(fewest, int) else 0
        return [*found, *(self.sample(items, depth + 1) for _ in range(missing))]

    def _plain(self, schema: dict[str, Any], depth: int) -> Any:
        """Return the smallest value of the schema's type, without what it has to contain."""
        parts = list(self._parts(schema, depth))
        merged = {key: value for part in reversed(parts) for key, value in part.items()}
        types = merged.get("type")
        first = next((one for one in types if one != "null"), "null") if isinstance(types, list) else types
        if first is None:
            first = "object" if "properties" in merged else "array" if "items" in merged else "string"
        match first:
            case "object":
                return {}
            case "array":
                return []
            case "boolean":
                return True
            case "null":
                return None
            case "integer" | "number":
                return _number(merged)
        return _text(merged, "x")

    def _parts(self, schema: Any, depth: int) -> Iterator[dict[str, Any]]:
        """Yield the schemas that apply to the same value: the schema, what it refers to, and its alternatives."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return
        yield schema
        yield from self._parts(self._target(schema.get("$ref")), depth + 1)
        for one in _list(schema.get("allOf")):
            yield from self._parts(one, depth + 1)
        for key in ("anyOf", "oneOf"):
            if branches := _list(schema.get(key)):
                yield from self._parts(branches[min(self._branch, len(branches) - 1)], depth + 1)

    def _target(self, reference: Any) -> Any:
        """Return the schema at a reference within the root; None for another one."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found: Any = self._root
        for name in reference.removeprefix("#").split("/")[1:]:
            found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(schema: dict[str, Any]) -> int | float:
    """Return 1, or the number next to it that the limits of the schema allow."""

    def limit(key: str, otherwise: float) -> int | float:
        value = schema.get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else otherwise

    lowest = max(limit("minimum", -math.inf), limit("exclusiveMinimum", -math.inf) + 1)
    highest = min(limit("maximum", math.inf), limit("exclusiveMaximum", math.inf) - 1)
    return max(lowest, min(highest, max(1, limit("multipleOf", 1))))


def _text(schema: dict[str, Any], text: str) -> str:
    """Return `text`, or one that has the format, pattern and length of the schema."""
    found = _FORMATS.get(str(schema.get("format")), text) if len(text) <= 1 else text
    if isinstance(pattern := schema.get("pattern"), str):
        found = matching_text(pattern, found) or found
    shortest = schema.get("minLength")
    return found.ljust(min(shortest, 1000), "x") if isinstance(shortest, int) else found

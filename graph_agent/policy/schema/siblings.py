"""Sibling schemas that declare the same part of a value, and the rule that makes them strict together.

In `allOf: [{properties: {a: A1}}, {properties: {a: A2}}]` both schemas declare properties of `a`. If A1 and A2 were strict
separately, each would reject what the other one declares. So both accept any property, and a joint rule for `a` is added next
to them: `unevaluatedProperties: false` over all declarations of `a` that hold for the value. The alternatives of one `anyOf`
or `oneOf` are not siblings of each other: each of them is complete, and stays strict by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graph_agent.policy.schema.keywords import ALTERNATIVES, BRANCHES, REFERENCES, VALUES, SchemaRefusedError, subschemas

_MAX_RULES = 2_000
_MAX_SIBLINGS = 100
"""Schemas of one part that are compared with each of its schemas; a comparison of all pairs would take quadratic time."""
_STRUCTURED = VALUES | BRANCHES | frozenset(REFERENCES)

_Part = str | None
"""A property by its name, or None for the items of a list."""
_Choices = dict[tuple[int, str], int]
"""The alternative that was taken at each `anyOf` and `oneOf` on the way to a schema."""


class SiblingRules:
    """The joint rules of one document, for arguments of at most `depth` levels."""

    def __init__(
        self, resolve: Callable[[Any], Any], declares: Callable[[Any], bool], value_schemas: Sequence[Any], depth: int
    ) -> None:
        self._resolve = resolve
        self._declares = declares
        self._depth = depth
        self._shared: set[int] = set()
        self._searched: set[tuple[frozenset[int], int]] = set()
        self._rules = 0
        for schema in value_schemas:
            self._find_shared([schema], depth)

    def is_shared(self, schema: dict[str, Any]) -> bool:
        """True if a sibling of `schema` declares the same part of a value."""
        return id(schema) in self._shared

    def joint_rule(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Return the rule for the shared parts of a value that begins with `schema`, or None if there are none."""
        rule = self._rule([schema], self._depth)
        # The double negation hides the annotations of the rule: it must not count as a declaration itself.
        return {"not": {"not": rule}} if rule else None

    def _find_shared(self, schemas: Sequence[Any], depth: int) -> None:
        for found in self._parts(schemas).values() if depth > 0 else ():
            shared = [
                schema
                for schema, choices in found
                if any(other is not schema and _both(choices, others) for other, others in found[:_MAX_SIBLINGS])
            ]
            ids = frozenset(map(id, shared))
            self._shared |= ids
            if ids and (ids, depth) not in self._searched:
                self._searched.add((ids, depth))
                self._find_shared(shared, depth - 1)

    def _rule(self, schemas: Sequence[Any], depth: int) -> dict[str, Any]:
        rule: dict[str, Any] = {}
        for part, found in self._parts(schemas).items() if depth > 0 else ():
            declarations = [schema for schema, _ in found]
            if not any(map(self.is_shared, declarations)):
                continue
            self._rules += 1
            if self._rules > _MAX_RULES:
                raise SchemaRefusedError("asks too much of one value")
            joint = self._rule(declarations, depth - 1)
            if any(map(self._declares, declarations)):
                joint["allOf"] = [{"anyOf": [True, _without_names(schema)]} for schema in declarations]
                joint["unevaluatedProperties"] = False
            if part is None:
                rule["items"] = joint
            else:
                rule.setdefault("properties", {})[part] = joint
        return rule

    def _parts(self, schemas: Sequence[Any]) -> dict[_Part, list[tuple[dict[str, Any], _Choices]]]:
        """Return the schemas of each part of a value to which all of `schemas` apply."""
        parts: dict[_Part, dict[int, tuple[dict[str, Any], _Choices]]] = {}
        for applied, choices in self._applied(schemas):
            for part, below in (*applied.get("properties", {}).items(), (None, applied.get("items"))):
                # A schema without subschemas, such as {"type": "string"}, has nothing that could be strict.
                if isinstance(below, dict) and (_STRUCTURED & below.keys()):
                    parts.setdefault(part, {})[id(below)] = (below, choices)
        return {part: list(found.values()) for part, found in parts.items()}

    def _applied(self, schemas: Sequence[Any]) -> list[tuple[dict[str, Any], _Choices]]:
        """Return `schemas` and the schemas that they apply to the same value, each once.

        A schema that is reached in several ways has the choices that all of them have in common.
        """
        reached: dict[int, tuple[dict[str, Any], _Choices]] = {}
        waiting: list[tuple[Any, _Choices]] = [(schema, {}) for schema in schemas]
        while waiting:
            schema, choices = waiting.pop()
            if not isinstance(schema, dict):
                continue
            if id(schema) in reached:
                known = reached[id(schema)][1]
                choices = {place: index for place, index in choices.items() if known.get(place) == index}
                if choices == known:
                    continue
            reached[id(schema)] = (schema, choices)
            waiting += [(self._resolve(schema[word]), choices) for word in REFERENCES if word in schema]
            for keyword in sorted(BRANCHES & schema.keys()):
                for index, branch in enumerate(subschemas(schema, keyword)):
                    taken = {**choices, (id(schema), keyword): index} if keyword in ALTERNATIVES else choices
                    waiting.append((branch, taken))
        return list(reached.values())


def _both(one: _Choices, other: _Choices) -> bool:
    """True if no `anyOf` or `oneOf` separates the two schemas."""
    return all(other.get(place, index) == index for place, index in one.items())


def _without_names(schema: Any) -> Any:
    """Return a copy without ids and anchors, which must be unique in a document."""
    if isinstance(schema, list):
        return [_without_names(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_names(part) for key, part in schema.items() if key not in ("$id", "$anchor", "$dynamicAnchor")}

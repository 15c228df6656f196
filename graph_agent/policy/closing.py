"""The closed copy of a tool's JSON Schema: what arguments are checked against.

It asks what the original asks, and refuses besides the properties that nobody declared, at every depth the declared shape
goes to: below properties, items, branches and references. `unevaluatedProperties: false` does it, because it sees through
`allOf` and `$ref`; so it stands where a value begins, never in a branch, which would refuse what its sibling declares. What the
original leaves open on purpose stays open: `additionalProperties`, maps, and objects of which nothing is declared.

Where a tighter branch would let more through (`oneOf`, `not`, `if`, `contains`) the original one is asked.

In the copy every reference is a key into `targets`, so that resolving one costs nothing and leads nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote

from graph_agent.policy.linear_pattern import linear_pattern

MAX_SCHEMA_NODES = 20_000
"""Values in the copy, references followed."""
MAX_SCHEMA_DEPTH = 64
MAX_CHECKS_OF_ONE_VALUE = 24
"""Schemas inside one another that look at the same value: allOf in anyOf in $ref."""
MAX_PATTERNS = 200

_Place = Literal["schema", "schemas", "named schemas"]

_BELOW: dict[str, _Place] = {
    "properties": "named schemas",
    "patternProperties": "named schemas",
    "additionalProperties": "schema",
    "unevaluatedProperties": "schema",
    "items": "schema",
    "prefixItems": "schemas",
    "unevaluatedItems": "schema",
}
"""Keywords whose schemas look at a part of the value."""

_BESIDE: dict[str, _Place] = {
    "allOf": "schemas",
    "anyOf": "schemas",
    "oneOf": "schemas",
    "dependentSchemas": "named schemas",
    "then": "schema",
    "else": "schema",
    "$ref": "schema",
}
"""Keywords whose schemas look at the same value and declare something of it."""

_ASKING: dict[str, _Place] = {"if": "schema", "not": "schema", "contains": "schema", "propertyNames": "schema"}
"""Keywords whose schemas are only asked whether they hold: they stay as open as they came."""

_PLAIN = frozenset(
    {"type", "enum", "const", "pattern", "required", "dependentRequired", "uniqueItems", "multipleOf"}
    | {"maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "maxItems", "minItems"}
    | {"maxContains", "minContains", "maxProperties", "minProperties"}
)
"""Keywords without schemas; what stands nowhere here (titles, defaults, formats) has no say."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DECLARING = frozenset({"properties", "patternProperties", "additionalProperties", "unevaluatedProperties"})


class SchemaRefusedError(ValueError):
    """A schema that cannot be checked against: its message says why, in words for the operator."""


@dataclass
class ClosedCopy:
    """The copy of one schema, and what its references lead to."""

    original: dict[str, Any]
    targets: dict[str, Any] = field(default_factory=dict)
    schema: Any = None
    _patterns: set[str] = field(default_factory=set)
    _nodes: int = 0

    def __post_init__(self) -> None:
        self._count(self.original, MAX_SCHEMA_DEPTH)
        self._nodes = 0
        self._anchors = dict(_anchors(self.original))
        self._declared: dict[str, bool] = {}
        self._waiting: list[tuple[str, Any, bool]] = []
        self.schema = self._copy(self.original, closed=True)
        self.schema.setdefault("unevaluatedProperties", False)
        while self._waiting:
            key, target, closed = self._waiting.pop()
            self.targets[key] = self._copy(target, closed=closed)
        bounded: dict[str, int] = {}
        for schema in (self.schema, *self.targets.values()):
            self._bound(schema, bounded)

    def _copy(self, schema: Any, *, closed: bool) -> Any:
        if not isinstance(schema, dict):
            return schema
        self._count(None)
        if "$id" in schema and schema is not self.original:
            raise SchemaRefusedError("has a schema with an $id of its own inside")
        copy: dict[str, Any] = {}
        for keyword, value in _in_current_words(schema).items():
            if keyword in _PLAIN:
                self._count(value)
                copy[keyword] = value
            elif keyword in _ASKING:
                copy[keyword] = self._copy(value, closed=False)
            elif keyword in _BELOW:
                copy[keyword] = _mapped(_BELOW[keyword], value, lambda part: self._below(part, closed=closed))
            elif keyword in ("anyOf", "oneOf") and closed:
                copy[keyword] = self._branches(schema, value)
            elif keyword in _BESIDE and keyword != "$ref":
                copy[keyword] = _mapped(_BESIDE[keyword], value, lambda part: self._copy(part, closed=closed))
        if closed and "oneOf" in copy:
            # A branch that holds only while it is open would make a second match, which the original refuses.
            copy["allOf"] = [*copy.get("allOf", []), {"anyOf": copy["oneOf"]}]
            copy["oneOf"] = [self._copy(branch, closed=False) for branch in schema["oneOf"]]
        references = [self._reference(schema[keyword], closed=closed) for keyword in _REFERENCES if keyword in schema]
        if references:
            copy["$ref"], *more = references
            if more:
                copy["allOf"] = [*copy.get("allOf", []), *({"$ref": key} for key in more)]
        for pattern in [*copy.get("patternProperties", {}), *([copy["pattern"]] if "pattern" in copy else [])]:
            self._search_for(pattern)
        return copy

    def _below(self, schema: Any, *, closed: bool) -> Any:
        """The copy of a schema where a value begins."""
        copy = self._copy(schema, closed=closed)
        if closed and isinstance(copy, dict) and self._declares(schema):
            copy.setdefault("unevaluatedProperties", False)
        return copy

    def _branches(self, schema: dict[str, Any], branches: list[Any]) -> list[Any]:
        """Alternatives; beside others that declare properties, one that is any object at all stays that."""
        copies = [self._copy(branch, closed=True) for branch in branches]
        if _DECLARING & schema.keys() or any(self._declares(schema.get(word)) for word in ("$ref", "allOf")):
            return copies
        return [
            {**copy, "additionalProperties": True} if isinstance(copy, dict) and self._is_any_object(branch) else copy
            for branch, copy in zip(branches, copies, strict=True)
        ]

    def _is_any_object(self, schema: dict[str, Any]) -> bool:
        kind = schema.get("type", "object")
        return (kind == "object" or "object" in kind) and not self._declares(schema)

    def _declares(self, schema: Any) -> bool:
        """Whether a schema, its branches or what it refers to say anything of properties."""
        if isinstance(schema, list):
            return any(self._declares(part) for part in schema)
        if not isinstance(schema, dict):
            return False
        if _DECLARING & schema.keys():
            return True
        for keyword in _REFERENCES:
            pointer = schema.get(keyword)
            if isinstance(pointer, str) and pointer not in self._declared:
                # Until it is known: a circle declares nothing that is not declared elsewhere.
                self._declared[pointer] = False
                self._declared[pointer] = self._declares(self._resolved(pointer))
            if isinstance(pointer, str) and self._declared[pointer]:
                return True
        return any(self._declares(part) for keyword in _BESIDE if keyword in schema for part in _parts(schema, keyword))

    def _reference(self, pointer: Any, *, closed: bool) -> str:
        key = f"{'closed' if closed else 'open'} {pointer}"
        if key not in self.targets:
            self.targets[key] = None
            self._waiting.append((key, self._resolved(pointer), closed))
        return key

    def _resolved(self, pointer: Any) -> Any:
        if not isinstance(pointer, str):
            raise SchemaRefusedError("has a reference that is no text")
        own = self.original.get("$id")
        fragment = pointer.removeprefix(own) if isinstance(own, str) else pointer
        if fragment in ("", "#"):
            return self.original
        node: Any = self.original
        try:
            if fragment.startswith("#/"):
                for step in unquote(fragment[2:]).split("/"):
                    node = node[int(step)] if isinstance(node, list) else node[step.replace("~1", "/").replace("~0", "~")]
            else:
                node = self._anchors[fragment.removeprefix("#")] if fragment.startswith("#") else None
        except (KeyError, IndexError, ValueError, TypeError):
            node = None
        if not isinstance(node, dict | bool):
            raise SchemaRefusedError("refers to a schema that is not in it")
        return node

    def _search_for(self, pattern: str) -> None:
        self._patterns.add(pattern)
        if len(self._patterns) > MAX_PATTERNS:
            raise SchemaRefusedError("has too many patterns")
        try:
            linear_pattern(pattern)
        except ValueError as exc:
            raise SchemaRefusedError("has a pattern that cannot be searched for in bounded time") from exc

    def _count(self, value: Any, depth: int = MAX_SCHEMA_DEPTH) -> None:
        self._nodes += 1
        if self._nodes > MAX_SCHEMA_NODES or depth < 0:
            raise SchemaRefusedError("is too large or too deep")
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            self._count(part, depth - 1)

    def _bound(self, schema: Any, known: dict[str, int], left: int = MAX_CHECKS_OF_ONE_VALUE) -> None:
        """Refuse what looks at one value again and again: a circle of references, or a very long way."""
        if not isinstance(schema, dict):
            return
        if left < 0:
            raise SchemaRefusedError("looks at one value too often, or refers to itself without end")
        reference = schema.get("$ref")
        if reference is not None and known.get(reference, left + 1) > left:
            known[reference] = left
            self._bound(self.targets[reference], known, left - 1)
        for keyword in (*_BESIDE, *_ASKING):
            if keyword in schema and keyword not in ("$ref", "contains", "propertyNames"):
                for part in _parts(schema, keyword):
                    self._bound(part, known, left - 1)


def _mapped(place: _Place, value: Any, change: Callable[[Any], Any]) -> Any:
    match place:
        case "schema":
            return change(value)
        case "schemas":
            return [change(part) for part in value]
        case "named schemas":
            return {name: change(part) for name, part in value.items()}


def _parts(schema: dict[str, Any], keyword: str) -> list[Any]:
    value = schema[keyword]
    match {**_BESIDE, **_ASKING}[keyword]:
        case "schema":
            return [value]
        case "schemas":
            return list(value)
        case "named schemas":
            return list(value.values())


def _in_current_words(schema: dict[str, Any]) -> dict[str, Any]:
    """Keywords of the drafts before 2020-12 that declare something, in today's words."""
    if not isinstance(schema.get("items"), list) and "dependencies" not in schema:
        return schema
    said = dict(schema)
    if isinstance(said.get("items"), list):
        said["prefixItems"] = said.pop("items")
        if "additionalItems" in said:
            said["items"] = said.pop("additionalItems")
    needed = said.pop("dependencies", {})
    if names := {name: value for name, value in needed.items() if isinstance(value, list)}:
        said["dependentRequired"] = {**said.get("dependentRequired", {}), **names}
    if schemas := {name: value for name, value in needed.items() if not isinstance(value, list)}:
        said["dependentSchemas"] = {**said.get("dependentSchemas", {}), **schemas}
    return said


def _anchors(value: Any) -> Iterator[tuple[str, Any]]:
    """Every named place. One document is one scope: a dynamic anchor is an anchor there."""
    if isinstance(value, dict):
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(value.get(keyword), str):
                yield value[keyword], value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _anchors(part)

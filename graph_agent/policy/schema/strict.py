"""An untrusted JSON Schema of draft 2020-12, and a strict copy that rejects undeclared properties.

The strict copy rejects undeclared properties at every level whose properties are declared. It uses
`unevaluatedProperties: false`, which takes `allOf` and `$ref` into account, or where there are none the cheaper
`additionalProperties: false`. The keyword is added where the schema of a value
begins, never in a branch, because there it would reject the properties that a sibling branch declares. Objects that the
original leaves open on purpose stay open: `additionalProperties`, maps, objects without declared properties.

The strict copy can accept arguments that the original rejects (below `not`, `oneOf` and `if`), so both are checked.

In `allOf: [{properties: {a: A1}}, {properties: {a: A2}}]` both schemas declare properties of `a`. Their strict
copies would each reject what the other one declares, so arguments that the strict copy rejects are evaluated once more: the
validator reports, as annotations, which schemas hold for each object and which properties they declare. A keyword that the
validator does not know is an annotation too, so two marks in the original schema say which objects are strict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jsonschema_rs import Draft202012Validator

from graph_agent.policy.schema import keywords
from graph_agent.policy.schema.references import find_part

_STRICT: Final = "x-graph-agent-strict"
"""The mark of a schema with which a value begins, and which declares its properties."""
_COMPLETE: Final = "x-graph-agent-complete"
"""The mark of a schema that declares every property of an object for which it holds."""


_NOTHING_ELSE: Final = {False: {"unevaluatedProperties": False}, True: {"additionalProperties": False}}
"""The keyword that rejects undeclared properties, by `_is_alone`: the second means the same there, at half of the cost."""


class Schema:
    """A valid and upgraded JSON Schema whose references are resolved within it."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        # Within one document a dynamic anchor works like a plain one.
        self._anchors = {
            part[word]: part for _, part in keywords.walk(root) for word in ("$anchor", "$dynamicAnchor") if word in part
        }
        self._declaring: dict[int, bool] = {}

    def strict(self) -> dict[str, Any]:
        """Return the strict copy, and mark the schemas that it makes strict."""
        for keyword, schema in keywords.walk(self.root, without=keywords.CONDITIONS):
            if keyword in keywords.VALUES and self._declares(schema):
                schema[_STRICT] = True
        for _, schema in keywords.walk(self.root):
            if {"additionalProperties", "unevaluatedProperties"} & schema.keys():
                # It leaves no property of a valid object undeclared.
                schema[_COMPLETE] = True
        return {**_NOTHING_ELSE[_is_alone(self.root)], **_strict_copy(self.root)}

    def resolved(self, reference: Any) -> Any:
        """Return the schema that `reference` names. Raises `SchemaRefusedError`."""
        own = self.root.get("$id")
        fragment = reference.removeprefix(own) if isinstance(own, str) else reference
        node = self._anchors.get(fragment[1:])
        if node is None:
            node = find_part(self.root, fragment)
        if not isinstance(node, dict | bool):
            raise keywords.SchemaRefusedError("refers to a schema that is not in it")
        return node

    def _declares(self, schema: Any) -> bool:
        """True if the schema declares properties: itself, through a reference or branch, or in every alternative."""
        if not isinstance(schema, dict):
            return False
        if id(schema) not in self._declaring:
            # The provisional answer for a cycle: going around it once more declares nothing new.
            self._declaring[id(schema)] = False
            self._declaring[id(schema)] = self._finds_declared(schema)
        return self._declaring[id(schema)]

    def _finds_declared(self, schema: dict[str, Any]) -> bool:
        if keywords.DECLARING & schema.keys():
            return True
        applied = [self.resolved(schema[word]) for word in keywords.REFERENCES if word in schema]
        applied += [
            part
            for word in sorted((keywords.BRANCHES - keywords.ALTERNATIVES) & schema.keys())
            for part in keywords.subschemas(schema, word)
        ]
        if any(map(self._declares, applied)):
            return True
        alternatives = [
            [part for part in schema.get(word, ()) if self._may_be_object(part)] for word in sorted(keywords.ALTERNATIVES)
        ]
        return any(parts and all(map(self._declares, parts)) for parts in alternatives)

    def _may_be_object(self, schema: Any) -> bool:
        if not isinstance(schema, dict):
            return schema is not False
        if "$ref" in schema and "type" not in schema:
            target = self.resolved(schema["$ref"])
            return not isinstance(target, dict) or "object" in target.get("type", "object")
        return "object" in schema.get("type", "object")


def _strict_copy(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    copy = keywords.with_subschemas(
        schema, lambda keyword, part: part if keyword in keywords.CONDITIONS else _strict_copy(part)
    )
    if _STRICT in schema and "unevaluatedProperties" not in schema:
        copy = {**_NOTHING_ELSE[_is_alone(schema)], **copy}
    return copy


def _is_alone(schema: dict[str, Any]) -> bool:
    """True if no other schema declares properties of the same value."""
    return not schema.keys() & (keywords.BRANCHES | keywords.CONDITIONS | {*keywords.REFERENCES, "unevaluatedProperties"})


def declares_all(marked: Draft202012Validator, arguments: dict[str, Any], max_values: int) -> bool:
    """True if every property of each strict object in valid `arguments` is declared by a schema that holds for the object.

    False if there are more than `max_values` values in the arguments, because each has annotations, which take memory.
    """
    values = list(_values(arguments))
    if len(values) > max_values:
        return False
    objects = {pointer: value for pointer, value in values if isinstance(value, dict)}
    declared: dict[str, set[str]] = {pointer: set() for pointer in objects}
    strict = {""}
    for found in marked.evaluate(arguments).annotations():
        pointer, annotation = found["instanceLocation"], found["annotations"]
        if pointer not in objects:
            continue
        # A list has the names that `properties` or a keyword like it has matched, a dict has the unknown keywords.
        if isinstance(annotation, list):
            declared[pointer].update(map(str, annotation))
        elif isinstance(annotation, dict):
            declared[pointer].update(objects[pointer] if _COMPLETE in annotation else ())
            strict.update({pointer} if _STRICT in annotation else ())
    return all(objects[pointer].keys() <= declared[pointer] for pointer in strict)


def _values(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Yield `value` and every value in it, each with its JSON Pointer."""
    yield pointer, value
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _values(part, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")

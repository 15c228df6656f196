"""The properties that all schemas of an object declare together.

In `allOf: [{properties: {a: A1}}, {properties: {a: A2}}]` both schemas declare properties of `a`. Their strict
copies would each reject what the other one declares, so arguments that the strict copy rejects are evaluated once more: the
validator reports, as annotations, which schemas hold for each object and which properties they declare. A keyword that the
validator does not know is an annotation too, so two marks in the original schema say which objects are strict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jsonschema_rs import Draft202012Validator

from graph_agent.policy.schema.keywords import walk

STRICT: Final = "x-graph-agent-strict"
"""The mark of a schema with which a value begins, and which declares its properties."""
_COMPLETE: Final = "x-graph-agent-complete"
"""The mark of a schema that declares every property of an object for which it holds."""


def mark_complete(root: dict[str, Any]) -> None:
    """Mark the subschemas that leave no property of a valid object undeclared."""
    for _, schema in walk(root):
        if {"additionalProperties", "unevaluatedProperties"} & schema.keys():
            schema[_COMPLETE] = True


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
            strict.update({pointer} if STRICT in annotation else ())
    return all(objects[pointer].keys() <= declared[pointer] for pointer in strict)


def _values(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Yield `value` and every value in it, each with its JSON Pointer."""
    yield pointer, value
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _values(part, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")

"""The closed copy of a tool's JSON Schema: it refuses the properties that nobody declared, as deep as the shape is declared.

`unevaluatedProperties: false` does it, because it sees through `allOf` and `$ref`. So it stands where a value begins, never in
a branch, which would refuse what its sibling declares. What the original leaves open on purpose stays open:
`additionalProperties`, maps, objects of which nothing is declared.

A copy may hold where the original does not (below `not`, `oneOf`, `if`): arguments have to fit both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

MOST_LOOKS: Final = 10_000
"""How often one value of the arguments may be looked at: unions of unions multiply."""

_VALUES: Final = frozenset(
    {"properties", "patternProperties", "additionalProperties", "unevaluatedProperties"}
    | {"items", "prefixItems", "contains", "unevaluatedItems", "propertyNames"}
)
"""Keywords whose schemas look at a part of the value."""
_BRANCHES: Final = frozenset({"allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas"})
"""Keywords whose schemas look at the same value and declare something of it."""
_QUESTIONS: Final = frozenset({"if", "not", "contains", "propertyNames"})
"""Keywords whose schemas are only asked whether they hold: they stay as they came."""
_ALTERNATIVES: Final = ("anyOf", "oneOf")
_SHELVES: Final = frozenset({"$defs", "definitions"})
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas"}) | _SHELVES
_REFERENCES: Final = ("$ref", "$dynamicRef")
_DECLARING: Final = frozenset({"properties", "patternProperties", "additionalProperties", "unevaluatedProperties"})


class SchemaRefusedError(ValueError):
    """A schema that arguments cannot be checked against. The message says why, in words for the operator."""


class Schema:
    """One JSON Schema whose references lead to places within it."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._anchors = dict(_anchors(root))
        self._declaring: dict[int, bool] = {}

    def closed(self) -> dict[str, Any]:
        """The closed copy, in the words of draft 2020-12."""
        return {"unevaluatedProperties": False, **self._copy(self._root)}

    def looks(self, depth: int) -> int:
        """How often one value in arguments of at most `depth` levels may be looked at."""
        return self._looks(self._root, depth, {})

    def _copy(self, schema: Any, *, begins: bool = False) -> Any:
        if not isinstance(schema, dict):
            return schema
        copy: dict[str, Any] = {}
        for keyword, value in _in_current_words(schema).items():
            if keyword in _QUESTIONS or keyword not in _VALUES | _BRANCHES | _SHELVES:
                copy[keyword] = value
            elif keyword in _NAMED:
                copy[keyword] = {name: self._copy(part, begins=keyword in _VALUES) for name, part in value.items()}
            elif isinstance(value, list):
                copy[keyword] = [self._copy(part, begins=keyword in _VALUES) for part in value]
            else:
                copy[keyword] = self._copy(value, begins=keyword in _VALUES)
        if begins and self._declares(schema):
            copy.setdefault("unevaluatedProperties", False)
        return copy

    def _declares(self, schema: Any) -> bool:
        """Whether all that an object may have here is declared: by the schema, what it refers to, or each alternative."""
        if not isinstance(schema, dict):
            return False
        if id(schema) not in self._declaring:
            # Until it is known: a circle declares nothing that is not declared elsewhere.
            self._declaring[id(schema)] = False
            self._declaring[id(schema)] = self._finds_declared(schema)
        return self._declaring[id(schema)]

    def _finds_declared(self, schema: dict[str, Any]) -> bool:
        if _DECLARING & schema.keys():
            return True
        same = [self._resolved(schema[word]) for word in _REFERENCES if word in schema]
        same += [part for word in sorted((_BRANCHES - set(_ALTERNATIVES)) & schema.keys()) for part in _parts(schema, word)]
        if any(map(self._declares, same)):
            return True
        objects = [[part for part in schema.get(word, ()) if self._may_be_object(part)] for word in _ALTERNATIVES]
        return any(parts and all(map(self._declares, parts)) for parts in objects)

    def _may_be_object(self, schema: Any) -> bool:
        if not isinstance(schema, dict):
            return schema is not False
        if "$ref" in schema and "type" not in schema:
            target = self._resolved(schema["$ref"])
            return not isinstance(target, dict) or "object" in target.get("type", "object")
        return "object" in schema.get("type", "object")

    def _looks(self, schema: Any, depth: int, known: dict[tuple[int, int], int]) -> int:
        if not isinstance(schema, dict):
            return 0
        place = (id(schema), depth)
        if known.get(place, 1) == 0:
            raise SchemaRefusedError("refers to itself without end")
        if place not in known:
            known[place] = 0
            parts = [(self._resolved(schema[word]), depth) for word in _REFERENCES if word in schema]
            for keyword in schema:
                if keyword in _VALUES and depth:
                    parts += [(part, depth - 1) for part in _parts(schema, keyword)]
                elif keyword in _BRANCHES | {"if", "not"}:
                    parts += [(part, depth) for part in _parts(schema, keyword)]
            known[place] = 1 + sum(self._looks(part, left, known) for part, left in parts)
        return known[place]

    def _resolved(self, reference: Any) -> Any:
        own = self._root.get("$id")
        fragment = reference.removeprefix(own) if isinstance(own, str) else reference
        if fragment in ("", "#"):
            return self._root
        node: Any = self._anchors.get(fragment[1:])
        try:
            if fragment.startswith("#/"):
                node = self._root
                for step in unquote(fragment[2:]).split("/"):
                    node = node[int(step)] if isinstance(node, list) else node[step.replace("~1", "/").replace("~0", "~")]
        except (KeyError, IndexError, ValueError, TypeError):
            node = None
        if not isinstance(node, dict | bool):
            raise SchemaRefusedError("refers to a schema that is not in it")
        return node


def _in_current_words(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` with what the drafts before 2020-12 called otherwise, and without the name of its draft."""
    said = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    if isinstance(said.get("items"), list):
        said["prefixItems"] = said.pop("items")
        if "additionalItems" in said:
            said["items"] = said.pop("additionalItems")
    for name, needed in said.pop("dependencies", {}).items():
        keyword = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
        said[keyword] = {**said.get(keyword, {}), name: needed}
    return said


def _parts(schema: dict[str, Any], keyword: str) -> list[Any]:
    """The schemas under a keyword: one, a list of them, or named ones."""
    value = schema[keyword]
    if keyword in _NAMED:
        return list(value.values())
    return value if isinstance(value, list) else [value]


def _anchors(value: Any) -> Iterator[tuple[str, Any]]:
    """Every named place; a dynamic anchor is an anchor within one document."""
    if isinstance(value, dict):
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(value.get(keyword), str):
                yield value[keyword], value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _anchors(part)

"""A stranger's JSON Schema in today's words, open as it came and closed.

The closed copy refuses the properties that nobody declared, as deep as the shape is declared. `unevaluatedProperties: false`
does it, because it sees through `allOf` and `$ref`. So it stands where a value begins, never in a branch, which would refuse
what its sibling declares. What the original leaves open on purpose stays open: `additionalProperties`, maps, objects of which
nothing is declared.

The closed copy may hold where the open one does not (below `not`, `oneOf`, `if`): arguments have to fit both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote

from graph_agent.policy.schema.lookaheads import without_lookaheads

_VALUES: Final = frozenset(
    {"properties", "patternProperties", "additionalProperties", "unevaluatedProperties"}
    | {"items", "prefixItems", "contains", "unevaluatedItems", "propertyNames"}
)
"""Keywords whose schemas look at a part of the value."""
_ALTERNATIVES: Final = frozenset({"anyOf", "oneOf"})
_BRANCHES: Final = frozenset({"allOf", "then", "else", "dependentSchemas"}) | _ALTERNATIVES
"""Keywords whose schemas look at the same value and declare something of it."""
_QUESTIONS: Final = frozenset({"if", "not", "contains", "propertyNames"})
"""Keywords whose schemas are only asked whether they hold: they stay as open as they came."""
_SHELVES: Final = frozenset({"$defs", "definitions"})
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas"}) | _SHELVES
"""Keywords with schemas by name; the others have one, or a list of them."""
_REFERENCES: Final = ("$ref", "$dynamicRef")
_DECLARING: Final = frozenset({"properties", "patternProperties", "additionalProperties", "unevaluatedProperties"})


class SchemaRefusedError(ValueError):
    """A schema that arguments cannot be checked against. The message says why, in words for the operator."""


class Schema:
    """One valid JSON Schema, whose references lead to places within it."""

    def __init__(self, original: dict[str, Any]) -> None:
        self.root: dict[str, Any] = _in_current_words(original)
        self._anchors = dict(_anchors(self.root))
        self._declaring: dict[int, bool] = {}

    def closed(self) -> dict[str, Any]:
        """The closed copy."""
        return {"unevaluatedProperties": False, **self._copy(self.root, begins=False)}

    def cost(self, depth: int, price: Callable[[str], int]) -> int:
        """How many schemas look at one value in arguments of at most `depth` levels; an expression counts as its `price`.

        Raises `SchemaRefusedError` where there is no end to it.
        """
        return self._cost(self.root, depth, price, {})

    def _copy(self, schema: Any, *, begins: bool) -> Any:
        if not isinstance(schema, dict):
            return schema
        copy = _mapped(
            schema, lambda keyword, part: part if keyword in _QUESTIONS else self._copy(part, begins=keyword in _VALUES)
        )
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
        same += [part for word in sorted((_BRANCHES - _ALTERNATIVES) & schema.keys()) for part in _parts(schema, word)]
        if any(map(self._declares, same)):
            return True
        objects = [[part for part in schema.get(word, ()) if self._may_be_object(part)] for word in sorted(_ALTERNATIVES)]
        return any(parts and all(map(self._declares, parts)) for parts in objects)

    def _may_be_object(self, schema: Any) -> bool:
        if not isinstance(schema, dict):
            return schema is not False
        if "$ref" in schema and "type" not in schema:
            target = self._resolved(schema["$ref"])
            return not isinstance(target, dict) or "object" in target.get("type", "object")
        return "object" in schema.get("type", "object")

    def _cost(self, schema: Any, depth: int, price: Callable[[str], int], known: dict[tuple[int, int], int]) -> int:
        if not isinstance(schema, dict):
            return 0
        place = (id(schema), depth)
        if place not in known:
            known[place] = 0
            parts = [(self._resolved(schema[word]), depth) for word in _REFERENCES if word in schema]
            for keyword in schema.keys() & (_VALUES | _BRANCHES | _QUESTIONS):
                left = depth - 1 if keyword in _VALUES else depth
                parts += [(part, left) for part in _parts(schema, keyword) if left >= 0]
            below = sum(self._cost(part, left, price, known) for part, left in parts)
            # To learn what the others have looked at, these ask them once more.
            twice = 2 if {"unevaluatedProperties", "unevaluatedItems"} & schema.keys() else 1
            searched = [*schema.get("patternProperties", ()), *([schema["pattern"]] if "pattern" in schema else ())]
            known[place] = 1 + len(schema.get("enum", ())) + sum(map(price, searched)) + twice * below
        elif not known[place]:
            raise SchemaRefusedError("refers to itself without end")
        return known[place]

    def _resolved(self, reference: Any) -> Any:
        own = self.root.get("$id")
        fragment = reference.removeprefix(own) if isinstance(own, str) else reference
        if fragment in ("", "#"):
            return self.root
        node: Any = self._anchors.get(fragment[1:])
        try:
            if fragment.startswith("#/"):
                node = self.root
                for step in unquote(fragment[2:]).split("/"):
                    node = node[int(step)] if isinstance(node, list) else node[step.replace("~1", "/").replace("~0", "~")]
        except (KeyError, IndexError, ValueError, TypeError):
            node = None
        if not isinstance(node, dict | bool):
            raise SchemaRefusedError("refers to a schema that is not in it")
        return node


def _in_current_words(schema: Any) -> Any:
    """`schema` in the words of draft 2020-12, whatever draft it was written for, and without lookaheads where they can go."""
    if not isinstance(schema, dict):
        return schema
    said = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    if isinstance(said.get("items"), list):
        said["prefixItems"] = said.pop("items")
        if "additionalItems" in said:
            said["items"] = said.pop("additionalItems")
    for name, needed in said.pop("dependencies", {}).items():
        keyword = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
        said[keyword] = {**said.get(keyword, {}), name: needed}
    if "pattern" in said:
        plain = without_lookaheads(said["pattern"])
        said |= {**plain, "allOf": [*said.get("allOf", []), *plain["allOf"]]} if "allOf" in plain else plain
    return _mapped(said, lambda _, part: _in_current_words(part))


def _mapped(schema: dict[str, Any], change: Callable[[str, Any], Any]) -> dict[str, Any]:
    """A copy of `schema` with every schema right below it changed; `change` is told under which keyword it stands."""
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword not in _VALUES | _BRANCHES | _QUESTIONS | _SHELVES:
            copy[keyword] = value
        elif keyword in _NAMED:
            copy[keyword] = {name: change(keyword, part) for name, part in value.items()}
        elif isinstance(value, list):
            copy[keyword] = [change(keyword, part) for part in value]
        else:
            copy[keyword] = change(keyword, value)
    return copy


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

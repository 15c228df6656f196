"""Changes of an input schema that may accept more, as far as the solver does not see them.

A symbolic call has the types of arguments, their enumerations and their limits. What a change of anything else newly accepts is
found here, by keyword: a keyword that can only restrict may be added, and what may newly accept a value is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from graph_agent.models.canonical import canonical_json
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.cedar.types import CedarType, Kind
from graph_agent.policy.cedar.values import MAX_LONG, SCALE
from graph_agent.policy.schema.keywords import (
    BRANCHES,
    DECLARING,
    DEFINITIONS,
    REFERENCES,
    SchemaRefusedError,
    walk,
    with_subschemas,
)
from graph_agent.policy.schema.strict import Schema
from graph_agent.policy.schema.upgrade import upgraded

_MAX_INLINED: Final = 2_000
"""The references that are replaced by what they refer to, for one schema: references to references multiply them."""
_ABSENT: Final = object()
_WORDS: Final = frozenset({"title", "description", "$comment", "examples", "deprecated", "readOnly", "writeOnly", "$id"})
"""Keywords without a meaning for the check of arguments."""
_RESTRICTING: Final = frozenset(
    {"pattern", "multipleOf", "format", "not", "dependentRequired", "uniqueItems", "propertyNames", "enum", "type"}
)
"""Keywords whose addition never accepts more."""
_LOW: Final = frozenset({"minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties"})
_HIGH: Final = frozenset({"maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties"})
_OPENING: Final = frozenset({"additionalProperties", "unevaluatedProperties"})
_COMBINING: Final = BRANCHES | {"if", "not", "patternProperties", *REFERENCES}
"""Keywords beside which properties and types are not read one by one."""
_SEEN_LIMITS: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.STRING: frozenset({"minLength", "maxLength"}),
    Kind.LONG: frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    Kind.DECIMAL: frozenset({"minimum", "maximum"}),
    Kind.SET: frozenset({"minItems", "maxItems"}),
}
"""The limits that the type of an argument has, exactly."""


class _Place(StrEnum):
    """The places of a schema, which say what an object without `additionalProperties` takes."""

    ROOT = "root"
    """The arguments: only what is declared."""
    VALUE = "value"
    """A part of the arguments: only what is declared, if anything is."""
    ITEM = "item"
    """An element of a list: as a value."""
    BRANCH = "branch"
    """A branch beside others, which may declare more."""


Types = tuple[CedarType, CedarType] | None
"""The types of a value under both schemas; None where the solver does not see the value."""


def unseen_changes(old: ToolAction, new: ToolAction, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the keywords, with their places, by which `after` may accept more and which the types do not show."""
    schemas = _normal(before), _normal(after)
    found = _loosened(*schemas, "", (old.arguments, new.arguments), _Place.ROOT)
    return list(dict.fromkeys(found))


def is_same_schema(before: dict[str, Any] | None, after: dict[str, Any] | None) -> bool:
    """True if two schemas accept the same, beside their texts."""
    if before is None or after is None:
        return before is after
    return _same(_normal(before), _normal(after))


def _normal(schema: dict[str, Any]) -> Any:
    """Return a schema without texts and references, in one form for what can be written in several."""
    schema = upgraded(schema)
    inlined = _inlined(schema)
    if not any(word in part for _, part in walk(inlined) for word in REFERENCES):
        inlined = {word: value for word, value in inlined.items() if word not in DEFINITIONS}
    return _simplified(inlined)


def _inlined(root: dict[str, Any]) -> Any:
    """Return a schema in which references that do not lead back to themselves are replaced."""
    named, count = Schema(root), 0

    def inline(part: Any, seen: tuple[str, ...]) -> Any:
        nonlocal count
        if not isinstance(part, dict):
            return part
        if isinstance(reference := part.get("$ref"), str) and reference not in seen and count < _MAX_INLINED:
            count += 1
            try:
                target = inline(named.resolved(reference), (*seen, reference))
            except SchemaRefusedError:
                return part
            rest = inline({word: value for word, value in part.items() if word != "$ref"}, seen)
            return target if not rest.keys() - _WORDS else {**rest, "allOf": [*rest.get("allOf", ()), target]}
        return with_subschemas(part, lambda word, inner: inner if word in DEFINITIONS else inline(inner, seen))

    return inline(root, ())


def _simplified(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    kept = {word: value for word, value in schema.items() if word not in _WORDS and not word.startswith("x-")}
    found = with_subschemas(kept, lambda _, part: _simplified(part))
    if "const" in found:
        found["enum"] = [found.pop("const")]
    for word in ("anyOf", "oneOf"):
        options = [one for one in found.get(word, ()) if one != {"type": "null"}]
        if len(options) == 1 < len(found[word]) and isinstance(options[0], dict) and isinstance(options[0].get("type"), str):
            (value,) = options
            if not value.keys() & (found.keys() - {word}):
                del found[word]
                found |= {**value, "type": [value["type"], "null"]}
                found |= {"enum": [*value["enum"], None]} if "enum" in value else {}
    return found


def _loosened(old: Any, new: Any, path: str, types: Types, place: _Place) -> Iterator[str]:
    """Yield where `new` may accept a value that `old` does not, and the types do not show it."""
    if _same(old, new) or old is True or new is False:
        return
    if not isinstance(old, dict) or not isinstance(new, dict):
        yield _at("schema", path)
        return
    words = old.keys() | new.keys()
    if _COMBINING & words:
        types = None
    for word in sorted(words - _OPENING - {"properties"}):
        before, after = old.get(word, _ABSENT), new.get(word, _ABSENT)
        if _same(before, after):
            continue
        if word == "items" and before is not _ABSENT and after is not _ABSENT:
            yield from _loosened(before, after, f"{path}[]", _items(types), _Place.ITEM)
        elif word in ("allOf", "anyOf") and _have_one_length(before, after):
            for one, other in zip(before, after, strict=True):
                yield from _loosened(one, other, path, None, _Place.BRANCH)
        elif not _tightens(word, before, after, old) and not _is_seen(word, old, new, types, path, place):
            yield _at(word, path)
    yield from _properties(old, new, path, types, place)
    yield from _opened(old, new, path, types, place)


def _properties(old: dict[str, Any], new: dict[str, Any], path: str, types: Types, place: _Place) -> Iterator[str]:
    before, after = old.get("properties"), new.get("properties")
    if place is _Place.ROOT:
        before, after = before or {}, after or {}
    if before is None or after is None:
        # Without declared properties, a part of the arguments is open.
        if after is None and before is not None:
            yield _at("properties", path)
        return
    for name in sorted({*before, *after}):
        where = f"{path}.{name}" if path else name
        fields = (None, None) if types is None else (types[0].field(name), types[1].field(name))
        if name not in after:
            if _limit(new, "", place) is not False:
                yield _at("properties", where)
        elif name not in before:
            added = fields[1]
            is_shown = added is not None and (added.type.kind is not Kind.HIDDEN or place is _Place.ROOT)
            limit = _limit(old, "", place)
            if not _is_anything(limit) and not (limit is False and is_shown):
                yield _at("properties", where)
        else:
            both = None if fields[0] is None or fields[1] is None else (fields[0].type, fields[1].type)
            yield from _loosened(before[name], after[name], where, both, _Place.VALUE)


def _opened(old: dict[str, Any], new: dict[str, Any], path: str, types: Types, place: _Place) -> Iterator[str]:
    """Yield if an object takes properties that it did not take."""
    for word in sorted(_OPENING & (old.keys() | new.keys())):
        before, after = (_limit(one, word, place) for one in (old, new))
        if _is_anything(before) or after is False or _same(before, after):
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _loosened(before, after, f"{path}.*" if path else "*", None, _Place.VALUE)
        elif not (place is _Place.ROOT and before is False and types is not None):
            yield _at(word, path)


def _limit(schema: dict[str, Any], word: str, place: _Place) -> Any:
    """Return the schema of undeclared properties: that of the keyword `word`, or of the object if it is empty.

    It is None if other keywords decide too.
    """
    if word in schema:
        return schema[word]
    limits = [schema[one] for one in sorted(_OPENING) if one in schema]
    if word and limits:
        return True
    if _COMBINING & schema.keys() or place is _Place.BRANCH or len(limits) > 1:
        return None
    return limits[0] if limits else not (place is _Place.ROOT or "properties" in schema)


def _is_anything(schema: Any) -> bool:
    return schema is True or schema == {}


def _items(types: Types) -> Types:
    items = (None, None) if types is None else (types[0].item, types[1].item)
    return None if items[0] is None or items[1] is None else (items[0], items[1])


def _have_one_length(before: Any, after: Any) -> bool:
    return isinstance(before, list) and isinstance(after, list) and len(before) == len(after)


def _tightens(word: str, before: Any, after: Any, old: dict[str, Any]) -> bool:
    """True if a changed keyword accepts no more than before."""
    if after is _ABSENT:
        return False
    if word == "required":
        return before is _ABSENT or set(before) <= set(after)
    if word in _LOW | _HIGH:
        return before is _ABSENT or bool(before <= after if word in _LOW else before >= after)
    if before is _ABSENT:
        return word in _RESTRICTING or ("unevaluatedItems" not in old and not _declares(word, after))
    if word == "type":
        known = {*_listed(before), *(["integer"] if "number" in _listed(before) else [])}
        return set(_listed(after)) <= known
    if word == "enum":
        return set(map(canonical_json, after)) <= set(map(canonical_json, before))
    return word == "uniqueItems" and bool(after)


def _declares(word: str, value: Any) -> bool:
    """True if a keyword may let an object have further properties, or has a meaning that is not known here."""
    if word not in BRANCHES | {"if", "items", "prefixItems"}:
        return True
    parts = value if isinstance(value, list) else value.values() if word == "dependentSchemas" else [value]
    declaring = DECLARING | {*REFERENCES}
    return word != "items" and any(declaring & part.keys() for one in parts for _, part in walk(one))


def _is_seen(word: str, old: dict[str, Any], new: dict[str, Any], types: Types, path: str, place: _Place) -> bool:
    """True if the types have what the keyword says, exactly, so that the solver decides it."""
    if types is None:
        return False
    before, after = types
    if word == "required":
        fields = [before.field(name) for name in set(old["required"]) - set(new.get("required", ()))]
        is_root = place is _Place.ROOT
        return all(one is not None and one.required and (is_root or one.type.kind is not Kind.HIDDEN) for one in fields)
    if before.kind is not after.kind:
        return False
    in_list = place is _Place.ITEM
    if word == "enum":
        adds_null = _takes_null(new) and not _takes_null(old)
        enumerated = bool(before.values) and (bool(after.values) or not in_list)
        return not adds_null and enumerated and before.kind in (Kind.STRING, Kind.LONG)
    if in_list or (before.kind is Kind.SET and "." in path):
        # Only the lists that are arguments themselves have a length.
        return False
    return word in _SEEN_LIMITS.get(before.kind, ()) and _is_exact(word, before.kind, old, new)


def _is_exact(word: str, kind: Kind, *schemas: dict[str, Any]) -> bool:
    """True if a limit is what its type has: one limit in this direction, and a whole number of what the solver counts."""
    ending = word.removeprefix("exclusive").lower()
    limits = [[name for name in schema if name.removeprefix("exclusive").lower() == ending] for schema in schemas]
    if any(len(names) > 1 or not _SEEN_LIMITS[kind].issuperset(names) for names in limits):
        return False
    scale = SCALE if kind is Kind.DECIMAL else 1
    scaled = [Decimal(str(one[name])) * scale for one, names in zip(schemas, limits, strict=True) for name in names]
    return all(abs(limit) < MAX_LONG and limit == int(limit) for limit in scaled)


def _takes_null(schema: dict[str, Any]) -> bool:
    return None in schema["enum"] if "enum" in schema else "null" in _listed(schema.get("type", "null"))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _same(one: Any, other: Any) -> bool:
    """True if two parts of schemas are equal; 1 and true are not."""
    if one is _ABSENT or other is _ABSENT:
        return one is other
    return canonical_json(one) == canonical_json(other)


def _at(word: str, path: str) -> str:
    return f"`{word}` of '{path}'" if path else f"`{word}`"

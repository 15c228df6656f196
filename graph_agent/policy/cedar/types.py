"""The Cedar types of tool arguments, read from JSON Schemas.

What Cedar has no type for is HIDDEN, with the reason for the author of the conditions: a list of objects, an object with free
keys, a value of any type. Of a hidden list conditions see the length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from graph_agent.policy.schema.keywords import SchemaRefusedError
from graph_agent.policy.schema.strict import Schema
from graph_agent.policy.schema.upgrade import upgraded

_MAX_DEPTH = 24
_MAX_READ = 20_000
"""The schemas that are read for one tool, each as often as it is referred to: references to references multiply them."""
_NUMERIC_FORMATS = ("decimal", "number", "integer", "int32", "int64", "uint32", "uint64", "float", "double")
RESERVED = ("__extn", "__entity", "__expr", "__cedar")
"""Keys that the JSON form of Cedar values gives a meaning."""


class Kind(StrEnum):
    """The kinds of values in a request to Cedar."""

    BOOL = "Bool"
    LONG = "Long"
    DECIMAL = "decimal"
    STRING = "String"
    DATETIME = "datetime"
    ACTION = "Action"
    SET = "Set"
    RECORD = "record"
    VARIANT = "variant"
    """A record with one optional field for each simple type that the argument may have; the field is named by the type."""
    HIDDEN = "hidden"


NUMBERS = (Kind.LONG, Kind.DECIMAL)
_SIMPLE = (Kind.BOOL, Kind.LONG, Kind.DECIMAL, Kind.STRING)
_VARIANT_FIELDS = {Kind.BOOL: "bool", Kind.LONG: "long", Kind.DECIMAL: "decimal", Kind.STRING: "string", Kind.SET: "set"}


class Field(NamedTuple):
    """One field of a record."""

    name: str
    type: CedarType
    required: bool = True


@dataclass(frozen=True, slots=True)
class CedarType:
    """A type of the request. `values` is an enumeration.

    `low` and `high` are inclusive limits: of a number, of the length of a text, of the number of items of a list.
    """

    kind: Kind
    values: tuple[str | int, ...] = ()
    low: float | None = None
    high: float | None = None
    item: CedarType | None = None
    """The type of the elements of a set."""
    fields: tuple[Field, ...] = ()
    is_numeric: bool = False
    """For a text: True if its schema describes a number."""
    why: str = ""
    """For HIDDEN: the reason why conditions cannot see the value."""
    is_list: bool = False
    """For HIDDEN: True if every value is a list."""

    def field(self, name: str) -> Field | None:
        return next((one for one in self.fields if one.name == name), None)

    @property
    def number(self) -> CedarType | None:
        """The type itself if it is a number, or the alternative that is one; None for another type."""
        options = [one.type for one in self.fields] if self.kind is Kind.VARIANT else [self]
        return next((one for one in options if one.kind in NUMBERS), None)

    def variants(self, *path: str) -> Iterator[tuple[tuple[str, ...], CedarType]]:
        """Yield the path and the type of every part of a record that may have one of several simple types."""
        for name, part, _ in self.fields if self.kind is Kind.RECORD else ():
            if part.kind is Kind.VARIANT:
                yield (*path, name), part
            yield from part.variants(*path, name)

    def hidden(self, path: str = "") -> Iterator[tuple[str, str]]:
        """Yield the path of every part of a record that conditions cannot see, with the reason."""
        for name, part, _ in self.fields:
            where = f"{path}.{name}" if path else name
            if part.kind is Kind.HIDDEN:
                yield where, part.why
            elif part.kind is Kind.RECORD:
                yield from part.hidden(where)


def hidden(why: str) -> CedarType:
    return CedarType(Kind.HIDDEN, why=why)


def arguments_type(parameters: dict[str, Any]) -> CedarType:
    """Return the type of the arguments of a tool with the input schema `parameters`: always a record."""
    schema = upgraded(parameters)
    found = _Reader(schema).read(schema, ())
    return found if found.kind is Kind.RECORD else CedarType(Kind.RECORD)


class _Reader:
    """Reads the types of one schema, whose references are resolved within it."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._schema = Schema(root)
        self._count = 0

    def read(self, schema: Any, seen: tuple[str, ...]) -> CedarType:
        """Return the type of `schema`; `seen` are the references that led to it."""
        if schema is True or schema == {}:
            return hidden("any value")
        if not isinstance(schema, dict):
            return hidden("no value is valid")
        self._count += 1
        if self._count > _MAX_READ:
            return hidden("the schema is too large")
        if len(seen) > _MAX_DEPTH:
            return hidden("nested too deeply")
        for word in ("$ref", "$dynamicRef"):
            if word in schema:
                return self._referenced(schema, word, seen)
        if "const" in schema:
            return self.read(
                {**{key: value for key, value in schema.items() if key != "const"}, "enum": [schema["const"]]}, seen
            )
        for word in ("allOf", "anyOf", "oneOf"):
            if word in schema:
                return self._combined(schema, word, seen)
        if "enum" in schema:
            return _enumeration(schema["enum"])
        declared = schema.get("type", "object" if "properties" in schema else "array" if "items" in schema else None)
        if isinstance(declared, list):
            return _any_of([self.read({**schema, "type": one}, (*seen, "")) for one in declared if one != "null"])
        return self._of_type(declared, schema, seen)

    def _referenced(self, schema: dict[str, Any], word: str, seen: tuple[str, ...]) -> CedarType:
        reference = schema[word]
        if reference in seen:
            return hidden("it refers to itself")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return hidden("it refers to another document")
        if (target := self._target(reference)) is None:
            return hidden("it refers to nothing")
        # Keywords beside a reference restrict it further, which a type need not show: conditions then see more than can happen.
        return self.read(target, (*seen, reference))

    def _target(self, reference: str) -> Any:
        """Return the schema that `reference` names; None if there is none."""
        try:
            return self._schema.resolved(reference)
        except SchemaRefusedError:
            return None

    def _combined(self, schema: dict[str, Any], word: str, seen: tuple[str, ...]) -> CedarType:
        rest = {key: value for key, value in schema.items() if key not in (word, "description", "title", "default")}
        if word == "allOf":
            parts = [self.read(part, (*seen, "")) for part in schema[word]]
            own = [self.read(rest, (*seen, ""))] if {"type", "properties", "anyOf", "oneOf", "enum"} & rest.keys() else []
            return _merged([*own, *parts], every=True) if len(own) + len(parts) > 1 else parts[0]
        options = [option for option in schema[word] if not _is_null(option)]
        # A branch that only says what is required, beside the properties, changes no type.
        if "properties" in rest and all(
            isinstance(one, dict) and not {"type", "properties", "$ref"} & one.keys() for one in options
        ):
            return self.read(rest, seen)
        read = [
            self.read({**rest, **one} if isinstance(one, dict) and "$ref" not in one else one, (*seen, "")) for one in options
        ]
        return _any_of(read)

    def _of_type(self, declared: Any, schema: dict[str, Any], seen: tuple[str, ...]) -> CedarType:
        match declared:
            case "boolean":
                return CedarType(Kind.BOOL)
            case "string":
                low, high = schema.get("minLength"), schema.get("maxLength")
                return CedarType(Kind.STRING, low=low, high=high, is_numeric=_is_numeric(schema))
            case "integer":
                return CedarType(Kind.LONG, low=_limit(schema, "inimum", 1), high=_limit(schema, "aximum", -1))
            case "number":
                return CedarType(Kind.DECIMAL, low=_limit(schema, "inimum", _STEP), high=_limit(schema, "aximum", -_STEP))
            case "array":
                item = self.read(schema["items"], (*seen, "")) if schema.get("items") else hidden("items of any type")
                low, high = schema.get("minItems"), schema.get("maxItems")
                if "prefixItems" in schema or item.kind not in _SIMPLE:
                    return CedarType(Kind.HIDDEN, low=low, high=high, why=f"a list of {_plural(item)}", is_list=True)
                return CedarType(Kind.SET, item=item, low=low, high=high)
            case "object":
                return self._object(schema, seen)
            case "null":
                return hidden("only null")
        return hidden("no type is declared")

    def _object(self, schema: dict[str, Any], seen: tuple[str, ...]) -> CedarType:
        properties = schema.get("properties") or {}
        if not properties and schema is not self._root and schema.get("additionalProperties") is not False:
            return hidden("an object with free keys")
        required = set(schema.get("required") or ())
        fields = []
        for name, part in properties.items():
            type_ = hidden("a reserved name") if name.startswith(RESERVED) else self.read(part, (*seen, ""))
            fields.append(Field(name, type_, name in required and not self._may_be_null(part)))
        return CedarType(Kind.RECORD, fields=tuple(fields))

    def _may_be_null(self, schema: Any, depth: int = 0) -> bool:
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return True
        if "$ref" in schema:
            return self._may_be_null(self._target(schema["$ref"]), depth + 1)
        declared = schema.get("type")
        if isinstance(declared, str):
            return declared == "null"
        if isinstance(declared, list):
            return "null" in declared
        if "enum" in schema or "const" in schema:
            return None in schema.get("enum", (schema.get("const"),))
        alternatives = [part for word in ("anyOf", "oneOf") for part in schema.get(word, ())]
        if "allOf" in schema:
            return all(self._may_be_null(part, depth + 1) for part in schema["allOf"])
        return not alternatives or any(self._may_be_null(part, depth + 1) for part in alternatives)


def _plural(item: CedarType) -> str:
    return {
        Kind.RECORD: 'objects: Cedar has no "any"',
        Kind.SET: "lists",
        Kind.VARIANT: "mixed items",
        Kind.HIDDEN: item.why,
    }.get(item.kind, "different items by position")


_STEP = 0.0001
"""The smallest step of a decimal."""


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and (
        schema.get("type") == "null" or schema.get("enum") == [None] or schema == {"const": None}
    )


def _is_numeric(schema: dict[str, Any]) -> bool:
    """True if the format or the pattern of a text is that of a number."""
    try:
        pattern = re.compile(schema.get("pattern", ""))
    except (re.error, TypeError, RecursionError, OverflowError):
        return False
    matches = [pattern.search(one) is not None for one in ("5", "5000", "12.50", "a", "")]
    return schema.get("format") in _NUMERIC_FORMATS or (any(matches[:3]) and not any(matches[3:]))


def _limit(schema: dict[str, Any], ending: str, step: float) -> float | None:
    """Return the inclusive limit; `step` leads from an exclusive limit to the next number."""
    exclusive: float | None = schema.get(f"exclusiveM{ending}")
    return schema.get(f"m{ending}") if exclusive is None else exclusive + step


def _enumeration(values: Sequence[Any]) -> CedarType:
    given = tuple(value for value in values if value is not None)
    types = {type(value) for value in given}
    if types == {bool}:
        return CedarType(Kind.BOOL)
    if types in ({str}, {int}):
        return CedarType(Kind.STRING if types == {str} else Kind.LONG, values=given)
    return hidden("values of several types")


def _any_of(types: Sequence[CedarType]) -> CedarType:
    """Return the type of a value that has one of `types`."""
    if len(types) < 2:
        return types[0] if types else hidden("only null")
    kinds = {one.kind for one in types}
    if 1 < len(kinds) < len(types):
        alike = ([one for one in types if one.kind is kind] for kind in dict.fromkeys(one.kind for one in types))
        return _any_of([_any_of(group) for group in alike])
    if kinds > set(NUMBERS):
        # A whole number is one for the conditions about the others too.
        number = CedarType(Kind.DECIMAL)
        return _any_of([number, *(one for one in types if one.kind not in NUMBERS)])
    if Kind.HIDDEN in kinds:
        why = next(one.why for one in types if one.kind is Kind.HIDDEN)
        lists = all(one.is_list or one.kind is Kind.SET for one in types)
        return CedarType(Kind.HIDDEN, why=f"one of several: {why}", is_list=lists)
    if kinds == {Kind.STRING}:
        every = all(one.values for one in types)
        return CedarType(Kind.STRING, values=tuple(dict.fromkeys(v for one in types for v in one.values)) if every else ())
    if kinds in ({Kind.BOOL}, {Kind.LONG}):
        return CedarType(kinds.pop())
    if kinds <= {Kind.LONG, Kind.DECIMAL}:
        return CedarType(Kind.DECIMAL)
    if kinds == {Kind.RECORD}:
        return _merged(types, every=False)
    if len(types) == 2 and Kind.SET in kinds:
        several, one = sorted(types, key=lambda type_: type_.kind is not Kind.SET)
        if several.item is not None and several.item.kind is one.kind:
            # One value or a list of them is always a set.
            return CedarType(Kind.SET, item=CedarType(one.kind))
    if kinds <= _VARIANT_FIELDS.keys():
        # A number that is written as a text keeps none of the limits that the schema sets for numbers.
        limited = [CedarType(one.kind) if Kind.STRING in kinds and one.kind in NUMBERS else one for one in types]
        return CedarType(Kind.VARIANT, fields=tuple(Field(_VARIANT_FIELDS[one.kind], one, False) for one in limited))
    return hidden("one of several types")


def _merged(types: Sequence[CedarType], *, every: bool) -> CedarType:
    """Return the record that has the fields of all `types`; `every` says that all of them apply at once."""
    if any(one.kind is not Kind.RECORD for one in types):
        kinds = {one.kind for one in types if one.kind in _SIMPLE}
        if every and len(kinds) == 1:
            return CedarType(kinds.pop())
        lists = [one.is_list or one.kind is Kind.SET for one in types]
        return CedarType(Kind.HIDDEN, why="a combination of types", is_list=any(lists) if every else all(lists))
    fields: dict[str, Field] = {}
    for one in types:
        for name, type_, required in one.fields:
            known = fields.get(name)
            if known is None:
                needed = required if every else all(other.field(name) is not None for other in types) and required
                fields[name] = Field(name, type_, needed)
            else:
                united = known.type if known.type == type_ else _any_of([known.type, type_])
                fields[name] = Field(name, united, (known.required or required) if every else (known.required and required))
    return CedarType(Kind.RECORD, fields=tuple(fields.values()))

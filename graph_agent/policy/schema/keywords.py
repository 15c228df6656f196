"""The keywords of JSON Schema that have subschemas, and how to reach these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

DECLARING: Final = frozenset({"properties", "patternProperties", "additionalProperties", "unevaluatedProperties"})
"""Keywords that declare the properties of an object."""
VALUES: Final = DECLARING | {"items", "prefixItems", "contains", "unevaluatedItems", "propertyNames"}
"""Keywords whose schemas apply to a part of the value."""
ALTERNATIVES: Final = frozenset({"anyOf", "oneOf"})
BRANCHES: Final = frozenset({"allOf", "then", "else", "dependentSchemas"}) | ALTERNATIVES
"""Keywords whose schemas apply to the same value and declare properties of it."""
CONDITIONS: Final = frozenset({"if", "not", "contains", "propertyNames"})
"""Keywords whose schemas are only tested: the strict copy leaves them unchanged."""
DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas"}) | DEFINITIONS
"""Keywords with a map of schemas; the other keywords have one schema or a list of schemas."""
SUBSCHEMA_KEYWORDS: Final = VALUES | BRANCHES | CONDITIONS | DEFINITIONS
REFERENCES: Final = ("$ref", "$dynamicRef")


class SchemaRefusedError(ValueError):
    """The schema cannot be used. The message continues the sentence "the input schema of the tool ..." for the operator."""


def with_subschemas(schema: dict[str, Any], change: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Return a copy of `schema` with each direct subschema replaced by `change(keyword, subschema)`."""
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, dict):
            copy[keyword] = {name: change(keyword, part) for name, part in value.items()}
        elif keyword in SUBSCHEMA_KEYWORDS - _NAMED:
            copy[keyword] = [change(keyword, part) for part in value] if isinstance(value, list) else change(keyword, value)
        else:
            # No schema, or an invalid one, which is reported when the schema is validated.
            copy[keyword] = value
    return copy


def subschemas(schema: dict[str, Any], keyword: str) -> list[Any]:
    """Return the schemas under `keyword`: its value is one schema, or a list or mapping of schemas."""
    value = schema[keyword]
    if keyword in _NAMED:
        return list(value.values())
    return value if isinstance(value, list) else [value]


def walk(schema: Any, keyword: str = "", *, without: Collection[str] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield `schema` and all its subschemas that are objects, each with its keyword, but none below a keyword in `without`."""
    if isinstance(schema, dict):
        yield keyword, schema
        for word in schema:
            if word in SUBSCHEMA_KEYWORDS and word not in without:
                for part in subschemas(schema, word):
                    yield from walk(part, word, without=without)

"""The upgrade of a schema of any draft, and of its common dialects, to the keywords of draft 2020-12."""

from __future__ import annotations

from typing import Any

from graph_agent.policy.schema.keywords import with_subschemas
from graph_agent.policy.schema.lookaheads import without_lookaheads


def upgraded(schema: Any) -> Any:
    """Return `schema` in the keywords of draft 2020-12, without the lookaheads that can be replaced.

    The schema need not be valid: what cannot be upgraded is left unchanged, for the validation that follows. `$schema` is
    dropped everywhere, because a validator could fetch the URL that it names.
    """
    if not isinstance(schema, dict):
        return schema
    new = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    _upgrade_items(new)
    _upgrade_limits(new)
    _upgrade_dependencies(new)
    # Within one document, `$recursiveRef` is an ordinary reference to the root, with or without its anchor.
    new.pop("$recursiveAnchor", None)
    if new.get("$recursiveRef") == "#":
        _add_conjunct(new, {"$ref": new.pop("$recursiveRef")})
    if isinstance(new.get("pattern"), str):
        replaced = without_lookaheads(new["pattern"])
        new["pattern"] = replaced["pattern"]
        for condition in replaced.get("allOf", ()):
            _add_conjunct(new, condition)
    return with_subschemas(new, lambda _, part: upgraded(part))


def _upgrade_items(schema: dict[str, Any]) -> None:
    """Draft 2019-09 and older, OpenAPI and zod: `items` is a list of schemas by position."""
    if isinstance(schema.get("items"), list) and "prefixItems" not in schema:
        positions = schema.pop("items")
        # An empty list of positions is valid in old drafts, but an empty `prefixItems` is not.
        if positions:
            schema["prefixItems"] = positions
        if "additionalItems" in schema:
            schema["items"] = schema.pop("additionalItems")


def _upgrade_limits(schema: dict[str, Any]) -> None:
    """Draft 4 and OpenAPI 3.0: `exclusiveMinimum` is a boolean that applies to `minimum`."""
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(exclusive) is False:
            del schema[exclusive]
        elif schema.get(exclusive) is True and limit in schema:
            schema[exclusive] = schema.pop(limit)


def _upgrade_dependencies(schema: dict[str, Any]) -> None:
    """Draft 7 and older: `dependencies` has both required properties and schemas."""
    if isinstance(schema.get("dependencies"), dict):
        for name, dependency in schema.pop("dependencies").items():
            keyword = "dependentRequired" if isinstance(dependency, list) else "dependentSchemas"
            schema[keyword] = {**schema.get(keyword, {}), name: dependency}


def _add_conjunct(schema: dict[str, Any], conjunct: dict[str, Any]) -> None:
    if isinstance(existing := schema.get("allOf", []), list):
        schema["allOf"] = [*existing, conjunct]

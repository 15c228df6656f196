"""The upgrade of a schema of any draft, and of its common dialects, to the keywords of draft 2020-12."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graph_agent.policy.schema.keywords import with_subschemas


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
        new["pattern"], conditions = _without_lookaheads(new["pattern"])
        for condition in conditions:
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


def _without_lookaheads(pattern: str) -> tuple[str, list[dict[str, Any]]]:
    """Return a pattern and further schemas that together mean `pattern`; only `pattern` if it does not start with a lookahead.

    The automaton that searches patterns in linear time has no lookaheads. At the start of a pattern, where most of them are
    written (`^(?!\\s*$)`, `^(?=.*\\d).{8,}$`), each can become a schema with a pattern of its own.
    """
    conditions: list[dict[str, Any]] = []
    at = 1
    while pattern[at : at + 3] in ("(?=", "(?!"):
        end = next((end for end, depth, sign in _operators(pattern, at) if sign == ")" and depth == 0), None)
        # A quantifier such as "?" makes the lookahead optional, so it is not a condition. It stays in the pattern,
        # which is then refused, like every pattern with a lookahead.
        if end is None or pattern[end + 1 : end + 2] in tuple("?*+{"):
            break
        search = {"type": "string", "pattern": f"^(?:{pattern[at + 3 : end]})"}
        conditions.append({"not": search} if pattern[at + 2] == "!" else {"pattern": search["pattern"]})
        at = end + 1
    # Before `a|b`, a lookahead is a condition of `a` only.
    has_alternatives = any(sign == "|" and depth == 0 for _, depth, sign in _operators(pattern, at))
    if not conditions or not pattern.startswith("^") or has_alternatives:
        return pattern, []
    return f"^{pattern[at:]}", conditions


def _operators(source: str, start: int) -> Iterator[tuple[int, int, str]]:
    """Yield position, depth and sign of every parenthesis and bar from `start` that is not escaped or in a character class."""
    depth, at, in_class = 0, start, False
    while at < len(source):
        sign = source[at]
        if sign == "\\":
            at += 1
        elif in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
        elif sign in "()|":
            depth -= sign == ")"
            yield at, depth, sign
            depth += sign == "("
        at += 1

"""The policy of one turn, compiled: what the constitution grants joined with what the servers say of their tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry

from graph_agent.errors import ConfigurationError
from graph_agent.models.canonical import canonical_json
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.constitution import Constitution, ToolGrant

_NO_REMOTE_SCHEMAS: Registry[Any] = Registry()


@dataclass(frozen=True, slots=True)
class ToolRule:
    """All that is known of one tool that may be called."""

    grant: ToolGrant
    declaration: ToolDeclaration
    traits: ToolTraits
    validator: Draft202012Validator
    """Checks arguments against a closed copy of the schema; the model is given the original."""

    @property
    def mutating(self) -> bool:
        return not self.traits.read_only

    @property
    def title(self) -> str:
        """What the tool does, in words for people."""
        return self.traits.title or self.grant.summary


@dataclass(frozen=True)
class Policy:
    """Compiled once for many turns."""

    constitution: Constitution
    rules: Mapping[str, ToolRule]

    @property
    def declarations(self) -> list[ToolDeclaration]:
        """What the model is told, in the constitution's order."""
        return [rule.declaration for rule in self.rules.values()]

    def tools_json(self) -> list[dict[str, Any]]:
        """Declarations and traits as plain JSON: what a replay needs beside the constitution."""
        return [{"declaration": rule.declaration.to_json(), "traits": rule.traits.to_json()} for rule in self.rules.values()]


def compile_policy(
    constitution: Constitution,
    declarations: Iterable[ToolDeclaration],
    traits: Mapping[str, ToolTraits],
    *,
    partial: bool = False,
) -> Policy:
    """Join the grants with the servers' declarations.

    Served but unlisted tools are left out; with `partial` so are listed tools that are not served. Raises
    `ConfigurationError` for a listed tool that is not served, and for a schema that is none.
    """
    served = {declaration.name: declaration for declaration in declarations}
    missing = [name for name in constitution.whitelist if name not in served]
    if missing and not partial:
        raise ConfigurationError(f"the constitution lists tools that no server serves: {', '.join(missing)}")
    rules = {}
    for grant in constitution.grants:
        declaration = served.get(grant.name)
        if declaration is None:
            continue
        # In canonical order: of several slips the validator tells the first, and a replay must be told the same one.
        validator = _closed_validator(grant.name, canonical_json(declaration.parameters))
        rules[grant.name] = ToolRule(grant, declaration, traits.get(grant.name, ToolTraits()), validator)
    return Policy(constitution, rules)


@lru_cache(maxsize=256)
def _closed_validator(name: str, schema: str) -> Draft202012Validator:
    """Kept by text: checking a schema takes milliseconds, and policies of the same tools are compiled again and again."""
    closed = _closed(json.loads(schema))
    try:
        Draft202012Validator.check_schema(closed)
    except SchemaError as exc:
        raise ConfigurationError(f"the input schema of the tool '{name}' is not valid JSON Schema") from exc
    return Draft202012Validator(closed, registry=_NO_REMOTE_SCHEMAS)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """A copy that refuses properties nobody declared, at the top and in every object below a property or an array.

    `unevaluatedProperties` looks through `allOf` and `$ref`, where `additionalProperties` would refuse what they declare. The
    branches of a composition are left open for the same reason.
    """
    copy = dict(schema)
    if isinstance(copy.get("properties"), dict):
        copy["properties"] = {key: _closed_below(value) for key, value in copy["properties"].items()}
    if "items" in copy:
        copy["items"] = _closed_below(copy["items"])
    if isinstance(copy.get("prefixItems"), list):
        copy["prefixItems"] = [_closed_below(item) for item in copy["prefixItems"]]
    copy.setdefault("unevaluatedProperties", False)
    return copy


def _closed_below(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    closed = _closed(schema)
    if not {"properties", "allOf", "anyOf", "oneOf", "$ref"} & schema.keys():
        # A free-form object: `{"type": "object"}` alone declares nothing that could be closed.
        closed.pop("unevaluatedProperties", None)
        if "unevaluatedProperties" in schema:
            closed["unevaluatedProperties"] = schema["unevaluatedProperties"]
    return closed

"""The policy of one turn, compiled: what the constitution grants joined with what the servers say of their tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from graph_agent.errors import ConfigurationError
from graph_agent.models.canonical import canonical_json
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.argument_check import ArgumentCheck
from graph_agent.policy.closing import SchemaRefusedError
from graph_agent.policy.constitution import Constitution, ToolGrant


@dataclass(frozen=True, slots=True)
class ToolRule:
    """All that is known of one tool that may be called."""

    grant: ToolGrant
    declaration: ToolDeclaration
    traits: ToolTraits
    check: ArgumentCheck
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
    `ConfigurationError` for a listed tool that is not served, and for a schema that arguments cannot be checked against.
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
        check = _check_of(grant.name, canonical_json(declaration.parameters))
        rules[grant.name] = ToolRule(grant, declaration, traits.get(grant.name, ToolTraits()), check)
    return Policy(constitution, rules)


@lru_cache(maxsize=256)
def _check_of(name: str, schema: str) -> ArgumentCheck:
    """Kept by text: closing a schema takes milliseconds, and policies of the same tools are compiled again and again."""
    try:
        return ArgumentCheck(schema)
    except SchemaRefusedError as exc:
        raise ConfigurationError(f"the input schema of the tool '{name}' {exc}") from exc

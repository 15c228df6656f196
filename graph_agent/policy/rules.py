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
from graph_agent.policy.schema.check import ArgumentCheck
from graph_agent.policy.schema.strict import SchemaRefusedError
from graph_agent.policy.constitution import Constitution, ToolGrant
from graph_agent.reply.sanitize import in_plain_words

MAX_DESCRIPTION = 16 * 1024
"""Characters of what a server says of a tool: it stands in every prompt."""

_MOST_SAID = 4_000


@dataclass(frozen=True, slots=True)
class ToolRule:
    """All that is known of one tool that may be called."""

    grant: ToolGrant
    declaration: ToolDeclaration
    traits: ToolTraits
    check: ArgumentCheck
    """Checks arguments against a closed copy of the schema; the model is given the original."""

    hidden: frozenset[str] = frozenset()
    """The names of all tools, which people are never told."""

    @property
    def mutating(self) -> bool:
        return not self.traits.read_only

    @property
    def title(self) -> str:
        """What the tool does, in words for people: the server's own, or the constitution's."""
        return self.for_people(self.traits.title or "").strip() or self.grant.summary

    def for_people(self, text: str) -> str:
        """Words of a server without the names of tools; short enough that nobody waits for it."""
        return in_plain_words(text[:_MOST_SAID], self.hidden)


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
    `ConfigurationError` for a listed tool that is not served, and for a description or a schema that no prompt or
    check could bear.
    """
    served = {declaration.name: declaration for declaration in declarations}
    missing = [name for name in constitution.whitelist if name not in served]
    if missing and not partial:
        raise ConfigurationError(f"the constitution lists tools that no server serves: {', '.join(missing)}")
    rules = {}
    names = frozenset(constitution.whitelist)
    for grant in constitution.grants:
        declaration = served.get(grant.name)
        if declaration is None:
            continue
        if len(declaration.description) > MAX_DESCRIPTION:
            raise ConfigurationError(f"the description of the tool '{grant.name}' is too long for a prompt")
        try:
            # In canonical order: of several slips the validator tells the first, and a replay must be told the same one.
            schema = canonical_json(declaration.parameters)
        except (ValueError, TypeError, RecursionError):
            raise ConfigurationError(f"the input schema of the tool '{grant.name}' is not plain JSON") from None
        check = _check_of(grant.name, schema)
        rules[grant.name] = ToolRule(grant, declaration, traits.get(grant.name, ToolTraits()), check, names)
    return Policy(constitution, rules)


@lru_cache(maxsize=256)
def _check_of(name: str, schema: str) -> ArgumentCheck:
    """Kept by text: closing a schema takes milliseconds, and policies of the same tools are compiled again and again."""
    try:
        return ArgumentCheck(schema)
    except SchemaRefusedError as exc:
        raise ConfigurationError(f"the input schema of the tool '{name}' {exc}") from exc

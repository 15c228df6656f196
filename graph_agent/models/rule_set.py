"""A rule set: everything that decides what may be done in an installation, named by its digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple

from graph_agent.models.canonical import canonical_json, digest

FORMAT: Final = "graph-agent/rules/v1"
"""The version of the manifest."""


@dataclass(frozen=True)
class RuleSet:
    """The texts of the rules.

    A `PolicySnapshot` is what one turn ran under, with the tools that were served then. A rule set does not depend on which
    servers answer.
    """

    parts: Mapping[str, str]
    """The text of each part, by its name: `constitution`, `conditions`, `settings` and others. It has no secret."""

    @cached_property
    def manifest(self) -> str:
        """The digests of the parts as canonical JSON, to which the digest of the set commits."""
        return canonical_json({"format": FORMAT, "parts": {name: digest(text) for name, text in self.parts.items()}})

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the manifest, in hex. The record of each decision names it."""
        return digest(self.manifest)

    def differences(self, other: RuleSet) -> list[str]:
        """Return the names of the parts that differ."""
        return sorted(name for name in {*self.parts, *other.parts} if self.parts.get(name) != other.parts.get(name))


class Activation(NamedTuple):
    """The event that put a rule set in force. Activations are numbered 1, 2, 3 without gaps; the last one is in force."""

    number: int
    digest: str
    """That of the rule set."""
    at: datetime
    """The start of the first decision under it."""
    host: str
    """The name of the machine whose process brought it."""

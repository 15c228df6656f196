"""A rule set: everything that decides what may be done in an installation, named by its digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
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


class ActivationKind(StrEnum):
    """The way in which a rule set came into force."""

    FOLLOWED = "followed"
    """A process with these files opened a decision while rules were followed."""
    ACTIVATED = "activated"
    """An operator activated it. From then on every process takes its rules from the database."""
    ROLLBACK = "rollback"
    """An operator went back to it. It binds every process, too."""
    RELEASED = "released"
    """An operator let each process follow its own files again."""

    @property
    def binds(self) -> bool:
        """True if every process has to use the rule set."""
        return self in (ActivationKind.ACTIVATED, ActivationKind.ROLLBACK)


class Activation(NamedTuple):
    """The event that put a rule set in force. Activations are numbered 1, 2, 3 without gaps; the last one is in force."""

    number: int
    digest: str
    """That of the rule set."""
    at: datetime
    """The start of the first decision under it, or the time of its command."""
    host: str
    """The name of the machine whose process brought it."""
    kind: ActivationKind = ActivationKind.FOLLOWED
    by: str = ""
    """The operator, as given to the command; nothing proves it."""
    reason: str = ""

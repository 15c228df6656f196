"""The digests of the rules under which a person was asked."""

from __future__ import annotations

from operator import not_

from pydantic import Field

from graph_agent.models.base import Frozen


class RulesDigests(Frozen):
    """The rules under which a question is asked: SHA-256 digests, in hex. A yes counts only where they are in force."""

    constitution: str = ""
    """The digest of the constitution's text."""
    conditions: str | None = Field(default=None, exclude_if=not_)
    """The digest of the conditions, with the roles and the time zone that belong to them; None without conditions."""
    tools: dict[str, str] = Field(default_factory=dict)
    """The name of each tool that would be called -> the digest of its definition."""

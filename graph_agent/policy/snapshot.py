"""The policy snapshot of a turn: what it was run under (constitution, tool declarations, settings, prompt).

Many turns share one snapshot. The record stores each of its four texts once, under the SHA-256 of the text, and names it by
that digest. A replay rebuilds the snapshot from the stored texts, on any machine.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.constitution import Constitution, ToolGrant
from graph_agent.policy.rules import Policy, compile_policy


@dataclass(frozen=True, slots=True)
class SnapshotDigests:
    """The SHA-256 of each text of a snapshot, in hex."""

    constitution: str
    tools: str
    settings: str
    prompt: str


@dataclass(frozen=True)
class PolicySnapshot:
    """The policy, the engine's settings and the system prompt of a turn."""

    policy: Policy
    config: AgentEngineConfig
    prompt: str
    """The system prompt: the text of the constitution, unless the caller gave another prompt."""

    @cached_property
    def _texts(self) -> tuple[str, str, str, str]:
        # In the order of the fields of SnapshotDigests.
        tools = canonical_json(self.policy.tools_json())
        return self.policy.constitution.text, tools, canonical_json(self.config.to_json()), self.prompt

    @cached_property
    def digests(self) -> SnapshotDigests:
        return SnapshotDigests(*(digest(text) for text in self._texts))

    @cached_property
    def texts(self) -> dict[str, str]:
        """The four texts by their digests."""
        return {digest(text): text for text in self._texts}

    def grants_no_less_than(self, earlier: PolicySnapshot) -> bool:
        """Return True if every call that `earlier` permits is permitted by this policy too, and means the same."""
        rules = self.policy.rules
        return self.digests.tools == earlier.digests.tools and all(
            name in rules and _permits(rules[name].grant, rule.grant) for name, rule in earlier.policy.rules.items()
        )

    @classmethod
    def from_texts(cls, texts: dict[str, str], digests: SnapshotDigests) -> Self:
        """Rebuild the snapshot that a record names. Raises KeyError if `texts` lacks one of its texts."""
        stored = json.loads(texts[digests.tools])
        tools = [tool for tool in stored if "declaration" in tool]
        declarations = [ToolDeclaration.model_validate(tool["declaration"]) for tool in tools]
        traits = {tool["declaration"]["name"]: ToolTraits.model_validate(tool["traits"]) for tool in tools}
        constitution = Constitution.parse(texts[digests.constitution])
        return cls(
            # Partial, because the record has only the tools that the turn could use.
            policy=compile_policy(
                constitution,
                declarations,
                traits,
                partial=True,
                unavailable=[tool["unavailable"] for tool in stored if "unavailable" in tool],
            ),
            config=AgentEngineConfig.model_validate_json(texts[digests.settings]),
            prompt=texts[digests.prompt],
        )


def _permits(grant: ToolGrant, earlier: ToolGrant) -> bool:
    if grant.requires_confirmation and not earlier.requires_confirmation:
        return False
    limit, earlier_limit = grant.max_per_message, earlier.max_per_message
    return limit is None or (earlier_limit is not None and earlier_limit <= limit)

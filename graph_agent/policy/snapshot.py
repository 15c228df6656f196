"""The policy snapshot of a turn: what it was run under (constitution, tool declarations, settings, prompt).

Many turns share one snapshot. The record stores each of its texts once, under the SHA-256 of the text, and names it by that
digest. A replay rebuilds the snapshot from the stored texts, on any machine. Conditions are a fifth text, and the names of the
gates, in their order, a sixth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.rule_set import RuleSet
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution

_RULES = ("constitution", "conditions", "tools", "gates")


@dataclass(frozen=True)
class PolicySnapshot:
    """The policy, the engine's settings and the system prompt of a turn."""

    policy: CompiledPolicy
    config: AgentEngineConfig
    prompt: str
    """The system prompt: the text of the constitution, unless the caller gave another prompt."""
    gates: tuple[str, ...] = ()
    """The names of the gates in their order; none of a record that is older than they are."""
    rule_set: RuleSet | None = None
    """The rules of the installation, which a new decision names. None for an engine of your own, and of a record."""

    @cached_property
    def offers_plans(self) -> bool:
        """True if the model is given the form of a plan: a tool may be in one, and the yes to it would be kept."""
        return self.config.plans and any(rule.grant.in_plans is not None for rule in self.policy.rules.values())

    @cached_property
    def _named_texts(self) -> dict[str, str]:
        return {
            "constitution": self.policy.constitution.text,
            "tools": canonical_json(self.policy.tools_json()),
            "settings": canonical_json(self.config.to_json()),
            "prompt": self.prompt,
            **({} if self.policy.conditions is None else {"conditions": self.policy.conditions.text}),
            **({"gates": canonical_json(self.gates)} if self.gates else {}),
        }

    @cached_property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each text, in hex, by the field of `RecordHeader` that has it."""
        return {name: digest(text) for name, text in self._named_texts.items()}

    @cached_property
    def texts(self) -> dict[str, str]:
        """The texts by their digests."""
        return {self.digests[name]: text for name, text in self._named_texts.items()}

    def has_rules(self, digests: Mapping[str, str]) -> bool:
        """True if the constitution, conditions, tools and gates have these digests; settings and prompt may differ."""
        return all(self.digests.get(name) == digests.get(name) for name in _RULES)

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], digests: Mapping[str, str]) -> Self:
        """Rebuild the snapshot with these `digests` from `texts` by digest. Raises KeyError if one of its texts is missing."""
        text_of = {name: texts[digest] for name, digest in digests.items()}
        stored = json.loads(text_of["tools"])
        tools = [tool for tool in stored if "declaration" in tool]
        recorded = text_of.get("conditions")
        conditions = None if recorded is None else json.loads(recorded)
        policy = compile_policy(
            Constitution.parse(text_of["constitution"]),
            [ToolDeclaration.model_validate(tool["declaration"]) for tool in tools],
            {tool["declaration"]["name"]: ToolTraits.model_validate(tool["traits"]) for tool in tools},
            # Partial, because the record has only the tools that the turn could use.
            partial=True,
            unavailable={one["unavailable"]: one.get("reason") for one in stored if "unavailable" in one},
            servers={} if conditions is None else conditions["servers"],
        )
        if conditions is not None:
            policy = policy.with_conditions(ConditionsFile.recorded(conditions), recorded)
        config = AgentEngineConfig.model_validate_json(text_of["settings"])
        return cls(policy, config, text_of["prompt"], tuple(json.loads(text_of.get("gates", "[]"))))

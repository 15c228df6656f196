"""The terms of a turn: constitution, tools, settings and prompt, each a text with a digest.

They are what many turns share. The record names them by digest, and a replay on another machine is made from the texts.
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
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.rules import Policy, compile_policy


@dataclass(frozen=True, slots=True)
class TermDigests:
    """The SHA-256 of each text, in hex."""

    constitution: str
    tools: str
    settings: str
    prompt: str


@dataclass(frozen=True)
class Terms:
    """Under what a turn is run."""

    policy: Policy
    config: AgentEngineConfig
    prompt: str
    """What the model reads: the constitution's own text, unless another prompt was given."""

    @cached_property
    def _texts(self) -> tuple[str, str, str, str]:
        tools = canonical_json(self.policy.tools_json())
        return self.policy.constitution.text, tools, canonical_json(self.config.to_json()), self.prompt

    @cached_property
    def digests(self) -> TermDigests:
        return TermDigests(*(digest(text) for text in self._texts))

    @cached_property
    def texts(self) -> dict[str, str]:
        """Every text under its digest."""
        return {digest(text): text for text in self._texts}

    @classmethod
    def from_texts(cls, texts: dict[str, str], digests: TermDigests) -> Self:
        """The terms a record names. Raises KeyError for a text that is not in `texts`."""
        tools = json.loads(texts[digests.tools])
        declarations = [ToolDeclaration.model_validate(tool["declaration"]) for tool in tools]
        traits = {tool["declaration"]["name"]: ToolTraits.model_validate(tool["traits"]) for tool in tools}
        constitution = Constitution.parse(texts[digests.constitution])
        return cls(
            policy=compile_policy(constitution, declarations, traits, partial=True),
            config=AgentEngineConfig.model_validate_json(texts[digests.settings]),
            prompt=texts[digests.prompt],
        )

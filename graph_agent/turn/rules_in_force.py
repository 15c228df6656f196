"""The rules that an engine has, and the source from which an installation gets others while it runs."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.rule_set import RuleSet
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution


class EngineRules(NamedTuple):
    """The rules of an engine of an installation."""

    constitution: Constitution
    conditions: ConditionsFile | None
    config: AgentEngineConfig
    """The limits of a turn."""
    rule_set: RuleSet


class RulesInForce(Protocol):
    """The rules of an installation, which may be replaced between two turns."""

    async def renew(self) -> EngineRules:
        """Return the rules for the next turn: the same object until others are in force.

        Raises `ServiceError` RULES_UNAVAILABLE if this process cannot use them.
        """

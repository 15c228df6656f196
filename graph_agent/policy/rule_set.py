"""The rule set of an engine, from its texts and those of its installation."""

from __future__ import annotations

from collections.abc import Mapping

from graph_agent.models.canonical import canonical_json
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.rule_set import RuleSet
from graph_agent.policy.cedar.conditions import ConditionsFile


def compose_rule_set(
    constitution: str,
    conditions: ConditionsFile | None,
    config: AgentEngineConfig,
    *,
    prompt: str | None = None,
    installation: Mapping[str, str],
) -> RuleSet:
    """Return the rule set of these texts. `prompt` is given if the model reads another text than the constitution.

    `installation` has the parts that an engine does not know by their names, such as the lock file.
    """
    parts = {"constitution": constitution, "settings": canonical_json(config.to_json()), **installation}
    if prompt is not None:
        parts["prompt"] = prompt
    if conditions is not None:
        parts["conditions"] = conditions.text
        parts["condition settings"] = canonical_json({"roles": conditions.roles, "time_zone": conditions.time_zone})
    return RuleSet(parts)

"""The verdicts of the rules in the shadow on a call of a turn."""

from __future__ import annotations

from typing import Any

from graph_agent.models.record import ShadowVerdict
from graph_agent.policy.cedar.conditions import ConditionsDecision, Decision, Situation
from graph_agent.policy.compiled import CompiledPolicy


def has_shadow_rules(policy: CompiledPolicy) -> bool:
    """True if the conditions of a policy have rules in the shadow."""
    return policy.conditions is not None and policy.conditions.shadow is not None


def shadow_verdicts(
    policy: CompiledPolicy, tool_name: str, arguments: dict[str, Any], situation: Situation
) -> tuple[ShadowVerdict, ...]:
    """Return the rules that would have changed the decision on a call which the guard permits, or asks about.

    Nothing that runs depends on it.
    """
    conditions, rule = policy.conditions, policy.rules.get(tool_name)
    if conditions is None or conditions.shadow is None or rule is None:
        return ()
    asks = rule.grant.requires_confirmation or (not situation.of_message and rule.asks_without_message)

    def decided() -> ConditionsDecision:
        made = conditions.judge(tool_name, arguments, situation)
        return ConditionsDecision(Decision.ASKS) if asks and made.decision is Decision.RUNS else made

    found = conditions.shadow.judge(decided, tool_name, arguments, situation)
    return tuple(ShadowVerdict.model_validate({"rule": one.rule, "decision": str(one.decision or "unknown")}) for one in found)

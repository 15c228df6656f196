"""The verdicts of the rules in the shadow on a call of a turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graph_agent.models.record import ShadowVerdict
from graph_agent.policy.cedar.conditions import ConditionsDecision, Decision, Situation
from graph_agent.policy.compiled import CompiledPolicy


@dataclass(frozen=True, slots=True)
class ShadowGuard:
    """Judges calls by the rules in the shadow. Nothing that runs depends on it."""

    policy: CompiledPolicy

    def verdicts(self, tool_name: str, arguments: dict[str, Any], situation: Situation) -> tuple[ShadowVerdict, ...]:
        """Return the rules that would have changed the decision on a call which the guard permits, or asks about."""
        conditions, rule = self.policy.conditions, self.policy.rules.get(tool_name)
        if conditions is None or conditions.shadow is None or rule is None:
            return ()
        asks = rule.grant.requires_confirmation or (not situation.of_message and rule.asks_without_message)

        def decided() -> ConditionsDecision:
            made = conditions.judge(tool_name, arguments, situation)
            return ConditionsDecision(Decision.ASKS) if asks and made.decision is Decision.RUNS else made

        found = conditions.shadow.judge(decided, tool_name, arguments, situation)
        return tuple(ShadowVerdict.model_validate({"rule": one.rule, "decision": str(one.decision)}) for one in found)

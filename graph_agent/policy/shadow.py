"""The verdicts of the rules in the shadow on a call of a turn."""

from __future__ import annotations

from graph_agent.models.record import ShadowVerdict
from graph_agent.policy.call_in_hand import CallInHand
from graph_agent.policy.cedar.conditions import ConditionsVerdict, Verdict
from graph_agent.policy.compiled import CompiledPolicy


def has_shadow_rules(policy: CompiledPolicy) -> bool:
    """True if the conditions of a policy have rules in the shadow."""
    return policy.conditions is not None and policy.conditions.shadow is not None


def shadow_verdicts(hand: CallInHand) -> tuple[ShadowVerdict, ...]:
    """Return the rules that would have changed the decision on a call which the conditions permit, or ask about.

    Nothing that runs depends on it.
    """
    conditions, situation = hand.setting.policy.conditions, hand.situation
    if conditions is None or conditions.shadow is None:
        return ()
    asks = hand.rule.grant.requires_confirmation or (not situation.of_message and hand.rule.asks_without_message)

    def decided() -> ConditionsVerdict:
        made = conditions.judge(hand.name, hand.arguments, situation)
        return ConditionsVerdict(Verdict.ASKS) if asks and made.verdict is Verdict.RUNS else made

    found = conditions.shadow.judge(decided, hand.name, hand.arguments, situation)
    return tuple(ShadowVerdict.model_validate({"rule": one.rule, "decision": str(one.verdict or "unknown")}) for one in found)

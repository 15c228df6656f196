"""The verdicts of the rules in the shadow on a call of a turn."""

from __future__ import annotations

from graph_agent.models.record import ShadowVerdict
from graph_agent.policy.call_in_hand import CallInHand


def shadow_verdicts(hand: CallInHand) -> tuple[ShadowVerdict, ...]:
    """Return the rules that would have changed the verdict on a call which the conditions permit, or ask about.

    Nothing that runs depends on it.
    """
    if (ruling := hand.found.ruling) is None or not ruling.shadow:
        return ()
    asks = hand.rule.grant.requires_confirmation or (not hand.setting.of_message and hand.rule.asks_without_message)
    # The constitution asks anyway.
    return tuple(one for one in ruling.shadow if not asks or one.decision != "asks")

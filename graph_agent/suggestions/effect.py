"""The effect of conditions on the recorded calls: each call is judged again, as the guard judges it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from graph_agent.models.facts import PastUses
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import ConditionsDecision, Decision, Situation
from graph_agent.suggestions.seen import SeenCall


def judge(conditions: Conditions, call: SeenCall) -> ConditionsDecision:
    """Return the decision of conditions on a recorded call, in the situation in which it was made."""
    facts = None
    if conditions.reads_facts:
        known = PastUses(call.uses, sorted(call.succeeded), sorted(call.attempted))
        facts = conditions.facts(call.at, known)
    situation = Situation(call.user_id, call.roles, facts, call.earlier, call.of_message)
    return conditions.judge(call.tool_name, call.arguments, situation)


@dataclass
class Effect:
    """The calls that conditions would have decided otherwise than to let them run."""

    calls: int = 0
    asked: int = 0
    refused: int = 0
    by_rule: Counter[str] = field(default_factory=Counter)
    by_tool: Counter[str] = field(default_factory=Counter)

    def add(self, conditions: Mapping[str, Conditions], calls: Iterable[SeenCall]) -> None:
        """Judge the calls of one decision by the conditions about their tools, by name."""
        for call in calls:
            if call.tool_name not in conditions:
                continue
            self.calls += 1
            decided = judge(conditions[call.tool_name], call)
            if decided.decision is Decision.RUNS:
                continue
            self.asked += decided.decision is Decision.ASKS
            self.refused += decided.decision is Decision.REFUSED
            self.by_tool[call.tool_name] += 1
            self.by_rule.update(decided.reasons)

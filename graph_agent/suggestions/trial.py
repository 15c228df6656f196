"""The trial of rules in the shadow: the decisions that each would have changed, as recorded and as a replay finds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import DecisionRecord

EXAMPLES: Final = 3
"""The calls of a rule that are shown."""


@dataclass
class RuleTrial:
    """The calls that one rule would have decided otherwise."""

    asked: int = 0
    waited: int = 0
    """The calls that would have waited for the approval of other people."""
    refused: int = 0
    decisions: int = 0
    by_tool: Counter[str] = field(default_factory=Counter)
    by_user: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str]] = field(default_factory=list)
    """Decision and call."""

    def to_json(self) -> dict[str, Any]:
        found = {"asked": self.asked, "waited": self.waited, "refused": self.refused, "decisions": self.decisions}
        counts = {"by_tool": dict(_ordered(self.by_tool)), "by_user": dict(_ordered(self.by_user))}
        return {**found, **counts, "examples": [list(one) for one in self.examples]}

    def lines(self) -> list[str]:
        """Return the counts and the examples, as sentences."""
        by = [
            f"{name}: {', '.join(f'{one} {calls}' for one, calls in _ordered(counts)[:10])}"
            for name, counts in (("by tool", self.by_tool), ("by user", self.by_user))
        ]
        return [*by, *(f"{decision}: {call}" for decision, call in self.examples)]


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


class Trial:
    """The verdicts of a period."""

    def __init__(self, rules: Sequence[str]) -> None:
        """`rules` are those that are in the shadow now: each is reported, also if it would have changed nothing."""
        self.rules: dict[str, RuleTrial] = {rule: RuleTrial() for rule in rules}
        self.decisions = 0
        self.differing: list[tuple[str, str]] = []
        """The decisions whose verdicts a replay does not find again, each with the reason."""

    def add(self, recorded: DecisionRecord, replayed: DecisionRecord | None, why: str | None) -> None:
        """Add a decision. `replayed` is None if the replay has ended early, for the reason `why`."""
        self.decisions += 1
        name = recorded.header.decision_id
        if replayed is None:
            self.differing.append((name, why or "the replay has ended early"))
        elif (found := _verdicts(replayed)) != (known := _verdicts(recorded)):
            self.differing.append((name, f"recorded {canonical_json(known)}, replayed {canonical_json(found)}"))
        counted: set[str] = set()
        for call in recorded.invocations:
            for verdict in call.shadow:
                rule = self.rules.setdefault(verdict.rule, RuleTrial())
                rule.asked += verdict.decision == "asks"
                rule.waited += verdict.decision == "waits"
                rule.refused += verdict.decision == "refused"
                rule.by_tool[call.tool_name] += 1
                rule.by_user[recorded.header.context.user_id] += 1
                counted.add(verdict.rule)
                if len(rule.examples) < EXAMPLES:
                    rule.examples.append((name, f"{call.tool_name} {canonical_json(call.parameters)}"))
        for one in counted:
            self.rules[one].decisions += 1


def _verdicts(record: DecisionRecord) -> list[list[Any]]:
    return [[call.sequence, one.rule, one.decision] for call in record.invocations for one in call.shadow]

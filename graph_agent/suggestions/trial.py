"""The trial of rules in the shadow: the decisions that each would have changed, as recorded and as a replay finds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import DecisionRecord, ShadowedCall

EXAMPLES: Final = 3
"""The calls of a rule that are shown."""


@dataclass
class RuleTrial:
    """The calls that one rule would have decided otherwise."""

    asked: int = 0
    waited: int = 0
    """The calls that would have waited for the approval of other people."""
    refused: int = 0
    unknown: int = 0
    """The calls that cannot be judged, because their record does not have what the rule reads."""
    decisions: int = 0
    """The decisions with a call that the rule would have decided otherwise."""
    by_tool: Counter[str] = field(default_factory=Counter)
    by_user: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str]] = field(default_factory=list)
    """Decision and call."""

    def to_json(self, most: int | None = None) -> dict[str, Any]:
        """Return the counts and the examples, at most `most` of the tools and users."""
        found = {"asked": self.asked, "waited": self.waited, "refused": self.refused, "unknown": self.unknown}
        counts = {"by_tool": dict(_ordered(self.by_tool)[:most]), "by_user": dict(_ordered(self.by_user)[:most])}
        return {**found, "decisions": self.decisions, **counts, "examples": [list(one) for one in self.examples]}

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

    def add(
        self,
        recorded: DecisionRecord,
        replayed: DecisionRecord | None,
        why: str | None,
        compared: Collection[str] | None = None,
    ) -> None:
        """Add a decision. `replayed` is None if the replay has ended early, for the reason `why`.

        `compared` are the rules whose verdicts must be equal, if it was replayed by other rules than it was recorded with.
        """
        self.decisions += 1
        name = recorded.header.decision_id
        if replayed is None:
            self.differing.append((name, why or "the replay has ended early"))
        elif (found := _verdicts(replayed, compared)) != (known := _verdicts(recorded, compared)):
            self.differing.append((name, f"recorded {canonical_json(known)}, replayed {canonical_json(found)}"))
        self._count(name, recorded.header.context.user_id, recorded.shadowed)

    def add_what_if(self, decision_id: str, user_id: str, calls: Iterable[ShadowedCall], ended_early: str | None) -> None:
        """Add a decision as a what-if replay finds it, with the reason if the replay has not come to its end."""
        self.decisions += 1
        if ended_early is not None:
            self.differing.append((decision_id, ended_early))
        self._count(decision_id, user_id, calls)

    def _count(self, decision_id: str, user_id: str, calls: Iterable[ShadowedCall]) -> None:
        counted: set[str] = set()
        for call in calls:
            for name, decision in call.verdicts:
                rule = self.rules.setdefault(name, RuleTrial())
                if decision == "unknown":
                    rule.unknown += 1
                    continue
                rule.asked += decision == "asks"
                rule.waited += decision == "waits"
                rule.refused += decision == "refused"
                rule.by_tool[call.tool_name] += 1
                rule.by_user[user_id] += 1
                counted.add(name)
                if len(rule.examples) < EXAMPLES:
                    rule.examples.append((decision_id, call.call))
        for one in counted:
            self.rules[one].decisions += 1


def _verdicts(record: DecisionRecord, rules: Collection[str] | None) -> list[list[Any]]:
    verdicts = [(call.sequence, *one) for call in record.shadowed for one in call.verdicts]
    return [[sequence, rule, decision] for sequence, rule, decision in verdicts if rules is None or rule in rules]

"""The trial of rules in the shadow: the decisions that each would have changed, as recorded and as a replay finds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from graph_agent.errors import GraphAgentError
from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import DecisionRecord, RecordHeader, ShadowedCall
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.reply.text import counted

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
    judged: int = 0
    """The decisions in which it was in force: about the others it says nothing."""
    by_tool: Counter[str] = field(default_factory=Counter)
    by_user: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str]] = field(default_factory=list)
    """Decision and call."""

    def to_json(self, most: int | None = None) -> dict[str, Any]:
        """Return the counts and the examples, at most `most` of the tools and users."""
        found = {"asked": self.asked, "waited": self.waited, "refused": self.refused, "unknown": self.unknown}
        of_decisions = {"decisions": self.decisions, "judged": self.judged}
        counts = {"by_tool": dict(_ordered(self.by_tool)[:most]), "by_user": dict(_ordered(self.by_user)[:most])}
        return {**found, **of_decisions, **counts, "examples": [list(one) for one in self.examples]}

    def sentence(self) -> str:
        """Return the effect in a sentence: of a rule that was not in force it says only that."""
        if not self.judged and not self.decisions and not self.unknown:
            return "was judged in none of these decisions"
        others = f", {self.waited} would have waited" if self.waited else ""
        effect = f"would have refused {counted(self.refused, 'call')} and asked about {self.asked}{others}"
        unknown = f"; not known for {counted(self.unknown, 'call')}" if self.unknown else ""
        return f"{effect}, in {self.decisions} of {counted(self.judged, 'decision')}{unknown}"

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
        """`rules` are those that are in the shadow now: each is reported, also if no decision was judged by it."""
        self.rules: dict[str, RuleTrial] = {rule: RuleTrial() for rule in rules}
        self.decisions = 0
        self.differing: list[tuple[str, str]] = []
        """The decisions whose verdicts a replay does not find again, each with the reason."""

    def add(
        self,
        recorded: DecisionRecord,
        replayed: DecisionRecord | None,
        why: str | None,
        had: Collection[str],
        compared: Collection[str] | None = None,
    ) -> None:
        """Add a decision. `replayed` is None if the replay has ended early, for the reason `why`.

        `had` are the rules in the shadow that it was recorded with, and `compared` those whose verdicts must be equal, if it
        was replayed by other rules.
        """
        self.decisions += 1
        name = recorded.header.decision_id
        if replayed is None:
            self.differing.append((name, why or "the replay has ended early"))
        elif (found := _verdicts(replayed, compared)) != (known := _verdicts(recorded, compared)):
            self.differing.append((name, f"recorded {canonical_json(known)}, replayed {canonical_json(found)}"))
        self._count(name, recorded.header.context.user_id, recorded.shadowed, had)

    def add_what_if(
        self,
        decision_id: str,
        user_id: str,
        calls: Iterable[ShadowedCall],
        ended_early: str | None,
        had: Collection[str] | None = None,
    ) -> None:
        """Add a decision as a what-if replay finds it, with the reason if the replay has not come to its end.

        `had` are the rules in the shadow that it was replayed by: all of them if it is None.
        """
        self.decisions += 1
        if ended_early is not None:
            self.differing.append((decision_id, ended_early))
            had = ()
        self._count(decision_id, user_id, calls, self.rules if had is None else had)

    def _count(self, decision_id: str, user_id: str, calls: Iterable[ShadowedCall], had: Collection[str]) -> None:
        changed: set[str] = set()
        judged = {name for name in had if name in self.rules}
        for call in calls:
            for name, decision in call.verdicts:
                rule = self.rules.setdefault(name, RuleTrial())
                judged.add(name)
                if decision == "unknown":
                    rule.unknown += 1
                    continue
                rule.asked += decision == "asks"
                rule.waited += decision == "waits"
                rule.refused += decision == "refused"
                rule.by_tool[call.tool_name] += 1
                rule.by_user[user_id] += 1
                changed.add(name)
                if len(rule.examples) < EXAMPLES:
                    rule.examples.append((decision_id, call.call))
        for one in changed:
            self.rules[one].decisions += 1
        for one in judged:
            self.rules[one].judged += 1


class RecordedShadows:
    """The rules in the shadow that decisions were recorded with, read once for each conditions file."""

    def __init__(self) -> None:
        self._known: dict[str, frozenset[str] | None] = {}

    def of(self, header: RecordHeader, texts: Mapping[str, str]) -> frozenset[str] | None:
        """Return the names of the rules; None if the file cannot be read."""
        if header.conditions is None:
            return frozenset()
        if header.conditions not in self._known:
            self._known[header.conditions] = _shadow_rules(header, texts)
        return self._known[header.conditions]


def _shadow_rules(header: RecordHeader, texts: Mapping[str, str]) -> frozenset[str] | None:
    try:
        conditions = PolicySnapshot.from_texts(texts, header.digests).policy.conditions
    except (GraphAgentError, ValueError, TypeError, LookupError):
        return None
    return frozenset() if conditions is None else frozenset(one.name for one in conditions.described() if one.shadow)


def _verdicts(record: DecisionRecord, rules: Collection[str] | None) -> list[list[Any]]:
    verdicts = [(call.sequence, *one) for call in record.shadowed for one in call.verdicts]
    return [[sequence, rule, decision] for sequence, rule, decision in verdicts if rules is None or rule in rules]

"""The effect of conditions on the recorded calls: each call is judged again, as the guard judges it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from graph_agent.models.facts import Facts
from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import ConditionsVerdict, Situation, Verdict
from graph_agent.policy.cedar.fact_values import selected
from graph_agent.policy.cedar.values import Unconvertible
from graph_agent.suggestions.seen import SeenCall

KEPT: Final = 20_000
"""The verdicts that are kept for equal calls."""


class Judge:
    """Judges recorded calls by conditions that name no user, as suggested ones: what they see equally is judged once."""

    def __init__(self, conditions: Conditions, without_facts: Conditions | None = None) -> None:
        """`without_facts` judge a call before which the objects were not read whose facts `conditions` name."""
        self._conditions = conditions
        self._without_facts = None if without_facts is None else Judge(without_facts)
        self.unread = 0
        """The calls that were judged without facts."""
        self._known: dict[tuple[str, bool, tuple[str, ...], str], ConditionsVerdict] = {}

    def judge(self, call: SeenCall) -> ConditionsVerdict:
        """Return the verdict on a call in the situation in which it was made."""
        results = self._results(call) if self._conditions.needs_facts(call.tool_name) else None
        if results is not None and results.failed and self._without_facts is not None:
            self.unread += 1
            return self._without_facts.judge(call)
        sources = call.sources if self._conditions.reads_sources([call.tool_name]) else None
        known = call.roles, self._facts(call), call.earlier, call.of_message, sources, results
        situation = Situation(call.user_id, *known)
        try:
            action = self._conditions.actions[call.tool_name]
            context = self._conditions.context(action, call.arguments, situation)
        except (KeyError, Unconvertible):
            return self._conditions.judge(call.tool_name, call.arguments, situation)
        key = call.tool_name, call.of_message, call.roles, json.dumps(context)
        if (found := self._known.get(key)) is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            found = self._known[key] = self._conditions.evaluate(action, context, situation)
        return found

    def _results(self, call: SeenCall) -> CallFacts:
        """Return the facts of a call from the objects that were read before it: what was not read is not known."""
        declared, found = self._conditions.results, CallFacts()
        for fact in declared.of_tool[call.tool_name]:
            ((parameter, source),) = fact.parameters
            wanted = {parameter: call.arguments.get(source.steps[0])}
            reads = [one for one in call.reads if one.tool_name in fact.tools and wanted.items() <= one.arguments.items()]
            if reads:
                found.add(selected(declared, fact.tools[0], ToolResult(success=True, data=reads[-1].data)))
            else:
                found.failed[fact.name] = "it was not read"
        return found

    def _facts(self, call: SeenCall) -> Facts | None:
        conditions = self._conditions
        if not conditions.reads_facts:
            return None
        used = call.uses.used(call.tool_name, call.at) if conditions.reads_windows else None
        made = {"succeeded": sorted(call.succeeded), "attempted": sorted(call.attempted)} if conditions.reads_calls else {}
        return Facts.at(call.at, conditions.file.time_zone, used=used, **made)


@dataclass
class Effect:
    """The calls that conditions would have decided otherwise than to let them run."""

    calls: int = 0
    asked: int = 0
    refused: int = 0
    by_rule: Counter[str] = field(default_factory=Counter)
    by_tool: Counter[str] = field(default_factory=Counter)

    def add(self, judges: Mapping[str, Judge], calls: Iterable[SeenCall]) -> None:
        """Judge the calls of one decision by the conditions about their tools, by name."""
        for call in calls:
            if call.tool_name not in judges:
                continue
            self.calls += 1
            decided = judges[call.tool_name].judge(call)
            if decided.verdict is Verdict.RUNS:
                continue
            self.asked += decided.verdict is Verdict.ASKS
            self.refused += decided.verdict is Verdict.REFUSED
            self.by_tool[call.tool_name] += 1
            self.by_rule.update(decided.reasons)

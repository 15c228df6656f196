"""Suggested conditions for the tools of a policy, from a period of the record, with their effect in it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from graph_agent.audit.export import read_closed
from graph_agent.audit.filters import DecisionFilter
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.constitution import MAX_CHARACTERS
from graph_agent.suggestions.effect import Effect, Judge
from graph_agent.suggestions.evidence import Evidence
from graph_agent.suggestions.rules import Asked, Suggestion, facts_of, policy_text, suggested
from graph_agent.suggestions.seen import SeenCalls

Records = Callable[[], AsyncIterator[Mapping[str, Any]]]
"""Reads the records of the period, oldest first, as JSON. It is called twice, because rules are known only at the end."""


def records_in(database: Database, filters: DecisionFilter) -> Records:
    """Return the reader of the closed decisions of a log that match `filters`."""

    async def read() -> AsyncIterator[Mapping[str, Any]]:
        async for rows, _ in read_closed(database, filters):
            for row in rows:
                yield json.loads(row.record)

    return read


class Border(NamedTuple):
    """A rule with what finds its border: the file of its tool, and the same with a slightly stricter rule."""

    rule: str
    tool: str
    text: str
    stricter: str


@dataclass(frozen=True, slots=True)
class Suggested:
    """A conditions file, and what it would have done in the period that it comes from."""

    text: str
    rules: Sequence[Suggestion]
    borders: Sequence[Border]
    decisions: int
    effect: Effect
    unread: int
    """The calls for which the facts of their rules were not read in the period."""
    left_out: Sequence[str]
    """The tools and arguments without a rule, and the values that were not learned, with the reason."""

    def lines(self) -> list[str]:
        """Return the effect, as sentences."""
        effect = self.effect
        found = [
            f"Of {effect.calls} calls in {self.decisions} decisions these rules would have asked about {effect.asked} "
            f"and refused {effect.refused}."
        ]
        if self.unread:
            found.append(
                f"Before {self.unread} calls no read was recorded: what the rules about facts decide on them is not known."
            )
        found += [f"{calls} calls: {rule}" for rule, calls in sorted(effect.by_rule.items(), key=lambda one: (-one[1], one[0]))]
        return [*found, *(f"{why}." if why.endswith("not learned") else f"No rule for {why}." for why in self.left_out)]


async def suggest(
    records: Records,
    policy: CompiledPolicy,
    file: ConditionsFile,
    *,
    enough: int,
    tools: Collection[str] = (),
    shadow: bool = False,
    more: bool = False,
) -> Suggested:
    """Return what is suggested for the tools of `policy`, or for some of them.

    `file` has the roles and the time zone. A value of fewer than `enough` users says nothing. With `more`, limits for one
    message and arguments in the words of the user are suggested too.
    """
    actions = [one for one in policy.actions if not tools or one.name in tools]
    evidence = Evidence(actions, file.time_zone, enough)
    seen = SeenCalls(policy, file.time_zone)
    async for record in records():
        evidence.read(seen, record)
    evidence.end()
    confirmed = frozenset(name for name, rule in policy.rules.items() if rule.grant.requires_confirmation)
    found, left_out = suggested(evidence, Asked(enough, file.roles, confirmed, more))
    # A fact of whose types the tools say something else cannot be used, and no rule in the shadow can name one.
    rules = [
        one
        for one in found
        if one.fact is None or (not shadow and _fits(policy, file, one, policy_text([one], evidence, enough)))
    ]
    reasons = list(map(str, left_out))
    if shadow and any(one.fact is not None for one in found):
        reasons.append("facts: no rule in the shadow can name one; without --shadow they are printed")
    # Tools that were used most come first: a file that is too long for a policy has no rule about the others.
    rules.sort(key=lambda rule: (-evidence.tools[rule.tool].calls, rule.tool))
    while len(text := policy_text(rules, evidence, enough)) + len("@shadow ") * len(rules) > MAX_CHARACTERS:
        rules.pop()
    policy = policy.with_facts(facts_of(rules))
    _compiled(policy, file, text).require_valid()
    # Each rule is about one tool, so a call is judged by those about its own: by all of them it takes twice as long.
    judges = {one.name: _judge(policy, file, rules, evidence, enough, one.name) for one in actions}
    effect, judged = Effect(), SeenCalls(policy, file.time_zone)
    async for record in records():
        effect.add(judges, judged.of(record))
    printed = policy_text(rules, evidence, enough, shadow=True) if shadow else text
    borders = [_border(rules, evidence, enough, number) for number in range(len(rules))]
    return Suggested(printed, rules, borders, seen.decisions, effect, sum(one.unread for one in judges.values()), reasons)


def _border(rules: Sequence[Suggestion], evidence: Evidence, enough: int, number: int) -> Border:
    rule = rules[number]
    stricter = [*rules[:number], replace(rule, condition=rule.stricter), *rules[number + 1 :]]
    text, other = (policy_text(one, evidence, enough, tool=rule.tool) for one in (rules, stricter))
    return Border(rule.name, rule.tool, text, other)


def _judge(
    policy: CompiledPolicy, file: ConditionsFile, rules: Sequence[Suggestion], evidence: Evidence, enough: int, tool: str
) -> Judge:
    without = [one for one in rules if one.fact is None]
    files = [_compiled(policy, file, policy_text(one, evidence, enough, tool=tool)) for one in (rules, without)]
    return Judge(*files)


def _fits(policy: CompiledPolicy, file: ConditionsFile, rule: Suggestion, text: str) -> bool:
    facts, own = facts_of([rule]), policy.constitution.facts
    if any(name in own and own[name] != fact for name, fact in facts.items()):
        return False
    try:
        _compiled(policy.with_facts(facts), file, text).require_valid()
    except ConfigurationError:
        return False
    return True


def _compiled(policy: CompiledPolicy, file: ConditionsFile, text: str) -> Conditions:
    conditions = policy.with_conditions(replace(file, text=text)).conditions
    assert conditions is not None
    return conditions

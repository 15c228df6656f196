"""The comparison of two policies: what the new one newly permits, what it no longer permits, and what was not compared.

Each policy is encoded with its own tools. What both see of a call, such as its arguments, is one variable of the solver; what a
symbolic call does not have is compared by itself (`schema_changes.py`), or named as not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import z3
from cedarpy import pst

from graph_agent.analysis.encoding import NEVER, Encoder, Outcomes, in_words, outcomes
from graph_agent.analysis.examples import find_example
from graph_agent.analysis.joined_actions import joined, unread_parts
from graph_agent.analysis.loosened_fields import CONDITIONS, CONSTITUTION, GRANT, TRAITS, compare_fields
from graph_agent.analysis.questions import Analysis, AnalysisResult, Change, Fact, actions_of, facts_of, formulas
from graph_agent.analysis.schema_changes import is_same_schema, unseen_changes
from graph_agent.analysis.sourcing import in_both, relations
from graph_agent.analysis.symbols import SymbolicCall, Unencodable, disjunction
from graph_agent.models.facts import WINDOWS
from graph_agent.policy.cedar.conditions import Verdict
from graph_agent.policy.cedar.fact_types import PRESENCE
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.cedar.syntax import covers
from graph_agent.policy.cedar.types import NUMBERS, CedarType, Kind
from graph_agent.policy.compiled import CompiledPolicy

_DIFFERENCES: Final[Mapping[Change, tuple[list[Verdict], list[Verdict]]]] = {
    Change.RUNS: ([Verdict.ASKS, Verdict.WAITS, Verdict.REFUSED], [Verdict.RUNS]),
    Change.ASKS: ([Verdict.WAITS, Verdict.REFUSED], [Verdict.ASKS]),
    Change.WAITS: ([Verdict.REFUSED], [Verdict.WAITS]),
    Change.NEEDS_YES: ([Verdict.RUNS], [Verdict.ASKS]),
    Change.NEEDS_APPROVAL: ([Verdict.RUNS, Verdict.ASKS], [Verdict.WAITS]),
    Change.REFUSED: ([Verdict.RUNS, Verdict.ASKS, Verdict.WAITS], [Verdict.REFUSED]),
}
"""The decisions on one call under the old and under the new policy that are a change."""
_ONCE_APPROVED: Final = (
    ([Verdict.WAITS, Verdict.REFUSED], [Verdict.RUNS, Verdict.ASKS]),
    ([Verdict.ASKS], [Verdict.RUNS]),
)
"""These are "newly possible with an approval" if they need the approvals that the call has."""


def compare(old: CompiledPolicy, new: CompiledPolicy, seconds: float) -> list[AnalysisResult]:
    """Return what `new` newly permits and no longer permits, its conditions that decide nothing, and what was not compared."""
    analysis = Analysis(old, new, seconds=seconds)
    facts = {change: analysis.facts_about_calls(new if change.loosens else old) for change in _DIFFERENCES}
    found = [one for tool in analysis.tools for one in _changes(_Tool(old, new, tool), analysis, facts)]
    found += [
        AnalysisResult(tool, Change.NOT_COMPARED, why="conditions read the number of changes, and it counts otherwise now")
        for tool in analysis.tools
        if tool in old.rules and tool in new.rules and old.rules[tool].mutating != new.rules[tool].mutating
        if any(_reads_writes(one) for one in (old, new))
    ]
    found += [
        AnalysisResult(tool, Change.COUNTED)
        for tool in analysis.tools
        if tool in old.rules and _is_counted(new, tool) and not _is_counted(old, tool)
    ]
    found += compare_fields(CONSTITUTION, "constitution", old.constitution, new.constitution)
    if old.conditions is not None and new.conditions is not None:
        found += compare_fields(CONDITIONS, "conditions", old.conditions.file, new.conditions.file)
    return [*found, *(AnalysisResult(name, Change.DECIDES_NOTHING) for name in _idle_conditions(analysis, new))]


class _Tool:
    """A tool of one of the policies, or of both."""

    def __init__(self, old: CompiledPolicy, new: CompiledPolicy, name: str) -> None:
        self.name = name
        self.policies = old, new
        self.rules = old.rules.get(name), new.rules.get(name)
        self.actions = actions_of(old).get(name), actions_of(new).get(name)

    def call(self, analysis: Analysis, left_out: dict[str, str]) -> tuple[SymbolicCall, list[Outcomes]]:
        """Return a call that either policy may accept, and what each decides. Raises `Unencodable`.

        Conditions that are not encoded are named in `left_out`.
        """
        (before, after), bound = self.actions, [None if rule is None else rule.grant.bound_argument for rule in self.rules]
        if before is None or after is None:
            index = 0 if after is None else 1
            call = analysis.call(self.name, self.policies[index])
            decided = outcomes(call, self.policies[index], left_out)
            return call, [decided if i == index else NEVER for i in range(2)]
        one, other = (facts_of(policy, self.name) for policy in self.policies)
        if otherwise := sorted(name for name in one.keys() & other.keys() if one[name] != other[name]):
            raise Unencodable(f"the fact '{otherwise[0]}' is declared otherwise")
        if before.seen != after.seen and any(_reads_hidden(policy, self.name) for policy in self.policies):
            raise Unencodable("facts have what conditions cannot see of its arguments, in one of the policies only")
        same = bound[0] == bound[1]
        apart = self._is_sourced_apart
        call = analysis.call_of(joined(before, after), bound[0] if same else None, sourced_apart=apart)
        both = []
        for policy, action, argument in zip(self.policies, (before, after), bound, strict=True):
            possible = [] if before == after else [call.fits(action)]
            if argument is not None and not same:
                possible.append(call.is_bound(argument))
            both.append(outcomes(call.under(action), policy, left_out).and_also(*possible))
        if apart:
            call.facts += [call.as_found_before(fact) for fact in call.source_facts(before, bound[0])]
            call.facts += [*call.source_facts(after, bound[1]), *relations(call, *in_both(*self.policies, self.name))]
            both[0] = Outcomes(*map(call.as_found_before, both[0]))
        return call, both

    @property
    def _is_sourced_apart(self) -> bool:
        """True if conditions read the sources of a call, and the policies find them otherwise."""
        conditions = (policy.conditions for policy in self.policies)
        if None in self.rules or not any(one is not None and one.reads_sources([self.name]) for one in conditions):
            return False
        before, after = in_both(*self.policies, self.name)
        return before != after

    @property
    def is_unchanged(self) -> bool:
        """True if both policies decide about the tool by the same conditions."""
        before, after = self.rules
        if before is None or after is None or self.actions[0] != self.actions[1] or self._is_sourced_apart:
            return False
        if replace(before.grant, summary="") != replace(after.grant, summary=""):
            return False
        one, other = (_conditions_about(*pair) for pair in zip(self.policies, self.actions, strict=True))
        facts = [facts_of(policy, self.name) for policy in self.policies]
        return one == other and facts[0] == facts[1]


def _changes(tool: _Tool, analysis: Analysis, facts: Mapping[Change, list[Fact]]) -> Iterator[AnalysisResult]:
    found: list[AnalysisResult] = []
    if not tool.is_unchanged:
        try:
            found = list(_decided(tool, analysis, facts))
        except Unencodable as exc:
            found = [AnalysisResult(tool.name, Change.NOT_COMPARED, why=str(exc))]
        except z3.Z3Exception:
            found = [AnalysisResult(tool.name, Change.NOT_COMPARED, why="a condition is not encoded")]
    yield from found
    if None not in tool.rules:
        yield from _declared(tool, looser=any(one.may_loosen for one in found))


def _decided(tool: _Tool, analysis: Analysis, facts: Mapping[Change, list[Fact]]) -> Iterator[AnalysisResult]:
    """Yield what the solver finds. Raises `Unencodable`."""
    left_out: dict[str, str] = {}
    unconfirmed = False
    call, (before, after) = tool.call(analysis, left_out)
    for change, effects in _DIFFERENCES.items():
        # What is newly possible is so without approvals; what no longer is, is not even with some.
        counts = call.without_approvals if change.loosens else []
        asked = [(effects, counts)]
        if change is Change.WAITS and call.approvals:
            needs = (z3.Not(call.approved_by(one, 0)) for one in (after.accepted, after.silent))
            asked += [(effects, [needed]) for effects, needed in zip(_ONCE_APPROVED, needs, strict=True)]
        for (old, new), conditions in asked:
            decided = before.one_of(old), after.one_of(new)
            if (solver := analysis.possible(call, *formulas(facts[change], call), *conditions, *decided)) is not None:
                example = find_example(solver, call, list(zip(tool.policies, (old, new), strict=True)))
                if example.confirmed or not left_out:
                    yield AnalysisResult(tool.name, change, example)
                    break
                unconfirmed = True
    if unconfirmed:
        yield AnalysisResult(tool.name, Change.NOT_COMPARED, why=in_words(left_out))


def _declared(tool: _Tool, *, looser: bool) -> Iterator[AnalysisResult]:
    """Yield what differs about a tool of both policies beside the decision on a call; `looser` if more calls are possible."""
    (before, after), (old, new), (one, other) = tool.rules, tool.policies, tool.actions
    assert before is not None
    assert after is not None
    assert one is not None
    assert other is not None
    if one.server != other.server:
        yield AnalysisResult(tool.name, Change.MOVED, why=f"'{one.server}' -> '{other.server}'")
    if before.mutating and not after.mutating:
        yield AnalysisResult(tool.name, Change.READS)
    if after.grant.without_confirmation and not (before.grant.without_confirmation or before.grant.requires_confirmation):
        yield AnalysisResult(tool.name, Change.UNASKED)
    yield from compare_fields(GRANT, tool.name, before.grant, after.grant)
    yield from compare_fields(TRAITS, tool.name, before.traits, after.traits)
    if _reads_facts_of(tool) and not is_same_schema(before.traits.output, after.traits.output):
        why = "the schema of its results changed, from which facts are read"
        yield AnalysisResult(tool.name, Change.NOT_COMPARED, why=why)
    if changes := unseen_changes(one, other, before.declaration.parameters, after.declaration.parameters):
        yield AnalysisResult(tool.name, Change.NOT_COMPARED, why=f"its schema may accept more: {', '.join(changes)}")
    if after.takes_user_id != before.takes_user_id:
        now = "an argument like any other" if after.takes_user_id else "always the signed-in user, and left out of its calls"
        yield AnalysisResult(tool.name, Change.NOT_COMPARED, why=f"`user_id` is {now}")
    if not looser and (unread := [name for name in _numbers(one.arguments) if _reads(old, name) and not _reads(new, name)]):
        # A value that Cedar cannot have refuses the call, but only if a condition reads it.
        names = ", ".join(f"'{'.'.join(path)}'" for path in unread)
        why = f"conditions no longer read {names}, so values that they cannot read are no longer refused"
        yield AnalysisResult(tool.name, Change.NOT_COMPARED, why=why)
    if not looser and (lost := _unread_facts(tool)):
        why = f"conditions no longer read the fact '{lost[0]}', so a call is no longer refused if it cannot be read"
        yield AnalysisResult(tool.name, Change.NOT_COMPARED, why=why)


def _reads_facts_of(tool: _Tool) -> bool:
    """True if both policies read facts from the results of a tool."""
    declared = [one.conditions.results.order for one in tool.policies if one.conditions is not None]
    return len(declared) == 2 and all(any(tool.name in fact.tools for fact in facts) for facts in declared)


def _unread_facts(tool: _Tool) -> list[str]:
    """Return the facts that are no longer read before a call of a tool, and the fields of others that no condition reads."""
    one, other = (facts_of(policy, tool.name) for policy in tool.policies)
    before, after = (PRESENCE if action is None or action.result is None else action.result for action in tool.actions)
    return [*sorted(one.keys() - other.keys()), *unread_parts(before, after)]


def _conditions_about(policy: CompiledPolicy, action: ToolAction | None) -> list[str] | None:
    """Return the conditions that cover a tool, without their names; None without a conditions file."""
    if policy.conditions is None or action is None:
        return None
    about = (one for one in policy.conditions.by_key.values() if covers(one, action))
    scopes = [(one.effect, one.principal, one.action, one.resource, one.clauses) for one in about]
    return sorted(map(repr, scopes))


def _idle_conditions(analysis: Analysis, policy: CompiledPolicy) -> Iterator[str]:
    """Yield the conditions that match no call at all, such as one with a misspelt argument under `has`."""
    if (conditions := policy.conditions) is None:
        return
    for key, condition in conditions.by_key.items():
        if not any(
            _may_match(analysis, policy, condition, action)
            for action in actions_of(policy).values()
            if covers(condition, action)
        ):
            yield conditions.names[key]


def _may_match(analysis: Analysis, policy: CompiledPolicy, condition: pst.Template, action: ToolAction) -> bool:
    try:
        call = analysis.call(action.name, policy)
        encoded = [part for yes in (False, True) for part in Encoder(call, confirmed=yes).condition(condition)]
        return analysis.possible(call, disjunction(encoded)) is not None
    except (Unencodable, z3.Z3Exception):
        return True


def _numbers(type_: CedarType, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each number in a record, and of each value of several types: not every one has a value in Cedar."""
    for name, part, _ in type_.fields:
        item = part.item if part.item is not None else part
        if item.kind in NUMBERS or part.kind is Kind.VARIANT:
            yield (*path, name)
        elif part.kind is Kind.RECORD:
            yield from _numbers(part, (*path, name))


def _reads(policy: CompiledPolicy, path: tuple[str, ...]) -> bool:
    """True if a condition reads an argument, or its sum."""
    if policy.conditions is None:
        return False
    reads = policy.conditions.reads
    return reads.has("arguments", *path) or any(reads.has("used", window, "sum", *path) for window in WINDOWS)


def _reads_hidden(policy: CompiledPolicy, tool: str) -> bool:
    return policy.conditions is not None and policy.conditions.reads_about(tool).has("hidden")


def _reads_writes(policy: CompiledPolicy) -> bool:
    return policy.conditions is not None and any(policy.conditions.reads.has("used", one, "writes") for one in WINDOWS)


def _is_counted(policy: CompiledPolicy, tool: str) -> bool:
    return policy.conditions is not None and policy.conditions.counts(tool)

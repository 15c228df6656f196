"""The conditions of `policy.cedar`, read once and evaluated by Cedar for each call.

A call is evaluated twice, without and with the user's yes. Denied without and allowed with it means that the user is asked.
Where a yes can only permit more, a call that is allowed without it is not evaluated with it.
A call whose conditions count approvals is evaluated twice more, as if everybody had approved it: this decides only whether it
waits for approvals.
A condition that fails, or no decision, refuses the call: Cedar alone skips a `forbid` that fails.
A rule in the shadow is no condition here: it is not in `by_key`, so nothing that decides, describes or proves reads it.
Its verdict follows from an evaluation of the whole file, because Cedar names every `forbid` that matches.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import cached_property, lru_cache
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Final, TypeVar

from cedarpy import AuthzResult, Entities, PolicySet, is_authorized_batch, policies_to_pst, pst, validate_policies
from cedarpy import Decision as CedarDecision

from graph_agent.errors import ConfigurationError, ConstitutionError
from graph_agent.models.base import nearest_name
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.facts import COUNTED_WINDOWS, WINDOWS, Facts, PastUse, PastUses, ToolUse, WindowUse, uses_by_window
from graph_agent.models.record import ShadowVerdict
from graph_agent.models.sources import CallSources
from graph_agent.policy.argument_parts import parts_of
from graph_agent.policy.cedar import values
from graph_agent.policy.cedar.conditions import (
    EVERYBODY,
    ConditionDescription,
    ConditionsFile,
    ConditionsVerdict,
    NeededApproval,
    Situation,
    Verdict,
    configured_roles,
)
from graph_agent.policy.cedar.declared_facts import DeclaredFacts
from graph_agent.policy.cedar.evaluations import POLICY_ID, Evaluations, failed_keys
from graph_agent.policy.cedar.fact_conversion import cedar_values
from graph_agent.policy.cedar.fact_values import described
from graph_agent.policy.cedar.schema import ALL_READS, ALL_WRITES, ToolAction, cedar_schema
from graph_agent.policy.cedar.seen_arguments import hidden_arguments
from graph_agent.policy.cedar.syntax import (
    COMMENT_OR_TEXT,
    MAX_ID,
    MAX_NESTING,
    Reads,
    covers,
    denies_by_approvals,
    denies_by_like,
    is_id,
    nesting,
    yes_only_permits,
)
from graph_agent.policy.cedar.types import NUMBERS, Kind
from graph_agent.policy.cedar.values import Unconvertible, convert
from graph_agent.policy.facts import Fact
from graph_agent.reply.text import visible

T = TypeVar("T")

PERMIT: Final = "permit (principal, action, resource);"
_NO_PERMIT: Final = "no condition permits it"
_CALLS: Final = ("succeeded", "attempted")
SOURCE_PARTS: Final = ("source", "sources", "tainted")
_PARTS: Final = ("arguments", "approvals", "hidden", "length", "domain", "used", *_CALLS, "time", *SOURCE_PARTS, "result")
"""The parts of `context` that do not depend on the yes."""
_OF_CALLS: Final = ("used", *_CALLS)
"""The parts of `context` that every call changes: a call whose conditions read them is judged after the calls before it."""
_NO_CALLED: Final = (
    'there is no `context.called`: write `context.succeeded` where a call must have succeeded before this one ("only after"), '
    'and `context.attempted` where none may have been sent ("nothing after")'
)
_NO_APPROVER: Final = "there is no `context.approver`: write `context.approvals.manager >= 1` with the role of an approver"
_STATEMENT = re.compile(COMMENT_OR_TEXT + r'|(?P<end>;)|(?P<start>[^\s;"/])|/', re.DOTALL)
_ANNOTATION = re.compile(COMMENT_OR_TEXT + r"|@\s*(?P<name>\w+)", re.DOTALL)
_OPTIONAL = re.compile(r"optional attribute `(?P<of>[\w.]+)\.(?P<name>\w+)` in context")
_NO_TOOL: Final = "unable to find an applicable action"
"""Cedar's words for a rule that is about no tool."""
_SHADOW: Final = "shadow"
"""The annotation of a `forbid` that is judged and recorded, and decides nothing."""
_ANNOTATIONS: Final = ("id", _SHADOW)


class CedarConditions:
    """The compiled conditions of a file."""

    def __init__(
        self,
        file: ConditionsFile,
        actions: Sequence[ToolAction],
        recorded: str | None = None,
        *,
        facts: Mapping[str, Fact] = MappingProxyType({}),
    ) -> None:
        """`facts` are those that the constitution declares.

        Raises `ConfigurationError` with the line of the first condition that cannot be used.
        """
        self.file = file
        self._statements = list(_statements(file.text))
        for number, (_, statement) in enumerate(self._statements):
            if nesting(statement) > MAX_NESTING:
                raise self._error(number, "its expressions are nested too deep")
        try:
            tree = policies_to_pst(file.text)
            self._set = PolicySet.from_str(file.text)
        except ValueError as exc:
            raise self._error(self._first_unreadable(), self._described(str(exc))) from None
        if tree.templates:
            raise self._error(min(map(_number, tree.templates)), "templates cannot be used")
        self.names: Mapping[str, str] = self._names_of_conditions(tree.static_policies)
        """The name of each condition and of each rule in the shadow in reasons, by key."""
        in_shadow = self._keys_in_shadow(tree.static_policies)
        self.shadow: Mapping[str, str] = {key: self.names[key] for key in sorted(in_shadow, key=_number)}
        """The names of the rules in the shadow, by key: they decide nothing."""
        self._every_one: Mapping[str, pst.Template] = dict(tree.static_policies)
        self._given_actions, self._facts = {action.name: action for action in actions}, facts
        if not any(condition.effect == "permit" for condition in self._every_one.values()):
            raise ConfigurationError(f"the conditions file {file.name} permits nothing: begin it with `{PERMIT}`")
        for key, condition in tree.static_policies.items():
            if Reads([condition.clauses]).names("called"):
                raise self._error(_number(key), _NO_CALLED)
            if Reads([condition.clauses]).names("approver"):
                raise self._error(_number(key), _NO_APPROVER)
            if Reads([condition.clauses]).names("approvals") and not file.roles:
                raise self._error(_number(key), f"approvals are counted by role, and {configured_roles((), 'manager')}")
        self._decide_by(self._every_one.keys() - in_shadow)
        self.gathers: CedarConditions = self._with(self._every_one) if in_shadow else self
        """The conditions whose facts are gathered and whose uses are counted: these, with the rules in the shadow."""
        if in_shadow:
            self._set = PolicySet.from_pst(replace(tree, static_policies=dict(self.by_key)))
        self.schema: str = cedar_schema(list(self.gathers.actions.values()), file.roles)
        self.text = recorded or canonical_json(
            {
                "engine": f"cedarpy {version('cedarpy')}",
                "roles": list(file.roles),
                "conditions": file.text,
                "schema": self.schema,
                "servers": {action.name: action.server for action in actions},
                "time_zone": file.time_zone,
            }
        )
        """Everything that the verdicts depend on, as canonical JSON, for the record."""

    def _with(self, keys: Collection[str]) -> CedarConditions:
        """Return what the conditions of these keys read. Cedar evaluates the whole file for it, which is compiled once."""
        found = copy(self)
        found.shadow = {}
        found._decide_by(keys)  # noqa: SLF001 (of the same class)
        found.gathers = found
        return found

    def _decide_by(self, keys: Collection[str]) -> None:
        """Set what decides, and what it reads."""
        self.by_key: Mapping[str, pst.Template] = {key: one for key, one in self._every_one.items() if key in keys}
        """The conditions that decide."""
        self.reads = Reads(condition.clauses for condition in self.by_key.values())
        in_order = dict(sorted(self.by_key.items(), key=lambda item: _number(item[0])))
        self.results = DeclaredFacts(in_order, self._given_actions, self._facts)
        """The facts from the results of tools."""
        self.actions: Mapping[str, ToolAction] = self._with_source_parts(self.results.actions())
        """The tools that the conditions see, by name."""
        self._about = {
            name: [key for key, condition in self.by_key.items() if covers(condition, action)]
            for name, action in self.actions.items()
        }
        self._reads_about = {name: Reads(self.by_key[key].clauses for key in keys) for name, keys in self._about.items()}
        self._read_parts = tuple(name for name in _PARTS if self.reads.has(name))
        # If no condition reads the user's yes, one evaluation is enough.
        self._answers = (False, True) if self.reads.has("confirmed") else (False,)
        self._yes_only_permits = all(map(yes_only_permits, self.by_key.values()))
        everybody = {"approvals": dict.fromkeys(self.file.roles, EVERYBODY)}
        self._approved_by: Mapping[str, list[dict[str, Any]]] = {
            name: [{}, everybody] if reads.has("approvals") else [{}] for name, reads in self._reads_about.items()
        }
        """The changes of `context` with which a call of each tool is evaluated: none, and everybody's approvals."""
        self._counted = self._counted_tools()
        counting = set(filter(self._counts_message, self.by_key))
        self.of_messages: Mapping[str, tuple[str, ...]] = {
            action.name: tuple(sorted(self.names[key] for key in counting if covers(self.by_key[key], action)))
            for action in self._given_actions.values()
        }
        """The conditions about each tool that read what a message has used."""
        self.summed: Mapping[str, Mapping[str, Kind]] = {
            action.name: self._summed_numbers(action) for action in self._given_actions.values()
        }
        """The arguments of each tool whose sums conditions read."""
        self._depend_on_calls = {
            name for name, reads in self._reads_about.items() if any(reads.has(part) for part in _OF_CALLS)
        }
        self.reads_windows = _reads_windows(self.reads)
        """True if a condition reads `used.hour` or `used.day`."""
        self.reads_calls = any(self.reads.has(part) for part in _CALLS)
        """True if a condition reads `succeeded` or `attempted`."""
        self._read_sources = {name for name, reads in self._reads_about.items() if any(map(reads.has, SOURCE_PARTS))}
        self.reads_facts = self.reads.has("time") or self.reads_windows or self.reads_calls or bool(self.results.last)

    def _with_source_parts(self, actions: Mapping[str, ToolAction]) -> dict[str, ToolAction]:
        """Return the actions with the parts of their arguments whose sources these conditions name."""
        named = {path[0] for path in self.reads.below("source")}
        found = {}
        for name, action in actions.items():
            arguments = [one.name for one in action.arguments.fields]
            found[name] = replace(action, source_parts=parts_of(self._facts, named, arguments))
        return found

    @property
    def source_facts(self) -> frozenset[str]:
        """The facts whose sources conditions name."""
        return frozenset(name for action in self.gathers.actions.values() for name in action.named_parts)

    @property
    def digest(self) -> str:
        """The SHA-256 of what decides: the conditions without those in the shadow, and the settings that they depend on."""
        deciding = [text for number, (_, text) in enumerate(self._statements) if f"policy{number}" in self.by_key]
        return digest([deciding, list(self.file.roles), self.file.time_zone])

    def is_about(self, key: str, tool_name: str) -> bool:
        """True if the condition of a key is about calls of a tool."""
        return tool_name in self.actions and covers(self.by_key[key], self.actions[tool_name])

    def require_valid(self) -> None:
        """Raise `ConfigurationError`, with the line, for the first condition or fact that does not fit the tools."""
        if (of_fact := self.gathers.results.first_problem()) is not None:
            if (declared := self.results.declared.get(of_fact.fact or "")) is not None:
                raise ConstitutionError(str(of_fact), declared.line)
            raise self._error(_number(of_fact.key or ""), str(of_fact))
        self._require_known_annotations()
        result = validate_policies(self.file.text, self.schema)
        errors = [one for one in result.errors if not (_NO_TOOL in one.error and self._is_about_a_kind(one.policy_id))]
        if not errors:
            return
        first = min(errors, key=lambda error: _number(error.policy_id))
        problem = re.sub(r"^for policy `\w+`[,:] ", "", first.error)
        # Without a role its type is not declared at all. Another error of a condition that names a role keeps its own text.
        if ("`Role::" in problem and "enumerated" in problem) or ("entity type `Role`" in problem and not self.file.roles):
            problem = f"the condition names a role that does not count: {configured_roles(self.file.roles, 'manager')}"
        elif _NO_TOOL in problem:
            problem = "no tool is in the scope of this rule: its action and its resource have none in common"
        elif "attribute `approvals." in problem:
            problem = f"{problem}. {configured_roles(self.file.roles, 'manager')}"
        elif (optional := _OPTIONAL.search(problem)) is not None:
            problem = f"{problem}: first ask `context.{optional['of']} has {optional['name']} &&`"
        elif "expected Long but saw" in problem and "decimal" in problem:
            first_asked = " after `… has decimal &&`, and then `….decimal.greaterThan`" if "decimal?" in problem else ""
            problem = (
                f'{problem}: this number may have decimals, so compare it by `….greaterThan(decimal("50.0"))`{first_asked}'
            )
        raise self._error(_number(first.policy_id), visible(problem))

    def _is_about_a_kind(self, key: str) -> bool:
        """True for a rule about all changes, or all reads, of which there may be none: it then decides nothing, or holds."""
        scope = self._every_one[key].action
        return isinstance(scope, pst.ActionIn) and all(one.id in (ALL_WRITES, ALL_READS) for one in scope.entities)

    def _require_known_annotations(self) -> None:
        """Raise `ConfigurationError` for an annotation that looks like a misspelt one of ours. Others are their author's.

        A value of @shadow would look as if it decided something: `@shadow("false")` is in the shadow too.
        """
        for key, condition in sorted(self.gathers.by_key.items(), key=lambda item: _number(item[0])):
            if condition.annotations.get(_SHADOW):
                raise self._error(_number(key), f"@{_SHADOW} has no value: leave it out, and without @{_SHADOW} a rule decides")
        for key, condition in sorted(self.by_key.items(), key=lambda item: _number(item[0])):
            for name in condition.annotations:
                if name not in _ANNOTATIONS and (meant := nearest_name(name, _ANNOTATIONS, 0.8)) is not None:
                    raise self._error(_number(key), f"@{name} has no effect; the nearest annotation is @{meant}", name)

    def unknown_fact(self, facts: Facts | None) -> str | None:
        """Return what a condition reads and `facts` do not have: "used", "succeeded", "attempted" or "last"."""
        read = {"used": self.reads_windows, **{part: self.reads.has(part) for part in _CALLS}, "last": bool(self.results.last)}
        return next((part for part, is_read in read.items() if is_read and getattr(facts, part, None) is None), None)

    def lacks_facts(self, tool_name: str, situation: Situation) -> bool:
        """True if the conditions about a tool read facts or sources that the situation does not have."""
        facts = situation.facts
        lacks = self.reads_facts and (facts is None or self.unknown_fact(facts) is not None)
        return lacks or (self.reads_sources([tool_name]) and situation.sources is None)

    def depends_on_calls(self, tool_name: str) -> bool:
        """True if a condition about this tool reads what the calls before it in the same batch change."""
        return tool_name in self._depend_on_calls

    def reads_sources(self, tool_names: Iterable[str]) -> bool:
        """True if a condition about one of these tools reads where the arguments of a call come from."""
        return not self._read_sources.isdisjoint(tool_names)

    def needs_facts(self, tool_name: str) -> bool:
        """True if a condition about this tool names a fact that is read before a call of it is judged."""
        return bool(self.results.of_tool.get(tool_name))

    def reads_about(self, tool_name: str) -> Reads:
        """Return what the conditions about a tool read."""
        return self._reads_about[tool_name]

    def approval_roles(self, tool_name: str) -> tuple[str, ...]:
        """Return the roles whose approvals the conditions about this tool count."""
        return self._roles_in(self.reads_about(tool_name)) if tool_name in self.actions else ()

    def _roles_in(self, reads: Reads) -> tuple[str, ...]:
        return tuple(sorted(role for role in self.file.roles if reads.has("approvals", role)))

    def counts(self, tool_name: str) -> bool:
        """True if a condition reads how much the calls of this tool use in an hour or a day."""
        return tool_name in self._counted

    def _counted_tools(self) -> set[str]:
        found: set[str] = set()
        for condition in self.by_key.values():
            reads = Reads([condition.clauses])
            if _reads_windows(reads):
                found.update(name for name, action in self.actions.items() if covers(condition, action))
            if any(reads.has("used", window, "writes") for window in COUNTED_WINDOWS):
                found.update(name for name, action in self.actions.items() if action.writes)
        return found

    def _summed_numbers(self, action: ToolAction) -> dict[str, Kind]:
        """Return the arguments of a tool whose sums the conditions about it read."""
        reads = self._reads_about[action.name]
        read = [one for one in action.numbers if any(reads.has("used", window, "sum", one.name) for window in WINDOWS)]
        return {one.name: one.type.kind for one in read}

    def use(self, tool_name: str, arguments: dict[str, Any], at: datetime) -> PastUse:
        """Return the amounts of a call. Raises `Unconvertible` for one whose sum conditions read."""
        amounts: dict[str, int | str] = {}
        # All numbers, so that a condition that sums another argument from tomorrow on does not begin at 0.
        for name, part, _ in self.actions[tool_name].numbers:
            if (value := arguments.get(name)) is None:
                continue
            try:
                amount = max(0, values.amount(part.kind, value, name))
                amounts[name] = amount if part.kind is Kind.LONG else values.decimal_text(amount)
            except Unconvertible:
                if name in self.summed[tool_name]:
                    raise
                # No number that a later condition could sum: a text of the call is not kept here.
                amounts[name] = str(value) if isinstance(value, int | float) else "?"
        return PastUse(tool_name, amounts, at)

    def _amounts(self, tool_name: str, arguments: Mapping[str, Any]) -> dict[str, int]:
        """Return the numbers in `arguments` whose sums conditions read, as in `ToolUse.sums`."""
        summed = self.summed.get(tool_name, {}).items()
        given = [(name, kind) for name, kind in summed if arguments.get(name) is not None]
        # A negative amount counts as 0: it must not make room for another call.
        return {name: max(0, values.amount(kind, arguments[name], name)) for name, kind in given}

    def facts(self, now: datetime, past: PastUses) -> Facts:
        """Return the facts at `now` after the uses since the day began: what no condition reads is not known."""
        used: dict[str, WindowUse] = {}
        by_window = uses_by_window(past.uses, now, self.file.time_zone) if self.reads_windows else {}
        for window, tools in by_window.items():
            writes = sum(len(uses) for name, uses in tools.items() if self._writes(name))
            counted = {name: ToolUse(calls=len(uses), sums=self._sums(name, uses)) for name, uses in tools.items()}
            used[window] = WindowUse(writes=writes, tools=counted)
        made = {part: list(getattr(past, part)) for part in _CALLS if self.reads.has(part)}
        return Facts.at(now, self.file.time_zone, used=used if self.reads_windows else None, last=past.last, **made)

    def _sums(self, tool_name: str, uses: Sequence[PastUse]) -> dict[str, int]:
        total: Counter[str] = Counter()
        for use in uses:
            try:
                total.update(self._amounts(tool_name, use.amounts))
            except Unconvertible:
                # The type of the argument has changed since: until the end of the day the budget counts as used up.
                total.update(dict.fromkeys(use.amounts, values.MAX_LONG))
        return dict(total)

    def described(self) -> list[ConditionDescription]:
        found = []
        for key, condition in self.gathers.by_key.items():
            tools = tuple(name for name, action in self.actions.items() if covers(condition, action))
            place = self.names[key], self._line(_number(key)), _number(key)
            like, approvals = denies_by_like(condition), denies_by_approvals(condition)
            shadow = key not in self.by_key
            found.append(ConditionDescription(*place, condition.effect, tools, like, approvals, shadow))
        return found

    def partly_seen(self, tool_name: str) -> Iterator[tuple[str, str, list[str], list[str]]]:
        """Yield the arguments of which a condition reads only some types: condition, argument, these types, the others."""
        action = self.actions[tool_name]
        for key, condition in self.by_key.items():
            reads = Reads([condition.clauses])
            for path, type_ in action.arguments.variants() if covers(condition, action) else ():
                sums = any(reads.has("used", window, "sum", *path) for window in WINDOWS)
                seen = {
                    one.name: reads.name("arguments", *path, one.name) or (sums and one.type.kind in NUMBERS)
                    for one in type_.fields
                }
                if len(set(seen.values())) > 1:
                    read, unread = ([name for name, is_seen in seen.items() if is_seen is wanted] for wanted in (True, False))
                    yield self.names[key], ".".join(path), read, unread

    def impossible_facts(self, tool_name: str) -> Iterator[tuple[str, str]]:
        """Yield the conditions about a tool with a fact that they name and that no call of it can have."""
        action = self.actions[tool_name]
        possible = {name for name, _, _ in action.result.fields} if action.result is not None else set()
        for key, condition in self.by_key.items():
            reads = Reads([condition.clauses])
            for name in self.results.types.get(tool_name, ()) if covers(condition, action) else ():
                if name not in possible and reads.name("result", name):
                    yield self.names[key], name

    def judge(self, tool_name: str, arguments: dict[str, Any], situation: Situation) -> ConditionsVerdict:
        """Decide a call that everything else permits. A failure of the evaluation is a refusal."""
        action = self.actions.get(tool_name)
        if action is None:
            return ConditionsVerdict(Verdict.REFUSED, (_NO_PERMIT,))
        if self.shadow and not situation.for_facts:
            return self._judge_with_shadow(action, arguments, situation)
        return self._judge(action, arguments, situation)

    def _judge(self, action: ToolAction, arguments: dict[str, Any], situation: Situation) -> ConditionsVerdict:
        try:
            context = self.context(action, arguments, situation)
        except Unconvertible as exc:
            return self._refused_without_facts(action.name, arguments, situation) or ConditionsVerdict(
                Verdict.REFUSED, (str(exc),)
            )
        return self.evaluate(action, context, situation)

    def _judge_with_shadow(self, action: ToolAction, arguments: dict[str, Any], situation: Situation) -> ConditionsVerdict:
        """Judge a call also by the rules in the shadow: the verdict has those that would have changed it."""
        name = action.name
        # A record that was made without these rules may not have what some of them read.
        lacks = self.gathers.lacks_facts(name, situation)
        whole = None if lacks else self.gathers.evaluations(name, arguments, situation)
        # A `forbid` only restricts: what runs with all of them runs without them, and with each.
        if whole is not None and situation.of_message and whole.failed is None and whole.verdict is Verdict.RUNS:
            return ConditionsVerdict(Verdict.RUNS)
        if (own := self.evaluations(name, arguments, situation)) is None:
            return self._judge(action, arguments, situation)
        made = self._decided(action, situation, own).outside_message(self._limits(action, situation))
        if made.verdict is Verdict.REFUSED:
            return made
        found = []
        for key, rule in self.shadow.items():
            if not covers(self._every_one[key], action):
                continue
            with_rule = whole
            if with_rule is None:
                reading = self._with_each[key]
                if lacks and reading.lacks_facts(name, situation):
                    found.append(ShadowVerdict(rule=rule, decision="unknown"))
                    continue
                with_rule = self.gathers.evaluations(name, arguments, situation, reading)
            verdict = Verdict.REFUSED if with_rule is None else own.with_rule(key, with_rule)
            if verdict is Verdict.RUNS and not situation.of_message and self._counts_message(key):
                verdict = Verdict.ASKS
            if verdict.is_stricter_than(made.verdict):
                found.append(ShadowVerdict.model_validate({"rule": rule, "decision": str(verdict)}))
        return made._replace(shadow=tuple(found))

    def _counts_message(self, key: str) -> bool:
        """True if a condition reads what a message has used."""
        return Reads([self._every_one[key].clauses]).has("used", "message")

    @cached_property
    def _with_each(self) -> Mapping[str, CedarConditions]:
        """The deciding rules, with each of the rules in the shadow."""
        return {key: self._with({*self.by_key, key}) for key in self.shadow}

    def evaluations(
        self, tool_name: str, arguments: dict[str, Any], situation: Situation, reading: CedarConditions | None = None
    ) -> Evaluations | None:
        """Let Cedar evaluate a call by what these conditions read, or others. None if it cannot be converted for them."""
        reading = reading or self
        action = reading.actions[tool_name]
        try:
            context = reading.context(action, arguments, situation)
        except Unconvertible:
            return None
        return self._evaluated(action, context, situation)

    def evaluate(self, action: ToolAction, context: dict[str, Any], situation: Situation) -> ConditionsVerdict:
        """Return the verdict on a call in a situation, of which `context` was made."""
        results = self._evaluated(action, context, situation)
        return self._decided(action, situation, results).outside_message(self._limits(action, situation))

    def _limits(self, action: ToolAction, situation: Situation) -> tuple[str, ...]:
        return () if situation.of_message else self.of_messages[action.name]

    def _evaluated(self, action: ToolAction, context: dict[str, Any], situation: Situation) -> Evaluations:
        policies = self._set if not situation.for_facts or not self.results.conditions else self._set_without_facts
        request = {
            "principal": {"type": "User", "id": situation.user_id},
            "action": {"type": "Action", "id": action.name},
            "resource": {"type": "Server", "id": action.server},
        }
        contexts = [
            {**context, **approved, "confirmed": confirmed}
            for approved in self._approved_by[action.name]
            for confirmed in self._answers
        ]
        requests = [{**request, "context": one} for one in contexts]
        roles = tuple(sorted(set(situation.roles) & set(self.file.roles)))
        entities = _entities(situation.user_id, roles, action.name, action.groups)
        if self._yes_only_permits and requests[1:] and len(self._approved_by[action.name]) == 1:
            # Most calls are ordinary, and an evaluation is most of the time that the guard takes.
            (result,) = is_authorized_batch(requests[:1], policies, entities)
            if result.decision is CedarDecision.Allow and not result.diagnostics.errors:
                return Evaluations(result, result, result, result)
        # Without a schema, which would double the time: the conversion ensures the types.
        results = is_authorized_batch(requests, policies, entities)
        answers = len(self._answers)
        return Evaluations(results[0], results[answers - 1], results[-answers], results[-1])

    def _decided(self, action: ToolAction, situation: Situation, results: Evaluations) -> ConditionsVerdict:
        if results.failed is not None:
            return ConditionsVerdict(Verdict.REFUSED, self._failed(results.failed))
        now, yes, everybody, both = results

        def by(verdict: Verdict, denied: AuthzResult, needs: NeededApproval | None = None) -> ConditionsVerdict:
            return ConditionsVerdict(verdict, self._reasons(denied), self._facts_of(denied, action, situation), needs)

        match results.verdict:
            case Verdict.RUNS:
                return ConditionsVerdict(Verdict.RUNS)
            case Verdict.WAITS:
                return by(Verdict.WAITS, yes, self._needed(yes))
            case Verdict.REFUSED:
                return by(Verdict.REFUSED, both)
        return by(Verdict.ASKS, now) if yes.decision is CedarDecision.Allow else by(Verdict.ASKS, everybody, self._needed(yes))

    def _needed(self, denied: AuthzResult) -> NeededApproval:
        """Return the approval whose absence denied a call."""
        found = [self.by_key[one].clauses for one in denied.diagnostics.reasons]
        # If nothing forbids the call, one of the conditions that permit it counts approvals: any of them.
        counting = Reads(found or [condition.clauses for condition in self.by_key.values() if condition.effect == "permit"])
        return NeededApproval(self._roles_in(counting), self._reasons(denied))

    def _refused_without_facts(
        self, tool_name: str, arguments: dict[str, Any], situation: Situation
    ) -> ConditionsVerdict | None:
        """Return the refusal of a call by the conditions that name no fact, which says more than that a fact is not known.

        It is often their reason for which a fact cannot be read.
        """
        if situation.for_facts or not self.needs_facts(tool_name):
            return None
        decided = self.judge(tool_name, arguments, replace(situation, for_facts=True))
        return decided if decided.verdict is Verdict.REFUSED and decided.reasons != (_NO_PERMIT,) else None

    def context(self, action: ToolAction, arguments: dict[str, Any], situation: Situation) -> dict[str, Any]:
        """Return the `context` of a call, without `confirmed` and without what no condition reads. Raises `Unconvertible`."""
        reads, given = self.reads.has, {name: value for name, value in arguments.items() if value is not None}
        parts: dict[str, Callable[[], Any]] = {
            "arguments": lambda: convert(action.arguments, given, self.reads_about(action.name), "arguments"),
            "approvals": lambda: {role: situation.approvals.get(role, 0) for role in self.file.roles},
            "hidden": lambda: hidden_arguments(self.results, action, given),
            "length": lambda: {name: _length(given.get(name), name) for name in action.lists if reads("length", name)},
            "domain": lambda: {name: values.hosts(given.get(name, [])) for name in action.texts if reads("domain", name)},
            "used": lambda: {one: self._used(one, action, given, situation) for one in WINDOWS if reads("used", one)},
            "succeeded": lambda: _actions(_succeeded(situation)),
            "attempted": lambda: _actions(_attempted(situation)),
            "time": lambda: {name: value for name, value in _time(_known(situation.facts)) if reads("time", name)},
            "source": lambda: self._source(action, _known(situation.sources)),
            "sources": lambda: _known(situation.sources).all_labels,
            "tainted": lambda: _known(situation.sources).tainted,
            "result": lambda: self._result(action, situation),
        }
        # The sources are known only for a batch in which a condition about one of the tools reads them.
        without = () if self.reads_sources([action.name]) else SOURCE_PARTS
        return {name: parts[name]() for name in self._read_parts if name not in without}

    def _source(self, action: ToolAction, sources: CallSources) -> dict[str, Any]:
        found = {one: sources.labels(one) for one in action.sourced if self.reads.has("source", one)}
        return found | {one.name: sources.labels_of_part(one.argument, one.path) for one in action.source_parts}

    def _result(self, action: ToolAction, situation: Situation) -> dict[str, Any]:
        """Return the facts of a call. Raises `Unconvertible` if one that its conditions name is not known."""
        if situation.for_facts or not self.results.conditions.intersection(self._about[action.name]):
            return {}
        if self.results.problem is not None or action.name in self.results.of_types:
            raise Unconvertible("what its conditions need to know cannot be read here")
        facts = self.results.of_tool.get(action.name, ())
        types = self.results.types.get(action.name, {})
        return cedar_values(types, facts, _known(situation.results), self.file.time_zone) if facts else {}

    def _facts_of(self, result: AuthzResult, action: ToolAction, situation: Situation) -> str:
        """Return the facts that the conditions which decided have read."""
        deciding = [self.by_key[one].clauses for one in result.diagnostics.reasons if one in self.results.conditions]
        if not deciding or situation.results is None:
            return ""
        return described(self.results.types[action.name], Reads(deciding).below("result"), situation.results)

    @cached_property
    def _set_without_facts(self) -> PolicySet:
        """The conditions that name no fact, for the reads that give facts. A `permit` that names one permits no read."""
        # One that never matches takes the place of each other condition, because the ids count the conditions.
        left_out = {key: one.effect for key, one in self.by_key.items() if key in self.results.conditions}
        left_out |= dict.fromkeys(self.names.keys() - self.by_key.keys(), "forbid")
        kept = [
            f"{left_out[key]} (principal, action, resource) when {{ false }};"
            if (key := f"policy{number}") in left_out
            else text
            for number, (_, text) in enumerate(self._statements)
        ]
        return PolicySet.from_str("\n".join(kept))

    def _used(self, window: str, action: ToolAction, arguments: dict[str, Any], situation: Situation) -> dict[str, Any]:
        """Return the uses in a window, with this call and the earlier ones of its message."""
        before = WindowUse() if window == "message" else _known(_known(situation.facts).used).get(window, WindowUse())
        same = before.tools.get(action.name, ToolUse())
        running = [one for one in situation.earlier if one.may_have_run]
        earlier = [one.arguments for one in running if one.tool_name == action.name]
        counted = [self._amounts(action.name, one) for one in (*earlier, arguments)]
        sums = {}
        for name, part, _ in action.numbers:
            if self.reads.has("used", window, "sum", name):
                total = values.require_long(same.sums.get(name, 0) + sum(one.get(name, 0) for one in counted), name)
                sums[name] = total if part.kind is Kind.LONG else values.decimal_json(total)
        writes = before.writes + sum(self._writes(one.tool_name) for one in running) + action.writes
        found = {"calls": same.calls + len(counted), "writes": writes, "sum": sums}
        return {name: value for name, value in found.items() if self.reads.has("used", window, name)}

    def _writes(self, tool_name: str) -> bool:
        # A tool that is no longer served had effects too.
        return (action := self.actions.get(tool_name)) is None or action.writes

    def _reasons(self, result: AuthzResult) -> tuple[str, ...]:
        # Sorted, because Cedar's order differs between processes.
        return tuple(sorted(self.names[one] for one in result.diagnostics.reasons)) or (_NO_PERMIT,)

    def _failed(self, result: AuthzResult) -> tuple[str, ...]:
        names = sorted(self.names[one] for one in failed_keys(result) if one in self.names)
        return (
            f"these conditions cannot be evaluated for it: {', '.join(names)}"
            if names
            else "the conditions cannot be evaluated for it",
        )

    def _keys_in_shadow(self, by_key: Mapping[str, pst.Template]) -> set[str]:
        """Return the keys of the rules in the shadow."""
        found = {key for key, condition in by_key.items() if _SHADOW in condition.annotations}
        for key in sorted(found, key=_number):
            if by_key[key].effect == "permit":
                raise self._error(_number(key), f"only a forbid can have @{_SHADOW}: without a permit, nothing is permitted")
            if Reads([by_key[key].clauses]).names("result"):
                # What would be read for it could be seen, and take as long as if it decided.
                raise self._error(_number(key), f"a rule with @{_SHADOW} cannot name facts from `context.result`")
        return found

    def _names_of_conditions(self, by_key: Mapping[str, pst.Template]) -> dict[str, str]:
        """Return what each condition is called in reasons: its `@id`, or its line."""
        names: dict[str, str] = {}
        given: set[str] = set()
        for key, condition in sorted(by_key.items(), key=lambda item: _number(item[0])):
            name = condition.annotations.get("id", "").strip()
            if not is_id(name):
                raise self._error(_number(key), f"an @id is a short text without hidden characters, of at most {MAX_ID}")
            if name in given:
                raise self._error(_number(key), f"two conditions have the @id '{name}'")
            given |= {name} - {""}
            names[key] = name or f"the condition in line {self._line(_number(key))} of the conditions file"
        return names

    def _line(self, number: int) -> int:
        return self._statements[number][0] if 0 <= number < len(self._statements) else 1

    def _first_unreadable(self) -> int:
        """Return the number of the first condition that the parser refuses. It says why, but not where."""
        for number, (_, text) in enumerate(self._statements):
            try:
                policies_to_pst(text)
            except ValueError:
                return number
        return 0

    def _error(self, number: int, text: str, annotation: str | None = None) -> ConfigurationError:
        line = self._line(number) if annotation is None else self._line_of_annotation(number, annotation)
        return ConfigurationError(f"the conditions file {self.file.name}, line {line}: {text}")

    def _line_of_annotation(self, number: int, name: str) -> int:
        line, text = self._statements[number]
        found = next(one for one in _ANNOTATION.finditer(text) if one["name"] == name)
        return line + text.count("\n", 0, found.start())

    def _described(self, text: str) -> str:
        """Return a message of the parser with lines instead of its own numbers of conditions."""
        return visible(POLICY_ID.sub(lambda found: f"the condition in line {self._line(int(found[1]))}", text))


def _reads_windows(reads: Reads) -> bool:
    return any(reads.has("used", window) for window in COUNTED_WINDOWS)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line, from 1, on which each condition begins, and its text."""
    start: int | None = None
    line, counted = 1, 0
    for token in _STATEMENT.finditer(text):
        if start is None and (token["end"] or token["start"] or token[0][0] == '"'):
            start = token.start()
            line += text.count("\n", counted, start)
            counted = start
        if start is not None and token["end"]:
            yield line, text[start : token.end()]
            start = None
    if start is not None:
        yield line, text[start:]


def _number(policy_id: str) -> int:
    """Return the position of a condition in its file, from 0; -1 if the id names none."""
    found = POLICY_ID.fullmatch(policy_id)
    return int(found[1]) if found else -1


def _known(fact: T | None) -> T:
    if fact is None:
        raise Unconvertible("what its conditions need to know is not known here")
    return fact


def _succeeded(situation: Situation) -> set[str]:
    return {*_known(_known(situation.facts).succeeded), *(one.tool_name for one in situation.earlier if one.succeeded)}


def _attempted(situation: Situation) -> set[str]:
    facts = _known(situation.facts)
    return {*_known(facts.attempted), *(facts.succeeded or ()), *(one.tool_name for one in situation.earlier if one.attempted)}


def _actions(names: set[str]) -> list[dict[str, Any]]:
    return [{"__entity": {"type": "Action", "id": name}} for name in sorted(names)]


def _time(facts: Facts) -> Iterator[tuple[str, Any]]:
    now = facts.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    yield "now", {"__extn": {"fn": "datetime", "arg": now}}
    yield "hour", facts.hour
    yield "weekday", facts.weekday


def _length(value: Any, name: str) -> int:
    return 0 if value is None else len(values.items(value, name))


@lru_cache(maxsize=1024)
def _entities(user_id: str, roles: tuple[str, ...], action: str, groups: tuple[str, ...]) -> Entities:
    # Without the entity of the action, a condition on a group would silently not match.
    found = [_entity("User", user_id, "Role", roles), _entity("Action", action, "Action", groups)]
    return Entities.from_json_str(json.dumps(found))


def _entity(kind: str, name: str, parent: str, parents: Sequence[str]) -> dict[str, Any]:
    found = [{"type": parent, "id": one} for one in parents]
    return {"uid": {"type": kind, "id": name}, "attrs": {}, "parents": found}

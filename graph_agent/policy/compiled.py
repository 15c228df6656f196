"""The compiled policy: each grant of the constitution joined with the declaration and traits of its tool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from graph_agent.errors import ConfigurationError, ConstitutionError, ToolDefinitionError, ToolGrantError
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.rules_digests import RulesDigests
from graph_agent.models.tools import ToolTraits, Transport
from graph_agent.policy import outcome_reads, sentence_check, undo
from graph_agent.policy.cedar.compiled import Conditions, compile_conditions
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.constitution import Constitution, ToolGrant
from graph_agent.policy.facts import Fact, ordered
from graph_agent.policy.key_location import KeyLocation, KeyPlace
from graph_agent.policy.operation_key import KeyArgumentError, OperationKey
from graph_agent.policy.schema.check import ArgumentCheck
from graph_agent.policy.schema.keywords import SchemaRefusedError, walk
from graph_agent.policy.schema.upgrade import upgraded
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.reply.text import visible

MAX_DESCRIPTION = 16 * 1024
"""Limit for a tool's description in characters, because it is part of every prompt."""

ONE_SERVER = "tools"
"""The server that conditions see where tools have none, as functions of an application."""

MAX_TITLE = 200
"""Limit for a tool's title in characters, because it is part of questions and receipts."""

_TRANSPORTS = {
    KeyPlace.ARGUMENT: (None, *Transport),
    KeyPlace.HEADER: (Transport.HTTP,),
    KeyPlace.META: tuple(Transport),
}
"""The ways to a server for each place of an operation key."""


@dataclass(frozen=True)
class CompiledPolicy:
    """A constitution and the rule of each granted tool; compiled once for many turns."""

    constitution: Constitution
    rules: Mapping[str, ToolRule]
    unavailable: Mapping[str, str | None] = field(default_factory=dict)
    """The granted tools that cannot be called now, and why: None if their server does not serve them now.

    The model sees them, and each call is refused with the reason.
    """
    servers: Mapping[str, str] = field(default_factory=dict)
    """The server of each tool; a tool that is not in it belongs to `ONE_SERVER`."""
    conditions: Conditions | None = None
    """The conditions of `policy.cedar`, if there is such a file."""

    @cached_property
    def actions(self) -> list[ToolAction]:
        """The tools as conditions see them."""
        return [
            ToolAction.of(
                name,
                self.servers.get(name, ONE_SERVER),
                rule.declaration.parameters,
                writes=rule.mutating,
                output=rule.traits.output,
                bound_argument=rule.grant.bound_argument,
                gives_facts=rule.grant.trusted_results or not rule.traits.untrusted,
            )
            for name, rule in self.rules.items()
        ]

    def unused_facts(self) -> Iterator[str]:
        """Yield, with its line, each fact of the constitution that neither a condition, a marker nor another fact names."""
        facts = self.constitution.facts
        named: set[str] = set()
        if self.conditions is not None:
            named |= {fact.name for fact in self.conditions.gathers.results.order} | self.conditions.source_facts
        for rule in self.rules.values():
            named |= rule.grant.facts
        used = {one.name for one in ordered(facts, named & facts.keys())}
        for fact in facts.values():
            if fact.name not in used:
                yield str(ConstitutionError(f"nothing names the fact '{fact.name}'", fact.line))

    def with_facts(self, facts: Mapping[str, Fact]) -> CompiledPolicy:
        """Return this policy with more facts, as if its constitution declared them."""
        return replace(self, constitution=replace(self.constitution, facts={**self.constitution.facts, **facts}))

    def with_conditions(self, file: ConditionsFile, recorded: str | None = None) -> CompiledPolicy:
        """Return this policy with the conditions of `file`. `recorded` is the text of a record that they come from.

        Raises `ConfigurationError` if they cannot be read.
        """
        return replace(self, conditions=compile_conditions(file, self.actions, self.constitution.facts, recorded))

    @property
    def declarations(self) -> list[ToolDeclaration]:
        """The tool declarations for the model, in the order of the constitution."""
        return [
            rule.declaration if (rule := self.rules.get(grant.name)) else _unavailable(grant, self.unavailable[grant.name])
            for grant in self.constitution.grants
            if grant.name in self.rules or grant.name in self.unavailable
        ]

    def titles_of(self, tool_name: str) -> tuple[str, ...]:
        """Return the titles of a tool, in the constitution and at its server; none of an unknown tool."""
        rule = self.rules.get(tool_name)
        return (rule.grant.title, rule.traits.title or "") if rule is not None else ()

    def is_write(self, tool_name: str) -> bool:
        """True if the tool `tool_name` is granted and may change something."""
        rule = self.rules.get(tool_name)
        return rule is not None and rule.mutating

    def counts(self, tool_name: str) -> bool:
        """True if a condition, also one in the shadow, reads how much the calls of this tool use in an hour or a day."""
        return self.conditions is not None and self.conditions.gathers.counts(tool_name)

    def limits_per_message(self) -> list[str]:
        """Return the rules that count the calls of a message, each with its tools and its place."""
        grants = [(rule.grant.max_per_message, name, rule.grant.line) for name, rule in self.rules.items()]
        found = [f"{name}: at most {limit} per message (constitution, line {line})" for limit, name, line in grants if limit]
        if (conditions := self.conditions) is not None:
            counting = {name for names in conditions.of_messages.values() for name in names}
            limits = [one for one in conditions.described() if one.name in counting]
            found += [f"{', '.join(one.tools)}: {one.name} ({conditions.file.name}, line {one.line})" for one in limits]
        return found

    def digests(self, tools: Iterable[str]) -> RulesDigests:
        """Return the digests of the rules about calls of `tools`. One that cannot be called now has none."""
        return RulesDigests(
            constitution=digest(self.constitution.text),
            conditions=None if self.conditions is None else self.conditions.digest,
            tools={name: self._definition_digest(name) for name in tools if name in self.rules},
        )

    def differences(self, asked: RulesDigests) -> list[str]:
        """Return which rules differ from those of a question: "constitution" and "conditions", or else the names of tools.

        A tool that is unavailable differs in nothing that is known; its call is refused.
        """
        own = self.digests(asked.tools)
        files = {"constitution": own.constitution != asked.constitution, "conditions": own.conditions != asked.conditions}
        tools = [name for name, known in asked.tools.items() if name not in self.unavailable and own.tools.get(name) != known]
        return [name for name, differs in files.items() if differs] or tools

    def _definition_digest(self, tool_name: str) -> str:
        # Only conditions see the server of a tool, and only their text has it in a record.
        server = None if self.conditions is None else self.servers.get(tool_name, ONE_SERVER)
        return digest([self.rules[tool_name].definition_json(), server])

    def tools_json(self) -> list[dict[str, Any]]:
        """Return declarations and traits as plain JSON, which a replay needs in addition to the constitution."""
        rules = [rule.definition_json() for rule in self.rules.values()]
        # Without the usual reason: whether a tool is listed as unavailable decides, and the text may be improved.
        reasons = {name: {} if why is None else {"reason": why} for name, why in self.unavailable.items()}
        return [*rules, *({"unavailable": name, **reasons[name]} for name in sorted(reasons))]


def _unavailable(grant: ToolGrant, reason: str | None) -> ToolDeclaration:
    return ToolDeclaration(
        name=grant.name,
        description=f"Unavailable: {'its server does not serve it now' if reason is None else reason}. {grant.title}",
        parameters={"type": "object", "properties": {}},
    )


def compile_policy(
    constitution: Constitution,
    declarations: Iterable[ToolDeclaration],
    traits: Mapping[str, ToolTraits],
    *,
    partial: bool = False,
    unavailable: Mapping[str, str | None] = MappingProxyType({}),
    servers: Mapping[str, str] = MappingProxyType({}),
) -> CompiledPolicy:
    """Join the constitution's grants with the declarations of the servers.

    Tools that are served but not listed are left out. Raises `ConfigurationError` for a tool that is listed but not served,
    unless it is `unavailable` (with `partial` it is left out). Raises `ToolDefinitionError` for a description or schema that
    exceeds the limits, and `ToolGrantError` for markers that contradict what the server declares. `servers` has the server of
    each tool.
    """
    served = {declaration.name: declaration for declaration in declarations}
    missing = [name for name in constitution.whitelist if name not in served and name not in unavailable]
    if missing and not partial:
        raise ConfigurationError(f"the constitution lists tools that no server serves: {', '.join(missing)}")
    rules = {}
    names = frozenset(constitution.whitelist)
    for grant in constitution.grants:
        declaration = served.get(grant.name)
        if declaration is None:
            continue
        try:
            # Canonical: the order of keys decides which violation is reported first, and a replay has to report the same one.
            schema = canonical_json(declaration.parameters)
        except (ValueError, TypeError, RecursionError):
            raise ToolDefinitionError(grant.name, f"the input schema of the tool '{grant.name}' is not plain JSON") from None
        _check_of(grant.name, schema)
        declared = traits.get(grant.name, ToolTraits())
        _require_readable(grant.name, "title", declared.title or "", MAX_TITLE)
        _require_readable(grant.name, "description", declaration.description, MAX_DESCRIPTION)
        _require_readable(grant.name, "input schema", schema, len(schema))
        _require_consistent_markers(grant, declared)
        bound = grant.bound_argument
        if bound is not None and bound not in declaration.parameters.get("properties", {}):
            raise ToolGrantError(grant.name, f"the tool '{grant.name}' has no argument '{bound}' to bind to the user")
        key = _operation_key(grant, declaration, declared)
        shown = declaration if key is None else key.hidden_in(declaration)
        check = _check_of(grant.name, canonical_json(shown.parameters))
        by_user = _declares_user_id(shown.parameters)
        rules[grant.name] = ToolRule(grant, shown, declared, check, declaration, key, by_user, names)
    for name, rule in rules.items():
        for granted, marker in _named_tools(rule.grant):
            if granted not in names:
                raise ToolGrantError(name, f"the tool '{name}' has ({marker}), and {granted} is not granted")
        if problem := outcome_reads.problem_of(rule.grant, rules, servers) or undo.problem_of(rule.grant, rules, servers):
            raise ToolGrantError(name, f"the tool '{name}' {problem}")
        if problem := sentence_check.problem_of(rule, rules, servers):
            raise ToolGrantError(name, str(ConstitutionError(f"the sentence of the tool '{name}' {problem}", rule.grant.line)))
    absent = {name: why for name, why in unavailable.items() if name in constitution.whitelist and name not in rules}
    return CompiledPolicy(constitution, rules, absent, servers)


def _named_tools(grant: ToolGrant) -> Iterator[tuple[str, str]]:
    """Yield the tools that the markers of a line name, each with the words before it."""
    if grant.done_if is not None:
        yield grant.done_if.tool, f"done if {grant.done_if.fact}"
    if grant.undone_by is not None:
        yield grant.undone_by.tool, "undone by ..."
        if grant.undone_by.before is not None:
            yield grant.undone_by.before.tool, "undone by ..."
    for read in grant.reads_for_sentence:
        for name, _ in read.said:
            yield read.tool, name


def _operation_key(grant: ToolGrant, declaration: ToolDeclaration, traits: ToolTraits) -> OperationKey | None:
    if (location := grant.key) is None:
        return None
    tool = f"the tool '{grant.name}'"
    if traits.read_only or traits.ledger:
        why = "only reads" if traits.read_only else "has the operation key already: its server keeps a ledger"
        raise ToolGrantError(grant.name, f"{tool} {why}: its line cannot have (operation key in {location})")
    if traits.transport not in _TRANSPORTS[location.place]:
        raise ToolGrantError(grant.name, f"{tool} takes no {location.place} for the operation key: {_reached(traits)}")
    if location == KeyLocation(KeyPlace.ARGUMENT, grant.bound_argument or ""):
        raise ToolGrantError(grant.name, f"the argument '{location}' of {tool} cannot be the user and the operation key")
    try:
        return OperationKey.of(location, declaration.parameters)
    except KeyArgumentError as exc:
        raise ToolGrantError(grant.name, f"{tool} {exc}") from None


def _reached(traits: ToolTraits) -> str:
    return "its server is no MCP server" if traits.transport is None else f"its server is reached over {traits.transport}"


def _require_readable(tool: str, what: str, text: str, limit: int) -> None:
    """Refuse a text that is too long, or that shows a person something else than a model reads."""
    if len(text) > limit:
        raise ToolDefinitionError(tool, f"the {what} of the tool '{tool}' is too long for a prompt")
    text = text.replace("\r\n", "\n")
    if visible(text) != text:
        raise ToolDefinitionError(tool, f"the {what} of the tool '{tool}' contains hidden or bidirectional characters")


def _declares_user_id(schema: dict[str, Any]) -> bool:
    """True if `schema` declares a property `user_id`, at any depth."""
    return any("user_id" in part.get("properties", ()) for _, part in walk(upgraded(schema)))


def _require_consistent_markers(grant: ToolGrant, traits: ToolTraits) -> None:
    tool = f"the tool '{grant.name}'"
    if grant.reads and not traits.read_only and (traits.destructive or traits.ledger):
        problem = f"the constitution marks {tool} with (reads), but its server says that it writes"
        raise ToolGrantError(grant.name, problem)
    harmless = traits.destructive is False or (traits.destructive is None and (grant.reads or traits.read_only))
    if grant.requires_confirmation or grant.without_confirmation or harmless:
        return
    needed = "its line in the constitution needs (requires confirmation) or (without confirmation)"
    if traits.destructive:
        raise ToolGrantError(grant.name, f"the server marks {tool} as destructive: {needed}")
    raise ToolGrantError(grant.name, f"the server of {tool} is not trusted: {needed}, or (reads)")


@lru_cache(maxsize=256)
def _check_of(name: str, schema: str) -> ArgumentCheck:
    """Return the argument check of a schema text. Cached, because it takes milliseconds and policies are compiled often."""
    try:
        return ArgumentCheck(schema)
    except SchemaRefusedError as exc:
        raise ToolDefinitionError(name, f"the input schema of the tool '{name}' {exc}") from exc

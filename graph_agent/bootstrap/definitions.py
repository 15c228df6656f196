"""The files that an operator keeps about MCP servers: the pinned definitions, and a constitution for their tools."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from graph_agent.bootstrap.database_rules import conditions_of, pins_of
from graph_agent.bootstrap.plan_bounds import plan_bounds
from graph_agent.bootstrap.proposed_facts import proposed_facts
from graph_agent.bootstrap.rule_settings import constitution_of
from graph_agent.bootstrap.toolbox import checked_tools, connect, lock_file_of, open_tools
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError, ConstitutionError
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.cedar.fact_problems import problem_of
from graph_agent.policy.cedar.schema import ToolAction, is_group
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import SECTION, Constitution, require_readable, sentence_line
from graph_agent.policy.counted import counts_of
from graph_agent.policy.fact_lines import FACTS_SECTION
from graph_agent.policy.facts import Fact, FactKind, Source
from graph_agent.policy.operation_key import takes_key
from graph_agent.policy.sentence import ARGUMENTS, PREVIEW, escaped
from graph_agent.policy.sentence_check import is_number
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.policy.undo import in_words
from graph_agent.reply.text import one_line
from graph_agent.settings import Settings
from graph_agent.tools.server_group import Claims, McpServerGroup
from graph_agent.words.examples import example_of
from graph_agent.words.reasons import NOT_SERVED
from graph_agent.words.values import label, lowered

_SUMMARY_CHARS = 100
_MOST_VALUES = 4
_SAID_TYPES = ("string", "number", "integer", "boolean")
_PLACE = re.compile("[A-Za-z_][A-Za-z0-9_-]*")
_NO_MARKUP = str.maketrans("<>", "()")

_CLOSED = (
    "<!-- add (trusted results) where nobody but the user, the operator or the service itself writes what a tool returns; by "
    "their server, these work on its own data only: {names} -->"
)
_HINTED = (
    "<!-- the server '{server}' says that these only read; nothing checks it. Where you believe it, write (reads) instead of "
    "(requires confirmation): {names} -->"
)
_ONLY_READS = "its server says that it only reads"
_TEMPLATE = Path(__file__).with_name("new_constitution.md")


async def pin_tools(settings: Settings, database: Database) -> tuple[Path, int]:
    """Write the lock file beside the constitution; return its path and the number of tools. Raises `ConfigurationError`."""
    file = _lock_file(settings)
    async with open_tools(database, settings) as tools:
        await connect(tools)
        pins = tools.pins()
    pins.save(file)
    return file, sum(map(len, pins.servers.values()))


async def diff_tools(settings: Settings, database: Database) -> list[str]:
    """Return one line for each tool that differs from the lock file. Raises `ConfigurationError` if there is none."""
    pinned = pins_of(settings)
    if pinned is None:
        raise ConfigurationError(f"there is no lock file {_lock_file(settings)}: `graph-agent tools pin` writes it")
    async with open_tools(database, settings) as tools:
        await connect(tools)
        return pinned.differences(tools.pins())


async def draft_constitution(settings: Settings, database: Database) -> tuple[str, dict[str, str]]:
    """Return a constitution with every tool that the servers list, and the tools that cannot be granted, with the reason.

    Every tool requires confirmation, but for those that a trusted server declares as a read. What another server says about its
    tools is only shown, as a comment, also which ones only read. Raises `ConfigurationError`.
    """
    granted: list[_Granted] = []
    closed, left_out = [], {}
    hinted: defaultdict[str, list[str]] = defaultdict(list)
    actions: list[ToolAction] = []
    async with open_tools(database, settings) as tools:
        await connect(tools)
        for tool in tools.declarations():
            claims = tools.claims(tool.name)
            assert claims is not None
            # With several servers a name says whose it is, so that no other server can take it over.
            name = tool.name if len(tools.executors) == 1 else f"{claims.server.name}.{claims.tool}"
            if is_group(name):
                left_out[name] = "conditions would take its name for a group of tools"
                continue
            try:
                alone = Constitution.parse(f"{SECTION}\n{_draft_line(name, claims)}\n")
                policy = compile_policy(alone, [tool.replace(name=name)], {name: tools.traits(tool.name)})
            except ConfigurationError as exc:
                left_out[name] = str(exc)
            else:
                actions += policy.actions
                closed += [name] if claims.server.trusted and claims.hints.get("openWorldHint") is False else []
                if claims.reads and not claims.server.trusted and not claims.hints.get("destructiveHint"):
                    hinted[claims.server.name].append(name)
                traits = tools.traits(tool.name)
                comments = [*_key_comments(tool, traits), *_money_comments(tool, traits), *_read_comments(tool, claims, tools)]
                granted.append(_Granted(name, claims, tool.parameters, tools.traits(tool.name).preview, comments))
    if not granted:
        raise ConfigurationError("no tool of these servers can be granted")
    facts = proposed_facts(actions)
    names = {fact.name for fact in facts}
    drafted = [line for one in granted for line in (_draft_line(one.name, one.claims, _values_said(one, names)), *one.comments)]
    said = [_HINTED.format(server=server, names=", ".join(names)) for server, names in hinted.items()]
    declared = ["", FACTS_SECTION, *(fact.declaration for fact in facts)] if facts else []
    grants = [*drafted, *said, *([_CLOSED.format(names=", ".join(closed))] if closed else []), *declared]
    text = _TEMPLATE.read_text(encoding="utf-8").format(grants="\n".join(grants))
    return require_readable(text, "constitution"), left_out


class _Granted(NamedTuple):
    """A tool that a new constitution grants."""

    name: str
    claims: Claims
    schema: Mapping[str, Any]
    """The schema of its arguments."""
    has_preview: bool
    """True if its server describes the object of a call."""
    comments: Sequence[str]
    """The comments below its line."""


def _values_said(granted: _Granted, facts: Collection[str]) -> str:
    """Return how the sentence of a change goes on: with the object, and the plain arguments that every call has, by label.

    Other arguments are rows below the sentence.
    """
    properties, required = granted.schema.get("properties"), granted.schema.get("required", ())
    if not isinstance(properties, dict) or (granted.claims.server.trusted and granted.claims.reads):
        return ""
    plain = [name for name, one in properties.items() if isinstance(one, dict) and _is_plain(one)]
    usable = [name for name in plain if name in required and _PLACE.fullmatch(name) and not takes_key(name, granted.schema)]
    said, *others = usable[:_MOST_VALUES] or [""]
    if said and granted.has_preview:
        start = f" {{{PREVIEW} or {said}}}"
    else:
        start, others = "", usable[:_MOST_VALUES]
    # These names would be read as those of something else.
    taken = {*facts, PREVIEW, ARGUMENTS}
    values = (f"{lowered(label(name))} {{{f'{ARGUMENTS}.{name}' if name in taken else name}}}" for name in others)
    return f"{start}{': ' if others else ''}{', '.join(values)}"


def _is_plain(declared: Mapping[str, Any]) -> bool:
    """True for a value that a sentence can say, also one of several such types: a `Decimal` is a number or a text."""
    alternatives = declared.get("anyOf", [declared])
    types = [one.get("type") if isinstance(one, dict) else None for one in alternatives]
    named = [one for each in types for one in (each if isinstance(each, list) else [each])]
    return bool(named) and all(one in _SAID_TYPES for one in named)


def _key_comments(tool: ToolDeclaration, traits: ToolTraits) -> list[str]:
    """Return a comment for each argument that can have the operation key: no schema says what the server does with it."""
    properties = tool.parameters.get("properties")
    if traits.read_only or traits.ledger or not isinstance(properties, dict):
        return []
    names = [name for name in properties if takes_key(name, tool.parameters)]
    return [
        f"<!-- if a key takes effect once at this server, add (operation key in {name}) to the line above -->" for name in names
    ]


def _money_comments(tool: ToolDeclaration, traits: ToolTraits) -> list[str]:
    """Return a comment for each argument of a change that counts money: no schema says its currency."""
    properties = tool.parameters.get("properties")
    if traits.read_only or not isinstance(properties, dict):
        return []
    names = [
        name for name, one in properties.items() if _PLACE.fullmatch(name) and counts_of(name) == "money" and is_number(one)
    ]
    return [
        f"<!-- if {name} is an amount of money, write {{{name} as EUR}} with its currency in the sentence above; "
        f"{{{name} as EUR/100}} if it is in hundredth parts -->"
        for name in names
    ]


def _read_comments(tool: ToolDeclaration, claims: Claims, tools: McpServerGroup) -> list[str]:
    """Return a comment for each read of the same server that takes the same reference as a change."""
    traits, own = tools.traits(tool.name), tool.parameters.get("properties")
    if traits.read_only or traits.ledger or claims.reads or not isinstance(own, dict):
        return []
    found = []
    for reader in tools.declarations():
        of_reader = tools.claims(reader.name)
        if of_reader is None or of_reader.server is not claims.server or not of_reader.reads:
            continue
        accepted, required = reader.parameters.get("properties"), reader.parameters.get("required", [])
        names = [name for name in accepted or () if name in own and takes_key(name, tool.parameters)]
        found += [(of_reader, name) for name in names if set(required) <= {name}]
    prefixed = len(tools.executors) > 1
    named = [(f"{read.server.name}.{read.tool}" if prefixed else read.tool, name) for read, name in found]
    return [
        f"<!-- if {read} finds what was done, declare the fact `- done: {read}({name} = arguments.{name})` in a section "
        f"{FACTS_SECTION}, and add (done if done PATH) to the line above -->"
        for read, name in named
    ]


def _draft_line(name: str, claims: Claims, said: str = "") -> str:
    """Return the line of a tool. `said` is how its sentence goes on, with places for values."""
    says = [_first_sentence(text) for text in (claims.title, claims.description) if text]
    if claims.server.trusted:
        summary = (says or [claims.tool])[0].removesuffix(".")
        return sentence_line(name, escaped(summary) + said, "(reads)" if claims.reads else "(requires confirmation)")
    says += [_ONLY_READS] if claims.reads else []
    says += [f"{hint}: {json.dumps(value)}" for hint, value in claims.hints.items() if not (hint == "readOnlyHint" and value)]
    comment = f"the server '{claims.server.name}' says: {'; '.join(says) or 'nothing'}".translate(_NO_MARKUP)
    summary = re.sub(r"[^A-Za-z0-9]+", " ", claims.tool).strip().capitalize() or claims.tool
    return f"<!-- {comment} -->\n{sentence_line(name, escaped(summary) + said, '(requires confirmation)')}"


async def explain_constitution(settings: Settings, database: Database) -> tuple[list[str], list[str]]:
    """Return what each line of the constitution permits and promises, then what it leaves out; and the problems of the servers.

    Raises `ConfigurationError`.
    """
    constitution = constitution_of(settings)
    async with open_tools(database, settings, constitution) as tools:
        policy, problems = await checked_tools(constitution, tools, conditions_of(settings))
        lines = [*_explained(policy, tools), *_facts_read(policy), *_left_out(policy, tools)]
        return lines, [*problems, *_unreadable_facts(policy)]


def _explained(policy: CompiledPolicy, tools: McpServerGroup) -> Iterator[str]:
    for grant in policy.constitution.grants:
        rule, claims = policy.rules.get(grant.name), tools.claims(grant.name)
        if rule is None or claims is None:
            yield f"line {grant.line}: {grant.name} is unavailable: {policy.unavailable.get(grant.name) or NOT_SERVED}"
            continue
        yield f"line {grant.line}: {grant.name} (server '{claims.server.name}') {', '.join(_promises(rule, claims))}"
        if example := example_of(rule):
            yield f"line {grant.line}: {grant.name} is said as, for example: {example}"


def _promises(rule: ToolRule, claims: Claims) -> list[str]:
    grant = rule.grant
    if not rule.mutating:
        promises = ["only reads: it may run any number of times and leaves no receipt"]
        if not claims.server.trusted:
            promises.append(
                f"(reads) rests on {'a hint of the server' if claims.reads else 'this line'} alone: nothing checks it"
            )
    elif rule.traits.ledger:
        promises = ["changes something exactly once: its server keeps a ledger"]
    elif rule.key is not None:
        promises = [f"changes something exactly once, as its server promises for the operation key in {rule.key.location}"]
    elif grant.done_if is not None:
        promises = [f"changes something at most once in a turn: an unknown outcome is looked up by {grant.done_if.tool}"]
    else:
        promises = ["changes something at most once in a turn: an unknown outcome stays unknown, because there is no ledger"]
    if grant.requires_confirmation:
        promises.append("and needs the user's yes")
    elif rule.mutating:
        promises.append("without asking the user")
    if (undone_by := grant.undone_by) is not None:
        compared = "if its object is as it was left" if undone_by.restored else "also what others have changed since"
        promises.append(f"undone by {undone_by.tool} for {in_words(undone_by.lifetime)}, after the user's yes, {compared}")
    if grant.max_per_message is not None:
        promises.append(f"at most {grant.max_per_message} times per message")
    if grant.in_plans is not None:
        promises.append(f"and a plan that the user has agreed to may cover it ({', '.join(plan_bounds(rule))})")
    if grant.trusted_results:
        promises.append("and its results are trusted: nobody but the user, the operator or the service writes them")
    if grant.bound_argument is not None:
        promises.append(f"with '{grant.bound_argument}' set to the signed-in user")
    return promises


def _facts_read(policy: CompiledPolicy) -> Iterator[str]:
    """Yield which facts the runtime reads for the calls of each tool, when, and what they cost."""
    results = None if policy.conditions is None else policy.conditions.gathers.results
    for grant in policy.constitution.grants:
        needed = () if results is None else results.of_tool.get(grant.name, ())
        reads = [fact for fact in needed if fact.kind is FactKind.READ]
        if reads:
            calls = " and ".join(f"{fact.tools[0]}{_each(fact)}" for fact in reads)
            yield f"{grant.name} is judged after reading {', '.join(one.name for one in needed)}: calls of {calls}"
        if (undone_by := grant.undone_by) is not None and undone_by.before is not None:
            asked = {(fact.tools[0], tuple((name, str(source)) for name, source in fact.parameters)) for fact in reads}
            own = undone_by.before.tool, tuple((name, f"arguments.{one}") for name, one in undone_by.before.parameters)
            when = "after each change, and what its conditions have read" if own in asked else "before and after each change"
            yield f"{grant.name} is undone by what was read: calls of {undone_by.before.tool} {when}"
        if grant.done_if is not None:
            yield f"{grant.name} is looked up as {grant.done_if.fact} after a lost answer: calls of {grant.done_if.tool}"
    yield from policy.unused_facts()


def _unreadable_facts(policy: CompiledPolicy) -> Iterator[str]:
    """Yield, with its line, each fact that does not fit the tools. What a server that is away would say is not known."""
    actions = {one.name: one for one in policy.actions}
    for fact in () if policy.unavailable else policy.constitution.facts.values():
        if (why := problem_of(fact, actions)) is not None:
            yield str(ConstitutionError(f"the fact '{fact.name}': {why}", fact.line))


def _each(fact: Fact) -> str:
    """Return for which elements a read is made, if it is made more than once."""
    lists = [Source(one.root, one.each) for _, one in fact.parameters if one.each is not None]
    return f" (one for each of {lists[0]})" if lists else ""


def _left_out(policy: CompiledPolicy, tools: McpServerGroup) -> list[str]:
    names = [name for name in tools.get_available_tools() if name not in policy.rules]
    return [f"not listed, so never called: {', '.join(names)}"] if names else []


def _lock_file(settings: Settings) -> Path:
    if (file := lock_file_of(settings)) is None:
        raise ConfigurationError("tools are pinned for a file of servers and a constitution: give --mcp and --constitution")
    return file


def _first_sentence(text: str) -> str:
    """Return the first sentence of a server's text, as it fits between double quotes."""
    first = text.strip().split("\n")[0].partition(". ")[0]
    return one_line(first, _SUMMARY_CHARS).replace('"', "'") or "No description"

"""The conditions file of an installation: a draft for its tools, the generated schema, and an explanation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from graph_agent.bootstrap.database_rules import conditions_of, pins_of
from graph_agent.bootstrap.plan_bounds import plan_bounds
from graph_agent.bootstrap.proposed_facts import proposed_facts
from graph_agent.bootstrap.rule_settings import constitution_of
from graph_agent.bootstrap.settings_lines import settings_of_file
from graph_agent.bootstrap.source_rules import draft_source_rules, explained_sources, targets_without_rule
from graph_agent.bootstrap.toolbox import checked_tools, served_policy
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError
from graph_agent.models.canonical import digest
from graph_agent.policy.cedar.schema import ToolAction, attribute, quoted
from graph_agent.policy.cedar.syntax import MAX_ID
from graph_agent.policy.cedar.types import Kind
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.constitution import require_readable
from graph_agent.policy.tool_rule import EffectProof
from graph_agent.reply.text import one_line
from graph_agent.settings import Settings
from graph_agent.tools.pinned_server import PinnedServer
from graph_agent.tools.server_file import AnyVariables, ServerConfig, read_server_file
from graph_agent.tools.server_group import McpServerGroup

_READ_IN_TEXTS = {"bool": "truth value", "long": "number", "decimal": "number"}
_CLOSING = """
@id("unseen details need a yes")
forbid (principal, action in Action::"all writes", resource)
unless { context.hidden.isEmpty() || context.confirmed };
"""
_FACTS = """\
// A fact is read by the runtime before it judges a call. Add those that a condition names to the constitution:
// ## Facts
"""
_HEAD = """\
// Conditions in Cedar (https://docs.cedarpolicy.com) for the tools of the constitution.
// A call runs only if the constitution lists its tool and these conditions permit it. A forbid always wins over a permit.
// A forbid with `unless { context.confirmed }` means: the user is asked first. The @id is the reason that the user reads.

{facts}@id("what the constitution lists")
permit (principal, action, resource);
{closing}
// Examples with your tools: remove the slashes of one that you need, and change its values.
"""


async def load_policy(settings: Settings, database: Database) -> CompiledPolicy:
    """Return the policy for the tools that are served now. Raises `ConfigurationError` if a server does not answer."""
    policy, problems = await served_policy(settings, database)
    if problems:
        raise ConfigurationError("; ".join(problems))
    return policy


async def load_accepted_policy(settings: Settings, database: Database) -> CompiledPolicy:
    """Return the policy for the tools as the lock file has them; without one, for those that are served now.

    While a lock file exists, no other tools can be called, so an analysis needs no server, and no secret of one. Raises
    `ConfigurationError`.
    """
    pins = pins_of(settings)
    if pins is None:
        return await load_policy(settings, database)
    constitution = constitution_of(settings)
    servers = [
        replace(one, server=PinnedServer(pins.servers.get(one.name, {}).values()), credentials=None)
        for one in servers_as_written(settings)
    ]
    tools = McpServerGroup(servers, granted=constitution.whitelist, pins=pins)
    try:
        policy, problems = await checked_tools(constitution, tools, conditions_of(settings))
    finally:
        await tools.aclose()
    if problems:
        raise ConfigurationError("; ".join(problems))
    return policy


def servers_as_written(settings: Settings) -> list[ServerConfig]:
    """Return the servers of the file, with a placeholder for each variable that it names. Raises `ConfigurationError`."""
    return [] if settings.mcp is None else read_server_file(settings.mcp, AnyVariables())


def settings_in(settings: Settings, version: Path) -> Settings:
    """Return the settings with the files of `version`: a folder, a constitution (`.md`) or conditions.

    A folder may have settings too. Raises `ConfigurationError`.
    """
    update: dict[str, Any]
    if version.is_dir():
        files = {
            "constitution": "constitution.md",
            "conditions": "policy.cedar",
            "mcp": "servers.json",
            "approver_keys": "allowed_signers",
        }
        update = settings_of_file(version / "settings.env") if (version / "settings.env").exists() else {}
        update |= {name: version / file for name, file in files.items() if (version / file).exists()}
    else:
        update = {"constitution" if version.suffix == ".md" else "conditions": version}
    return settings.model_copy(update=update)


def draft_conditions(actions: Sequence[ToolAction], roles: Sequence[str], facts: Collection[str] = ()) -> str:
    """Return the text of a file that permits what the constitution lists, with commented examples.

    `facts` are those that the constitution declares. Raises `ConfigurationError` for more tools than one file can have.
    """
    examples = "\n".join(
        "\n".join(f"// {line}" for line in example.split("\n")) + "\n" for example in _examples(actions, roles)
    )
    # Cedar refuses a condition on a group without a tool.
    closing = _CLOSING if any(action.writes for action in actions) else ""
    declared = "".join(f"// {fact.declaration}\n" for fact in proposed_facts(actions) if fact.name not in facts)
    head = _HEAD.replace("{closing}", closing + draft_source_rules(actions)).replace(
        "{facts}", declared and f"{_FACTS}{declared}\n"
    )
    return require_readable(f"{head}\n{examples}", "conditions file")


def explained_conditions(policy: CompiledPolicy) -> Iterator[str]:
    """Yield what the conditions say about each tool, what they cannot see, and what may not do what it seems to.

    Raises `ConfigurationError` if there is no conditions file.
    """
    if (conditions := policy.conditions) is None:
        raise ConfigurationError("there is no conditions file: give --conditions FILE; `graph-agent policy new` prints one")
    file, described = conditions.file, conditions.described()
    shadowed = sum(one.shadow for one in described)
    silent = f", {shadowed} of them in the shadow, which decide nothing" if shadowed else ""
    yield f"{file.name}: {len(described)} conditions{silent}, SHA-256 {digest(file.text)[:12]}"
    for grant in policy.constitution.grants:
        action = conditions.actions.get(grant.name)
        if action is None:
            yield f"{grant.name} is unavailable"
            continue
        about = [
            f"{'(shadow) ' if condition.shadow else ''}{condition.effect} '{condition.name}'"
            for condition in described
            if grant.name in condition.tools
        ]
        marker = "; the constitution asks the user" if grant.requires_confirmation else ""
        yield f"{grant.name} (server '{action.server}'): {', '.join(about) or 'no condition permits it'}{marker}"
        if bounds := list(plan_bounds(policy.rules[grant.name])):
            yield f"  a plan may cover it: {', '.join(bounds)}"
        for fact in conditions.results.of_tool.get(grant.name, ()):
            yield f"  '{fact.name}' is known before each call: {fact.text}"
        for condition_name, name in conditions.impossible_facts(grant.name):
            yield f"  '{condition_name}' names '{name}', which no call of it can have: {conditions.results.declared[name].text}"
        if roles := conditions.approval_roles(grant.name):
            yield f"  approvals count of people with the role {' or '.join(roles)}"
        for path, why in action.arguments.hidden():
            yield f"  conditions cannot see '{path}' ({why})"
        for rule_name, path, seen, others in conditions.partly_seen(grant.name):
            yield f"  '{rule_name}' reads '{path}' only as {_types(seen)}, and not as {_types(others)}{_if_text(seen, others)}"
        for one in action.arguments.fields:
            if one.type.is_numeric and conditions.reads_about(grant.name).name("arguments", one.name):
                yield f"  conditions compare '{one.name}' as text, though its schema describes a number: 5 and 5.0 differ"
        for name, _, required in action.numbers:
            if name in conditions.summed[grant.name] and not required:
                yield f"  a call without '{name}' adds 0 to its sum, whatever the tool takes then"
        if action.open:
            yield "  conditions cannot see arguments that its schema does not declare"
        for name in targets_without_rule(conditions, action):
            yield f"  no condition reads where '{name}' comes from"
    for condition in described:
        if condition.denies_by_like:
            how = "forbids by `like`" if condition.effect == "forbid" else "permits all but what is `like` a pattern"
            yield (
                f"'{condition.name}' in line {condition.line} {how}, which compares exactly: other letters of the same look, "
                "or another case, do not match; a list of what is allowed is safer"
            )
        if condition.denies_by_approvals:
            yield (
                f"'{condition.name}' in line {condition.line} may refuse a call because more people approved it; such a call "
                "waits, and can be refused after the approvals: compare their number by `>=`"
            )
        if not condition.tools:
            yield f"'{condition.name}' in line {condition.line} is about no tool"
    yield from explained_sources(policy)
    yield lost_answers(policy)


def lost_answers(policy: CompiledPolicy) -> str:
    """Return how the outcomes of changes are learned whose answer was lost, as one line."""
    ways = {proof: f"settled by {proof.value}" for proof in EffectProof} | {EffectProof.NONE: "unknown"}
    of = {way: [name for name, rule in policy.rules.items() if rule.proof is proof] for proof, way in ways.items()}
    found = "; ".join(f"{way}: {', '.join(names)}" for way, names in of.items() if names)
    return f"after a lost answer {found}" if found else "no tool changes anything"


def _types(names: Sequence[str]) -> str:
    return " or ".join(names)


def _if_text(seen: Sequence[str], others: Sequence[str]) -> str:
    """Return what happens to a text in place of a number or a truth value that the condition reads."""
    read = [_READ_IN_TEXTS[name] for name in seen if name in _READ_IN_TEXTS]
    return f": a text counts as the {read[0]} that it is, or is refused" if read and "string" in others else ""


def _examples(actions: Sequence[ToolAction], roles: Sequence[str]) -> Iterator[str]:
    writes = [action for action in actions if action.writes] or list(actions)
    numbers = [(one, number) for one in writes for number in one.numbers]
    # The number by which a read finds an object counts nothing.
    references = {fact.argument for fact in proposed_facts(actions)}
    counted, argument = next((found for found in numbers if found[1].name not in references), (None, None))
    some = counted or writes[0]
    if counted is not None and argument is not None:
        amount, total = (f"context.{path}{attribute(argument.name)}" for path in ("arguments", "used.day.sum"))
        given = "" if argument.required else f"context.arguments has {quoted(argument.name)} && "
        if counted.arguments.field(argument.name) != argument:
            # The number is one of the types that the argument may have.
            alternative = argument.type.kind.lower()
            given, amount = f"{given}{amount} has {alternative} && ", f"{amount}.{alternative}"
        large, many = _above(argument.type.kind, amount, 100), _above(argument.type.kind, total, 500)
        yield _example("large amounts need a yes", counted, f"{given}{large}", asks=True)
        yield _example("at most 500 a day", counted, many)
    else:
        yield _example("the second one needs a yes", some, "context.used.message.calls > 1", asks=True)
        yield _example("at most 20 a day", some, "context.used.day.calls > 20")
    role = quoted(roles[0] if roles else "support")
    needs = "" if roles else "\n// needs GRAPH_AGENT_ROLES, such as groups=support"
    yield _example(f"only the role {role[1:-1]}", some, f"!(principal in Role::{role})") + needs
    yield _example("not at night", some, "context.time.hour < 8 || context.time.hour >= 18")
    # Each needs another tool: what has to come before, and what nothing may follow.
    if before := next((one for one in actions if one.name != some.name), None):
        succeeded = f"!context.succeeded.contains(Action::{quoted(before.name)})"
        yield _example(f"only after {before.name}", some, succeeded)
        read = next((one for one in actions if not one.writes and one.name != some.name), before)
        yield _example(f"not after {read.name}", some, f"context.attempted.contains(Action::{quoted(read.name)})")
    for fact in proposed_facts(actions):
        yield from fact.examples()
    addressed = next((one for one in writes if one.texts), None)
    if addressed is not None:
        hosts = f"context.domain{attribute(addressed.texts[0])}"
        yield _example("addresses outside need a yes", addressed, f'!["", "example.com"].containsAll({hosts})', asks=True)


def _example(name: str, action: ToolAction, condition: str, *, asks: bool = False) -> str:
    unless = "\nunless { context.confirmed }" if asks else ""
    scope = f"(principal, action == Action::{quoted(action.name)}, resource)"
    return f"@id({quoted(one_line(name, MAX_ID))})\nforbid {scope}\nwhen {{ {condition} }}{unless};"


def _above(kind: Kind, value: str, limit: int) -> str:
    return f'{value}.greaterThan(decimal("{limit}.0"))' if kind is Kind.DECIMAL else f"{value} > {limit}"

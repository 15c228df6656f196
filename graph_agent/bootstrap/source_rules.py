"""The conditions against instructions in what tools return, written for the tools of an installation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.schema import ToolAction, attribute, quoted
from graph_agent.policy.cedar.syntax import unique_ids
from graph_agent.policy.cedar.types import CedarType, Kind
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.sourced_values import SourceCount, source_count

_PROSE: Final = re.compile(
    "body|captions?|comments?|content|description|details|instructions|location|memo|message|notes?|reason|reply|subject|summary"
    "|text|title|topic|at|date|datetime|day|deadline|due|end|hour|month|start|time|until|when|year"
)
"""The last word in the name of a text or a time, which says neither who gets something, nor which object is meant."""
_ADDRESS: Final = re.compile("domain|endpoint|host|href|links?|site|uri|urls?|webhook|website")
"""The last word in the name of an argument of a read that may carry data out."""
_PAGING: Final = re.compile(
    "(end_|next_|page_|start_)?cursor|field_names|fields|(page_)?limit|max_results|next_token|offset|order_by|page"
    "|page_(count|index|number|size|token)|(per|results_per)_page|sort|sort_(by|order)"
)
"""The names of arguments that say which part of a list is returned, and in which order."""
_MOST_IN_RULE: Final = 20
"""The number of targets that one rule compares: the parser takes only so many operators in sequence."""
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_HEAD: Final = """
// What a tool returns may have been written by anybody, and a model may take it for an order. After a result of a tool without
// "(trusted results)" in the constitution, these arguments must be the user's own words, or the user is asked.
// Read the lists, which were made from the names in the schemas: who gets something, which object, how much. Texts that people
// read and times are in none: their copies ask by the last rule.
"""
_COPIES: Final = """
@id("no copies of foreign texts")
forbid (principal, action in Action::"all writes", resource)
when { context.sources.contains("untrusted") }
unless { context.confirmed };
"""


def targets_of(action: ToolAction) -> tuple[str, ...]:
    """Return the arguments that say who gets something, which object, or how much; of a read, the addresses."""
    fields = [field for name in action.sourced if (field := action.arguments.field(name)) is not None]
    return tuple(
        name
        for name, type_, _ in fields
        if source_count(type_) is not SourceCount.NONE
        and not _is_paging(name, action)
        and _is_target(name, type_, writes=action.writes)
    )


def draft_source_rules(actions: Sequence[ToolAction]) -> str:
    """Return the rules for the tools that may change something; empty if there are none."""
    rules = list(_rules(actions))
    return f"{_HEAD}{''.join(rules)}{_COPIES}" if any(action.writes for action in actions) else ""


def targets_without_rule(conditions: Conditions, action: ToolAction) -> list[str]:
    """Return the targets of a change whose source no condition reads, if conditions read sources at all."""
    if not conditions.reads_sources(conditions.actions):
        return []
    reads = conditions.reads_about(action.name)
    return [name for name in targets_of(action) if not reads.has("source", name)]


def explained_sources(policy: CompiledPolicy) -> Iterator[str]:
    """Yield which results are trusted, and what conditions about sources cannot see, if there are any."""
    if policy.conditions is None or not policy.conditions.reads_sources(policy.rules):
        return
    trusted = [name for name, rule in policy.rules.items() if rule.grant.trusted_results]
    named = f"only those of {', '.join(trusted)}" if trusted else "those of no tool"
    yield f"results: {named} are trusted; after any other one `context.tainted` is true"
    yield (
        "the gateway has only `context.tainted`: its clients send no words of the user, so that after an untrusted result no "
        'argument is the "user"\'s'
    )


def _rules(actions: Sequence[ToolAction]) -> Iterator[str]:
    parts = [(action, part) for action in actions for part in _in_parts(targets_of(action))]
    # Named by the tool alone: a list of its arguments would be longer than an @id may be.
    ids = unique_ids(f"after a foreign text, {_in_words(action.name)} needs your own words" for action, _ in parts)
    for (action, part), name in zip(parts, ids, strict=True):
        of_user = " && ".join(f'["user"].containsAll(context.source{attribute(target)})' for target in part)
        yield (
            f"\n@id({quoted(name)})\nforbid (principal, action == Action::{quoted(action.name)}, resource)\n"
            f"when {{ context.tainted && !({of_user}) }}\nunless {{ context.confirmed }};\n"
        )


def _in_parts(targets: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(targets), _MOST_IN_RULE):
        yield targets[start : start + _MOST_IN_RULE]


def _is_paging(name: str, action: ToolAction) -> bool:
    """True for a part of a list, such as `per_page`; but `limit` of `set_limit` and `page` of `edit_page` are the object."""
    words = _words(name)
    return bool(_PAGING.fullmatch("_".join(words))) and not set(words) & set(_words(action.name))


def _is_target(name: str, type_: CedarType, *, writes: bool) -> bool:
    last = (_words(name) or [""])[-1]
    # Only a text can be prose or a time: a list, a number or an object has several of them, an amount, or parts.
    return (
        (type_.kind not in (Kind.STRING, Kind.VARIANT) or not _PROSE.fullmatch(last))
        if writes
        else bool(_ADDRESS.fullmatch(last))
    )


def _in_words(name: str) -> str:
    """Return the name of a tool as people read it in a question."""
    return " ".join(_words(name)) or name


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]

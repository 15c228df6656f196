"""Sentences for the user about where the arguments of a call come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from graph_agent.models.canonical import canonical_json
from graph_agent.models.sources import CallSources, FoundSource, Source
from graph_agent.policy.argument_parts import places_of
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.fact_errors import UnreadableError
from graph_agent.policy.sourced_values import values_of
from graph_agent.reply.text import exact, one_line, quoted

_MAX_SENTENCES: Final = 6
_MAX_VALUE: Final = 80


def describe_source(policy: CompiledPolicy, found: FoundSource) -> str:
    """Return a source in words: "your words", "a result of 'Recent transactions'" or "the model"."""
    match found.source:
        case Source.USER:
            return "your words"
        case Source.TRUSTED | Source.UNTRUSTED if found.tool is not None:
            rule = policy.rules.get(found.tool)
            return f"a result of {quoted(one_line(rule.title if rule else found.tool), _MAX_VALUE)}"
        case Source.UNTRUSTED:
            return "an earlier reply of the model"
    return "the model"


def describe_origin(policy: CompiledPolicy, given: Sequence[FoundSource], *, by_program: bool) -> str:
    """Return where an argument of a call comes from, as a clause for people other than the user who requested it."""
    own = f"from the requester's {'program' if by_program else 'words'}"
    others = list(dict.fromkeys(_stands(policy, one) for one in given if one.source is not Source.USER))
    if not others:
        return own
    is_mixed = any(one.source is Source.USER for one in given)
    return f"{'only in part' if is_mixed else 'not'} {own}: {' and '.join(others)}"


def warn_of(policy: CompiledPolicy, tool_name: str, arguments: dict[str, Any], sources: CallSources) -> tuple[str, ...]:
    """Return a sentence for each argument that is not the user's, as far as a condition about the tool reads its source."""
    found = list(_sentences(policy, tool_name, arguments, sources))
    left = len(found) - _MAX_SENTENCES
    return (*found[:_MAX_SENTENCES], *([f"{left} more values are not from you."] if left > 0 else []))


def _sentences(policy: CompiledPolicy, tool_name: str, arguments: dict[str, Any], sources: CallSources) -> Iterator[str]:
    if policy.conditions is None:
        return
    reads, action = policy.conditions.reads_about(tool_name), policy.conditions.actions.get(tool_name)
    declared = policy.constitution.facts
    for name, given in sources.arguments.items():
        for one in given if name in arguments else ():
            is_copy = one.source is Source.UNTRUSTED and reads.has("sources")
            if is_copy or reads.has("source", name):
                yield from _sentence(policy, name, [arguments[name]], one)
    for part in () if action is None else action.source_parts:
        if not reads.has("source", part.name) or part.path not in sources.parts:
            continue
        try:
            values = [value for _, value in places_of(declared, declared[part.name], arguments)]
        except UnreadableError:
            values = [arguments[part.argument]]
        for one in sources.parts[part.path]:
            yield from _sentence(policy, part.name, values, one)


def _sentence(policy: CompiledPolicy, name: str, given: Sequence[Any], found: FoundSource) -> Iterator[str]:
    """Yield the sentence about a value of an argument, or of a part of one, that is not the user's."""
    if found.source is Source.USER:
        return
    values = [value for whole in given for _, value, _ in values_of(name, whole)]
    value = values[found.item] if found.item < len(values) else given[0] if len(given) == 1 else list(given)
    shown = quoted(value, _MAX_VALUE) if isinstance(value, str) else exact(canonical_json(value), _MAX_VALUE)
    yield f"{one_line(name)} {shown} is not from you: {_stands(policy, found)}."


def _stands(policy: CompiledPolicy, found: FoundSource) -> str:
    return "the model wrote it" if found.source is Source.MODEL else f"it stands in {describe_source(policy, found)}"

"""Sentences for the user about where the arguments of a call come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from graph_agent.models.canonical import canonical_json
from graph_agent.models.sources import CallSources, FoundSource, Source
from graph_agent.policy.compiled import CompiledPolicy
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
    reads = policy.conditions.reads_about(tool_name)
    for name, given in sources.arguments.items():
        for one in given:
            is_copy = one.source is Source.UNTRUSTED and reads.has("sources")
            if one.source is Source.USER or name not in arguments or not (is_copy or reads.has("source", name)):
                continue
            values = [value for _, value, _ in values_of(name, arguments[name])]
            value = values[one.item] if one.item < len(values) else arguments[name]
            shown = quoted(value, _MAX_VALUE) if isinstance(value, str) else exact(canonical_json(value), _MAX_VALUE)
            yield f"{one_line(name)} {shown} is not from you: {_stands(policy, one)}."


def _stands(policy: CompiledPolicy, found: FoundSource) -> str:
    return "the model wrote it" if found.source is Source.MODEL else f"it stands in {describe_source(policy, found)}"

"""The check of a sentence against the tool of its line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graph_agent.policy.outcome_reads import selection_of
from graph_agent.policy.sentence import ARGUMENTS, PREVIEW, Place
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.policy.undo import problem_of_read

Schema = Mapping[str, Any]


def problem_of(rule: ToolRule, rules: Mapping[str, ToolRule], servers: Mapping[str, str]) -> str | None:
    """Return why the sentence of a line cannot be said of every call, as a clause about it; None if it can.

    A tool that is read for it and is not served now is no problem: then its facts are not said.
    """
    sentence = rule.grant.sentence
    for place in () if sentence is None else sentence.places:
        # An application may bind tools of the shipped list with other arguments.
        if place.optional and rule.traits.transport is None and not _arguments_of(place) <= _declared(rule):
            continue
        if problem := _problem_of_place(place, rule):
            return problem
    for read in rule.grant.reads_for_sentence:
        for name, path in read.said[:1]:
            try:
                selection_of(f"$.{path}", f"{{{name}}}")
            except ImportError:
                return f"says {{{name}}}, which needs the extra 'policy': pip install 'graph-agent[policy]'"
            if problem := problem_of_read(read.tool, read.parameters, f"{{{name}}}", rule, rules, servers):
                return problem
    return None


def _arguments_of(place: Place) -> set[str]:
    own = [place.path.partition(".")[0]] if place.root == ARGUMENTS else []
    return {name for name in (*own, place.other) if name}


def _declared(rule: ToolRule) -> set[str]:
    return {*rule.declaration.parameters.get("properties", {})}


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("default") is not None


def _problem_of_place(place: Place, rule: ToolRule) -> str | None:
    schema, said = rule.declaration.parameters, f"{{{place.text}}}"
    properties = schema.get("properties", {})
    if place.other and place.other not in properties:
        return f"names '{place.other}', and that is no argument of the call"
    if place.other and not _is_always_given(schema, place.other):
        return f"says '{place.other}' where another value is not known, and a call may leave that out too"
    may_be_left_out = bool(place.optional or place.other)
    if place.root != ARGUMENTS:
        if place.root in properties:
            return f"says {said}, and '{place.root}' is an argument too: write {{{ARGUMENTS}.{place.root}}}, or rename the fact"
        if place.root == PREVIEW and not place.other and not rule.traits.preview:
            return f"says {said}, and the server of the tool describes no object: see the operation ledger"
        return None if may_be_left_out else f"says {said}, which may not be known: put it in [...], or add ` or ARGUMENT`"
    at: Any = schema
    for step in place.path.split("."):
        at = at if isinstance(at, dict) else {}
        known = at.get("properties")
        if step not in (known or {}):
            if at is schema or (isinstance(known, dict) and at.get("additionalProperties") is False):
                return f"says {said}, and the call has no such argument"
            at = None
            break
        if not may_be_left_out and not _is_always_given(at, step):
            return f"says {said}, which a call may leave out: put it in [...], or add ` or ARGUMENT`"
        at = known[step]
    if at is None and not may_be_left_out:
        return f"says {said}, which a call may leave out: put it in [...], or add ` or ARGUMENT`"
    if place.money is not None and at is not None and not is_number(at):
        return f"says {said} as {place.money.currency}, and that is no number"
    return None


def _is_always_given(schema: Schema, name: str) -> bool:
    declared = schema.get("properties", {}).get(name)
    return (name in schema.get("required", ()) and not _is_nullable(declared)) or _has_default(declared)


def _is_nullable(schema: Any) -> bool:
    return "null" in _types(schema)


def is_number(schema: Any) -> bool:
    """True if a schema has numbers, also as texts of a pattern or a format."""
    found = _types(schema)
    return not found or bool(found & {"number", "integer", "formatted"})


def _types(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    named = schema.get("type", [])
    found = {named} if isinstance(named, str) else set(named)
    if "string" in found and ("pattern" in schema or "format" in schema):
        found.add("formatted")
    for key in ("anyOf", "oneOf"):
        for one in schema.get(key, ()):
            found |= _types(one)
    return found

"""An example of a sentence, as people will read it: with values from the schema of the tool, before there is any call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from graph_agent.models.tools import ToolResult
from graph_agent.policy.counted import counts_of
from graph_agent.policy.sentence import ARGUMENTS, PREVIEW, Place
from graph_agent.policy.sentence_reads import ReadValues
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.words.said import Known, say
from graph_agent.words.values import by_name, label, lowered

_OBJECT: Final = "what its server describes"
_OF_FORMATS: Final[Mapping[str, Any]] = {
    "date": "2027-01-15",
    "date-time": "2027-01-15T09:30:00Z",
    "email": "ann@example.com",
    "uri": "https://example.com",
    "uuid": "3f0c6a52-8a0e-4e0f-9b60-2f1d4d4c9e11",
}
_OF_TYPES: Final[Mapping[str, Any]] = {"integer": 1, "number": 60, "boolean": True}


def example_of(rule: ToolRule) -> str:
    """Return the sentence of a tool with example values; empty for a line without places."""
    sentence = rule.grant.sentence
    if sentence is None or not sentence.has_places:
        return ""
    schemas = by_name(rule.declaration.parameters)
    given: dict[str, Any] = {}
    read: dict[str, Any] = {}
    for place in sentence.places:
        if place.root == ARGUMENTS:
            name = place.path.partition(".")[0]
            given.setdefault(name, _value(name, schemas.get(name)))
            _fill(given, place.path)
        elif place.is_fact:
            read[place.text] = 60 if place.money else _word(place)
    described = any(place.root == PREVIEW for place in sentence.places) and rule.traits.preview
    seen = ToolResult(success=True, data={"description": _OBJECT}) if described else None
    # What else stands in place of another value that is not known.
    others = {place.other: _value(place.other, schemas.get(place.other)) for place in sentence.places if place.other}
    return say(rule, {**others, **given}, Known(preview=seen, read=ReadValues(said=read))).sentence


def _value(name: str, schema: Any) -> Any:
    """Return an example of a value with this name."""
    declared = schema if isinstance(schema, dict) else {}
    if isinstance(examples := declared.get("examples"), list) and examples:
        return examples[0]
    for known in (declared.get("example"), declared.get("default"), declared.get("const"), *declared.get("enum", ())[:1]):
        if known is not None:
            return known
    for key in ("anyOf", "oneOf"):
        if alternatives := [one for one in declared.get(key, ()) if isinstance(one, dict) and one.get("type") != "null"]:
            return _value(name, alternatives[0])
    types = declared.get("type")
    kind = types if isinstance(types, str) else next((one for one in types or () if one != "null"), "string")
    if kind == "array":
        return [_value(name, declared.get("items"))]
    if kind == "object":
        return {part: _value(part, one) for part, one in declared.get("properties", {}).items()}
    if kind in _OF_TYPES:
        return max(_OF_TYPES[kind], declared.get("minimum", 0)) if kind != "boolean" else True
    text = _OF_FORMATS.get(declared.get("format", "")) or ("60.00" if declared.get("pattern") and _is_money(name) else None)
    return text or lowered(label(name))


def _is_money(name: str) -> bool:
    return counts_of(name) == "money"


def _fill(given: dict[str, Any], path: str) -> None:
    """Give a part of an argument a value, if its example has none there."""
    *steps, last = path.split(".")
    at: Any = given
    for step in steps:
        if not isinstance(at.get(step), dict):
            at[step] = {}
        at = at[step]
    if at.get(last) is None:
        at[last] = lowered(label(last))


def _word(place: Place) -> str:
    return lowered(label(place.path.rpartition(".")[2] or place.root))

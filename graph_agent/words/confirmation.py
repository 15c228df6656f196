"""The values of a call that people are asked about: by them a change before the answer is noticed, and said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from graph_agent.models.canonical import canonical_json, digest, plain_numbers
from graph_agent.models.decision import PendingCall
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.words.said import Known, label_of
from graph_agent.words.values import MAX_SHOWN, by_name, spoken

_MAX_KEPT: Final = 400
"""The longest value that is kept itself, as JSON in characters; of a longer one the digest is."""
_MAX_SAID: Final = 200
_DIGEST: Final = "sha256"
_PREVIEW, _OBJECTS, _MISSING = "preview", "objects", "missing"


def digest_of_call(rule: ToolRule, arguments: Mapping[str, Any], known: Known) -> str:
    """Return the SHA-256 of the values of a call: its arguments, and everything that was read about it.

    An argument that is left out has the default of its schema. Values and not words are compared: two values may be said
    alike, and equal ones may be written otherwise, such as 1 and 1.0.
    """
    defaults = {
        name: schema["default"]
        for name, schema in by_name(rule.declaration.parameters).items()
        if isinstance(schema, dict) and "default" in schema
    }
    return digest(plain_numbers([{**defaults, **arguments}, known.values]))


def kept(known: Known) -> dict[str, dict[str, Any]]:
    """Return the values that were read about a call as its question keeps them, to say later which of them have changed."""
    return {kind: {name: _kept(value) for name, value in values.items()} for kind, values in known.values.items()}


def _kept(value: Any) -> Any:
    text = canonical_json(value)
    return value if len(text) <= _MAX_KEPT and text.isprintable() else {_DIGEST: digest(plain_numbers(value))}


def changes_since(shown: PendingCall, known: Known) -> tuple[str, ...]:
    """Return a sentence for each value that is not as it was when the call was `shown`."""
    return tuple(dict.fromkeys(_changes(shown.known, kept(known), known.time_zone)))


def _changes(before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]], zone: str) -> Iterator[str]:
    missing, pairs = now.get(_MISSING, {}), set()
    for kind in dict.fromkeys([*before, *now]):
        old, new = before.get(kind, {}), now.get(kind, {})
        for name in dict.fromkeys([*old, *new]):
            one, other = old.get(name), new.get(name)
            pair = canonical_json(plain_numbers([one, other]))
            # A fact that is gone is said once, and so is a value that two places have.
            is_said = pair in pairs or (kind != _MISSING and name.partition(".")[0] in missing)
            if canonical_json(plain_numbers(one)) != canonical_json(plain_numbers(other)) and not is_said:
                pairs.add(pair)
                yield from _change(kind, name, one, other, zone)


def _change(kind: str, name: str, before: Any, now: Any, zone: str) -> Iterator[str]:
    label = "What it acts on" if kind == _PREVIEW else label_of(name)
    if kind == _MISSING:
        if now is not None:
            yield f"{label}: now {now}."
        return
    old, new = ("" if one is None else spoken(one, limit=_MAX_SAID, zone=zone).text for one in (before, now))
    if old == new or any(isinstance(one, dict) and one.keys() == {_DIGEST} for one in (before, now)):
        yield f"{label} has changed."
    elif kind == _OBJECTS:
        yield f"{label} is now that of {new or 'none'}, and was that of {old or 'none'}."
    elif not new:
        yield f"{label} was {old}, and is not known now."
    else:
        yield f"{label} was {old}, and is now {new}." if old else f"{label} is now {new}."


def unshown_text(known: Known) -> str:
    """Return the whole text of the preview if a question shows only a part of it; else an empty one."""
    text = known.text_of_object or ""
    return text if len(text) > MAX_SHOWN else ""

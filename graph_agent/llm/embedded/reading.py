"""Reading a message: its parts, and for each the best template that matches all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Final

from rapidfuzz.distance import OSA

from graph_agent.llm.embedded.templates import begins_with, candidates, contains, is_rule, words_of

MAX_PARTS: Final = 12
COMMANDS: Final = frozenset({"Add", "AddNothing", "Complete", "Delete", "Update", "Show", "Find"})
CHANGES: Final = frozenset({"Add", "Complete", "Delete", "Update", "Correct", "More"})
_EDGE: Final = " \t,!?;:-–—"
_QUOTES: Final = str.maketrans("’‘“”", "''\"\"")
_BREAK: Final = re.compile(r"\s*\n\s*(?:(?:[-*•]|\d{1,2}[.)])\s+)?|;\s+|(?<!\S)(?P<word>\S++)(?<=[.!?])[^\S\n]+")
_ABBREVIATION: Final = re.compile(r"(?:dr|mr|mrs|ms|st|no|vs|etc|approx|[a-z](?:\.[a-z])*|\d+)\.", re.IGNORECASE)
_JOINT: Final = re.compile(r",? (?:and then|and also|and|then|but) |, ")


@dataclass(frozen=True, slots=True)
class Reading:
    """The match of a template: its intent, the slots as the user typed them, and how much of the text is the template's own."""

    intent: str
    slots: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    fits: bool = False
    """It answers the open question, or goes on from what was done last."""
    literal: int = 0

    @property
    def strict(self) -> bool:
        return not self.metadata.get("weak") and not self.metadata.get("offer")


Facts = frozenset[tuple[str, str]]


def read(message: str, facts: Mapping[str, str]) -> list[Reading] | str:
    """Return the requests of `message` in their order, or the part of it that is not understood; "" is all of it."""
    known, heading = frozenset(facts.items()), False
    found: list[tuple[str, Reading | None]] = []
    for text, is_line in islice(_lines(message.translate(_QUOTES)), MAX_PARTS + 1):
        if heading and is_line:
            found.append((text, Reading("Add", {"text": _cleaned(text)}, {"one": True})))
            continue
        found += [(part, best(part, known)) for part in _split(text, known)]
        heading = found[-1][1] is not None and found[-1][1].intent == "AddNothing"
    if len(found) > 1 and found[0][1] and found[0][1].intent == "AddNothing":
        found = found[1:]  # the heading of a list
    if not found or len(found) > MAX_PARTS:
        return found[-1][0] if found else ""
    if len(found) == 1:
        text, only = found[0]
        part = "" if only and only.strict else _part_beside_a_request(text, known)
        return [only] if only and not part else part
    unread = [part for part, one in found if one is None or not one.strict or one.metadata.get("form")]
    return unread[0] if unread else [one for _, one in found if one]


def added(text: str) -> Reading:
    """Return the request to add `text` as one task, whatever it contains."""
    return Reading("Add", {"text": text}, {"one": True, "clear": True})


@lru_cache(maxsize=128)
def best(text: str, facts: Facts) -> Reading | None:
    """Return the best reading of one request, or None."""
    typed = _without_stop(text.strip(_EDGE))
    trimmed, requested = _without_courtesy(typed)
    found = [reading for form in dict.fromkeys((trimmed, typed)) for reading in _matches(form, dict(facts))]
    if text.endswith("?") or requested:  # neither is an answer in free words
        found = [one for one in found if not one.metadata.get("free")]
    if text.endswith("?") and not requested:  # a question changes nothing: "is call mom done?"
        found = [one for one in found if one.intent not in CHANGES or not one.strict]
    # A strict template comes before a weak one; of the weak ones, an answer to the open question comes first.
    ranks = [(int(one.fits) if one.metadata.get("weak") else 2, one.literal, one.fits) for one in found]
    chosen = found[ranks.index(max(ranks))] if found else None
    return chosen if chosen and (chosen.strict or chosen.fits) else _corrected(trimmed) or chosen


def _matches(text: str, facts: Mapping[str, str]) -> Iterator[Reading]:
    for template in candidates(text) if text else ():
        if template.fits(facts) and (found := template.match(text)):
            slots = {name: _cleaned(value) for name, value in found.groupdict().items() if value}
            free = template.metadata.get("free")
            if all(slots.values()) and not (free and any(begins_with("not_a_task", value) for value in slots.values())):
                literal = len(text.replace(" ", "")) - sum(len(value.replace(" ", "")) for value in slots.values())
                yield Reading(template.intent, slots, template.metadata, bool(template.context), literal)


def _without_courtesy(text: str) -> tuple[str, bool]:
    """Return the text without the words around a request, and if they make a question a request ("can you ...?")."""
    requested = False
    while end := begins_with("filler", text) or begins_with("request", text):
        requested = requested or not begins_with("filler", text)
        text = text[end:].strip(_EDGE)
    for words in (text.rsplit(" ", 1), text.rsplit(" ", 2)):
        before, last = words[0], " ".join(words[1:])
        if len(words) > 1 and (is_rule("please", last) or (before.endswith(",") and is_rule("thanks", last))):
            return before.strip(_EDGE), requested
    return text, requested


def _corrected(text: str) -> Reading | None:
    """Read a request to show the list with its misspelt words corrected. No spelling is corrected towards a change."""
    typed, known = text.lower().split(), words_of("show_words")
    if not typed or len(typed) > 6:
        return None
    near = [min(known, key=lambda other: (OSA.distance(word, other), -len(other))) for word in typed]
    fixed = [
        other if OSA.distance(word, other) == 1 and len(word) > 3 else word for word, other in zip(typed, near, strict=True)
    ]
    return next((one for one in _matches(" ".join(fixed), {}) if one.intent == "Show" and one.strict), None)


def _lines(message: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts that are requests of their own in any case, lines and sentences, and if they begin a line."""
    start, is_line = 0, True
    for found in (*_BREAK.finditer(message), None):
        if found and found["word"] and (_ABBREVIATION.fullmatch(found["word"]) or message.count('"', 0, found.end()) % 2):
            continue
        end = None if found is None else found.end() if found["word"] else found.start()
        if message[start:end].strip(_EDGE + ".\n"):
            yield " ".join(message[start:end].split()), is_line
        if found:
            start, is_line = found.end(), not found["word"]


def _joints(text: str) -> list[re.Match[str]]:
    """Return the first places where the text may be divided; what is in quotes stays whole."""
    return [joint for joint in islice(_JOINT.finditer(text), MAX_PARTS) if text.count('"', 0, joint.start()) % 2 == 0]


def _split(text: str, facts: Facts) -> list[str]:
    """Split between two requests: "add milk and show my list". "Add fish and chips" stays whole."""
    parts, start, joints = [], 0, _joints(text)
    for joint, following in pairwise([*joints, None]):
        assert joint is not None
        before = best(text[start : joint.start()], facts)
        after = best(text[joint.end() : following.start() if following else None], facts)
        # "Add ... and delete all tasks" stays the text of a task: its author may be anyone.
        every = after is not None and after.intent == "Delete" and is_rule("every", after.slots["ref"])
        if _is_command(before) and _is_command(after) and not (every and before and before.intent == "Add"):
            parts.append(text[start : joint.start()])
            start = joint.end()
    return [*parts, text[start:]]


def _is_command(one: Reading | None) -> bool:
    return one is not None and one.strict and one.intent in COMMANDS


def _part_beside_a_request(text: str, facts: Facts) -> str:
    """Return the part that is not understood beside one that is: in "mark milk as done and fly" it is "fly"."""
    for joint in _joints(text):
        sides = text[: joint.start()], text[joint.end() :]
        unread = [side for side in sides if not _is_command(best(side, facts))]
        if len(unread) == 1:
            return unread[0]
    return ""


def _cleaned(value: str) -> str:
    """Return a slot without the quotes and the punctuation around it."""
    text = _without_stop(value.strip().rstrip("!?,;: "))
    quoted = len(text) > 2 and text[0] == text[-1] and text[0] in "'\"" and text[0] not in re.sub(r"\b'\b", "", text[1:-1])
    return text[1:-1] if quoted else text


def _without_stop(text: str) -> str:
    """Return the text without its full stop; "p.m." keeps it."""
    return text if re.search(r"\b\w\.\w\.$", text) else text.rstrip(".… ")


def parts_of(text: str) -> list[str]:
    return [part for part in re.split(r",? (?:and also|and|&) |, ", text) if part]


def items_of(text: str, *, bare: bool = False) -> Sequence[str]:
    """Return the things of "milk, eggs and bread", or the chores, each of which is a task; a text that is one task stays whole.

    "Recital, Saturday, 6 pm" has no "and", so it is one task; a `bare` list is asked about anyway.
    """
    parts = parts_of(text)
    chores = [" " in part and begins_with("chores", part) > 0 and not contains("pronoun", part) for part in parts]
    short = "," in text and (bare or " and " in text) and not any(chores) and all(len(part.split()) <= 2 for part in parts)
    return parts if len(parts) > 1 and (all(chores) or short) else [text]

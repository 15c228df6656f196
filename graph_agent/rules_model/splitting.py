"""The requests of a message: lines, bullets and semicolons, and commands that follow one another."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from graph_agent.rules_model.adding import description
from graph_agent.rules_model.patterns import part
from graph_agent.rules_model.reading import can_follow, read_clause
from graph_agent.rules_model.references import read_reference
from graph_agent.rules_model.requests import UNCLEAR, Add, Change, Complete, Delete, Offer, Request, Say, Show, Update
from graph_agent.rules_model.wording import Clause, clause_of, shown

MAX_REQUESTS: Final = 20

_BULLET: Final = re.compile(r"(?:[-*•–+▪◦]|\[ ?\]|\d{1,2}[.)])\s+")
_LINE: Final = re.compile(r"\s*\n\s*")
_SEMICOLON: Final = re.compile(r"\s*;\s*")
_LINK: Final = re.compile(r"[,.!?]?\s+(?:and then|then|and also|and|also|plus|after that|so)(?:,\s*|\s+)|[,.!?]\s+")
_MAX_LINKS: Final = 12
_HESITATION: Final = re.compile(r"(?<=\w)(?:,? (?:u+h+|u+m+|erm+),?(?= \w))+|^(?:u+h+|u+m+|erm+),? ", re.IGNORECASE)
_CORRECTION: Final = re.compile(r"(?P<before>.+?),? (?:no,? wait|wait,? no|no,? sorry|sorry|i mean|scratch that),? (?P<new>.+)")
_QUOTED: Final = re.compile(r'"[^"\n]{1,400}"')
_ONE_TASK: Final = re.compile(
    r"(?:please )?(?:(?:add|create|make)(?: me)? )?(?:(?:an?|new|another) )*(?:task|to-?do|reminder|note):"
)
"""After "new task:" the rest is its text, whatever it says."""
_HEAD: Final = re.compile(
    r"(?:please |can you |could you )*(?:add|create|new|make|put|my|the|tasks|to-?dos?|todo|remind|i need to|today)\b.*:"
)


def read_message(message: Clause) -> tuple[Request, ...]:
    """Return the requests in the order of the message."""
    parts = [piece for piece in _parts(message) if piece.key]
    if not parts:
        return (UNCLEAR,)
    return _commands(parts[0]) if len(parts) == 1 else _read_parts(parts[:MAX_REQUESTS])


def _parts(message: Clause) -> list[Clause]:
    """Split at line breaks, or else at semicolons outside of quotes, and remove bullets."""
    quoted = [found.span() for found in _QUOTED.finditer(message.key)]
    parts, start = [], 0
    for found in (_LINE if "\n" in message.key else _SEMICOLON).finditer(message.key):
        while quoted and quoted[0][1] <= found.start():
            quoted.pop(0)
        if not (quoted and quoted[0][0] < found.start()):
            parts.append(message.cut(start, found.start()))
            start = found.end()
    parts.append(message.cut(start))
    return [piece.cut(bullet.end()) if (bullet := _BULLET.match(piece.key)) else piece for piece in parts]


def _read_parts(parts: list[Clause]) -> tuple[Request, ...]:
    """After a head line ("add these:") or a part that adds, each part that is no command is a task of its own."""
    adds = bool(_HEAD.fullmatch(parts[0].key))
    requests: list[Request] = []
    for piece in parts[1:] if adds else parts:
        read = _commands(piece)
        if adds and isinstance(read[0], Offer | Say):
            read = (Add((description(piece),)),)
        adds = adds or (isinstance(read[0], Add) and bool(read[0].texts))
        requests += [Say(f"not_read:{shown(piece.text)}") if request == UNCLEAR else request for request in read]
    offered = [request.text for request in requests if isinstance(request, Offer)]
    if len(offered) == len(requests) > 1:
        return (Offer(", ".join(offered), tuple(offered)),)
    return tuple(requests)


def _commands(clause: Clause) -> tuple[Request, ...]:
    """Split off, from the end, the commands that can follow a new task or another command."""
    clause = clause_of(_HESITATION.sub("", clause.text))
    if (corrected := _read_correction(clause)) is not None:
        return (corrected,)
    later: list[Request] = []
    unwanted = False
    links = [] if _ONE_TASK.match(clause.key) else list(_LINK.finditer(clause.key))[-_MAX_LINKS:]
    for link in reversed(links):
        before, after = clause.cut(0, link.start()), clause.cut(link.end())
        if (
            not before.key
            or before.key.count('"') % 2
            or len(re.findall(r"(?<!\w)'(?=\w)", before.key)) > len(re.findall(r"(?<=[\w.!?])'(?!\w)", before.key))
            or re.match(r"(?:off|from|out|on) (?:my|the) ", after.key)
            or part("TIME").fullmatch(before.key)
        ):
            continue
        first = read_clause(before)
        reason = (
            link[0][0] in ",."
            and isinstance(first, Delete)
            and isinstance(second := read_clause(after), Complete)
            and second.instead
        )
        explained = reason or (isinstance(first, Complete) and part("UNWANTED").fullmatch(after.key.rstrip(" .!")))
        if (
            not explained
            and can_follow(after, first, new_sentence=link[0][0] in ".!?")
            and not _names_both(clause, before, first)
        ):
            later.insert(0, read_clause(after))
            clause = before
        elif link[0][0] in ",.!?" and _is_remark(after, first):
            unwanted = unwanted or bool(part("UNWANTED").fullmatch(after.key.rstrip(" .!")))
            clause = before
    first = read_clause(clause)
    if unwanted and isinstance(first, Complete) and clause.key.startswith(("cross", "strike", "scratch", "check", "tick")):
        first = Delete(first.target)
    if later and (same := _same_task(clause, first, later[0])) is not None:
        return (same, *later[1:])
    # What introduces a command ("hi, ...", "I spoke to mom, ...") needs no answer of its own.
    return tuple(later) if later and _introduces(clause, first) else (first, *later)


def _introduces(clause: Clause, first: Request) -> bool:
    return isinstance(first, Say) or (isinstance(first, Offer) and not part("PLANNED").match(clause.key))


def _read_correction(clause: Clause) -> Request | None:
    """Return the command of "delete the second, no wait, the third" as corrected; None if the clause corrects nothing."""
    found = None if _QUOTED.search(clause.key) else _CORRECTION.fullmatch(clause.key)
    if found is None:
        return None
    new = clause.cut(*found.span("new"))
    target = read_reference(new)
    match read_clause(clause.cut(*found.span("before"))):
        case Add(texts) as first if len(texts) == 1 and isinstance(read_clause(new), Offer | Say):
            return replace(first, texts=(description(new),))
        case Complete() | Delete() as first if target.places:
            return replace(first, target=target)
        case _:
            return None


def _names_both(clause: Clause, before: Clause, first: Request) -> bool:
    """True if the link joins two names: "1 and 3 are done", "milk and rent are done"."""
    is_name = isinstance(first, Offer | Say) and len(before.key.split()) <= 4
    return is_name and isinstance(whole := read_clause(clause), Complete) and not whole.instead


def _is_remark(clause: Clause, before: Request) -> bool:
    """True for thanks after a command, and for its explanation ("delete the gym task, i quit")."""
    if clause.key.startswith("i mean"):
        return False
    if not isinstance(before, Add | Change | Show) or before == Add():
        return False
    read = read_clause(clause)
    if isinstance(read, Say) and read.kind in {"thanks", "goodbye", "praise"}:
        return True
    explains = not isinstance(before, Add | Update) and isinstance(read, Offer | Say | Complete)
    if isinstance(before, Complete) and part("UNWANTED").fullmatch(clause.key.rstrip(" .!")):
        return True
    return explains and bool(part("EXPLAINS").match(clause.key))


def _same_task(clause: Clause, first: Request, second: Request) -> Request | None:
    """In "I did the laundry, check it off" both clauses are about one task, and the second one is the command."""
    if not isinstance(second, Complete | Delete) or not second.target.pronoun:
        return None
    match first:
        case Complete(target) | Delete(target):
            return replace(second, target=replace(target, told=bool(target.words)))
        case _ if part("ONLY_NOISE").fullmatch(clause.key):
            return None
        case Offer() | Say("unclear" | "dropped" | "out_of_scope" | "which"):
            return replace(second, target=replace(read_reference(clause), told=True))
        case _:
            return None

"""The requests of a message: lines, bullets and semicolons, and commands that follow one another."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from graph_agent.llm.rules_model.adding import description
from graph_agent.llm.rules_model.patterns import part
from graph_agent.llm.rules_model.reading import can_follow, read_clause
from graph_agent.llm.rules_model.references import merged, read_reference
from graph_agent.llm.rules_model.requests import UNCLEAR, Add, Change, Complete, Delete, Offer, Request, Say, Show, Update
from graph_agent.llm.rules_model.wording import Clause, clause_of, shown

MAX_REQUESTS: Final = 20

_BULLET: Final = re.compile(r"(?:[-*•–+▪◦]|\[ ?\]|\d{1,2}[.)])\s+")
_QUOTED: Final = re.compile(r"\"[^\"\n]{1,400}\"|(?<!\w)'(?=\w)[^\n]{1,400}?(?<=[\w.!?])'(?!\w)")
_MAX_LINKS: Final = 12
_HESITATION: Final = re.compile(r"(?<=\w)(?:,? (?:u+h+|u+m+|erm+),?(?= \w))+|^(?:u+h+|u+m+|erm+),? ", re.IGNORECASE)


def read_message(message: Clause) -> tuple[Request, ...]:
    """Return the requests in the order of the message."""
    parts = [piece for piece in _parts(message) if piece.key]
    if not parts:
        return (UNCLEAR,)
    return _commands(parts[0]) if len(parts) == 1 else _read_parts(parts[:MAX_REQUESTS])


def _parts(message: Clause) -> list[Clause]:
    """Split at line breaks, or else at semicolons outside of quotes, and remove bullets."""
    separator = "\n" if "\n" in message.key else ";"
    breaks = [found.span() for found in re.finditer(rf"\s*{separator}\s*", _unquoted(message))]
    starts, ends = (0, *(end for _, end in breaks)), (*(start for start, _ in breaks), None)
    parts = [message.cut(start, end) for start, end in zip(starts, ends, strict=True)]
    return [piece.cut(bullet.end()) if (bullet := _BULLET.match(piece.key)) else piece for piece in parts]


def _unquoted(clause: Clause) -> str:
    """Return the key with a sign for each character of what is quoted, so that no command is found there."""
    return _QUOTED.sub(lambda found: "_" * len(found[0]), clause.key)


def _read_parts(parts: list[Clause]) -> tuple[Request, ...]:
    """After a head line ("my tasks:") or a part that adds, each part that is no command is a task of its own."""
    adds = bool(part("HEAD").fullmatch(parts[0].key)) and not isinstance(read_clause(parts[0]), Change)
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


def _commands(said: Clause) -> tuple[Request, ...]:
    """Split off, from the end, explanations and the commands that can follow a new task or another command."""
    said = clause = clause_of(_HESITATION.sub("", said.text))
    if (corrected := _corrected(clause)) is not None:
        return (corrected,)
    later: list[tuple[Clause, Request]] = []
    one_task = part("ONE_TASK").match(clause.key) or part("ALL_KEPT").fullmatch(clause.key)
    links = [] if one_task else list(part("BETWEEN").finditer(_unquoted(clause)))
    for link in reversed(links[-_MAX_LINKS:]):
        before, after = clause.cut(0, link.start()), clause.cut(link.end())
        if not before.key or part("TIME").fullmatch(before.key):
            continue
        first = read_clause(before)
        new_sentence, punctuated = link[0][0] in ".!?", link[0][0] in ",.!?"
        if punctuated and _is_remark(after, first):
            clause = before
        elif can_follow(after, first, new_sentence=new_sentence) and not _names_both(clause, before, first):
            later.insert(0, (after, read_clause(after)))
            clause = before
    first = read_clause(clause)
    if isinstance(first, Complete) and part("CROSSED").fullmatch(said.key.rstrip(" .!")):
        first = Delete(first.target)
    requests = [first]
    before = clause
    for after, request in later:
        if (same := _same_task(before, requests[-1], request)) is not None:
            requests[-1] = same
        else:
            requests.append(request)
        before = after
    # What introduces a command ("hi, ...", "I spoke to mom, ...") needs no answer of its own.
    introduces = isinstance(requests[0], Say) or (isinstance(requests[0], Offer) and not part("PLANNED").match(clause.key))
    return tuple(requests[1:] if introduces and len(requests) > 1 else requests)


def _corrected(clause: Clause) -> Request | None:
    """Return the command of "delete the second, no wait, the third" as corrected; None if the clause corrects nothing."""
    found = part("CORRECTED").fullmatch(_unquoted(clause))
    if found is None:
        return None
    new = clause.cut(*found.span("new"))
    target = read_reference(new)
    if read_clause(new) == Say("dropped"):
        return Say("dropped")
    match read_clause(clause.cut(*found.span("before"))):
        case Add((text,)) as first:
            return replace(first, texts=(merged(text, description(new)),))
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
    match before, read_clause(clause):
        case Add((_, *_)) | Change() | Show(), Say("thanks" | "goodbye" | "praise"):
            return True
        case Complete(), _ if part("UNWANTED").fullmatch(clause.key.rstrip(" .!")):
            return True
        case Delete(), Complete(_, instead) if instead:
            return True
        case Complete() | Delete() | Show(), Offer() | Say():
            return bool(part("EXPLAINS").match(clause.key))
        case _:
            return False


def _same_task(clause: Clause, first: Request, second: Request) -> Request | None:
    """In "I did the laundry, check it off" both clauses are about one task, and the second one is the command."""
    if not isinstance(second, Change) or not second.target.pronoun:
        return None
    match first:
        case Complete(target) | Delete(target) | Update(target, new=None):
            return replace(second, target=target)
        case Offer() | Say("unclear" | "out_of_scope" | "which"):
            return replace(second, target=replace(read_reference(clause), told=True))
        case _:
            return None

"""The sentence of a tool's line: its quoted summary, with places for the values of a call.

    "Extend {loan_record.item or loan} until {due}[ (was {loan_record.due})]"

    {due}, {address.city}      an argument of the call, or a part of one; `{arguments.due}` is the same
    {loan_record.due}          a part of a fact that `## Facts` declares
    {loan_record.item or loan} the same, or else `loan 1`, an argument with its name
    {preview or task_id}       the description that a server with a ledger gives of what the call acts on
    {amount as EUR}            money; `{cents as EUR/100}` where the number has the hundredth parts
    [ (was {loan_record.due})] is left out unless all its values are known
    {{ }} [[ ]]                braces and brackets as they are

Words are the operator's, values are data. Anything else in braces or brackets is an error, and never read as text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

PREVIEW: Final = "preview"
ARGUMENTS: Final = "arguments"

_STEP = r"[A-Za-z_][A-Za-z0-9_-]*"
_PLACE = re.compile(
    rf"(?P<where>{_STEP}(?:\.{_STEP}|\[[0-9]+\])*)(?: or (?P<other>{_STEP}))?(?: as (?P<currency>[A-Z]{{3}})(?P<cents>/100)?)?"
)
_TOKEN = re.compile(r"\{\{|\}\}|\[\[|\]\]|\{(?P<place>(?:[^{}\[\]]|\[[0-9]+\])*)\}|[\[\]{}]")
_ESCAPED = {"{{": "{", "}}": "}", "[[": "[", "]]": "]"}
_FORMS = "{argument}, {fact.part}, {fact.part or argument}, {amount as EUR}"


class SentenceError(Exception):
    """A summary does not follow the grammar; the text says why."""


class Money(NamedTuple):
    """The form of an amount."""

    currency: str
    """The code of ISO 4217."""
    in_cents: bool
    """True if the number has the hundredth parts."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place for a value."""

    text: str
    """Its name: the path of an argument, or a fact with its path."""
    root: str
    """`arguments`, `preview`, or the name of a fact."""
    path: str
    """The path below the root, such as `address.city`; empty for the preview."""
    other: str = ""
    """The argument that stands for a value that is not known."""
    money: Money | None = None
    optional: bool = False
    """True if it is in brackets."""

    @property
    def is_fact(self) -> bool:
        return self.root not in (ARGUMENTS, PREVIEW)


Piece = str | Place


@dataclass(frozen=True, slots=True)
class Sentence:
    """A parsed summary: words, places, and groups that are left out unless all their values are known."""

    pieces: tuple[Piece | tuple[Piece, ...], ...]

    @classmethod
    def parse(cls, text: str, facts: Collection[str]) -> Sentence:
        """Parse a summary; `facts` are the names that `## Facts` declares. Raises `SentenceError`."""
        pieces: list[Piece | tuple[Piece, ...]] = []
        group: list[Piece] | None = None
        at = 0
        for token in _TOKEN.finditer(text):
            found: list[Piece] = [text[at : token.start()]] if token.start() > at else []
            at = token.end()
            if token[0] in _ESCAPED:
                found.append(_ESCAPED[token[0]])
            elif token["place"] is not None:
                found.append(_place(token["place"], facts, optional=group is not None))
            elif token[0] == "[" and group is None:
                pieces += found
                group = []
                continue
            elif token[0] == "]" and group is not None:
                group += found
                if not any(isinstance(one, Place) for one in group):
                    raise SentenceError(f"'[{''.join(map(str, group))}]' has no value: write [[ and ]] for brackets")
                pieces.append(tuple(group))
                group = None
                continue
            else:
                raise SentenceError(f"'{token[0]}' closes or opens nothing: write '{token[0] * 2}' for the character itself")
            if group is None:
                pieces += found
            else:
                group += found
        if group is not None:
            raise SentenceError("'[' is not closed: write '[[' for the character itself")
        if at < len(text):
            pieces.append(text[at:])
        return cls(tuple(pieces))

    @property
    def places(self) -> Iterator[Place]:
        for piece in self.pieces:
            for one in piece if isinstance(piece, tuple) else (piece,):
                if isinstance(one, Place):
                    yield one

    @property
    def has_places(self) -> bool:
        return next(self.places, None) is not None

    @property
    def title(self) -> str:
        """The words alone, with `…` for each value: the name of what the tool does."""
        words = [piece if isinstance(piece, str) else "…" for piece in self.pieces if not isinstance(piece, tuple)]
        return "".join(words).strip()


def escaped(text: str) -> str:
    """Return a sentence that says this text."""
    return re.sub(r"[{}\[\]]", lambda found: found[0] * 2, text)


def _place(text: str, facts: Collection[str], *, optional: bool) -> Place:
    match = _PLACE.fullmatch(text)
    if match is None:
        raise SentenceError(f"'{{{text}}}' is no value of a call: write {_FORMS}, or {{{{ and }}}} for braces")
    where = match["where"]
    root, path = re.fullmatch(r"([^.\[]+)\.?(.*)", where).groups()  # type: ignore[union-attr]  # by the pattern
    if root == ARGUMENTS and not path:
        raise SentenceError(f"'{{{text}}}' names no argument: write {{arguments.NAME}}")
    if root not in facts and root not in (ARGUMENTS, PREVIEW):
        root, path = ARGUMENTS, where
    money = None if match["currency"] is None else Money(match["currency"], match["cents"] is not None)
    named = path if root == ARGUMENTS else where
    return Place(named, root, path, match["other"] or "", money, optional)

"""Texts that several authors wrote, in the order of their parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from graph_agent.models.authors import TextAuthor, TextAuthors, TextPart
from graph_agent.models.said import SaidTable

Parts = tuple[TextPart, ...]
"""A text as its parts; the empty tuple is the empty text."""


def by_model(text: str) -> Parts:
    return _by(TextAuthor.MODEL, text)


def by_code(text: str) -> Parts:
    return _by(TextAuthor.CODE, text)


def by_server(text: str) -> Parts:
    return _by(TextAuthor.SERVER, text)


def plain(parts: Iterable[TextPart]) -> str:
    """Return the text."""
    return "".join(part.text for part in parts)


def table_by_server(table: SaidTable, text: str) -> Parts:
    """Return a table of a server's values, which `text` says line by line."""
    return (TextPart(author=TextAuthor.SERVER, text=text, table=table),)


def joined(separator: str, texts: Iterable[Parts]) -> Parts:
    """Return `texts` with `separator`, which code writes, between them."""
    found: Parts = ()
    for text in texts:
        found += (by_code(separator) if found else ()) + text
    return found


def capitalized(parts: Parts) -> Parts:
    """Return the text with its first letter in upper case."""
    return tuple(part.replace(text=part.text[:1].upper() + part.text[1:]) for part in parts[:1]) + parts[1:]


def reattributed(text: str, before: Parts) -> Parts:
    """Return `text`, which an added state may have put in the place of `before`.

    A text that it has changed keeps the author that is trusted least: the model's words stay the model's.
    """
    if text == plain(before):
        return before
    authors = {part.author for part in before}
    return _by(next((author for author in (TextAuthor.MODEL, TextAuthor.SERVER) if author in authors), TextAuthor.CODE), text)


def name_authors(
    message: TextAuthor, reply: Parts, effects: Sequence[Parts] = (), notices: Sequence[Parts] = ()
) -> TextAuthors:
    """Return the authors of the texts of a decision."""
    return TextAuthors(
        message=message, reply=_merged(reply), effects=list(map(_merged, effects)), notices=list(map(_merged, notices))
    )


def _by(author: TextAuthor, text: str) -> Parts:
    return (TextPart(author=author, text=text),) if text else ()


def _merged(parts: Parts) -> list[TextPart]:
    """Return the parts with adjacent ones of one author as one; a table is a part of its own."""
    # By the place of a table, because two tables may be equal.
    placed = [(part, None if part.table is None else place) for place, part in enumerate(parts)]
    groups = [[part for part, _ in group] for _, group in groupby(placed, key=lambda one: (one[0].author, one[1]))]
    return [group[0] if len(group) == 1 else TextPart(author=group[0].author, text=plain(group)) for group in groups]

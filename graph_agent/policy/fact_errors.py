"""The errors of facts: of a declaration, and of a value that cannot be known."""

from __future__ import annotations


class FactError(Exception):
    """A declaration or a use of a fact that cannot be used."""

    def __init__(self, text: str, key: str | None = None, fact: str | None = None) -> None:
        """`key` is that of the condition at fault, or `fact` the name of the declaration."""
        super().__init__(text)
        self.key = key
        self.fact = fact


class UnreadableError(Exception):
    """A fact cannot be known; the text is a clause about it."""

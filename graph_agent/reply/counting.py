"""A number with its noun."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return `1 call` or `2 calls`; `noun` is the singular, and the plural has an s unless it is given."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"

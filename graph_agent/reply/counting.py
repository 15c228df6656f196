"""A number with its noun."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return `1 call` or `2 calls`; `noun` is the singular."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"

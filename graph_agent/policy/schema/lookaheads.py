"""Lookaheads at the start of an expression, which is where people write them: `^(?!\\s*$)`, `^(?=.*\\d).{8,}$`.

An automaton cannot look ahead. Searched for one by one, the parts of such an expression need none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def without_lookaheads(pattern: str) -> dict[str, Any]:
    """The keywords that say of a string what `pattern` says: `pattern` itself where it does not begin by looking ahead."""
    looks: list[dict[str, Any]] = []
    at = 1
    while pattern[at : at + 3] in ("(?=", "(?!"):
        end = _closing_parenthesis(pattern, at)
        if end is None:
            break
        search = {"type": "string", "pattern": f"^(?:{pattern[at + 3 : end]})"}
        looks.append({"not": search} if pattern[at + 2] == "!" else {"pattern": search["pattern"]})
        at = end + 1
    if not looks or not pattern.startswith("^") or _is_choice(pattern[at:]):
        return {"pattern": pattern}
    return {"pattern": f"^{pattern[at:]}", "allOf": looks}


def _closing_parenthesis(source: str, start: int) -> int | None:
    return next((at for at, depth, sign in _signs(source, start) if sign == ")" and depth == 0), None)


def _is_choice(source: str) -> bool:
    """Whether the whole of `source` is a choice: then what stands before it belongs to its first branch only."""
    return any(sign == "|" and depth == 0 for _, depth, sign in _signs(source, 0))


def _signs(source: str, start: int) -> Iterator[tuple[int, int, str]]:
    """Place, depth and sign of every parenthesis and bar from `start` on that is neither escaped nor in a class."""
    depth, at, in_class = 0, start, False
    while at < len(source):
        sign = source[at]
        if sign == "\\":
            at += 1
        elif in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
        elif sign in "()|":
            depth -= sign == ")"
            yield at, depth, sign
            depth += sign == "("
        at += 1

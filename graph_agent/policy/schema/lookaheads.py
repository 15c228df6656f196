"""Replacement of lookaheads at the start of a pattern: `^(?!\\s*$)`, `^(?=.*\\d).{8,}$`.

The automaton that searches patterns in linear time has no lookaheads. At the start of a pattern, where most of them are
written, each can become a separate pattern under `allOf` or `not`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def without_lookaheads(pattern: str) -> dict[str, Any]:
    """Return JSON Schema keywords equivalent to `pattern`; only `pattern`, unchanged, if it does not start with a lookahead."""
    conditions: list[dict[str, Any]] = []
    at = 1
    while pattern[at : at + 3] in ("(?=", "(?!"):
        end = next((end for end, depth, sign in _operators(pattern, at) if sign == ")" and depth == 0), None)
        # A quantifier such as "?" makes the lookahead optional, so it is not a condition. It stays in the pattern,
        # which is then refused, like every pattern with a lookahead.
        if end is None or pattern[end + 1 : end + 2] in tuple("?*+{"):
            break
        search = {"type": "string", "pattern": f"^(?:{pattern[at + 3 : end]})"}
        conditions.append({"not": search} if pattern[at + 2] == "!" else {"pattern": search["pattern"]})
        at = end + 1
    # Before `a|b`, a lookahead is a condition of `a` only.
    has_alternatives = any(sign == "|" and depth == 0 for _, depth, sign in _operators(pattern, at))
    if not conditions or not pattern.startswith("^") or has_alternatives:
        return {"pattern": pattern}
    return {"pattern": f"^{pattern[at:]}", "allOf": conditions}


def _operators(source: str, start: int) -> Iterator[tuple[int, int, str]]:
    """Yield position, depth and sign of every parenthesis and bar from `start` that is not escaped or in a character class."""
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

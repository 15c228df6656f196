r"""A regular expression of a stranger, searched in time that grows with the text alone.

Python's `re` backtracks: `^(a+)+$` against thirty letters and one wrong one holds the process for minutes. The engine behind
`jsonschema_rs` is an automaton, which cannot; the price is that it has no lookaround. Lookaheads at the very start, which is
where people write them (`^(?!\s*$)`, an e-mail address without two dots), are searched for one by one instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from jsonschema_rs import Draft202012Validator, RegexOptions

_SIZES = (1 << 14, 1 << 16, 1 << 18, 1 << 20)
"""Bytes an automaton may have. What a search costs at worst is its size times the length of the text."""

_COST_OF_SMALLEST = 5
"""Microseconds a character, at worst, in an automaton of the first size."""


class LinearPattern:
    """One ECMA 262 expression, as JSON Schema writes them. Raises ValueError for what no small automaton can search for."""

    def __init__(self, source: str) -> None:
        ahead, rest = _leading_lookaheads(source)
        automata = [(*_automaton(part), wanted) for part, wanted in [*ahead, (rest, True)]]
        self._automata = [(automaton, wanted) for automaton, _, wanted in automata]
        self.cost = sum(cost for _, cost, _ in automata)
        """What searching costs at most: about as many microseconds for each character."""

    def found_in(self, text: str) -> bool:
        return all(automaton.is_valid(text) is wanted for automaton, wanted in self._automata)


@lru_cache(maxsize=1024)
def linear_pattern(source: str) -> LinearPattern:
    """Kept by source: making the automaton takes longer than a search."""
    return LinearPattern(source)


def _automaton(source: str) -> tuple[Draft202012Validator, int]:
    for size in _SIZES:
        options = RegexOptions(size_limit=size, dfa_size_limit=1 << 20)
        try:
            automaton = Draft202012Validator({"pattern": source}, validate_formats=False, offline=True, pattern_options=options)
        except ValueError:
            continue
        return automaton, _COST_OF_SMALLEST * size // _SIZES[0]
    raise ValueError("the pattern is too large, or looks around")


def _leading_lookaheads(source: str) -> tuple[list[tuple[str, bool]], str]:
    """`^(?=a)(?!b)c` as [("^(?:a)", True), ("^(?:b)", False)] and "^c"; anything less plain as it came."""
    ahead: list[tuple[str, bool]] = []
    at = 1
    while source[at : at + 3] in ("(?=", "(?!"):
        end = _closing_parenthesis(source, at)
        ahead.append((f"^(?:{source[at + 3 : end]})", source[at + 2] == "="))
        at = end + 1
    if not ahead or not source.startswith("^") or _is_choice(source[at:]):
        return [], source
    return ahead, f"^{source[at:]}"


def _closing_parenthesis(source: str, start: int) -> int:
    for at, depth, sign in _signs(source, start):
        if sign == ")" and depth == 0:
            return at
    raise ValueError("a parenthesis is never closed")


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

"""Edits of the line of one tool in a constitution, read by the parser that enforces it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from graph_agent.policy.constitution import ToolGrant, listed_in, split_line

_ASKS, _RUNS = "(requires confirmation)", "(without confirmation)"
_LIMIT = re.compile(r"\(at most \d+ per message\)")


class ToolLine(NamedTuple):
    """The line that lists a tool which a constitution does not list yet."""

    name: str
    text: str
    needs_marker: bool
    """True if its line must say whether it needs the user's confirmation."""


def with_tool(text: str, tool: ToolLine, original: str, *, asks: bool) -> str:
    """Return the text with a line of the tool that asks or runs. A line that `original` has comes back as it was there.

    Raises `ConstitutionError`, like all functions here.
    """
    lines = text.split("\n")
    start, grants = _listed(lines)
    if tool.name not in grants:
        lines = _with_line(lines, start, grants, tool, original.split("\n"))
        _, grants = _listed(lines)
    grant = grants[tool.name]
    says_so = asks or grant.without_confirmation or not tool.needs_marker
    if grant.requires_confirmation is asks and says_so:
        return "\n".join(lines)
    marker = [_ASKS] if asks else [_RUNS] if tool.needs_marker else []
    return _with_markers(lines, grant, lambda markers: [*marker, *(one for one in markers if one not in (_ASKS, _RUNS))])


def without_tool(text: str, name: str) -> str:
    """Return the text without the line of a tool."""
    lines = text.split("\n")
    _, grants = _listed(lines)
    return "\n".join(line for number, line in enumerate(lines, 1) if name not in grants or number != grants[name].line)


def with_limit(text: str, name: str, limit: int | None) -> str:
    """Return the text with this limit for the calls of a listed tool in one message; None removes it."""
    lines = text.split("\n")
    _, grants = _listed(lines)
    if name not in grants or grants[name].max_per_message == limit:
        return text
    wanted = [] if limit is None else [f"(at most {limit} per message)"]

    def change(markers: list[str]) -> list[str]:
        at = next((at for at, one in enumerate(markers) if _LIMIT.fullmatch(one)), len(markers))
        return [*markers[:at], *wanted, *markers[at + 1 :]]

    return _with_markers(lines, grants[name], change)


def _listed(lines: list[str]) -> tuple[int, dict[str, ToolGrant]]:
    found = listed_in([line.removesuffix("\r") for line in lines])
    return found.heading, {grant.name: grant for grant in found.grants}


def _with_line(lines: list[str], start: int, grants: dict[str, ToolGrant], tool: ToolLine, original: list[str]) -> list[str]:
    """Return the lines with one of the tool: before the line that follows it in the original, else behind the last tool."""
    known = _listed(original)[1].get(tool.name)
    end = max((grant.line for grant in grants.values()), default=start)
    following = original[known.line : known.line + 1] if known is not None else []
    at = next((at for at in range(start, end) if lines[at : at + 1] == following), end)
    return [*lines[:at], tool.text if known is None else original[known.line - 1], *lines[at:]]


def _with_markers(lines: list[str], grant: ToolGrant, change: Callable[[list[str]], list[str]]) -> str:
    line = lines[grant.line - 1]
    written = line.rstrip()
    before, markers = split_line(written)
    lines[grant.line - 1] = " ".join([before, *change(markers)]) + line[len(written) :]
    return "\n".join(lines)

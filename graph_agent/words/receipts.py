"""Receipts: one line for each committed change, composed by code from the tool result and never from the model's words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from graph_agent.errors import REFUSAL_CODES, ToolErrorCode
from graph_agent.models.said import Said, SaidRow
from graph_agent.models.tools import ToolResult
from graph_agent.policy.committed import is_committed, reads_like_failure, text_of
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.reply.authored import Parts, by_code, by_server, joined
from graph_agent.reply.text import clean_reply, one_line
from graph_agent.words.said import RECEIPT, described_by, in_line, result_rows
from graph_agent.words.values import brief, leaves, lowered

_MAX_RESULT_CHARS: Final = 2_000
_MAX_RESULT_LINES: Final = 50
_MAX_RESULT_IN_RECEIPT: Final = 100
_MAX_IN_ROW: Final = 300
_MAX_ADDED: Final = 3
"""The number of values of a result that a receipt has."""
_MORE: Final = "[…] (the rest is not shown)"
_MAX_REFUSAL: Final = 300


def added_rows(rule: ToolRule, arguments: dict[str, Any], said: Said, result: ToolResult) -> tuple[SaidRow, ...]:
    """Return what the result of a change has that the call does not say; empty for a text that is too long for rows.

    Of a server that describes what it has changed, its receipt is all.
    """
    if result.model_only or not is_committed(rule, result):
        return ()
    if described := described_by(rule, result):
        return result_rows(rule, arguments, said, {RECEIPT: described.get(RECEIPT)})
    return () if _is_prose(result) else result_rows(rule, arguments, said, result.data)


def receipt(rule: ToolRule, said: Said, result: ToolResult, added: Sequence[SaidRow] = ()) -> Parts:
    """Return the line about one call: what it changed, or may have changed. Empty for a read and for a definite failure.

    It says the call, and what its result has `added`.
    """
    if not rule.mutating or not result.may_be_done:
        return ()
    if result.read_back is not None and result.success:
        return by_code(f"found done: {in_line(said)}")
    described = by_code(in_line(said)) + _added(added)
    if result.error_code is ToolErrorCode.TOOL_REPORTED_FAILURE:
        return by_code("reported a failure; what was done before is not known: ") + described
    return described if is_committed(rule, result) else by_code("not known whether this was done: ") + described


def confirmed_reply(rule: ToolRule, arguments: dict[str, Any], said: Said, result: ToolResult) -> Parts:
    """Return the reply to a confirmed call that succeeded: what was done, and what its result adds, as the server's words.

    What a read returned, and a text that is too long for rows, is quoted.
    """
    if result.read_back is not None:
        return by_code(f"The answer was lost, and a read found it done: {in_line(said)}.")
    if reads_like_failure(rule, result):
        return by_code(f"The answer reads like a failure: {in_line(said)}.") + quoted_result(rule, result)
    added = added_rows(rule, arguments, said, result)
    in_rows = rule.mutating and not result.for_user and not any(item.note for item in result.content)
    quote = _in_rows(added) if in_rows and (added or not _is_prose(result)) else quoted_result(rule, result)
    return by_code(f"Done: {in_line(said)}.") + quote


def quoted_result(rule: ToolRule, result: ToolResult) -> Parts:
    """Return what a server returned, or said about a failure, as the end of a reply: marked as data. Empty if it is nothing."""
    lines, complete = _result_lines(result, rule.hidden)
    if not lines:
        return ()
    # Each line begins with `>`, so that none can be taken for a line of the runtime.
    shown = by_code("\n\nThe server returned this data:\n") + by_server("\n".join(f"> {line}" for line in lines))
    return shown if complete else shown + by_code(f"\n> {_MORE}")


def quoted_refusal(rule: ToolRule, result: ToolResult) -> Parts:
    """Return the words in which a tool refused a call that was sent, as the end of a reply. Empty if it did not refuse it."""
    if result.success or not result.error or (result.error_code or ToolErrorCode.TOOL_REFUSED) not in REFUSAL_CODES:
        return ()
    said = one_line(clean_reply(result.error, rule.hidden), _MAX_REFUSAL)
    return by_code("\n\nThe tool says:\n") + by_server(f"> {said}") if said else ()


def _result_lines(result: ToolResult, hidden_names: Collection[str]) -> tuple[list[str], bool]:
    """Return the lines of what the server returned, without control characters and with `hidden_names` in plain words.

    Empty if it returned nothing. False goes with lines that are not all.
    """
    text = "\n".join(filter(None, ["" if result.model_only else text_of(result), result.for_user]))
    lines = clean_reply(text[:_MAX_RESULT_CHARS], hidden_names).split("\n")
    complete = len(text) <= _MAX_RESULT_CHARS and len(lines) <= _MAX_RESULT_LINES
    return lines[:_MAX_RESULT_LINES] if any(lines) else [], complete


def _added(rows: Sequence[SaidRow]) -> Parts:
    """Return the first rows of a result as the end of a line."""
    shown = [
        by_code(f"{lowered(row.label)} ") + by_server(brief(row.text, row.shown, row.length, _MAX_RESULT_IN_RECEIPT))
        for row in rows[:_MAX_ADDED]
    ]
    return by_code("; added: ") + joined(", ", shown) if shown else ()


def _is_prose(result: ToolResult) -> bool:
    """True if a result has a text that is too long for a row."""
    return any(isinstance(one, str) and (len(one) > _MAX_IN_ROW or "\n" in one) for one in leaves(result.data))


def _in_rows(rows: Sequence[SaidRow]) -> Parts:
    """Return the rows of a result as lines of a reply."""
    return tuple(part for row in rows for part in by_code(f"\n  {row.label}: ") + by_server(row.text))

"""Receipts: one line for each committed change, composed by code from the tool result and never from the model's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from graph_agent.errors import REFUSAL_CODES, ToolErrorCode
from graph_agent.models.said import Said, SaidRow
from graph_agent.models.tools import ToolResult
from graph_agent.policy.committed import is_committed, reads_like_failure
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.reply.authored import Parts, by_code, by_server, joined
from graph_agent.reply.text import clean_reply, one_line
from graph_agent.words.results import in_reply, result_rows
from graph_agent.words.said import RECEIPT, described_by, in_line
from graph_agent.words.values import brief, lowered

_MAX_RESULT_IN_RECEIPT: Final = 100
_MAX_ADDED: Final = 3
"""The number of values of a result that a receipt has."""
_MAX_REFUSAL: Final = 300


def added_rows(rule: ToolRule, arguments: dict[str, Any], said: Said, result: ToolResult) -> tuple[SaidRow, ...]:
    """Return what the result of a call has that the call does not say; empty for one that is not certainly done.

    Of a server that describes what it has changed, its receipt is all.
    """
    if not result.success or reads_like_failure(rule, result):
        return ()
    described = {} if result.model_only else described_by(rule, result)
    if described:
        result = result.model_copy(update={"data": {RECEIPT: described.get(RECEIPT)}})
    return result_rows(rule, arguments, said, result)


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
    """Return the reply to a confirmed call that succeeded: what was done, and what its result adds, as the server's words."""
    if result.read_back is not None:
        return by_code(f"The answer was lost, and a read found it done: {in_line(said)}.")
    if reads_like_failure(rule, result):
        rows = result_rows(rule, arguments, said, result)
        return by_code(f"The answer reads like a failure: {in_line(said)}.") + in_reply(rows)
    return by_code(f"Done: {in_line(said)}.") + in_reply(added_rows(rule, arguments, said, result))


def quoted_refusal(rule: ToolRule, result: ToolResult) -> Parts:
    """Return the words in which a tool refused a call that was sent, as the end of a reply. Empty if it did not refuse it."""
    if result.success or not result.error or (result.error_code or ToolErrorCode.TOOL_REFUSED) not in REFUSAL_CODES:
        return ()
    said = one_line(clean_reply(result.error, rule.hidden), _MAX_REFUSAL)
    return by_code("\n\nThe tool says:\n") + by_server(f"> {said}") if said else ()


def _added(rows: Sequence[SaidRow]) -> Parts:
    """Return the first rows of a result as the end of a line."""
    shown = [
        by_code(f"{lowered(row.label)} ") + by_server(brief(row.text, row.shown, row.length, _MAX_RESULT_IN_RECEIPT))
        for row in rows[:_MAX_ADDED]
    ]
    return by_code("; added: ") + joined(", ", shown) if shown else ()

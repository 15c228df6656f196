"""Receipts: one line for each committed change, composed by code from the tool result and never from the model's words."""

from __future__ import annotations

from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.models.tools import ToolResult
from graph_agent.policy.confirmation import describe_action
from graph_agent.policy.rules import ToolRule
from graph_agent.reply.result_text import as_data, in_receipt, result_lines
from graph_agent.reply.text import one_line

_MAX_RECEIPT = 2_100
"""Enough for a receipt that quotes two texts of 1,000 characters."""


def receipt(rule: ToolRule, arguments: dict[str, Any], result: ToolResult, *, confirmed: bool = False) -> str | None:
    """Return the receipt of one call, or None for a read and for a definite failure.

    A server that keeps the operation ledger may supply the wording (`data["receipt"]`); it is reduced to one line without tool
    names. For any other server the receipt names the tool's title and the arguments, and for a `confirmed` call the result.
    """
    if not rule.mutating:
        return None
    described = _described(rule, arguments)
    if result.error_code is ToolErrorCode.TOOL_REPORTED_FAILURE:
        return f"reported a failure; what was done before is not known: {described}"
    if result.unknown:
        return f"not known whether this was done: {described}"
    if not result.success:
        return None
    if line := _own_wording(rule, result):
        return line
    lines = result_lines(result, rule.hidden) if confirmed else []
    return described + (in_receipt(lines) if lines else "")


def confirmed_reply(rule: ToolRule, arguments: dict[str, Any], result: ToolResult) -> str:
    """Return the reply to a confirmed call that succeeded: what was done, and what the server returned, marked as data."""
    if line := _own_wording(rule, result):
        return f"Done: {line}."
    lines = result_lines(result, rule.hidden)
    return f"Done: {_described(rule, arguments)}." + (f"\n\n{as_data(lines)}" if lines else "")


def _described(rule: ToolRule, arguments: dict[str, Any]) -> str:
    return describe_action(rule, arguments, None) if arguments else one_line(rule.title, _MAX_RECEIPT)


def _own_wording(rule: ToolRule, result: ToolResult) -> str:
    """Return the wording of a server with a ledger for a change; empty if there is none."""
    wording = result.data.get("receipt") if isinstance(result.data, dict) and rule.traits.ledger and rule.mutating else None
    return one_line(rule.user_text(wording), _MAX_RECEIPT) if isinstance(wording, str) else ""

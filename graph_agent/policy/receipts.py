"""Receipts: one line for each committed change, composed by code from the tool result and never from the model's words."""

from __future__ import annotations

from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.models.tools import ToolResult
from graph_agent.policy.confirmation import describe_action
from graph_agent.policy.rules import ToolRule
from graph_agent.reply.one_line import one_line

_MAX_RECEIPT = 160


def receipt(rule: ToolRule, arguments: dict[str, Any], result: ToolResult) -> str | None:
    """Return the receipt of one call, or None for a read and for a definite failure.

    A server that keeps the operation ledger may supply the wording (`data["receipt"]`); it is reduced to one line without tool
    names. For any other server the receipt names the tool's title and the arguments.
    """
    if not rule.mutating:
        return None
    described = describe_action(rule, arguments, None) if arguments else one_line(rule.title, _MAX_RECEIPT)
    if result.error_code is ToolErrorCode.TOOL_REPORTED_FAILURE:
        return f"reported a failure; what was done before is not known: {described}"
    if result.unknown:
        return f"not known whether this was done: {described}"
    if not result.success:
        return None
    wording = result.data.get("receipt") if isinstance(result.data, dict) and rule.traits.ledger else None
    line = one_line(rule.user_text(wording), _MAX_RECEIPT) if isinstance(wording, str) else ""
    return line or described

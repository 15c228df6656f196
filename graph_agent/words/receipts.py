"""Receipts: one line for each committed change, composed by code from the tool result and never from the model's words."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from graph_agent.errors import REFUSAL_CODES, ToolErrorCode
from graph_agent.models.tools import ToolResult
from graph_agent.policy.committed import is_committed, reads_like_failure, text_of
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.reply.authored import Parts, by_code, by_server
from graph_agent.reply.text import clean_reply, one_line
from graph_agent.words.confirmation import describe_action

_MAX_RESULT_CHARS: Final = 2_000
_MAX_RESULT_LINES: Final = 50
_MAX_RESULT_IN_RECEIPT: Final = 100
_MORE: Final = "[…] (the rest is not shown)"
_MAX_REFUSAL: Final = 300
_MAX_RECEIPT: Final = 2_100
"""Enough for a receipt that quotes two texts of 1,000 characters."""


def receipt(rule: ToolRule, arguments: dict[str, Any], result: ToolResult, *, confirmed: bool = False) -> Parts:
    """Return the line about one call: what it changed, or may have changed. Empty for a read and for a definite failure.

    A server that keeps the operation ledger may supply the wording (`data["receipt"]`); it is reduced to one line without tool
    names. For any other server the receipt names the tool's title and the arguments, and for a `confirmed` call the result.
    """
    if not rule.mutating or not result.may_be_done:
        return ()
    if result.success and (line := _own_wording(rule, result)):
        return by_server(line)
    if result.read_back is not None and result.success:
        return by_code(f"found done: {_described(rule, arguments)}")
    described = by_code(_described(rule, arguments)) + (_in_receipt(rule, result) if confirmed else ())
    if result.error_code is ToolErrorCode.TOOL_REPORTED_FAILURE:
        return by_code("reported a failure; what was done before is not known: ") + described
    return described if is_committed(rule, result) else by_code("not known whether this was done: ") + described


def confirmed_reply(rule: ToolRule, arguments: dict[str, Any], result: ToolResult) -> Parts:
    """Return the reply to a confirmed call that succeeded: what was done, and what the server returned, marked as data."""
    if line := _own_wording(rule, result):
        return by_code("Done: ") + by_server(line) + by_code(".")
    done = "The answer reads like a failure" if reads_like_failure(rule, result) else "Done"
    if result.read_back is not None:
        done = "The answer was lost, and a read found it done"
    return by_code(f"{done}: {_described(rule, arguments)}.") + quoted_result(rule, result)


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


def _described(rule: ToolRule, arguments: dict[str, Any]) -> str:
    return describe_action(rule, arguments, None) if arguments else one_line(rule.title, _MAX_RECEIPT)


def _own_wording(rule: ToolRule, result: ToolResult) -> str:
    """Return the wording of a server with a ledger for a change; empty if there is none."""
    wording = result.data.get("receipt") if isinstance(result.data, dict) and rule.traits.ledger and rule.mutating else None
    return one_line(rule.user_text(wording), _MAX_RECEIPT) if isinstance(wording, str) else ""


def _result_lines(result: ToolResult, hidden_names: Collection[str]) -> tuple[list[str], bool]:
    """Return the lines of what the server returned, without control characters and with `hidden_names` in plain words.

    Empty if it returned nothing. False goes with lines that are not all.
    """
    text = "\n".join(filter(None, ["" if result.model_only else text_of(result), result.for_user]))
    lines = clean_reply(text[:_MAX_RESULT_CHARS], hidden_names).split("\n")
    complete = len(text) <= _MAX_RESULT_CHARS and len(lines) <= _MAX_RESULT_LINES
    return lines[:_MAX_RESULT_LINES] if any(lines) else [], complete


def _in_receipt(rule: ToolRule, result: ToolResult) -> Parts:
    """Return what a server returned as the end of a receipt: `; the server returned "…"`, without a quote that could end it."""
    lines, complete = _result_lines(result, rule.hidden)
    if not lines:
        return ()
    data = " ".join([*lines, *([] if complete else [_MORE])]).replace('"', "'")
    return by_code('; the server returned "') + by_server(one_line(data, _MAX_RESULT_IN_RECEIPT)) + by_code('"')

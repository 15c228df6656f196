"""The calls that were certainly made, as far as their results show it."""

from __future__ import annotations

import json
import re
from typing import Final

from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolResult
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.policy.turn_call import TurnCall

MADE = frozenset({CallDisposition.EXECUTED, CallDisposition.REPEATED})
"""The calls whose result is that of a server."""
_FAILURE: Final = re.compile(r"\W*(?:[\w.]*(?:error|exception)|fail(?:ed|ure)|fatal|traceback)\b", re.IGNORECASE)
"""The start of an answer that reads like a failure."""


def is_done(call: TurnCall, policy: CompiledPolicy) -> bool:
    """True if a call was certainly done."""
    rule = policy.rules.get(call.call.name)
    if rule is None or call.disposition is not CallDisposition.EXECUTED:
        return False
    return is_committed(rule, call.result) if rule.mutating else call.result.success


def is_committed(rule: ToolRule, result: ToolResult) -> bool:
    """True if `result` shows a change. A server without a ledger that answers `Error: …` as normal text shows none."""
    return rule.mutating and result.success and not reads_like_failure(rule, result)


def reads_like_failure(rule: ToolRule, result: ToolResult) -> bool:
    """True if the answer of a server without a ledger begins like a failure. What a read found is no answer of the tool."""
    return not rule.traits.ledger and result.read_back is None and _FAILURE.match(_text_of(result)) is not None


def _text_of(result: ToolResult) -> str:
    """Return what a server returned as one text."""
    data = result.data
    # The key of an only value says no more than "text" or "result".
    only = next(iter(data.values())) if isinstance(data, dict) and len(data) == 1 and "error" not in data else None
    text = only if isinstance(only, str) else json.dumps(data, ensure_ascii=False) if data else ""
    return "\n".join([*([text] if text else []), *(note for item in result.content if (note := item.note) is not None)])

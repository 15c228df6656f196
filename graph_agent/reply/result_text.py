"""The result of a confirmed call as the user reads it: a server's text and data, marked as data and limited in length."""

from __future__ import annotations

import json
from collections.abc import Collection

from graph_agent.models.tools import ToolResult
from graph_agent.reply.text import clean_reply, one_line

MAX_RESULT_CHARS = 2_000
MAX_RESULT_LINES = 50
_IN_RECEIPT = 100


def result_lines(result: ToolResult, hidden_names: Collection[str]) -> list[str]:
    """Return the lines of what the server returned, without control characters and with `hidden_names` in plain words.

    Empty if it returned nothing.
    """
    text = _text(result)
    lines = clean_reply(text[:MAX_RESULT_CHARS], hidden_names).split("\n")
    complete = len(text) <= MAX_RESULT_CHARS and len(lines) <= MAX_RESULT_LINES
    return [*lines[:MAX_RESULT_LINES], *([] if complete else ["[…] (the rest is not shown)"])] if any(lines) else []


def as_data(lines: list[str]) -> str:
    """Return `lines` marked as data: each begins with `>`, so that none can be taken for a line of the runtime."""
    return "The server returned this data:\n" + "\n".join(f"> {line}" for line in lines)


def in_receipt(lines: list[str]) -> str:
    """Return `lines` as the end of a receipt: `; the server returned "…"`, without a quote that could end it earlier."""
    data = " ".join(lines).replace('"', "'")
    return f'; the server returned "{one_line(data, _IN_RECEIPT)}"'


def _text(result: ToolResult) -> str:
    data = result.data
    if isinstance(data, dict) and len(data) == 1 and isinstance(value := next(iter(data.values())), str):
        text = value  # Its key says no more than "text" or "result".
    else:
        text = "" if not data else json.dumps(data, ensure_ascii=False, indent=2)
    return "\n".join([*([text] if text else []), *(note for item in result.content if (note := item.note) is not None)])

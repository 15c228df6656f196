"""The fixed sentences a user may read instead of a model's."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.errors import ToolErrorCode
from graph_agent.models.llm import LLMErrorCode

FAILURE_REPLY = "I'm having trouble processing your request. Please try again."
RATE_LIMIT_REPLY = "I'm receiving too many requests. Please wait a moment."
CAP_REPLY = "That request is too complex. Could you break it into smaller steps?"
DECLINED_REPLY = "OK, I won't do that. Nothing was changed."
UNKNOWN_REPLY = "I can't tell whether that was done. Please check before you try again."
CUT_MARK = " […] (this answer was cut short)"

_CONFIRMED_FAILURES = {ToolErrorCode.NOT_FOUND: "I couldn't find that any more, so nothing was changed."}
_CONFIRMED_FAILURE = "That didn't work, so nothing was changed. Please try again."


def failure_reply(error: LLMErrorCode | None) -> str:
    """What the user reads when the model gave nothing to say."""
    return RATE_LIMIT_REPLY if error is LLMErrorCode.RATE_LIMITED else FAILURE_REPLY


def confirmed_failure_reply(error_code: ToolErrorCode | None) -> str:
    """What the user reads when the confirmed action did not happen."""
    return _CONFIRMED_FAILURES.get(error_code, _CONFIRMED_FAILURE) if error_code else _CONFIRMED_FAILURE


def with_receipts(reply: str, done: Sequence[str], unknown: Sequence[str]) -> str:
    """A fixed reply, exactly as it is if nothing was done; otherwise followed by what was."""
    told = f"{reply} Already done: {'; '.join(done)}." if done else reply
    return f"{told} Not certain: {'; '.join(unknown)}." if unknown else told

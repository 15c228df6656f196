"""Prompts and resources, which are passed on to a client as their server gives them, and the reasons why they are not."""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

from mcp import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, GetPromptResult, InputRequiredResult, ReadResourceResult

from graph_agent.models.tools import ToolResult
from graph_agent.reply.text import one_line
from graph_agent.tools.answers import MAX_SERVER_TEXT, RESOURCE_NOT_FOUND, NoAnswerError, NotConnectedError, NoTimeError
from graph_agent.tools.parts import MAX_PASSED_BYTES, json_size

Answer = TypeVar("Answer", GetPromptResult, ReadResourceResult)

_MAX_TEXT = 100_000
"""The number of characters of one text of an answer that are recorded, and in which the copies in later calls are found."""


class ServerWordsError(MCPError):
    """An error that quotes a server: it has to be recorded before a client reads it."""

    recorded: bool = False


def passed_on(server: str, answer: object, wanted: type[Answer]) -> Answer:
    """Return the answer of a server as it came. Raises `MCPError` with one sentence for any other answer, and for a larger one.

    The text of the server's own error is quoted as the server's. Of its codes only those for a wrong request are kept: others,
    such as that of a closed connection, would be taken for the gateway's.
    """
    if isinstance(answer, wanted):
        if json_size(answer) <= MAX_PASSED_BYTES:
            return answer
        raise MCPError(INTERNAL_ERROR, f"The answer of the server '{server}' is larger than {MAX_PASSED_BYTES >> 20} MiB.")
    if isinstance(answer, MCPError):
        code = answer.code if answer.code in (INVALID_PARAMS, RESOURCE_NOT_FOUND) else INTERNAL_ERROR
        raise ServerWordsError(code, f"The server '{server}' says: {one_line(answer.message, MAX_SERVER_TEXT)}")
    raise MCPError(INTERNAL_ERROR, f"The server '{server}' {_reason(answer)}.")


def _reason(answer: object) -> str:
    if isinstance(answer, NotConnectedError):
        return "cannot be reached now"
    if answer is None or isinstance(answer, NoTimeError):
        return "does not answer in time"
    if isinstance(answer, InputRequiredResult):
        return "asks for more input, which is not supported"
    if isinstance(answer, NoAnswerError) and answer.lost:
        return "has closed the connection"
    return "gives an answer of another form"


def as_read(answer: GetPromptResult | ReadResourceResult | ServerWordsError) -> ToolResult:
    """Return what is recorded of an answer that a client reads: its texts, and the digest of every file."""
    if isinstance(answer, ServerWordsError):
        return ToolResult(success=False, error=answer.message)
    return ToolResult(success=True, data=_texts_of(answer.model_dump(mode="json", by_alias=True, exclude_none=True)))


def _texts_of(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _texts_of(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_texts_of(part, key) for part in value]
    if not isinstance(value, str):
        return value
    return f"sha256:{hashlib.sha256(value.encode()).hexdigest()}" if key in ("blob", "data") else value[:_MAX_TEXT]

"""Prompts and resources, which are passed on to a client as their server gives them, and the reasons why they are not."""

from __future__ import annotations

from typing import TypeVar

from mcp import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, GetPromptResult, InputRequiredResult, ReadResourceResult

from graph_agent.reply.text import one_line
from graph_agent.tools.answers import MAX_SERVER_TEXT, RESOURCE_NOT_FOUND, NoAnswerError, NotConnectedError, NoTimeError
from graph_agent.tools.parts import MAX_PASSED_BYTES, json_size

Answer = TypeVar("Answer", GetPromptResult, ReadResourceResult)


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
        raise MCPError(code, f"The server '{server}' says: {one_line(answer.message, MAX_SERVER_TEXT)}")
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

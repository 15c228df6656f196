"""Required calls, for servers that may not support them.

The engine requires a call in every round; a model ends its turn by calling a reply form. Some servers ignore the requirement,
some refuse it with a client error, some return an empty response, and Gemini refuses it for some sets of tools only. So a
required request that returned nothing usable is sent once more without the requirement.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from graph_agent.errors import InvalidResponseError, LLMError
from graph_agent.llm.provider_errors import StatusError
from graph_agent.models.llm import LLMRequest, LLMResponse

_log = logging.getLogger(__name__)

FAILURES_BEFORE_GIVING_UP = 2
"""One failure proves nothing: Gemini's 400 depends on the set of tools, and a malformed call on the text of the reply."""

NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
"""The schema of a tool without parameters. Gemini refuses a required request with a declaration that has no schema."""

_REFUSING_STATUSES: Final = frozenset({400, 404, 422, 501})
"""404 is OpenRouter's answer for a model without the feature. Quota, key and server errors have other causes."""

Send = Callable[[bool], Awaitable[str]]
"""Sends one request, with the requirement if the argument is true, and returns the body of the response."""

Read = Callable[[str], LLMResponse]
"""Reads a body. Raises `InvalidResponseError` if nothing in it is usable."""


class RequiredCalls:
    """One adapter's use of the requirement. It ends when the requirement has failed twice in a row."""

    def __init__(self, model: str) -> None:
        self._model = model
        self.failures_in_a_row = 0

    async def respond(self, request: LLMRequest, send: Send, read: Read) -> LLMResponse:
        """Send `request` and return the response.

        A required request that returned nothing usable is sent once more without the requirement. `send` keeps both within
        the turn's deadline. Raises the error of the first attempt if both fail.
        """
        # A request without tools cannot require a call: there is nothing to call.
        if request.tool_choice == "auto" or not request.tools or self.failures_in_a_row >= FAILURES_BEFORE_GIVING_UP:
            return read(await send(False))
        response = await _require(send, read)
        if isinstance(response, LLMResponse):
            self.failures_in_a_row = 0
            return response
        first = response
        try:
            response = read(await send(False))
        except LLMError:
            # The request fails without the requirement as well, so that is not the cause and this does not count.
            raise first from first.__cause__
        self._count_failure()
        return response

    def _count_failure(self) -> None:
        self.failures_in_a_row += 1
        if self.failures_in_a_row == FAILURES_BEFORE_GIVING_UP:
            _log.warning("the model %s does not support required calls: they are no longer required", self._model)


async def _require(send: Send, read: Read) -> LLMResponse | LLMError:
    """Return the response, or an error if nothing in it can be used, possibly because of the requirement.

    Raises the errors of other causes.
    """
    try:
        body = await send(True)
    except LLMError as error:
        # Our errors have no status. They are chained from the exception that has it.
        refusal = error.__cause__
        if isinstance(refusal, StatusError) and refusal.status in _REFUSING_STATUSES and not refusal.bad_key:
            return error
        raise
    try:
        response = read(body)
    except InvalidResponseError as error:
        return error
    if response.finish_reason == "max_tokens" and response.content is None:
        return InvalidResponseError("the model's answer was truncated before any text")
    return response

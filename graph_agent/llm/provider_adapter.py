"""The parts of an adapter that are the same for every provider: clients, retries, required calls."""

from __future__ import annotations

import asyncio
import logging
import random
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graph_agent.clock import SystemClock, attempt_limit, time_left
from graph_agent.errors import InvalidResponseError, LLMError, LLMTimeoutError
from graph_agent.llm.adapter_call import RequestAdapter
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.families import answering_model, routed_model, successor
from graph_agent.llm.loop_clients import LoopClients
from graph_agent.llm.provider_errors import Failure, StatusError
from graph_agent.models.llm import LLMErrorCause, LLMRequest, LLMResponse, ToolDeclaration
from graph_agent.net.loop_throttle import LoopThrottle
from graph_agent.net.permits import require_permit
from graph_agent.ports import Clock

if TYPE_CHECKING:
    # Only named in signatures: the client is imported with the first request, because that takes long.
    import httpx

_log = logging.getLogger(__name__)

Post = Callable[[dict[str, Any], float], Awaitable[str]]
"""Sends one request, within a number of seconds, and returns the body of the response as text."""

_MAX_MODELS = 20
"""The number of models that are named if the one that was asked for does not exist."""

MIN_DELAY_SECONDS = 0.1
"""The shortest delay before a retry if the provider requests none. It is random, up to twice as long, so that concurrent turns
do not retry at the same time."""

_SHARE_OF_AN_ATTEMPT = 0.9
"""The share of the turn's remaining time that one attempt may take. A model that needs most of a turn for its answer gets it;
the rest is for the end of the turn."""

_SHARE_FOR_THE_ATTEMPT = 0.1
"""The share of the remaining time that a delay must leave for the attempt after it."""

FAILURES_BEFORE_GIVING_UP = 2
"""One failure proves nothing: Gemini's 400 depends on the set of tools, and a malformed call on the text of the reply."""

_STORE = re.compile(r"[\"'`]store[\"'`]|(?:unknown|unrecognized|unsupported|unexpected|extra)\b[^.]*\bstore\b", re.IGNORECASE)
"""The name of the field, as errors about it have it: `Unknown name "store": Cannot find field.`"""

_Send = Callable[[bool], Awaitable[str]]
"""Sends one request, with the requirement of a call if the argument is true, and returns the body of the response."""


@dataclass(frozen=True)
class _LoopClient:
    """The client of one event loop: HTTP, the function that posts a request, the throttle, and slots for calls in flight."""

    http: httpx.AsyncClient
    post: Post
    throttle: LoopThrottle
    slots: asyncio.Semaphore


class ProviderAdapter(RequestAdapter):
    """An `LLMAdapter` for one model at one endpoint. A subclass converts requests and responses for its provider.

    The engine requires a call in every round; a model ends its turn by calling a reply form. Some servers ignore the
    requirement, some refuse it with a client error, some return an empty response, and Gemini refuses it for some sets of tools
    only. So a required request that returned nothing usable is sent once more without the requirement.

    A provider that may store requests is asked not to (`store`). One that does not know the field gets the request without it,
    and the log says so once.
    """

    def __init__(
        self,
        config: LLMConfig,
        base_url: str,
        declarations: Sequence[ToolDeclaration] | None,
        *,
        clock: Clock | None,
        forbids_storage: bool,
    ) -> None:
        super().__init__(declarations)
        self._clock = clock or SystemClock()
        self._forbids_storage = forbids_storage
        # httpx is slow to import. It is imported here, so that neither `import graph_agent` nor the first turn waits for it.
        from graph_agent.llm import http_client

        self._http_client = http_client
        self._config = config
        self._base_url = base_url
        self._answering: str | None = None
        self._failed_requirements = 0
        """The number of required requests in a row that returned something usable only without the requirement."""
        self._clients: LoopClients[_LoopClient] = LoopClients(self._open_client, lambda client: client.http.aclose())

    @property
    def model(self) -> str:
        return self._config.model

    async def respond(self, request: LLMRequest) -> LLMResponse:
        client = await self._clients.get()
        async with connection_slot(client.slots):
            await client.throttle.wait()
            # Google routes retired models to newer ones without an error: the parameters are those of the model that answers.
            answering = self._answering or answering_model(self.model, self._clock.now().date())

            async def post(require_call: bool) -> str:
                body = self._build_request(request, answering, require_call=require_call)
                return await call_with_retries(
                    lambda seconds: client.post(body, seconds),
                    self._http_client.translate_error,
                    limit=self._config.timeout_seconds if time_left() is None else self._config.turn_limit,
                    retries=self._config.max_retries,
                )

            async def send(require_call: bool) -> str:
                asked_not_to_store = self._forbids_storage
                try:
                    return await post(require_call)
                except LLMError as error:
                    if not (asked_not_to_store and _refuses_store(error)):
                        raise
                self._forbids_storage = False
                _log.warning("the server of %s does not know `store`: its settings say whether it stores prompts", self.model)
                return await post(require_call)

            # A request without tools cannot require a call: there is nothing to call.
            required = request.tool_choice == "required" and request.tools
            if required and self._failed_requirements < FAILURES_BEFORE_GIVING_UP:
                response = await self._respond_with_call(request.tools, send)
            else:
                response = self._parse(await send(False), request.tools)
        if response.response_model is not None:
            self._answering = routed_model(self.model, response.response_model)
        return response

    async def _respond_with_call(self, tools: Sequence[ToolDeclaration], send: _Send) -> LLMResponse:
        """Return the response to a required request, sent once more without the requirement if it returned nothing usable.

        Raises the error of the first attempt if both fail.
        """
        response = await self._require(tools, send)
        if isinstance(response, LLMResponse):
            self._failed_requirements = 0
            return response
        first = response
        try:
            response = self._parse(await send(False), tools)
        except LLMError:
            # The request fails without the requirement as well, so that is not the cause and this does not count.
            raise first from first.__cause__
        self._failed_requirements += 1
        if self._failed_requirements == FAILURES_BEFORE_GIVING_UP:
            _log.warning("the model %s does not support required calls: they are no longer required", self.model)
        return response

    async def _require(self, tools: Sequence[ToolDeclaration], send: _Send) -> LLMResponse | LLMError:
        """Return the response, or an error if nothing in it can be used, possibly because of the requirement.

        Raises the errors of other causes.
        """
        try:
            body = await send(True)
        except LLMError as error:
            # Our errors have no status. They are chained from the exception that has it.
            refusal = error.__cause__
            if isinstance(refusal, StatusError) and refusal.may_be_about_requirement:
                return error
            raise
        try:
            response = self._parse(body, tools)
        except InvalidResponseError as error:
            return error
        if response.finish_reason == "max_tokens" and response.content is None:
            return InvalidResponseError("the model's answer was truncated before any text")
        return response

    @property
    def refuses_requirement(self) -> bool:
        """True if the last required request returned something usable only without the requirement."""
        return self._failed_requirements > 0

    async def details(self, error: LLMError) -> str:
        """Return what is known about this endpoint beyond the cause: its models, or its own text without the key."""
        if error.cause == LLMErrorCause.MODEL_NOT_FOUND:
            if replacement := successor(self.model):
                return f"{self.model} is retired, and its successor is {replacement}"
            names = await self._http_client.served_models(*self._models_request())
            more = f" and {len(names) - _MAX_MODELS} more" if len(names) > _MAX_MODELS else ""
            return f"it serves {', '.join(names[:_MAX_MODELS])}{more}" if names else "and it has no list of models"
        if error.cause is None and isinstance(error, InvalidResponseError):
            return error.message
        refusal = error.__cause__
        if isinstance(refusal, StatusError) and refusal.text:
            return f"the server says: {refusal.text.replace(self._config.api_key, '***')}"
        return ""

    def unsendable(self, tools: Sequence[ToolDeclaration]) -> dict[str, str]:  # noqa: ARG002 (for subclasses)
        """Return the names of the `tools` that cannot be declared to this provider, each with the reason as a clause."""
        return {}

    async def aclose(self) -> None:
        """Close the connections. A later call opens new ones."""
        await self._clients.aclose()

    @abstractmethod
    def _open_post(self, http: httpx.AsyncClient) -> Post:
        """Return the function that posts requests in one event loop."""

    @abstractmethod
    def _build_request(self, request: LLMRequest, answering: str, *, require_call: bool) -> dict[str, Any]:
        """Return the request for `Post`, with the parameters that the model `answering` accepts."""

    @abstractmethod
    def _parse(self, text: str, tools: Sequence[ToolDeclaration]) -> LLMResponse:
        """Parse the body of a response. Raises `InvalidResponseError` if nothing in it is usable."""

    @abstractmethod
    def _models_request(self) -> tuple[str, dict[str, str]]:
        """Return address and headers of the request for the list of models."""

    def _open_client(self) -> _LoopClient:
        throttle = LoopThrottle()
        http = self._http_client.open_client(throttle)
        # As many slots as connections: a call waits for a slot, which is not counted as time of its attempt.
        slots = asyncio.Semaphore(self._http_client.MAX_CONNECTIONS)
        return _LoopClient(http, self._open_post(http), throttle, slots)


@asynccontextmanager
async def connection_slot(slots: asyncio.Semaphore) -> AsyncIterator[None]:
    """Occupy one of the adapter's slots for concurrent calls. Raises `LLMTimeoutError` at the turn's deadline.

    The time limit of an attempt does not include the wait for a slot.
    """
    try:
        async with asyncio.timeout(time_left()):
            await slots.acquire()
    except TimeoutError as exc:
        raise LLMTimeoutError("too many calls are waiting for the model") from exc
    try:
        yield
    finally:
        slots.release()


async def call_with_retries(
    attempt: Callable[[float], Awaitable[str]], translate: Callable[[Exception], Failure], *, limit: float, retries: int
) -> str:
    """Return the result of `attempt(seconds)`, called again up to `retries` times after a retryable failure.

    An attempt that timed out is not repeated with less time than it took. Raises the translated error of the last attempt,
    chained from the SDK's exception.
    """
    for number in range(retries + 1):
        began_with, seconds = time_left(), attempt_limit(limit, _SHARE_OF_AN_ATTEMPT)
        if seconds <= 0:
            raise LLMTimeoutError("no time is left in this turn")
        await require_permit()
        try:
            # The SDKs' own timeouts restart with every byte: a server that sends a byte a second would never time out.
            async with asyncio.timeout(seconds):
                return await attempt(seconds)
        except Exception as exc:
            failure = translate(exc)
            # Our message and the status or the type of the SDK's exception; its own message may quote the key or the prompt.
            _log.warning("%s (%s)", failure.error.message, exc if isinstance(exc, StatusError) else type(exc).__name__)
            requested, left = failure.error.retry_after, time_left()
            delay = requested if requested is not None else MIN_DELAY_SECONDS * random.uniform(1, 2)
            fits = delay <= (limit if left is None else left) * (1 - _SHARE_FOR_THE_ATTEMPT)
            if isinstance(failure.error, LLMTimeoutError) and began_with is not None and left is not None:
                fits = fits and left - delay >= began_with - left
            if number == retries or not failure.retryable or not fits:
                raise failure.error from exc
        await asyncio.sleep(delay)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _refuses_store(error: LLMError) -> bool:
    """True if the server says about a request that it does not know the field `store`."""
    refusal = error.__cause__
    return isinstance(refusal, StatusError) and refusal.status in (400, 422) and _STORE.search(refusal.text) is not None

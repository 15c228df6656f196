"""Incoming trace context: a turn continues the trace of the request that started it, by its `traceparent` header."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from opentelemetry import context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


class TraceParent:
    """ASGI middleware that makes the caller's span the parent of the spans that the request opens."""

    def __init__(self, app: Callable[[_Message, _Receive, _Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())}
        token = context.attach(TraceContextTextMapPropagator().extract(headers, context.Context()))
        try:
            await self._app(scope, receive, send)
        finally:
            context.detach(token)

"""Incoming trace context: a turn continues the trace of the request that started it, by its `traceparent` header."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry import context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]


class TraceParent:
    """ASGI middleware that makes the caller's span the parent of the spans that the request opens."""

    def __init__(self, app: _ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())}
        token = context.attach(TraceContextTextMapPropagator().extract(headers, context.Context()))
        try:
            await self._app(scope, receive, send)
        finally:
            context.detach(token)

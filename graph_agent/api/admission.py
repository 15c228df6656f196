"""A limit on how many streams one process serves at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graph_agent.errors import ServiceError, ServiceErrorCode

MAX_STREAMS = 1024


class Admission:
    """Admits up to `limit` at a time and refuses the others at once, so that those admitted keep their latency."""

    def __init__(self, limit: int = MAX_STREAMS) -> None:
        self._free = limit

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count the caller as admitted within this context. Raises `ServiceError` SERVICE_UNAVAILABLE at the limit."""
        if self._free <= 0:
            text = "The service is busy. Please try again in a moment."
            raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=1)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1

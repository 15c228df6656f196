"""How many turns one process works on at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graph_agent.errors import ServiceError, ServiceErrorCode

MAX_TURNS_IN_FLIGHT = 1024


class Admission:
    """Lets `limit` turns in and turns the others away at once, instead of letting all of them become slow."""

    def __init__(self, limit: int = MAX_TURNS_IN_FLIGHT) -> None:
        self._free = limit

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Raises `ServiceError` SERVICE_UNAVAILABLE where there is no room."""
        if self._free <= 0:
            text = "The service is busy. Please try again in a moment."
            raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=1)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1

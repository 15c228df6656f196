"""The circuit breaker of a server: after repeated failures it is not connected to again until a back-off is over."""

from __future__ import annotations

from graph_agent.ports import Clock

FIRST_SECONDS = 1.0
MAX_SECONDS = 60.0


class CircuitBreaker:
    """Counts failed connections. The first failure is retried at once; each further one doubles the back-off."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._open_until = 0.0

    @property
    def failing(self) -> bool:
        """True if the last connection has failed and no request was answered since."""
        return self._failures > 0

    @property
    def open(self) -> bool:
        """True during a back-off: no connection is attempted."""
        return self._clock.monotonic() < self._open_until

    def record_failure(self) -> None:
        self._failures += 1
        if self._failures > 1:
            # The exponent is limited, because the power overflows a float after about a thousand failures.
            self._open_until = self._clock.monotonic() + min(MAX_SECONDS, FIRST_SECONDS * 2.0 ** min(self._failures - 2, 16))

    def record_success(self) -> None:
        self._failures, self._open_until = 0, 0.0
